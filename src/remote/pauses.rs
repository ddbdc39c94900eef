//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// The first pause before the next attempt; each is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pauses between attempts.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The next one, no longer than what is left.
    pub(super) fn next(&mut self, left: Duration) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause.min(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_are_never_longer_than_what_is_left() {
        let mut pauses = Pauses::default();
        let long = Duration::from_secs(60);
        let taken: Vec<u128> = (0..6).map(|_| pauses.next(long).as_millis()).collect();
        assert_eq!(taken, [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(pauses.next(Duration::from_millis(5)), Duration::from_millis(5));
    }
}
