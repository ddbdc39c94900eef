//! How a run ended, and the exit status that follows: the one place with that table.

use std::time::Duration;

use crate::model::error::Error;
use crate::model::signal::Signal;
use crate::model::words::words;

/// The exit status when a timeout stopped the run.
pub const STATUS_TIMED_OUT: u8 = 124;
/// The exit status when the consumer of the output went away: 128 + PIPE.
pub const STATUS_DISCONNECTED: u8 = 141;

/// How the command itself ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(u8),
    /// A signal ended it.
    Signaled {
        /// The signal.
        signal: Signal,
        /// Whether it left a core.
        core_dumped: bool,
    },
    /// It never started, or could not be killed and still lives.
    NotSeen,
}

words! {
    /// Why runcast stopped the run.
    pub enum StopReason {
        /// It ran longer than `--timeout`.
        Timeout = "timeout",
        /// It wrote nothing for `--idle-timeout`.
        IdleTimeout = "idle_timeout",
        /// A TERM that runcast received and that began a stop, or an INT, QUIT or HUP that ended the command;
        /// `received` names it. Or `runcast signal --stop`.
        Signal = "signal",
        /// The reader of the output went away, or the output could not be written.
        Disconnect = "disconnect",
        /// It produced more than `--output-limit`.
        Output = "output",
        /// It used more memory than `--max-memory`.
        Memory = "memory",
    }
}

words! {
    /// The resource limit that ended the command.
    pub enum LimitHit {
        /// Processor time: XCPU, or KILL at the hard limit.
        Cpu = "cpu",
        /// The size of a file: XFSZ.
        FileSize = "fsize",
    }
}

/// What the command and the children it waited for used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The largest resident size of any one of them, in bytes.
    pub max_rss_bytes: u64,
}

/// How a run ended, as the supervisor saw it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How the command ended.
    pub ended: Ended,
    /// Why runcast stopped the run, if it did.
    pub stopped_by: Option<StopReason>,
    /// The signal that runcast received and that began the stop or ended the command.
    pub received: Option<Signal>,
    /// The signal of the terminal that ended the command, which runcast then ends by too.
    pub interrupted_by: Option<Signal>,
    /// The last signal that runcast sent to stop the run, or would have sent had the command not ended just before.
    pub last_sent: Option<Signal>,
    /// Whether a stream was still held when reading stopped.
    pub leaked: bool,
    /// Processes of the run that are alive.
    pub leftover: Vec<i32>,
    /// The resource limit that ended the command.
    pub limit: Option<LimitHit>,
    /// From start to end of the command.
    pub duration: Duration,
    /// What it used.
    pub usage: Usage,
}

impl Outcome {
    /// The outcome of a run whose command never started.
    #[must_use]
    pub fn never_started() -> Self {
        Self {
            ended: Ended::NotSeen,
            stopped_by: None,
            received: None,
            interrupted_by: None,
            last_sent: None,
            leaked: false,
            leftover: Vec::new(),
            limit: None,
            duration: Duration::ZERO,
            usage: Usage::default(),
        }
    }

    /// Takes in that the run was over when this signal came and its reader took no more: what it was stopped
    /// in is its delivery.
    pub fn note_delivery(&mut self, delivery: &Delivery) {
        if let (Delivery::Cut(Some(signal)), None) = (delivery, self.stopped_by) {
            self.stopped_by = Some(StopReason::Signal);
            self.received = Some(*signal);
        }
    }

    /// Whether a timeout stopped the run.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        matches!(self.stopped_by, Some(StopReason::Timeout | StopReason::IdleTimeout))
    }

    /// Whether the command ended as it wanted to, and nothing was sent to stop the run.
    #[must_use]
    pub fn ended_by_itself(&self) -> bool {
        matches!(self.ended, Ended::Exited(_)) && self.last_sent.is_none()
    }

    /// How runcast is to end. A shell learns only by the same signal that its script was interrupted.
    #[must_use]
    pub fn exit(&self, delivery: &Delivery) -> Exit {
        let status = self.status(delivery);
        match self.interrupted_by {
            Some(signal) if status == signal.status() => Exit::Signal(signal),
            _ => Exit::Status(status),
        }
    }

    /// The exit status of runcast; the table of the manual, in its order of precedence.
    ///
    /// `delivery` says what became of the output: an error of ours outranks everything, since then nobody saw
    /// what there was to see; a time limit outranks whatever status the command then ended with.
    #[must_use]
    pub fn status(&self, delivery: &Delivery) -> u8 {
        if let Delivery::Failed(error) = delivery {
            return error.status();
        }
        if self.timed_out() {
            return STATUS_TIMED_OUT;
        }
        let is_disconnected = matches!(delivery, Delivery::Disconnected);
        if is_disconnected || self.stopped_by == Some(StopReason::Disconnect) {
            return STATUS_DISCONNECTED;
        }
        let own = match self.ended {
            Ended::Exited(code) => code,
            Ended::Signaled { signal, .. } => signal.status(),
            // Still alive though it was killed: what is known is the signal that was sent.
            Ended::NotSeen => self.last_sent.unwrap_or(Signal::KILL).status(),
        };
        if own != 0 {
            return own;
        }
        // A run that was stopped for a limit, and a result that nobody could read, are never a success.
        match (self.stopped_by, delivery) {
            (Some(StopReason::Memory | StopReason::Output), _) => {
                self.last_sent.unwrap_or(Signal::KILL).status()
            }
            (_, Delivery::Cut(signal)) => signal.or(self.received).unwrap_or(Signal::TERM).status(),
            _ => own,
        }
    }
}

/// How runcast ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(u8),
    /// By this signal; where that cannot be, with its status.
    Signal(Signal),
}

impl Exit {
    /// The exit status that stands for it.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => signal.status(),
        }
    }
}

/// What became of the output on its way to the consumer.
#[derive(Debug)]
pub enum Delivery {
    /// All of it was taken.
    Whole,
    /// The run was stopped, or this signal came when it was over, and its reader took no more in the time
    /// that it had.
    Cut(Option<Signal>),
    /// The consumer went away, and that was to stop the run.
    Disconnected,
    /// It could not be written.
    Failed(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(ended: Ended) -> Outcome {
        Outcome { ended, ..Outcome::never_started() }
    }

    #[test]
    fn the_commands_own_code_comes_through() {
        for code in 0..=255 {
            assert_eq!(ended(Ended::Exited(code)).status(&Delivery::Whole), code);
        }
    }

    #[test]
    fn a_signal_is_128_and_its_number() {
        let outcome = ended(Ended::Signaled { signal: Signal::KILL, core_dumped: false });
        assert_eq!(outcome.status(&Delivery::Whole), 137);
    }

    #[test]
    fn time_outranks_the_commands_own_code() {
        let mut outcome = ended(Ended::Exited(0));
        outcome.stopped_by = Some(StopReason::Timeout);
        assert_eq!(outcome.status(&Delivery::Whole), 124);
        assert!(outcome.timed_out());
    }

    #[test]
    fn a_run_stopped_for_a_limit_never_ends_0() {
        for reason in [StopReason::Memory, StopReason::Output] {
            let mut outcome = ended(Ended::Exited(0));
            outcome.stopped_by = Some(reason);
            outcome.last_sent = Some(Signal::TERM);
            assert_eq!(outcome.status(&Delivery::Whole), 143);
            outcome.ended = Ended::Exited(3);
            assert_eq!(outcome.status(&Delivery::Whole), 3);
        }
    }

    #[test]
    fn output_that_nobody_saw_is_never_success() {
        let outcome = ended(Ended::Exited(0));
        assert_eq!(outcome.status(&Delivery::Disconnected), 141);
        assert_eq!(outcome.status(&Delivery::Cut(None)), 143);
        let failed = Delivery::Failed(Error::Internal("x"));
        assert_eq!(outcome.status(&failed), 125);
    }

    #[test]
    fn a_signal_that_was_handled_leaves_the_commands_own_code() {
        let mut outcome = ended(Ended::Exited(0));
        outcome.stopped_by = Some(StopReason::Signal);
        outcome.received = Some(Signal::TERM);
        assert_eq!(outcome.status(&Delivery::Whole), 0);
    }
}
