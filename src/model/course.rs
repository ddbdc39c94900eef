//! The course of a run: which limits hold when, what becomes of what the command left behind, how long streams
//! that are still held are read, how long a reader is waited for, and when all is over.
//!
//! Like [`Escalation`], which it drives, it only decides. It is told facts and the time, on the run's own clock,
//! and says what is due; doing it is the supervisor's part.
//!
//! | phase | it is about | limits hold | ends when |
//! |---|---|---|---|
//! | running | the command | yes | it ended, or was given up |
//! | settling | what it left behind | yes, where that is waited for | that is gone, or is to be left |
//! | draining | streams that are still held | no | both were read to their end, or for long enough |
//! | delivering | the reader of our own output | no | all is delivered |

use std::time::Duration;

use crate::model::escalation::{Action, Escalation, StopRequest};
use crate::model::outcome::StopReason;
use crate::model::signal::Signal;
use crate::model::spec::{Leftover, Limits, Spec, TERM_KILL_AFTER};

/// How often the memory of all processes is added up.
const MEMORY_SAMPLE: Duration = Duration::from_millis(50);

/// The least time between two looks at the idle clock while it rests. Smaller, and a tiny `--idle-timeout`
/// keeps a processor busy; bigger, and such a one is late once the consumer reads again.
const LEAST_IDLE_CHECK: Duration = Duration::from_millis(10);

/// The least time that the reader of a stopped run has for what is left. Too small cuts off a reader that was
/// only waiting for the processor; too big keeps a run with `--kill-after 0` waiting for one that stalls.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A limit was passed: look once more whether the command has ended by itself, then call [`Course::stop`].
    Limit(StopReason),
    /// Add up the memory of all processes.
    MemorySample,
    /// Signal the processes of the run.
    Act(Action),
    /// From now on streams that are held are only to be drained.
    Drain,
    /// They were drained for long enough.
    EndDrain,
    /// The reader of our output has had its time.
    EndPatience,
}

/// What the supervisor sees when it asks what is due.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Time on the run's own clock.
    pub now: Duration,
    /// Time since either stream last produced a byte.
    pub idle: Duration,
    /// Whether a stream is not read because the consumer takes too little.
    pub is_held_back: bool,
    /// Whether no process of the run is left. Only looked at when the command has ended.
    pub are_gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Settling { ended_at: Duration },
    Draining { ended_at: Duration, until: Duration, begun: bool, ended: bool },
    Delivering,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderGrace {
    Unlimited,
    Until(Duration),
    Over,
}

/// The course of one run.
#[derive(Debug)]
pub struct Course {
    limits: Limits,
    leftover: Leftover,
    drain: Duration,
    escalation: Escalation,
    phase: Phase,
    open_streams: usize,
    is_timeout_passed: bool,
    next_idle_check: Option<Duration>,
    next_memory_sample: Option<Duration>,
    patience: ReaderGrace,
    is_in_hurry: bool,
}

impl Course {
    /// The course of a run that has just begun, with so many streams to read.
    #[must_use]
    pub fn new(spec: &Spec, streams: usize) -> Self {
        Self {
            limits: spec.limits.clone(),
            leftover: spec.leftover,
            drain: spec.drain,
            escalation: Escalation::default(),
            phase: Phase::Running,
            open_streams: streams,
            is_timeout_passed: false,
            next_idle_check: spec.limits.idle_timeout,
            next_memory_sample: spec.limits.max_memory_bytes.map(|_| MEMORY_SAMPLE),
            patience: ReaderGrace::Unlimited,
            is_in_hurry: false,
        }
    }

    /// What is due. To be asked until nothing is.
    pub fn due(&mut self, facts: &Facts) -> Option<Due> {
        let now = facts.now;
        if self.is_in_hurry
            && matches!(self.phase, Phase::Draining { ended: true, .. } | Phase::Delivering)
        {
            self.begin_patience(now);
        }
        if self.patience.is_until(now) {
            self.patience = ReaderGrace::Over;
            return Some(Due::EndPatience);
        }
        if let Some(due) = self.limit_due(facts) {
            return Some(due);
        }
        if let Some(action) = self.escalation.tick(now) {
            return Some(Due::Act(action));
        }
        match self.phase {
            Phase::Running => {
                if self.is_given_up() {
                    self.begin_patience(now);
                    self.begin_drain(now, now);
                    return self.due(facts);
                }
                None
            }
            Phase::Settling { ended_at } => self.settle(ended_at, facts),
            Phase::Draining { .. } if self.open_streams == 0 => {
                self.phase = Phase::Delivering;
                self.due(facts)
            }
            Phase::Draining { ended_at, until, begun: false, ended } => {
                self.phase = Phase::Draining { ended_at, until, begun: true, ended };
                Some(Due::Drain)
            }
            Phase::Draining { ended_at, until, begun: true, ended: false } if now >= until => {
                self.phase = Phase::Draining { ended_at, until, begun: true, ended: true };
                Some(Due::EndDrain)
            }
            Phase::Draining { .. } | Phase::Delivering => None,
        }
    }

    /// Looks at the limits. A passed one is told once.
    fn limit_due(&mut self, facts: &Facts) -> Option<Due> {
        let now = facts.now;
        let timeout =
            self.limits.timeout.filter(|_| !self.is_timeout_passed && !self.is_delivering());
        if timeout.is_some_and(|timeout| now >= timeout) {
            self.is_timeout_passed = true;
            return Some(Due::Limit(StopReason::Timeout));
        }
        if !self.is_limited() {
            return None;
        }
        if self.next_memory_sample.is_some_and(|at| now >= at) {
            self.next_memory_sample = Some(now.saturating_add(MEMORY_SAMPLE));
            return Some(Due::MemorySample);
        }
        let idle_timeout = self.limits.idle_timeout?;
        if now < self.next_idle_check? {
            return None;
        }
        if facts.is_held_back {
            self.next_idle_check = Some(now.saturating_add(idle_timeout.max(LEAST_IDLE_CHECK)));
            None
        } else if facts.idle < idle_timeout {
            self.next_idle_check = Some(now.saturating_add(idle_timeout - facts.idle));
            None
        } else {
            self.next_idle_check = None;
            Some(Due::Limit(StopReason::IdleTimeout))
        }
    }

    /// The command has ended: what it left behind is left, waited for or stopped.
    fn settle(&mut self, ended_at: Duration, facts: &Facts) -> Option<Due> {
        let now = facts.now;
        if self.escalation.is_under_way() {
            if !facts.are_gone {
                return None;
            }
            self.escalation.over();
        }
        if self.is_stopped() {
            if self.escalation.reason().is_some() {
                self.begin_patience(now);
            }
            self.begin_drain(ended_at, now.saturating_add(self.drain));
            return self.due(facts);
        }
        let drain_end = ended_at.saturating_add(self.drain);
        match self.leftover {
            Leftover::Leave => self.begin_drain(ended_at, drain_end),
            Leftover::Wait if facts.are_gone => {
                self.begin_drain(ended_at, now.saturating_add(self.drain))
            }
            Leftover::Kill if facts.are_gone => self.begin_drain(ended_at, drain_end),
            Leftover::Kill if self.open_streams == 0 || now >= drain_end => {
                let action = self.escalation.request(self.request_for(None), now);
                return action.map(Due::Act);
            }
            Leftover::Wait | Leftover::Kill => return None,
        }
        self.due(facts)
    }

    /// The command has ended.
    pub fn command_ended(&mut self, at: Duration) {
        if self.phase == Phase::Running {
            self.phase = Phase::Settling { ended_at: at };
        }
    }

    /// A stream was read to its end, or for long enough.
    pub fn stream_ended(&mut self) {
        self.open_streams = self.open_streams.saturating_sub(1);
    }

    /// A limit was passed, or the consumer was lost. That stops the run while it is the run that goes on, and
    /// not only the reading of what it has written.
    pub fn stop(&mut self, reason: StopReason, now: Duration) -> Option<Action> {
        if self.is_limited() {
            return self.escalation.request(self.request_for(Some(reason)), now);
        }
        if reason == StopReason::Output {
            // The command ended by itself before that was seen. It is the same output, whoever was quicker.
            self.escalation.note(reason);
        }
        if let (StopReason::Timeout | StopReason::Output, Phase::Draining { until, .. }) =
            (reason, &mut self.phase)
        {
            // There is no more time, or room, for its streams; of a timeout, the command ended in time.
            *until = now;
        }
        None
    }

    /// The terminal that showed the output was hung up: the consumer was lost, and the run is told of that as by
    /// the terminal itself.
    pub fn hang_up(&mut self, now: Duration) -> Option<Action> {
        let request =
            StopRequest { first: Signal::HUP, ..self.request_for(Some(StopReason::Disconnect)) };
        if self.is_limited() { self.escalation.request(request, now) } else { None }
    }

    /// A part of ours failed: the run is killed, for no reason of its own.
    pub fn abort(&mut self, now: Duration) -> Option<Action> {
        let request = StopRequest { grace: Duration::ZERO, ..self.request_for(None) };
        if self.is_limited() { self.escalation.request(request, now) } else { None }
    }

    /// Whether the run can still be stopped for a limit: not once its command has ended by itself and what it
    /// left behind is to be left.
    fn is_limited(&self) -> bool {
        match self.phase {
            Phase::Running => true,
            Phase::Settling { .. } => {
                self.leftover != Leftover::Leave || self.escalation.is_under_way()
            }
            Phase::Draining { .. } | Phase::Delivering => false,
        }
    }

    /// Somebody sent us TERM, to be passed on as `first`: the run is stopped, what was left of it included.
    /// Returns what to do, where this began the stop.
    pub fn terminate(&mut self, first: Signal, now: Duration) -> Option<Action> {
        if self.escalation.is_under_way() || self.is_delivering() {
            return None;
        }
        let request = StopRequest {
            reason: Some(StopReason::Signal),
            first,
            grace: self.limits.kill_after.unwrap_or(TERM_KILL_AFTER),
        };
        let action = self.escalation.request(request, now)?;
        if let Phase::Draining { ended_at, .. } = self.phase {
            self.phase = Phase::Settling { ended_at };
        }
        Some(action)
    }

    /// Somebody sent us TERM while what the command left behind is being stopped: from now on that is the
    /// reason. Returns whether it was so.
    pub fn adopt_signal(&mut self) -> bool {
        self.escalation.adopt(StopReason::Signal)
    }

    /// Somebody wanted the run to end, and its command has: once there is nothing but a reader to wait for, it
    /// has only so long.
    pub fn hurry(&mut self) {
        self.is_in_hurry = true;
    }

    /// Those that are left may not be signalled, any of them.
    pub fn cannot_kill(&mut self) {
        self.escalation.over();
    }

    /// Whether all that is left to do is to deliver.
    #[must_use]
    pub fn is_delivering(&self) -> bool {
        self.phase == Phase::Delivering
    }

    /// Whether the command has ended or was given up, and with it everything that has to be waited for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. } | Phase::Delivering)
    }

    /// The stop of the run.
    #[must_use]
    pub fn escalation(&self) -> &Escalation {
        &self.escalation
    }

    /// When there is something due next. After [`Course::due`] had nothing more, it is never in the past.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let patience = match self.patience {
            ReaderGrace::Until(until) => Some(until),
            ReaderGrace::Unlimited | ReaderGrace::Over => None,
        };
        let is_limited = self.is_limited();
        let timeout =
            self.limits.timeout.filter(|_| !self.is_timeout_passed && !self.is_delivering());
        let of_phase = match self.phase {
            Phase::Settling { ended_at }
                if self.leftover == Leftover::Kill
                    && !self.is_stopped()
                    && !self.escalation.is_under_way() =>
            {
                Some(ended_at.saturating_add(self.drain))
            }
            Phase::Draining { until, ended: false, .. } => Some(until),
            _ => None,
        };
        [
            patience,
            timeout,
            self.next_idle_check.filter(|_| is_limited),
            self.next_memory_sample.filter(|_| is_limited),
            self.escalation.deadline(),
            of_phase,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn request_for(&self, reason: Option<StopReason>) -> StopRequest {
        let kill_at_once = reason == Some(StopReason::Memory);
        StopRequest {
            reason,
            first: self.limits.stop_signal,
            grace: if kill_at_once { Duration::ZERO } else { self.limits.kill_after() },
        }
    }

    fn begin_drain(&mut self, ended_at: Duration, until: Duration) {
        self.phase = Phase::Draining { ended_at, until, begun: false, ended: false };
    }

    fn begin_patience(&mut self, now: Duration) {
        if self.patience == ReaderGrace::Unlimited {
            let patience = self.limits.kill_after().max(LEAST_PATIENCE);
            self.patience = ReaderGrace::Until(now.saturating_add(patience));
        }
    }

    /// Whether a stop was begun and is over.
    fn is_stopped(&self) -> bool {
        self.escalation.last_sent().is_some() && !self.escalation.is_under_way()
    }

    /// Whether the command was killed in vain.
    fn is_given_up(&self) -> bool {
        self.is_stopped() && self.escalation.last_sent() == Some(Signal::KILL)
    }
}

impl ReaderGrace {
    /// Whether it ends now.
    fn is_until(self, now: Duration) -> bool {
        matches!(self, Self::Until(until) if now >= until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

    use super::*;
    use crate::model::spec::{Call, Capture, Pty, Stdin, Streams};

    const SECOND: Duration = Duration::from_secs(1);

    fn spec(leftover: Leftover) -> Spec {
        Spec {
            argv: vec!["true".into()],
            call: Call {
                backend: "exec",
                callable: false,
                input: None,
                module: None,
                max_result_bytes: None,
            },
            directory: None,
            environment: None,
            stdin: Stdin::Inherit,
            streams: Streams::Separate,
            pty: Pty::No,
            pty_size: None,
            umask: None,
            nice: None,
            no_new_privs: false,
            rlimits: Vec::new(),
            limits: Limits {
                timeout: None,
                idle_timeout: None,
                stop_signal: Signal::TERM,
                kill_after: None,
                max_memory_bytes: None,
                output_limit_bytes: None,
            },
            capture: Capture::default(),
            drain: Duration::from_millis(250),
            leftover,
            signal_map: Vec::new(),
        }
    }

    fn facts(now: Duration, are_gone: bool) -> Facts {
        Facts { now, idle: Duration::ZERO, is_held_back: false, are_gone }
    }

    fn all_due(course: &mut Course, facts: &Facts) -> Vec<Due> {
        std::iter::from_fn(|| course.due(facts)).collect()
    }

    #[test]
    fn a_run_that_ends_with_its_streams_is_over_at_once() {
        let mut course = Course::new(&spec(Leftover::Leave), 2);
        course.stream_ended();
        course.stream_ended();
        course.command_ended(SECOND);
        assert_eq!(all_due(&mut course, &facts(SECOND, false)), []);
        assert!(course.is_delivering());
    }

    #[test]
    fn held_streams_are_drained_and_then_left() {
        let mut course = Course::new(&spec(Leftover::Leave), 1);
        course.command_ended(SECOND);
        assert_eq!(all_due(&mut course, &facts(SECOND, false)), [Due::Drain]);
        let end = SECOND + Duration::from_millis(250);
        assert_eq!(course.deadline(), Some(end));
        assert_eq!(all_due(&mut course, &facts(end, false)), [Due::EndDrain]);
        assert_eq!(course.deadline(), None);
    }

    #[test]
    fn no_limit_stops_a_run_that_only_has_to_be_delivered() {
        for leftover in [Leftover::Leave, Leftover::Kill, Leftover::Wait] {
            let mut spec = spec(leftover);
            spec.limits.timeout = Some(2 * SECOND);
            spec.limits.idle_timeout = Some(2 * SECOND);
            spec.limits.max_memory_bytes = Some(1);
            let mut course = Course::new(&spec, 0);
            course.command_ended(SECOND);
            all_due(&mut course, &facts(SECOND, true));
            assert!(course.is_delivering());
            assert_eq!(course.deadline(), None);
            let later = Facts { idle: 9 * SECOND, ..facts(9 * SECOND, true) };
            assert_eq!(all_due(&mut course, &later), []);
            assert_eq!(course.stop(StopReason::Timeout, 9 * SECOND), None);
        }
    }

    #[test]
    fn a_timeout_ends_the_wait_for_held_streams_but_stops_nothing() {
        let mut spec = spec(Leftover::Leave);
        (spec.limits.timeout, spec.drain) = (Some(2 * SECOND), 60 * SECOND);
        let mut course = Course::new(&spec, 1);
        course.command_ended(SECOND);
        assert_eq!(all_due(&mut course, &facts(SECOND, false)), [Due::Drain]);
        let now = 2 * SECOND;
        assert_eq!(course.due(&facts(now, false)), Some(Due::Limit(StopReason::Timeout)));
        assert_eq!(course.stop(StopReason::Timeout, now), None);
        assert_eq!(all_due(&mut course, &facts(now, false)), [Due::EndDrain]);
        assert_eq!(course.escalation().reason(), None);
    }

    #[test]
    fn what_is_left_is_stopped_or_waited_for_as_asked() {
        let mut course = Course::new(&spec(Leftover::Kill), 0);
        course.command_ended(SECOND);
        let due = all_due(&mut course, &facts(SECOND, false));
        assert_eq!(due, [Due::Act(Action::Signal(Signal::TERM))]);
        assert_eq!(course.escalation().reason(), None);

        let mut course = Course::new(&spec(Leftover::Wait), 0);
        course.command_ended(SECOND);
        assert_eq!(all_due(&mut course, &facts(9 * SECOND, false)), []);
        assert!(!course.is_settled());
        all_due(&mut course, &facts(10 * SECOND, true));
        assert!(course.is_delivering());
    }

    #[test]
    fn term_stops_also_what_is_only_being_drained() {
        let mut course = Course::new(&spec(Leftover::Leave), 1);
        course.command_ended(SECOND);
        all_due(&mut course, &facts(SECOND, false));
        let action = course.terminate(Signal::TERM, SECOND);
        assert_eq!(action, Some(Action::Signal(Signal::TERM)));
        assert!(!course.is_settled());
        assert_eq!(course.terminate(Signal::TERM, SECOND), None);
    }

    #[derive(Debug, Clone)]
    enum Input {
        CommandEnds,
        StreamEnds,
        AllGone,
        Stop(StopReason),
        Terminate,
        Hurry,
        CannotKill,
        Nothing,
    }

    fn input() -> impl Strategy<Value = (Input, u64)> {
        let reason = prop_oneof![
            Just(StopReason::Output),
            Just(StopReason::Disconnect),
            Just(StopReason::Memory)
        ];
        let what = prop_oneof![
            1 => Just(Input::CommandEnds),
            1 => Just(Input::StreamEnds),
            1 => Just(Input::AllGone),
            1 => reason.prop_map(Input::Stop),
            1 => Just(Input::Terminate),
            1 => Just(Input::Hurry),
            1 => Just(Input::CannotKill),
            4 => Just(Input::Nothing),
        ];
        (what, 0..3000_u64)
    }

    proptest! {
        #[test]
        fn no_deadline_is_ever_in_the_past_and_every_run_comes_to_its_end(
            inputs in proptest::collection::vec(input(), 0..30),
            leftover in prop_oneof![Just(Leftover::Leave), Just(Leftover::Kill), Just(Leftover::Wait)],
            timeout in proptest::option::of(0..5000_u64),
            idle_timeout in proptest::option::of(0..5000_u64),
            with_memory in any::<bool>(),
            kill_after in proptest::option::of(0..3000_u64),
        ) {
            let mut spec = spec(leftover);
            spec.limits.timeout = timeout.map(Duration::from_millis);
            spec.limits.idle_timeout = idle_timeout.map(Duration::from_millis);
            spec.limits.kill_after = kill_after.map(Duration::from_millis);
            spec.limits.max_memory_bytes = with_memory.then_some(1);
            let mut course = Course::new(&spec, 2);
            let (mut now, mut open, mut dead, mut gone) = (Duration::ZERO, 2, false, false);
            let (mut is_hurried, mut is_patience_over) = (false, false);
            // At last everything ends that can end.
            let end = [Input::CommandEnds, Input::AllGone, Input::StreamEnds, Input::StreamEnds, Input::Nothing];
            for (what, wait) in inputs.into_iter().chain(end.map(|what| (what, 0))) {
                now += Duration::from_millis(wait);
                match what {
                    Input::CommandEnds if !dead => {
                        dead = true;
                        course.command_ended(now);
                    }
                    Input::StreamEnds if open > 0 => {
                        open -= 1;
                        course.stream_ended();
                    }
                    Input::AllGone => gone = dead,
                    Input::Stop(reason) => drop(course.stop(reason, now)),
                    Input::Terminate => drop(course.terminate(Signal::TERM, now)),
                    Input::Hurry => {
                        is_hurried = true;
                        course.hurry();
                    }
                    Input::CannotKill if course.escalation().is_under_way() => course.cannot_kill(),
                    _ => {}
                }
                let facts = Facts { now, idle: now, is_held_back: false, are_gone: gone };
                let mut rounds = 0;
                while let Some(due) = course.due(&facts) {
                    match due {
                        Due::Limit(reason) => drop(course.stop(reason, now)),
                        Due::EndPatience => is_patience_over = true,
                        _ => {}
                    }
                    rounds += 1;
                    prop_assert!(rounds < 20, "always something due: {due:?}");
                }
                if let Some(deadline) = course.deadline() {
                    prop_assert!(deadline > now, "{deadline:?} at {now:?}: {course:?}");
                }
            }
            prop_assert!(course.is_delivering(), "{course:?}");
            let is_waiting = course.deadline().is_none() && !is_patience_over;
            prop_assert!(!(is_hurried && is_waiting), "waits for ever for a reader: {course:?}");
        }
    }
}
