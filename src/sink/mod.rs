//! Where events go. A sink knows formats and destinations; it knows nothing of processes.

pub mod destination;
pub mod message;
pub mod ndjson;
pub mod result_file;
pub mod text;

use std::time::Duration;

use crate::model::event::{Event, RunResult, Started, Stream};
use crate::model::lines::Piece;
use crate::sink::destination::Lost;

/// What shows a run in one format.
pub trait Sink {
    /// Whether it wants [`Sink::lines`], output cut into lines, and not [`Sink::block`].
    fn wants_lines(&self) -> bool;

    /// Shows that the command was started.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost; the sink is not used for anything but [`Sink::undelivered`] then. The same
    /// holds for all that follow.
    fn started(&mut self, started: Started<'_>) -> Result<(), Lost>;

    /// Shows output as it was read.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn block(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Lost>;

    /// Shows whole lines, or a piece of one, that were read at `at` since the start, the first of them with
    /// the number `seq`. Returns the number for the next.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn lines(
        &mut self,
        stream: Stream,
        piece: Piece<'_>,
        at: Duration,
        seq: u64,
    ) -> Result<u64, Lost>;

    /// Shows an event that is no output.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost>;

    /// Shows the result, last.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn result(&mut self, result: RunResult<'_>) -> Result<(), Lost>;

    /// Writes what was held back to be written together.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn flush(&mut self) -> Result<(), Lost>;

    /// Bytes of the command's output that were taken and not written when the consumer was lost.
    fn undelivered(&self) -> u64;
}

/// One event as a line of NDJSON.
#[must_use]
pub fn json_line(event: &Event<'_>) -> Vec<u8> {
    let mut line =
        serde_json::to_vec(event).expect("an event has only string keys and finite numbers");
    line.push(b'\n');
    line
}
