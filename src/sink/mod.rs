//! Where events go. A sink knows formats and destinations; it knows nothing of processes.
//!
//! Every sink takes output as it was read. One whose format is made of lines is a [`lined::LineFormat`], which
//! [`lined::Lined`] cuts them for. Sinks are put together: [`tee::Tee`] records beside what is shown,
//! [`lagging::Lagging`] lets no reader hold up the run, and [`status_line::StatusLine`] stands under text on a
//! terminal.

pub mod cast;
pub mod conclusion;
pub mod cri;
pub mod cutters;
pub mod destination;
mod json_text;
pub mod lagging;
pub mod lined;
pub mod log;
pub mod logfmt;
mod logged;
pub mod message;
pub mod ndjson;
pub mod prefixed;
pub mod result_file;
pub mod snapshot;
mod stamp;
pub mod status_line;
mod stop_message;
pub mod tee;
pub mod text;

use std::io::{self, Write};
use std::time::Duration;

use crate::model::event::{Dropped, Event, Stream};
use crate::model::kept::Kept;
use crate::model::lines::Piece;
use crate::model::recorded::{Recorded, RecordedChunk};
use crate::model::spec::WindowSize;
use crate::sink::destination::Lost;

/// What shows a run in one format. All times are since the command started.
///
/// Whatever is told is told in the order in which it happened. Where a consumer is lost, that is returned once,
/// and what follows is let fall.
pub trait Sink: Send {
    /// Shows output as it was read.
    ///
    /// # Errors
    ///
    /// Where a consumer is lost. The same holds for all that follow.
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost>;

    /// Shows lines, or a piece of one, that were cut before.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost>;

    /// Shows what there is of a stream's unfinished line, if the format ever does.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn flush_partial(&mut self, _: Stream, _: Duration) -> Result<(), Lost> {
        Ok(())
    }

    /// Whether [`Sink::flush_partial`] would show something.
    fn has_unfinished(&self, _: Stream) -> bool {
        false
    }

    /// Shows the end of a stream.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn end(&mut self, _: Stream, _: Duration) -> Result<(), Lost> {
        Ok(())
    }

    /// Shows that the terminal that was made for the command has another size.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn resized(&mut self, _size: WindowSize, _at: Duration) -> Result<(), Lost> {
        Ok(())
    }

    /// Shows an event that is no output. The result comes last, and is written with all that was held back.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost>;

    /// Takes the result again, after something had changed it: who was to see the first was lost on it. A recording
    /// puts it in the place of the first.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn amend(&mut self, _result: &Event<'_>) -> Result<(), Lost> {
        Ok(())
    }

    /// Says that a stream's line that was begun does not go on: what comes next of it is another.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn break_line(&mut self, _: Stream) -> Result<(), Lost> {
        Ok(())
    }

    /// Shows a line that was read back, and is `line` with its end.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn recorded(&mut self, recorded: &Recorded<'_>, _line: &[u8]) -> Result<(), Lost> {
        match recorded {
            Recorded::Chunk(chunk) => self.piece(chunk.into()),
            Recorded::Event(event) => self.event(event),
            Recorded::Unknown => Ok(()),
        }
    }

    /// Shows a line that was read back and begins as a chunk does, without looking into it. `false`: it is none,
    /// or has to be looked into.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn chunk_as_written(&mut self, _line: &[u8]) -> Result<bool, Lost> {
        Ok(false)
    }

    /// When it wants [`Sink::refresh`] next, if nothing else comes before.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Shows where the run is, for a format that shows that from time to time.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn refresh(&mut self, _now: Duration, _seen: Seen<'_>) -> Result<(), Lost> {
        Ok(())
    }

    /// Writes what was held back to be written together.
    ///
    /// # Errors
    ///
    /// See [`Sink::block`].
    fn flush(&mut self) -> Result<(), Lost>;

    /// Whether every consumer is lost. Then the sink is not used any more but for its account.
    fn is_lost(&self) -> bool;

    /// What became of the output so far.
    fn account(&self) -> Account;
}

/// Lines, or a piece of one, that were cut before.
#[derive(Debug, Clone, Copy)]
pub struct Cut<'a> {
    /// The stream that they are of.
    pub stream: Stream,
    /// Their bytes.
    pub piece: Piece<'a>,
    /// When they were read.
    pub at: Duration,
    /// The place of the first among the chunks of its run.
    pub seq: u64,
}

impl<'a> From<&'a RecordedChunk<'_>> for Cut<'a> {
    fn from(chunk: &'a RecordedChunk<'_>) -> Self {
        let piece = Piece::One { bytes: &chunk.bytes, partial: chunk.partial };
        Self { stream: chunk.stream, piece, at: chunk.at, seq: chunk.seq }
    }
}

/// What was seen of the streams so far, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What the result would keep.
    pub kept: [&'a Kept; 2],
    /// All bytes.
    pub bytes: [u64; 2],
    /// All lines.
    pub lines: [u64; 2],
    /// When either was last read.
    pub last_output: Duration,
}

/// What became of the output in a sink.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Bytes of the command's output that were written, so far as a reader can use them.
    pub delivered_bytes: u64,
    /// What was dropped since its reader took too little.
    pub dropped: Option<DroppedTotals>,
    /// Why the recording is not whole.
    pub record_error: Option<String>,
}

/// Output that was dropped over a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedTotals {
    /// Chunks.
    pub chunks: u64,
    /// Bytes of output in them.
    pub bytes: u64,
}

impl DroppedTotals {
    /// Adds what one event tells.
    pub fn add(&mut self, dropped: &Dropped) {
        self.chunks = self.chunks.saturating_add(dropped.chunks);
        self.bytes = self.bytes.saturating_add(dropped.bytes);
    }
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
