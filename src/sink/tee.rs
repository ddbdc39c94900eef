//! A recording beside what is shown: every event goes to both.
//!
//! Whatever becomes of the recording, what is shown goes on; that the recording is not whole is told once.

use std::sync::Arc;
use std::time::Duration;

use crate::model::error::{Error, reason};
use crate::model::event::{Event, Stream};
use crate::model::recorded::Recorded;
use crate::model::spec::WindowSize;
use crate::sink::destination::{Lost, Patience};
use crate::sink::{Account, Cut, Seen, Sink, message};

/// Shows a run and records it.
pub struct Tee {
    shown: Box<dyn Sink>,
    recording: Box<dyn Sink>,
    /// What its messages call the recording.
    name: String,
    patience: Arc<Patience>,
    error: Option<String>,
}

impl Tee {
    /// Shows a run in one sink and records it in the other, which messages call `name`.
    #[must_use]
    pub fn new(
        shown: Box<dyn Sink>,
        recording: Box<dyn Sink>,
        name: String,
        patience: &Arc<Patience>,
    ) -> Self {
        Self { shown, recording, name, patience: Arc::clone(patience), error: None }
    }

    fn both(
        &mut self,
        mut what: impl FnMut(&mut dyn Sink) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        // First, so that it is not behind a reader that stalls.
        if !self.recording.is_lost()
            && let Err(lost) = what(&mut *self.recording)
        {
            self.note(lost);
        }
        if self.shown.is_lost() { Ok(()) } else { what(&mut *self.shown) }
    }

    /// Takes note that the recording ends here.
    fn note(&mut self, lost: Lost) {
        let why = match lost {
            Lost::Gone => "its reader went away".to_owned(),
            Lost::Failed(Error::Output { source, .. }) => reason(&source),
            Lost::Failed(error) => error.to_string(),
            Lost::Abandoned => "its reader took no more".to_owned(),
        };
        let error = format!("{}: {why}", self.name);
        message::say(format_args!("{error}; the recording ends here"), &self.patience);
        self.error = Some(error);
    }
}

impl Sink for Tee {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.both(|sink| sink.block(stream, bytes, at))
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.both(|sink| sink.piece(piece))
    }

    fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.both(|sink| sink.flush_partial(stream, at))
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.shown.has_unfinished(stream) || self.recording.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.both(|sink| sink.end(stream, at))
    }

    fn resized(&mut self, size: WindowSize, at: Duration) -> Result<(), Lost> {
        self.both(|sink| sink.resized(size, at))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.both(|sink| sink.event(event))
    }

    fn amend(&mut self, result: &Event<'_>) -> Result<(), Lost> {
        if let Err(lost) = self.recording.amend(result) {
            self.note(lost);
        }
        Ok(())
    }

    fn recorded(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        self.both(|sink| sink.recorded(recorded, line))
    }

    fn due(&self) -> Option<Duration> {
        // A recording shows nothing from time to time.
        if self.shown.is_lost() { None } else { self.shown.due() }
    }

    fn refresh(&mut self, now: Duration, seen: Seen<'_>) -> Result<(), Lost> {
        if self.shown.is_lost() { Ok(()) } else { self.shown.refresh(now, seen) }
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.both(|sink| sink.flush())
    }

    /// A recording is written on when nobody is left to look.
    fn is_lost(&self) -> bool {
        self.shown.is_lost() && self.recording.is_lost()
    }

    fn account(&self) -> Account {
        Account { record_error: self.error.clone(), ..self.shown.account() }
    }
}
