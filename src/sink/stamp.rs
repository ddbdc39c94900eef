//! The time of day of what was read together, written once for all its lines.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::wall_clock::WallClock;

/// A time of day, RFC 3339 in UTC with microseconds.
#[derive(Debug)]
pub(super) struct Stamp {
    clock: WallClock,
    /// What `text` says; no time until there is one.
    at: Option<Duration>,
    text: Vec<u8>,
}

impl Stamp {
    /// The time of day as it is now, until it is known when the command started.
    pub(super) fn new() -> Self {
        Self { clock: WallClock(Timestamp::now()), at: None, text: Vec::new() }
    }

    /// From here on times count from this start.
    pub(super) fn start(&mut self, clock: WallClock) {
        (self.clock, self.at) = (clock, None);
    }

    /// Makes it that of so long after the start. Returns whether it changed.
    pub(super) fn set(&mut self, at: Duration) -> bool {
        let is_new = self.at != Some(at);
        if is_new {
            self.at = Some(at);
            self.text.clear();
            self.clock.add_utc(at, &mut self.text);
        }
        is_new
    }

    /// Makes it that of so long after the start, unless it is later already.
    pub(super) fn advance(&mut self, to: Duration) -> bool {
        self.set(self.at.map_or(to, |at| at.max(to)))
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
}
