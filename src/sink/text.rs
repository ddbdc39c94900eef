//! `text`: the command's own bytes, each stream to its own, as they arrive.

use std::time::Duration;

use crate::model::event::{Event, RunResult, Started, Stream};
use crate::model::lines::Piece;
use crate::model::spec::{Display, Limits, ResultDestination};
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Sink, json_line};

/// Shows a run as text.
#[derive(Debug)]
pub struct Text<'a> {
    /// In the order of the streams.
    destinations: [Destination<'a>; 2],
    limits: Option<&'a Limits>,
    quiet: bool,
    result_last: bool,
    stop_told: bool,
    undelivered: u64,
}

impl<'a> Text<'a> {
    /// Shows a run on these two destinations; a stop is told with the limit that was passed.
    #[must_use]
    pub fn new(
        destinations: [Destination<'a>; 2],
        display: &Display,
        limits: Option<&'a Limits>,
    ) -> Self {
        Self {
            destinations,
            limits,
            quiet: display.quiet,
            result_last: display.result == Some(ResultDestination::Stdout),
            stop_told: false,
            undelivered: 0,
        }
    }

    /// One line on which limit stopped the run; `None` for a reason that its cause tells itself.
    fn stop_message(&self, reason: &str) -> Option<String> {
        let limits = self.limits?;
        match reason {
            "timeout" => {
                limits.timeout.map(|limit| format!("it ran longer than --timeout {limit:?}"))
            }
            "idle_timeout" => {
                limits.idle_timeout.map(|limit| format!("no output for --idle-timeout {limit:?}"))
            }
            "memory" => limits.max_memory_bytes.map(|limit| {
                format!("its processes took more memory than --max-memory {limit} bytes")
            }),
            "output" => limits
                .output_limit_bytes
                .map(|limit| format!("it wrote more than --output-limit {limit} bytes")),
            _ => None,
        }
    }

    /// Writes a line of runcast's own, on a line of its own.
    fn write_line(&mut self, stream: Stream, line: &[u8]) -> Result<(), Lost> {
        let destination = &mut self.destinations[stream.index()];
        if !destination.is_at_line_start() {
            destination.put(b"\n")?;
        }
        destination.put(line)?;
        destination.flush()
    }
}

impl Sink for Text<'_> {
    fn wants_lines(&self) -> bool {
        false
    }

    fn started(&mut self, _started: Started<'_>) -> Result<(), Lost> {
        Ok(())
    }

    fn block(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Lost> {
        if self.quiet {
            return Ok(());
        }
        let (written, result) = self.destinations[stream.index()].write(bytes);
        self.undelivered += (bytes.len() - written) as u64;
        result
    }

    fn lines(&mut self, _: Stream, _: Piece<'_>, _: Duration, seq: u64) -> Result<u64, Lost> {
        Ok(seq)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        let Event::Stop(stop) = event else { return Ok(()) };
        if self.quiet || std::mem::replace(&mut self.stop_told, true) {
            return Ok(());
        }
        match self.stop_message(stop.reason) {
            Some(why) => {
                self.write_line(Stream::Stderr, format!("runcast: run stopped: {why}\n").as_bytes())
            }
            None => Ok(()),
        }
    }

    fn result(&mut self, result: RunResult<'_>) -> Result<(), Lost> {
        if self.result_last {
            return self.write_line(Stream::Stdout, &json_line(&Event::Result(Box::new(result))));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    fn undelivered(&self) -> u64 {
        self.undelivered
    }
}
