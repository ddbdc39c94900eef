//! The end of a run: its result, wherever that goes, what failed, and the exit status.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::engine::channel::{Notice, ToSupervisor};
use crate::engine::pump::{Report, delivery_of};
use crate::model::error::Error;
use crate::model::event::{Event, RunResult, StreamTotals};
use crate::model::mask::Mask;
use crate::model::outcome::{Delivery, Exit, Outcome};
use crate::model::spec::{Display, Format};
use crate::sink::destination::Patience;
use crate::sink::result_file::ResultFile;
use crate::sink::{DroppedTotals, Sink, message};

/// What was seen of a run whose end was not.
pub(crate) struct SoFar {
    /// Its output, standard output first.
    pub(crate) streams: [StreamTotals; 2],
    /// How long it had run when something was last seen of it.
    pub(crate) duration: Duration,
}

/// A run that is over, and what is left to be said of it.
pub(crate) struct Ending {
    pub(super) report: Report,
    /// What the command returned.
    pub(super) value: Option<Box<RawValue>>,
    /// It stays until all is said: it still takes signals, and ends the wait for a reader that does not read.
    pub(super) supervisor: Option<ToSupervisor>,
    /// What is hidden in whatever is said of it.
    pub(super) mask: Option<Arc<Mask>>,
}

impl Ending {
    pub(crate) fn of_failure(error: Error, mask: Option<Arc<Mask>>) -> Self {
        let report = Report {
            outcome: Outcome::never_started(),
            streams: [StreamTotals::nothing(), StreamTotals::nothing()],
            delivery: Delivery::Failed(error),
            taken_bytes: 0,
        };
        Self { report, value: None, supervisor: None, mask }
    }

    /// With what was seen of the run until then.
    pub(crate) fn after(mut self, seen: SoFar) -> Self {
        self.report.streams = seen.streams;
        self.report.outcome.duration = seen.duration;
        self
    }

    /// Takes in what the command returned, or why that is not a value.
    pub(super) fn take_value(
        &mut self,
        returned: Result<Option<Box<RawValue>>, Error>,
        patience: &Arc<Patience>,
    ) {
        match returned {
            Ok(value) => self.value = value.map(|value| self.hide_value(value)),
            Err(error) => self.fail(error, patience),
        }
    }

    /// Hides what is hidden in a value. One that is no JSON any more then, since a secret was a number in it,
    /// becomes a text.
    fn hide_value(&self, value: Box<RawValue>) -> Box<RawValue> {
        let hidden = self.hide(value.get());
        if hidden == value.get() {
            return value;
        }
        RawValue::from_string(hidden).unwrap_or_else(|_| {
            let text = serde_json::Value::String(self.hide(value.get())).to_string();
            RawValue::from_string(text).unwrap_or_default()
        })
    }

    /// Writes the result wherever it goes, says what failed, and returns the exit status.
    ///
    /// A file is written before standard output has its result, so that both can tell of a full disk, and takes
    /// its place after it, so that it can tell of a consumer that was lost with the last line. What is no file
    /// has its result first: only then is it known whether it took it.
    pub(crate) fn conclude(
        mut self,
        sink: &mut dyn Sink,
        result_file: &mut Option<ResultFile>,
        display: &Display,
        patience: &Arc<Patience>,
    ) -> Exit {
        self.report.delivery = match self.report.delivery {
            Delivery::Failed(error) => Delivery::Failed(error.hidden(self.mask.as_deref())),
            other => other,
        };
        self.report.outcome.note_delivery(&self.report.delivery);
        self.stage(result_file, sink, display, patience);
        if let Some(file) = result_file.take_if(|file| !file.is_staged()) {
            self.commit(file, sink, display, patience);
        }
        let shown = std::mem::discriminant(&self.report.delivery);
        if !sink.is_lost()
            && let Err(lost) = sink.event(&self.result(sink, display))
        {
            match delivery_of(lost, display.on_disconnect, patience) {
                Delivery::Failed(error) => self.fail(error, patience),
                delivery => self.report.delivery = delivery,
            }
            self.report.outcome.note_delivery(&self.report.delivery);
            self.stage(result_file, sink, display, patience);
        }
        if let Some(file) = result_file.take() {
            self.commit(file, sink, display, patience);
        }
        if std::mem::discriminant(&self.report.delivery) != shown {
            // A recording had its result before.
            // One that fails on it says so by itself.
            let _ = sink.amend(&self.result(sink, display));
        }
        say_lagged(sink, display, patience);
        if let Delivery::Failed(error) = &self.report.delivery {
            message::say_error(error, patience);
        }
        if let Some(supervisor) = &self.supervisor {
            supervisor.send(Notice::Delivered);
        }
        self.report.outcome.exit(&self.report.delivery)
    }

    fn commit(
        &mut self,
        file: ResultFile,
        sink: &dyn Sink,
        display: &Display,
        patience: &Arc<Patience>,
    ) {
        if let Err(error) = file.commit(&self.result(sink, display), patience) {
            self.fail(error, patience);
        }
    }

    /// Takes note of a failure. The first one is the result's; another one is only told.
    fn fail(&mut self, error: Error, patience: &Arc<Patience>) {
        let error = error.hidden(self.mask.as_deref());
        if matches!(self.report.delivery, Delivery::Failed(_)) {
            message::say_error(&error, patience);
        } else {
            self.report.delivery = Delivery::Failed(error);
        }
    }

    fn result(&self, sink: &dyn Sink, display: &Display) -> Event<'_> {
        let Report { outcome, streams, delivery, taken_bytes } = &self.report;
        let account = sink.account();
        let dropped = account.dropped.unwrap_or_default();
        let undelivered_bytes = match delivery {
            Delivery::Cut(_) if display.quiet => Some(0),
            Delivery::Cut(_) => {
                Some(taken_bytes.saturating_sub(account.delivered_bytes + dropped.bytes))
            }
            _ => None,
        };
        Event::Result(Box::new(RunResult {
            undelivered_bytes,
            record_error: account.record_error.map(|error| self.hide(&error)),
            dropped_bytes: account.dropped.map(|dropped| dropped.bytes),
            dropped_chunks: account.dropped.map(|dropped| dropped.chunks),
            result: self.value.as_deref(),
            ..RunResult::new(outcome, streams, delivery)
        }))
    }

    fn hide(&self, text: &str) -> String {
        self.mask.as_ref().map_or_else(|| text.to_owned(), |mask| mask.text(text).into_owned())
    }

    /// Writes the result beside its place. A file that cannot be written is given up.
    fn stage(
        &mut self,
        result_file: &mut Option<ResultFile>,
        sink: &dyn Sink,
        display: &Display,
        patience: &Arc<Patience>,
    ) {
        let Some(file) = result_file else { return };
        let staged = file.stage(&self.result(sink, display));
        if let Err(error) = staged {
            *result_file = None;
            self.fail(error, patience);
        }
    }
}

/// Says how much of the output its reader did not get, being too slow, where the format has no place for that.
pub(super) fn say_lagged(sink: &dyn Sink, display: &Display, patience: &Arc<Patience>) {
    let dropped = sink.account().dropped.unwrap_or_default();
    say_dropped(dropped, "were dropped: they were read too slowly", display, patience);
}

/// Says how much output did not come and why, where the format has no place for that.
pub(super) fn say_dropped(
    dropped: DroppedTotals,
    why: &str,
    display: &Display,
    patience: &Arc<Patience>,
) {
    let DroppedTotals { chunks, bytes } = dropped;
    if matches!(display.format, Format::Text | Format::Cri) && !display.quiet && chunks > 0 {
        message::say(format!("{chunks} lines ({bytes} bytes) {why}"), patience);
    }
}
