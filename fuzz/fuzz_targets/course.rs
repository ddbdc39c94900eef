//! Whatever happens to a run, and whenever, its course comes to an end: asked for what is due it soon has nothing
//! more, the next time to ask is never in the past, each limit is told once, nothing gentler follows a KILL, and
//! nothing is sent once it is over. However long a reader takes, no run that was stopped waits for it for ever.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use runcast::cli::parse::{Parsed, parse};
use runcast::cli::plan::plan;
use runcast::model::course::{Course, Due, Facts};
use runcast::model::escalation::Action;
use runcast::model::outcome::StopReason;
use runcast::model::signal::Signal;
use runcast::model::spec::{Leftover, Spec};

#[derive(Debug, Arbitrary)]
struct Run {
    timeout: Option<u16>,
    idle_timeout: Option<u16>,
    kill_after: Option<u16>,
    samples_memory: bool,
    leftover: u8,
    drain: u16,
    streams: u8,
    steps: Vec<(u16, Step)>,
}

/// What happens, so many milliseconds after what happened before.
#[derive(Debug, Arbitrary)]
enum Step {
    Nothing { idle: u16, is_held_back: bool },
    Ends,
    StreamEnds,
    TooMuch(bool),
    Term,
    HangUp,
    Fails,
    Hurry,
    CannotKill,
    AllGo,
}

static SPEC: LazyLock<Spec> = LazyLock::new(|| {
    let parsed = parse(["runcast", "--", "true"].map(Into::into));
    let Parsed::Run(args) = parsed else { panic!("it is a command to run") };
    plan(*args).expect("it can be run")
});

/// What was sent and told so far.
#[derive(Default)]
struct Log {
    is_killing: bool,
    is_over: bool,
    limits: Vec<StopReason>,
}

impl Log {
    fn note(&mut self, action: Action) {
        assert!(!self.is_over, "{action:?}");
        match action {
            Action::Signal(_) => assert!(!self.is_killing, "{action:?}"),
            Action::Kill => assert!(!std::mem::replace(&mut self.is_killing, true)),
            Action::KillAgain | Action::GiveUp => assert!(self.is_killing),
        }
        self.is_over = action == Action::GiveUp;
    }

    /// Does all that is due, as the supervisor does it.
    fn follow(&mut self, course: &mut Course, facts: &Facts) {
        for count in 0.. {
            assert!(count < 16, "there is always more");
            match course.due(facts) {
                None => break,
                Some(Due::Act(action)) => self.note(action),
                Some(Due::Limit(reason)) => {
                    assert!(!self.limits.contains(&reason), "{reason:?}");
                    self.limits.push(reason);
                    course.stop(reason, facts.now).into_iter().for_each(|action| self.note(action));
                }
                Some(Due::EndDrain) => (0..2).for_each(|_| course.stream_ended()),
                Some(Due::MemorySample | Due::Drain | Due::EndPatience) => {}
            }
        }
        assert!(course.deadline().is_none_or(|deadline| deadline > facts.now), "it is in the past");
    }
}

fuzz_target!(|run: Run| {
    let milliseconds = |number: u16| Duration::from_millis(number.into());
    let mut spec = SPEC.clone();
    spec.limits.timeout = run.timeout.filter(|&time| time > 0).map(milliseconds);
    spec.limits.idle_timeout = run.idle_timeout.filter(|&time| time > 0).map(milliseconds);
    spec.limits.kill_after = run.kill_after.map(milliseconds);
    spec.limits.max_memory_bytes = run.samples_memory.then_some(1);
    spec.leftover =
        [Leftover::Leave, Leftover::Wait, Leftover::Kill][usize::from(run.leftover % 3)];
    spec.drain = milliseconds(run.drain);
    let mut course = Course::new(&spec, usize::from(run.streams % 3));
    let mut log = Log::default();
    let mut facts =
        Facts { now: Duration::ZERO, idle: Duration::ZERO, is_held_back: false, are_gone: false };
    for (after, step) in run.steps {
        facts.now += milliseconds(after);
        let now = facts.now;
        let mut action = None;
        match step {
            Step::Nothing { idle, is_held_back } => {
                (facts.idle, facts.is_held_back) = (milliseconds(idle).min(now), is_held_back);
            }
            Step::Ends => course.command_ended(now),
            Step::StreamEnds => course.stream_ended(),
            Step::TooMuch(is_memory) => {
                let reason = if is_memory { StopReason::Memory } else { StopReason::Output };
                action = course.stop(reason, now);
            }
            Step::Term => action = course.terminate(Signal::TERM, now),
            Step::HangUp => action = course.hang_up(now),
            Step::Fails => action = course.abort(now),
            Step::Hurry => course.hurry(),
            Step::CannotKill if log.is_killing => course.cannot_kill(),
            Step::CannotKill => {}
            Step::AllGo => facts.are_gone = true,
        }
        action.into_iter().for_each(|action| log.note(action));
        log.follow(&mut course, &facts);
    }
    // Then the command ends, and all with it.
    course.command_ended(facts.now);
    facts.are_gone = true;
    for _ in 0..1000 {
        log.follow(&mut course, &facts);
        let Some(deadline) = course.deadline() else { break };
        facts.now = deadline;
    }
    (0..2).for_each(|_| course.stream_ended());
    log.follow(&mut course, &facts);
    assert!(course.is_delivering() && course.deadline().is_none());
});
