//! The line in which text tells that and why a run was stopped.

use crate::model::outcome::StopReason;
use crate::model::spec::{Limits, Pty};
use crate::sys::terminal;

/// Most silence is output that waits in the program for more of it, which no program does on a terminal.
const HELD_BACK: &str = "; if it only held its output back, --pty=split shows it at once";

/// What text says of a stop, once in a run.
#[derive(Debug)]
pub(super) struct StopMessage {
    /// `None` where nothing is to be said, or everything was.
    limits: Option<Limits>,
    pty: Pty,
}

impl StopMessage {
    /// Tells the limit that was passed, out of these, of a command on such a terminal; without limits nothing.
    pub(super) fn new(limits: Option<Limits>, pty: Pty) -> Self {
        Self { limits, pty }
    }

    /// The line, with its end, when a run is stopped for this reason, or is over and was; `None` for a reason that its
    /// cause tells itself, and once it was told.
    pub(super) fn of(&mut self, reason: Option<StopReason>) -> Option<String> {
        let limits = self.limits.take()?;
        let why = match reason? {
            StopReason::Timeout => {
                limits.timeout.map(|limit| format!("it ran longer than --timeout {limit:?}"))
            }
            StopReason::IdleTimeout => {
                let hint = if self.pty == Pty::No { HELD_BACK } else { "" };
                let limit = limits.idle_timeout;
                limit.map(|limit| format!("no output for --idle-timeout {limit:?}{hint}"))
            }
            StopReason::Memory => limits.max_memory_bytes.map(|limit| {
                format!("its processes took more memory than --max-memory {limit} bytes")
            }),
            StopReason::Output => limits
                .output_limit_bytes
                .map(|limit| format!("it wrote more than --output-limit {limit} bytes")),
            StopReason::Signal | StopReason::Disconnect => None,
        };
        why.map(|why| format!("runcast: run stopped: {why}{}", terminal::line_end()))
    }
}
