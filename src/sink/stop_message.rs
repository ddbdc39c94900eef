//! The line in which text tells that and why a run was stopped.

use crate::model::event::Stop;
use crate::model::outcome::StopReason;
use crate::model::spec::Limits;

/// What text says of a stop, once in a run.
#[derive(Debug)]
pub(super) struct StopMessage {
    /// `None` where nothing is to be said, or everything was.
    limits: Option<Limits>,
}

impl StopMessage {
    /// Tells the limit that was passed, out of these; without them nothing.
    pub(super) fn new(limits: Option<Limits>) -> Self {
        Self { limits }
    }

    /// The line, with its end; `None` for a reason that its cause tells itself, and after the first stop.
    pub(super) fn of(&mut self, stop: &Stop) -> Option<String> {
        let limits = self.limits.take()?;
        let why = match stop.reason? {
            StopReason::Timeout => {
                limits.timeout.map(|limit| format!("it ran longer than --timeout {limit:?}"))
            }
            StopReason::IdleTimeout => {
                limits.idle_timeout.map(|limit| format!("no output for --idle-timeout {limit:?}"))
            }
            StopReason::Memory => limits.max_memory_bytes.map(|limit| {
                format!("its processes took more memory than --max-memory {limit} bytes")
            }),
            StopReason::Output => limits
                .output_limit_bytes
                .map(|limit| format!("it wrote more than --output-limit {limit} bytes")),
            StopReason::Signal | StopReason::Disconnect => None,
        };
        why.map(|why| format!("runcast: run stopped: {why}\n"))
    }
}
