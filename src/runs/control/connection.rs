//! Somebody who speaks to a run: how far that has come.

use std::os::unix::net::UnixStream;

use nix::poll::PollFlags;

use crate::model::json::line;
use crate::runs::protocol::{Answer, MOST_LINE_BYTES};

/// Somebody who speaks to the run.
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) stage: Stage,
    /// What was read and not taken yet.
    pub(super) unread: Vec<u8>,
    /// What is to be written.
    pub(super) answer: Vec<u8>,
    pub(super) is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was said yet.
    New,
    /// The end of the connection is all that is wanted.
    Watching,
    /// Standard input is sent; of the current part so many bytes are missing, which belong at `offset`.
    Sending { missing: usize, offset: Option<u64> },
    /// All was sent; the answer comes once the pipe has everything up to here.
    Waiting { until: u64 },
    /// The answer is all that is left.
    Answered,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (unread, answer) = (Vec::new(), Vec::new());
        Self { stream, stage: Stage::New, unread, answer, is_over: false }
    }

    /// What to wait for.
    pub(super) fn wants(&self, has_room: bool) -> PollFlags {
        let mut wants = PollFlags::empty();
        let reads = match self.stage {
            Stage::New | Stage::Watching | Stage::Waiting { .. } | Stage::Answered => true,
            Stage::Sending { .. } => has_room && self.unread.len() < MOST_LINE_BYTES,
        };
        if reads {
            wants |= PollFlags::POLLIN;
        }
        if !self.answer.is_empty() {
            wants |= PollFlags::POLLOUT;
        }
        wants
    }

    pub(super) fn conclude(&mut self, answer: &Answer) {
        self.answer = line(answer);
        self.stage = Stage::Answered;
    }
}
