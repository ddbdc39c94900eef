//! `text`: the command's own bytes, each stream to its own, as they arrive.

use std::time::Duration;

use crate::model::event::{Event, Stream};
use crate::model::outcome::StopReason;
use crate::model::spec::{Display, Limits, ResultDestination};
use crate::sink::destination::{Destination, Lost};
use crate::sink::stop_message::StopMessage;
use crate::sink::{Account, Cut, Sink};
use crate::sys::descriptors::is_same_file;
use crate::sys::terminal;

/// Shows a run as text.
#[derive(Debug)]
pub struct Text {
    /// In the order of the streams.
    destinations: [Destination; 2],
    /// The stream of what was written last.
    last: Stream,
    stop_message: StopMessage,
    quiet: bool,
    result_last: bool,
    delivered_bytes: u64,
}

impl Text {
    /// Shows a run on these two destinations; a stop is told with the limit that was passed.
    #[must_use]
    pub fn new(destinations: [Destination; 2], display: &Display, limits: Option<Limits>) -> Self {
        Self {
            destinations,
            last: Stream::Stdout,
            stop_message: StopMessage::new(limits.filter(|_| !display.quiet), display.pty),
            quiet: display.quiet,
            result_last: display.result == Some(ResultDestination::Stdout),
            delivered_bytes: 0,
        }
    }

    /// Tells why the run was stopped, if that is to be told and was not.
    fn tell_stop(&mut self, reason: Option<StopReason>) -> Result<(), Lost> {
        let Some(message) = self.stop_message.of(reason) else { return Ok(()) };
        let destination = self.line_start(Stream::Stderr)?;
        destination.put(message.as_bytes())?;
        destination.flush()?;
        self.last = Stream::Stderr;
        Ok(())
    }

    /// The destination of a stream, at the start of a line, for a line of runcast's own.
    fn line_start(&mut self, stream: Stream) -> Result<&mut Destination, Lost> {
        let [stdout, stderr] = &self.destinations;
        let last = if is_same_file(stdout, stderr) { self.last } else { stream };
        let is_within = !self.destinations[last.index()].is_at_line_start();
        let destination = &mut self.destinations[stream.index()];
        if is_within {
            destination.put(terminal::line_end().as_bytes())?;
        }
        Ok(destination)
    }
}

impl Sink for Text {
    fn block(&mut self, stream: Stream, bytes: &[u8], _: Duration) -> Result<(), Lost> {
        if self.quiet {
            return Ok(());
        }
        self.last = stream;
        let (written, result) = self.destinations[stream.index()].write(bytes);
        self.delivered_bytes += written as u64;
        result
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn break_line(&mut self, stream: Stream) -> Result<(), Lost> {
        let destination = &mut self.destinations[stream.index()];
        if self.quiet || destination.is_at_line_start() {
            return Ok(());
        }
        destination.write(terminal::line_end().as_bytes()).1
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Stop(stop) => self.tell_stop(stop.reason),
            Event::Result(result) => {
                if !self.destinations[Stream::Stderr.index()].is_lost() {
                    self.tell_stop(result.stopped_by)?;
                }
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
