//! The stop state machine: what is asked of a run and the time, to the signals to send and the next deadline.
//!
//! It decides and does nothing else: it sends no signal, reads no clock, knows no process. Times are points
//! on the run's own clock, which stands still while the run is stopped by job control.
//!
//! | state | a stop is asked for | urgent stop | time is up | nobody is left |
//! |---|---|---|---|---|
//! | running | first signal, or KILL without a grace | KILL | | over |
//! | stopping | nothing | KILL | KILL | over |
//! | killing | nothing | nothing | KILL again, at last give up | over |
//! | over | nothing | nothing | nothing | |

use std::time::Duration;

use crate::model::outcome::StopReason;
use crate::model::signal::Signal;

/// How long after KILL it is sent again to whoever is alive then: a process that was being forked meanwhile.
/// Too small costs processor time while a large process is torn down; too big delays the end of the run.
pub const KILL_AGAIN: Duration = Duration::from_millis(20);

/// How long after KILL a process counts as one that cannot be killed. Too small names processes that are
/// only large or slow to go; too big keeps the run waiting for one that hangs in the kernel.
const GIVE_UP: Duration = Duration::from_secs(5);

/// A wish to stop the run.
#[derive(Debug, Clone, Copy)]
pub struct StopRequest {
    /// Why; `None` where the command ended by itself and only what it left behind is stopped.
    pub reason: Option<StopReason>,
    /// What is sent first.
    pub first: Signal,
    /// How long after it KILL follows; zero is KILL at once.
    pub grace: Duration,
}

/// What is to be done now, to every process of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send this signal, and CONT to those that are stopped.
    Signal(Signal),
    /// Send KILL.
    Kill,
    /// Send KILL to those that are there still.
    KillAgain,
    /// They cannot be killed: end without them.
    GiveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Stopping { kill_at: Duration },
    Killing { again_at: Duration, give_up_at: Duration },
    Over,
}

/// The state of the stop of one run.
#[derive(Debug)]
pub struct Escalation {
    state: State,
    reason: Option<StopReason>,
    last_sent: Option<Signal>,
}

impl Default for Escalation {
    fn default() -> Self {
        Self { state: State::Running, reason: None, last_sent: None }
    }
}

impl Escalation {
    /// Takes a wish to stop at `now`. The first one wins: a later one changes neither reason nor deadline.
    pub fn request(&mut self, request: StopRequest, now: Duration) -> Option<Action> {
        match self.state {
            State::Running => {
                self.reason = request.reason;
                if request.grace.is_zero() {
                    return Some(self.kill(now));
                }
                self.state = State::Stopping { kill_at: now.saturating_add(request.grace) };
                self.last_sent = Some(request.first);
                Some(Action::Signal(request.first))
            }
            State::Stopping { .. } if request.grace.is_zero() => Some(self.kill(now)),
            _ => None,
        }
    }

    /// Takes the time: what is due at `now`.
    pub fn tick(&mut self, now: Duration) -> Option<Action> {
        match self.state {
            State::Stopping { kill_at } if now >= kill_at => Some(self.kill(now)),
            State::Killing { give_up_at, .. } if now >= give_up_at => {
                self.state = State::Over;
                Some(Action::GiveUp)
            }
            State::Killing { again_at, give_up_at } if now >= again_at => {
                let again_at = now.saturating_add(KILL_AGAIN);
                self.state = State::Killing { again_at, give_up_at };
                Some(Action::KillAgain)
            }
            _ => None,
        }
    }

    /// Takes note that a limit was passed of a run that needs no stop any more: that is the reason, if there is none.
    pub fn note(&mut self, reason: StopReason) {
        self.reason.get_or_insert(reason);
    }

    /// Gives a stop that goes on without a reason this one. Returns whether there is such a stop.
    pub fn adopt(&mut self, reason: StopReason) -> bool {
        let adopts = self.is_under_way() && self.reason.is_none();
        if adopts {
            self.reason = Some(reason);
        }
        adopts
    }

    /// Nobody is left to be signalled, or nobody that can be: from here on nothing is ever sent.
    pub fn over(&mut self) {
        self.state = State::Over;
    }

    /// When [`Escalation::tick`] has something to say next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Stopping { kill_at } => Some(kill_at),
            State::Killing { again_at, give_up_at } => Some(again_at.min(give_up_at)),
            State::Running | State::Over => None,
        }
    }

    /// Whether a stop has begun and is not over.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Stopping { .. } | State::Killing { .. })
    }

    /// Why the run was stopped, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// The last signal sent to stop the run.
    #[must_use]
    pub fn last_sent(&self) -> Option<Signal> {
        self.last_sent
    }

    fn kill(&mut self, now: Duration) -> Action {
        self.state = State::Killing {
            again_at: now.saturating_add(KILL_AGAIN),
            give_up_at: now.saturating_add(GIVE_UP),
        };
        self.last_sent = Some(Signal::KILL);
        Action::Kill
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeout(grace: Duration) -> StopRequest {
        StopRequest { reason: Some(StopReason::Timeout), first: Signal::TERM, grace }
    }

    #[test]
    fn kill_follows_the_first_signal_after_the_grace() {
        let mut escalation = Escalation::default();
        assert_eq!(escalation.request(timeout(SECOND), SECOND), Some(Action::Signal(Signal::TERM)));
        assert_eq!(escalation.deadline(), Some(2 * SECOND));
        assert_eq!(escalation.tick(SECOND * 3 / 2), None);
        assert_eq!(escalation.tick(2 * SECOND), Some(Action::Kill));
        assert_eq!(escalation.last_sent(), Some(Signal::KILL));
    }

    #[test]
    fn no_grace_is_kill_at_once() {
        let mut escalation = Escalation::default();
        assert_eq!(escalation.request(timeout(Duration::ZERO), SECOND), Some(Action::Kill));
    }

    #[test]
    fn the_first_reason_and_deadline_stay() {
        let mut escalation = Escalation::default();
        escalation.request(timeout(SECOND), SECOND);
        let later = StopRequest { reason: Some(StopReason::Signal), ..timeout(9 * SECOND) };
        assert_eq!(escalation.request(later, SECOND), None);
        assert_eq!(escalation.reason(), Some(StopReason::Timeout));
        assert_eq!(escalation.deadline(), Some(2 * SECOND));
    }

    #[test]
    fn an_urgent_wish_does_not_wait_for_the_grace() {
        let mut escalation = Escalation::default();
        escalation.request(timeout(SECOND), SECOND);
        let memory = StopRequest { reason: Some(StopReason::Memory), ..timeout(Duration::ZERO) };
        assert_eq!(escalation.request(memory, SECOND), Some(Action::Kill));
        assert_eq!(escalation.reason(), Some(StopReason::Timeout));
    }

    #[test]
    fn what_cannot_be_killed_is_given_up() {
        let mut escalation = Escalation::default();
        escalation.request(timeout(Duration::ZERO), SECOND);
        assert_eq!(escalation.tick(SECOND + KILL_AGAIN), Some(Action::KillAgain));
        assert_eq!(escalation.tick(SECOND + GIVE_UP), Some(Action::GiveUp));
        assert_eq!(escalation.tick(SECOND * 100), None);
        assert!(!escalation.is_under_way());
    }

    #[derive(Debug, Clone)]
    enum Input {
        Request(u64),
        Tick,
        Over,
    }

    fn input() -> impl Strategy<Value = (Input, u64)> {
        let what = prop_oneof![
            4 => (0_u64..3000).prop_map(Input::Request),
            8 => Just(Input::Tick),
            1 => Just(Input::Over),
        ];
        (what, 0_u64..2000)
    }

    proptest! {
        #[test]
        fn nothing_is_sent_after_the_end_and_signals_only_grow_harder(
            inputs in proptest::collection::vec(input(), 1..40)
        ) {
            let mut escalation = Escalation::default();
            let (mut now, mut over, mut killed) = (Duration::ZERO, false, false);
            for (what, wait) in inputs {
                now += Duration::from_millis(wait);
                let action = match what {
                    Input::Request(grace) => escalation.request(timeout(Duration::from_millis(grace)), now),
                    Input::Tick => escalation.tick(now),
                    Input::Over => {
                        escalation.over();
                        over = true;
                        None
                    }
                };
                prop_assert!(!over || action.is_none());
                match action {
                    Some(Action::Signal(_)) => prop_assert!(!killed),
                    Some(Action::Kill) => {
                        prop_assert!(!killed);
                        killed = true;
                    }
                    Some(Action::KillAgain) => prop_assert!(killed),
                    Some(Action::GiveUp) => over = true,
                    None => {}
                }
                if let Some(deadline) = escalation.deadline() {
                    // A deadline that has passed is always acted upon: the supervisor never spins.
                    let at = deadline.max(now);
                    prop_assert!(escalation.is_under_way());
                    now = at;
                    let action = escalation.tick(at);
                    prop_assert!(action.is_some());
                    match action {
                        Some(Action::Kill) => killed = true,
                        Some(Action::GiveUp) => over = true,
                        _ => {}
                    }
                }
            }
        }
    }
}
