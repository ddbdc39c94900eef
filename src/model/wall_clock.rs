//! From times since the command's start to the time of day.
//!
//! The time of day is read once, at the start. So it never steps or goes back within a run, whatever is done to
//! the system's clock.

use std::io::Write;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// When the command started on the wall's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock(pub Timestamp);

impl WallClock {
    /// When it was so long after the start; the end of time where that is past it.
    #[must_use]
    pub fn at(self, since_start: Duration) -> Timestamp {
        SignedDuration::try_from(since_start)
            .ok()
            .and_then(|since_start| self.0.checked_add(since_start).ok())
            .unwrap_or(Timestamp::MAX)
    }

    /// That time in UTC with microseconds, as RFC 3339 has it.
    #[must_use]
    pub fn utc(self, since_start: Duration) -> String {
        format!("{:.6}", self.at(since_start))
    }

    /// Adds the same to these bytes.
    pub fn add_utc(self, since_start: Duration, bytes: &mut Vec<u8>) {
        write!(bytes, "{:.6}", self.at(since_start)).expect("memory takes all that is written");
    }
}
