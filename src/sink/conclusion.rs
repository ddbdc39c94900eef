//! How a run ended, as a log tells it: how grave it is, a sentence, and what programs look at.

use std::fmt::Write;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::event::{ErrorFields, RunResult, Seconds};
use crate::model::outcome::{LimitHit, StopReason};
use crate::model::spec::Level;

/// The last record of a log: what it tells beside the fields that all records have.
#[derive(Debug, Serialize)]
pub struct Conclusion<'a> {
    /// The command's own exit code.
    pub exit_code: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<&'a str>,
    /// runcast's exit status.
    pub status: u8,
    /// Whether a timeout stopped it.
    pub timed_out: bool,
    /// Why runcast stopped it.
    pub stopped_by: Option<StopReason>,
    /// The signal that runcast received and that began the stop or ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<&'a str>,
    /// The resource limit that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitHit>,
    /// From start to end of the command.
    pub duration: Seconds,
    /// Bytes of output that the reader of a stopped run did not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undelivered_bytes: Option<u64>,
    /// Present where a stream was still held when reading stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaked: Option<bool>,
    /// Why the recording is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_error: Option<&'a str>,
    /// Bytes of output that were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
    /// Lines, and pieces of lines, that were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_chunks: Option<u64>,
    /// The value that the command returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// runcast's own failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a ErrorFields>,
}

impl<'a> Conclusion<'a> {
    /// What is told of this result.
    #[must_use]
    pub fn of(result: &'a RunResult<'_>) -> Self {
        Self {
            exit_code: result.exit_code,
            signal: result.signal.as_deref(),
            status: result.status,
            timed_out: result.timed_out,
            stopped_by: result.stopped_by,
            received: result.received.as_deref(),
            limit: result.limit,
            duration: result.duration,
            undelivered_bytes: result.undelivered_bytes,
            leaked: result.leaked.then_some(true),
            record_error: result.record_error.as_deref(),
            dropped_bytes: result.dropped_bytes,
            dropped_chunks: result.dropped_chunks,
            result: result.result,
            error: result.error.as_ref(),
        }
    }

    /// An error where the status is not 0; a warning where it is and yet not all is as it should be.
    #[must_use]
    pub fn level(&self) -> Level {
        let is_amiss = self.stopped_by.is_some()
            || self.leaked.is_some()
            || self.record_error.is_some()
            || self.dropped_bytes.is_some();
        match self.status {
            0 if is_amiss => Level::Warn,
            0 => Level::Info,
            _ => Level::Error,
        }
    }

    /// How it ended, after how long, and why, for people.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = match (self.exit_code, self.signal, self.error) {
            (Some(code), _, _) => format!("exited with code {code}"),
            (None, Some(signal), _) => format!("ended by {signal}"),
            (None, None, Some(error)) => return error.message.clone(),
            (None, None, None) => "could not be killed".to_owned(),
        };
        // A string takes all that is written.
        let _ = write!(text, " after {:.3}s", self.duration.0.as_secs_f64());
        if let Some(why) = self.why_stopped() {
            let _ = write!(text, ", stopped by {why}");
        }
        if let Some(limit) = self.limit {
            let _ = write!(text, ", at its limit of {}", limit.as_str());
        }
        if self.leaked.is_some() {
            text.push_str("; its output is still held open");
        }
        if let Some(bytes) = self.dropped_bytes {
            let _ = write!(text, "; {bytes} bytes of its output were dropped");
        }
        if let Some(why) = self.record_error {
            let _ = write!(text, "; {why}");
        }
        if let Some(error) = self.error {
            let _ = write!(text, "; {}", error.message);
        }
        text
    }

    fn why_stopped(&self) -> Option<&str> {
        Some(match self.stopped_by? {
            StopReason::Timeout => "--timeout",
            StopReason::IdleTimeout => "--idle-timeout",
            StopReason::Output => "--output-limit",
            StopReason::Memory => "--max-memory",
            StopReason::Disconnect => "the loss of its reader",
            StopReason::Signal => self.received.unwrap_or("a signal"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn conclusion() -> Conclusion<'static> {
        Conclusion {
            exit_code: Some(0),
            signal: None,
            status: 0,
            timed_out: false,
            stopped_by: None,
            received: None,
            limit: None,
            duration: Seconds(Duration::from_micros(2_003_456)),
            undelivered_bytes: None,
            leaked: None,
            record_error: None,
            dropped_bytes: None,
            dropped_chunks: None,
            result: None,
            error: None,
        }
    }

    fn told(conclusion: &Conclusion<'_>) -> (Level, String) {
        (conclusion.level(), conclusion.message())
    }

    #[test]
    fn what_went_well_is_information_and_what_failed_an_error() {
        let well = conclusion();
        assert_eq!(told(&well), (Level::Info, "exited with code 0 after 2.003s".into()));
        let failed = Conclusion { exit_code: Some(3), status: 3, ..conclusion() };
        assert_eq!(told(&failed), (Level::Error, "exited with code 3 after 2.003s".into()));
        let stopped = Conclusion {
            exit_code: None,
            signal: Some("SIGTERM"),
            status: 124,
            stopped_by: Some(StopReason::Timeout),
            ..conclusion()
        };
        let message = "ended by SIGTERM after 2.003s, stopped by --timeout";
        assert_eq!(told(&stopped), (Level::Error, message.into()));
    }

    #[test]
    fn a_success_of_which_something_is_missing_is_a_warning() {
        let dropped = Conclusion { dropped_bytes: Some(5), ..conclusion() };
        let message = "exited with code 0 after 2.003s; 5 bytes of its output were dropped";
        assert_eq!(told(&dropped), (Level::Warn, message.into()));
        let leaked = Conclusion { leaked: Some(true), ..conclusion() };
        assert_eq!(leaked.level(), Level::Warn);
        let stopped = Conclusion {
            stopped_by: Some(StopReason::Signal),
            received: Some("SIGTERM"),
            ..conclusion()
        };
        let message = "exited with code 0 after 2.003s, stopped by SIGTERM";
        assert_eq!(told(&stopped), (Level::Warn, message.into()));
    }

    #[test]
    fn one_that_never_started_is_told_by_its_error() {
        let error = ErrorFields { code: "not_found", message: "x: command not found".into() };
        let failed =
            Conclusion { exit_code: None, status: 127, error: Some(&error), ..conclusion() };
        assert_eq!(told(&failed), (Level::Error, "x: command not found".into()));
    }
}
