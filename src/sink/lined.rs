//! Cuts output into lines for a format that is made of them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::time::Duration;

use crate::model::chunk_line::chunk_seq;
use crate::model::error::Error;
use crate::model::event::{Event, Started, Stream};
use crate::model::lines::Piece;
use crate::model::recorded::Recorded;
use crate::model::spec::Capture;
use crate::sink::cutters::{Cutters, Shows};
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Account, Cut, Sink};

/// A format that shows a line, or a piece of one, at a time.
pub trait LineFormat: Send {
    /// Shows whole lines, or a piece of one, that were read at `at` since the start.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration) -> Result<(), Lost>;

    /// Shows an event that is no output, if the format has it.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost>;

    /// Whether it would show a line that was read back as it was written: a chunk, or another event.
    fn shows_as_written(&self, _is_chunk: bool) -> bool {
        false
    }

    /// Says that a stream's line that was begun does not go on.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    fn break_line(&mut self, _: Stream) -> Result<(), Lost> {
        Ok(())
    }

    /// Takes note of when the run was started, where its event is shown as it was written.
    fn note_started(&mut self, _: &Started) {}

    /// Says which number the next line has among the chunks of its run.
    fn set_seq(&mut self, seq: u64);

    /// What it writes to.
    fn out(&mut self) -> &mut Destination;

    /// What it writes to.
    fn out_ref(&self) -> &Destination;

    /// Bytes of output that were written to the end of their lines.
    fn delivered_bytes(&self) -> u64;
}

/// Shows a run in a format that is made of lines.
#[derive(Debug)]
pub struct Lined<F> {
    format: F,
    cutters: Cutters,
    /// Whether the result object comes last, in a format that has none of its own.
    result_last: bool,
    /// What it writes to once more, where that is a file in which the result can be written again.
    file: Option<File>,
    /// Where in it the result begins, once it was written.
    result_at: Option<u64>,
}

impl<F: LineFormat> Lined<F> {
    /// Cuts as `capture` says.
    #[must_use]
    pub fn new(format: F, capture: &Capture, shows: Shows) -> Self {
        let cutters = Cutters::new(capture, shows);
        Self { format, cutters, result_last: false, file: None, result_at: None }
    }

    /// With the result object last, if that is asked for; for a format that has none of its own.
    #[must_use]
    pub fn with_result(self, result_last: bool) -> Self {
        Self { result_last, ..self }
    }

    /// With the file that it writes to, where that is a regular one and was empty.
    #[must_use]
    pub fn with_file(self, file: Option<File>) -> Self {
        Self { file, ..self }
    }

    /// The result comes next.
    fn note_result(&mut self) {
        self.result_at = Some(self.format.out_ref().passed_bytes());
    }

    fn cut_off_result(&self) -> io::Result<bool> {
        let (Some(mut file), Some(at)) = (self.file.as_ref(), self.result_at) else {
            return Ok(false);
        };
        file.set_len(at)?;
        // The place to write at is that of the destination, too.
        file.seek(SeekFrom::Start(at))?;
        Ok(true)
    }

    /// The format.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// The format, to be changed between lines.
    pub fn format_mut(&mut self) -> &mut F {
        &mut self.format
    }

    /// Has the cutters do something with a stream, and shows the pieces that come of it.
    fn cut(
        &mut self,
        stream: Stream,
        at: Duration,
        work: impl FnOnce(&mut Cutters, &mut dyn FnMut(Piece<'_>)),
    ) -> Result<(), Lost> {
        let format = &mut self.format;
        let mut shown = Ok(());
        work(&mut self.cutters, &mut |piece| {
            // Also when the consumer is lost: the format counts on.
            let put = format.lines(stream, piece, at);
            if shown.is_ok() {
                shown = put;
            }
        });
        shown
    }
}

impl<F: LineFormat> Sink for Lined<F> {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.cut(stream, at, |cutters, emit| cutters.push(stream, bytes, emit))
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        if !self.cutters.shows_output() {
            return Ok(());
        }
        self.format.set_seq(piece.seq);
        self.format.lines(piece.stream, piece.piece, piece.at)
    }

    fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.cut(stream, at, |cutters, emit| cutters.flush_partial(stream, emit))
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.cutters.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.cut(stream, at, |cutters, emit| cutters.finish(stream, emit))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        let is_result = matches!(event, Event::Result(_));
        if is_result {
            self.note_result();
        }
        self.format.event(event)?;
        if !is_result {
            return Ok(());
        }
        if self.result_last {
            self.format.out().put_event(event)?;
        }
        self.flush()
    }

    fn amend(&mut self, result: &Event<'_>) -> Result<(), Lost> {
        if self.file.is_none() || self.is_lost() {
            return Ok(());
        }
        self.flush()?;
        let is_cut_off = self.cut_off_result().map_err(|source| {
            let what = self.format.out_ref().name().to_owned();
            Lost::Failed(Error::Output { what, source })
        })?;
        if is_cut_off {
            self.format.out().put_event(result)?;
        }
        self.flush()
    }

    fn break_line(&mut self, stream: Stream) -> Result<(), Lost> {
        self.format.break_line(stream)
    }

    fn recorded(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        if matches!(recorded, Recorded::Event(Event::Result(_))) {
            self.note_result();
        }
        let is_chunk = matches!(recorded, Recorded::Chunk(_));
        match recorded {
            Recorded::Chunk(_) if !self.cutters.shows_output() => Ok(()),
            _ if self.format.shows_as_written(is_chunk) => {
                if let Recorded::Event(Event::Started(started)) = recorded {
                    self.format.note_started(started);
                }
                self.format.out().put(line)
            }
            Recorded::Chunk(chunk) => self.piece(chunk.into()),
            Recorded::Event(event) => self.event(event),
            Recorded::Unknown => Ok(()),
        }
    }

    fn chunk_as_written(&mut self, line: &[u8]) -> Result<bool, Lost> {
        let is_chunk = chunk_seq(line).is_some();
        if !is_chunk || !self.cutters.shows_output() || !self.format.shows_as_written(true) {
            return Ok(false);
        }
        self.format.out().put(line).map(|()| true)
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.format.out().flush()
    }

    fn is_lost(&self) -> bool {
        self.format.out_ref().is_lost()
    }

    fn account(&self) -> Account {
        Account { delivered_bytes: self.format.delivered_bytes(), ..Account::default() }
    }
}
