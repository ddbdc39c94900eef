//! `text`: the command's own bytes, each stream to its own, as they arrive.

use std::time::Duration;

use crate::model::event::{Event, Stream};
use crate::model::outcome::StopReason;
use crate::model::spec::{Display, Limits, ResultDestination};
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Account, Cut, Sink};

/// Shows a run as text.
#[derive(Debug)]
pub struct Text {
    /// In the order of the streams.
    destinations: [Destination; 2],
    limits: Option<Limits>,
    quiet: bool,
    result_last: bool,
    is_stop_told: bool,
    delivered_bytes: u64,
}

impl Text {
    /// Shows a run on these two destinations; a stop is told with the limit that was passed.
    #[must_use]
    pub fn new(destinations: [Destination; 2], display: &Display, limits: Option<Limits>) -> Self {
        Self {
            destinations,
            limits,
            quiet: display.quiet,
            result_last: display.result == Some(ResultDestination::Stdout),
            is_stop_told: false,
            delivered_bytes: 0,
        }
    }

    /// One line on which limit stopped the run; `None` for a reason that its cause tells itself.
    fn stop_message(&self, reason: Option<StopReason>) -> Option<String> {
        let limits = self.limits.as_ref()?;
        match reason? {
            StopReason::Timeout => {
                limits.timeout.map(|limit| format!("it ran longer than --timeout {limit:?}"))
            }
            StopReason::IdleTimeout => {
                limits.idle_timeout.map(|limit| format!("no output for --idle-timeout {limit:?}"))
            }
            StopReason::Memory => limits.max_memory_bytes.map(|limit| {
                format!("its processes took more memory than --max-memory {limit} bytes")
            }),
            StopReason::Output => limits
                .output_limit_bytes
                .map(|limit| format!("it wrote more than --output-limit {limit} bytes")),
            StopReason::Signal | StopReason::Disconnect => None,
        }
    }

    /// The destination of a stream, at the start of a line, for a line of runcast's own.
    fn line_start(&mut self, stream: Stream) -> Result<&mut Destination, Lost> {
        let destination = &mut self.destinations[stream.index()];
        if !destination.is_at_line_start() {
            destination.put(b"\n")?;
        }
        Ok(destination)
    }
}

impl Sink for Text {
    fn block(&mut self, stream: Stream, bytes: &[u8], _: Duration) -> Result<(), Lost> {
        if self.quiet {
            return Ok(());
        }
        let (written, result) = self.destinations[stream.index()].write(bytes);
        self.delivered_bytes += written as u64;
        result
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Stop(stop) => {
                if self.quiet || std::mem::replace(&mut self.is_stop_told, true) {
                    return Ok(());
                }
                let Some(why) = self.stop_message(stop.reason) else { return Ok(()) };
                let destination = self.line_start(Stream::Stderr)?;
                destination.put(format!("runcast: run stopped: {why}\n").as_bytes())?;
                destination.flush()
            }
            Event::Result(_) => {
                if !self.result_last || self.destinations[Stream::Stdout.index()].is_lost() {
                    return Ok(());
                }
                let destination = self.line_start(Stream::Stdout)?;
                destination.put_event(event)?;
                destination.flush()
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    fn is_lost(&self) -> bool {
        self.destinations.iter().all(Destination::is_lost)
    }

    fn account(&self) -> Account {
        Account { delivered_bytes: self.delivered_bytes, ..Account::default() }
    }
}
