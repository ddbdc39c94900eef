//! Where events go. A sink knows formats and destinations; it knows nothing of processes.

pub mod destination;
pub mod message;
pub mod ndjson;
pub mod result_file;
pub mod text;

use std::io::{self, Write};
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
    /// Where a consumer is lost, which is told once. The same holds for all that follow.
    fn started(&mut self, started: Started<'_>) -> Result<(), Lost>;

    /// Shows output as it was read.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn block(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Lost>;

    /// Shows whole lines, or a piece of one, that were read at `at` since the start.
    ///
    /// # Errors
    ///
    /// See [`Sink::started`].
    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration) -> Result<(), Lost>;

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

    /// Whether every consumer is lost. Then the sink is not used any more but for what it has delivered.
    fn is_lost(&self) -> bool;

    /// Bytes of the command's output that were written, so far as a reader can use them.
    fn delivered_bytes(&self) -> u64;
}

/// Writes one event as a line of NDJSON.
///
/// # Errors
///
/// What the writer says.
pub fn write_json_line(mut writer: impl Write, event: &Event<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut writer, event)?;
    writer.write_all(b"\n")
}
