//! Shows a run that was written down: one line after another, as it was then.
//!
//! When the lines are shown, and where they come from, is for others to say.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::ending::{Ending, SoFar, say_dropped, say_lagged};
use crate::engine::flow::{Flow, seen};
use crate::engine::show::make_sink;
use crate::model::error::Error;
use crate::model::event::{Event, Stream};
use crate::model::mask::Mask;
use crate::model::outcome::STATUS_DISCONNECTED;
use crate::model::recorded::{Recorded, RecordedChunk};
use crate::model::spec::{Capture, Display, Format};
use crate::sink::destination::{Lost, Patience};
use crate::sink::result_file::ResultFile;
use crate::sink::{DroppedTotals, Sink, message};

/// The shortest wait for when something is due: less is not worth a wake-up.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Why showing ended before the run, or what was recorded of it, did.
pub(crate) enum Broken {
    Lost(Lost),
    Failed(Error),
}

impl From<Lost> for Broken {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Broken {
    /// Tells it whoever can still be told, a failure of ours as the result, and returns the exit status.
    pub(crate) fn conclude(
        self,
        player: &mut Player,
        mask: Option<Arc<Mask>>,
        result_file: &mut Option<ResultFile>,
        display: &Display,
        patience: &Arc<Patience>,
    ) -> u8 {
        match self {
            Self::Lost(Lost::Gone | Lost::Abandoned) => STATUS_DISCONNECTED,
            Self::Lost(Lost::Failed(error)) => {
                message::say_error(&error, patience);
                error.status()
            }
            Self::Failed(error) => Ending::of_failure(error, mask)
                .after(player.so_far())
                .conclude(player.sink(), result_file, display, patience)
                .status(),
        }
    }
}

/// Shows on our standard streams what `play` reads back, and returns the exit status.
pub(crate) fn play_out(
    display: &Display,
    capture: &Capture,
    play: impl FnOnce(&mut Player) -> Result<u8, Broken>,
) -> u8 {
    let patience = Arc::new(Patience::default());
    let sink = match make_sink(display, capture, None, &patience) {
        Ok(sink) => sink,
        Err(error) => {
            message::say_error(&error, &patience);
            return error.status();
        }
    };
    let mut player = Player::new(sink, display.format, capture);
    match play(&mut player) {
        Ok(status) => {
            player.say_missing(display, &patience);
            status
        }
        Err(broken) => broken.conclude(&mut player, None, &mut None, display, &patience),
    }
}

/// Shows what is read back.
pub(crate) struct Player {
    sink: Box<dyn Sink>,
    flows: [Flow; 2],
    /// Whether the sink shows what was seen so far.
    shows_progress: bool,
    /// What is known of the run beside what was shown.
    known: Option<SoFar>,
    /// The exit status that the run ended with, once its result was shown.
    status: Option<u8>,
    /// The time of the last line that told one and was read.
    last_at: Duration,
    /// Output that was not kept, and so could not be shown.
    missing: DroppedTotals,
}

impl Player {
    /// Shows a run in this sink, which shows this format.
    pub(crate) fn new(sink: Box<dyn Sink>, format: Format, capture: &Capture) -> Self {
        let flows = [Flow::new(capture), Flow::new(capture)];
        let shows_progress = format == Format::Snapshot || sink.due().is_some();
        let missing = DroppedTotals::default();
        Self {
            sink,
            flows,
            shows_progress,
            known: None,
            status: None,
            last_at: Duration::ZERO,
            missing,
        }
    }

    /// Shows a line that was read back, and is `line` with its end.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn show(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        if let Recorded::Event(Event::Result(result)) = recorded {
            self.status = Some(result.status);
        }
        if let Some(at) = recorded.at() {
            self.last_at = at;
        }
        self.sink.recorded(recorded, line)?;
        match recorded {
            Recorded::Chunk(chunk) => self.count(chunk.stream, &chunk.bytes, chunk.at),
            Recorded::Event(Event::Dropped(dropped)) => {
                self.missing.add(dropped);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Says once, at the end, how much output did not come, where the format has no place for that.
    pub(crate) fn say_missing(&self, display: &Display, patience: &Arc<Patience>) {
        say_lagged(&*self.sink, display, patience);
        say_dropped(self.missing, "are missing: they were not kept", display, patience);
    }

    /// Shows output that was recorded as it was read, not cut into lines.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn show_output(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        at: Duration,
    ) -> Result<(), Lost> {
        self.last_at = at;
        self.sink.block(stream, bytes, at)?;
        self.count(stream, bytes, at)
    }

    /// Shows what there is of a stream's unfinished line, if the format ever does.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.sink.flush_partial(stream, at)
    }

    /// Shows the end of a stream whose output was not cut into lines.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn end_output(&mut self, stream: Stream) -> Result<(), Lost> {
        self.sink.end(stream, self.last_at)
    }

    fn count(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        let flow = &mut self.flows[stream.index()];
        flow.count(bytes);
        flow.last_read = at;
        if self.shows_progress { self.refresh(at).map(drop) } else { Ok(()) }
    }

    /// Takes note of a chunk that was shown as it was written, for a result that has to be made here.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn note_shown(&mut self, chunk: &RecordedChunk<'_>) -> Result<(), Lost> {
        self.last_at = chunk.at;
        self.count(chunk.stream, &chunk.bytes, chunk.at)
    }

    /// Says what there was, where more is known of that than was shown.
    pub(crate) fn know(&mut self, so_far: SoFar) {
        self.known = Some(so_far);
    }

    /// What was seen of the run, for a result that has to be made here.
    fn so_far(&mut self) -> SoFar {
        self.known.take().unwrap_or_else(|| {
            let nothing = || Flow::new(&Capture::default());
            let flows = std::mem::replace(&mut self.flows, [nothing(), nothing()]);
            SoFar { streams: flows.map(Flow::totals), duration: self.last_at }
        })
    }

    /// Shows a line of output as it was written, if that is how the sink would show it anyway. `false`: it has to
    /// be read first.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn show_as_written(&mut self, line: &[u8]) -> Result<bool, Lost> {
        self.sink.chunk_as_written(line)
    }

    /// Lets the sink show where the run was at this time, if it wants that. Returns when it wants that next.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn refresh(&mut self, now: Duration) -> Result<Option<Duration>, Lost> {
        if self.sink.due().is_some_and(|due| due <= now) {
            self.sink.refresh(now, seen(&self.flows))?;
        }
        Ok(self.sink.due())
    }

    /// Writes what was held back.
    ///
    /// # Errors
    ///
    /// Where the consumer is lost.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        self.sink.flush()
    }

    /// The exit status that the run ended with, once its result was shown.
    pub(crate) fn status(&self) -> Option<u8> {
        self.status
    }

    /// The time of the last line that told one, as far as lines were read to be shown.
    pub(crate) fn last_at(&self) -> Duration {
        self.last_at
    }

    /// What it is shown in.
    pub(crate) fn sink(&mut self) -> &mut dyn Sink {
        &mut *self.sink
    }
}
