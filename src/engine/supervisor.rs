//! The supervisor: deadlines, signals, the command's end, and the stop of everything it started.
//!
//! It alone signals and reaps, so nothing is ever signalled that was reaped. It writes no output and waits for
//! nobody who does: a consumer that stalls delays no deadline.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::engine::channel::{Message, Notice, Notices, ReaderState, Shared, ToPump};
use crate::model::error::Error;
use crate::model::escalation::{Action, Escalation, StopRequest};
use crate::model::event::{Exited, Seconds, Stop, ended_fields};
use crate::model::outcome::{Ended, LimitHit, Outcome, StopReason, Usage};
use crate::model::rlimits::{RLIM_INFINITY, Resource};
use crate::model::spec::{Leftover, Spec, TERM_KILL_AFTER};
use crate::model::units::Signal;
use crate::sys::signals::{Signals, stop_self};
use crate::sys::tree::{self, Dead, Process, Tree};
use crate::sys::{descriptors, drainer, interrupt};

/// How often the memory of all processes is added up.
const MEMORY_SAMPLE: Duration = Duration::from_millis(50);

/// The least time that the reader of a stopped run has for what is left. Too small cuts off a reader that was
/// only waiting for the processor; too big keeps a run with `--kill-after 0` waiting for one that stalls.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// How many walks over the processes one signal may take: a fork bomb may grow as fast as it is walked. What
/// is left after so many is met by the next round of KILL.
const MOST_WALKS: usize = 100;

/// How far the processor time of a dead process may be behind what it was when the limit was found passed:
/// none but for rounding. Too big takes a KILL by somebody else, just before the limit, for the limit's.
const CPU_TIME_LAG: Duration = Duration::from_millis(20);

/// What the command has come to.
#[derive(Debug, Clone, Copy)]
enum Command {
    Running,
    Dead { ended: Ended, at: Duration, usage: Usage, limit: Option<LimitHit> },
}

/// What has become of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Open,
    Ended { leaked: bool },
}

/// The supervisor of one run.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) spec: Arc<Spec>,
    pub(super) pid: i32,
    pub(super) tree: Tree,
    pub(super) signals: Signals,
    pub(super) notices: Notices,
    pub(super) pump: ToPump,
    pub(super) shared: Arc<Shared>,
    /// The command's pipes, in the order of the streams.
    pub(super) pipes: Vec<Arc<OwnedFd>>,
    /// Descriptors whose consumer's end stops the run.
    pub(super) watched: Vec<BorrowedFd<'static>>,
    pub(super) state: State,
}

/// What changes while a run goes on.
#[derive(Debug)]
pub(super) struct State {
    command: Command,
    escalation: Escalation,
    streams: Vec<StreamState>,
    /// How long the run was stopped by job control; its own clock stands still meanwhile.
    paused: Duration,
    timeout_passed: bool,
    next_idle_check: Duration,
    next_memory_sample: Duration,
    /// When waiting for streams that are still held ends, once that has begun.
    drain_until: Option<Duration>,
    drain_ended: bool,
    /// When the reader of our output has had its time, once that runs.
    patience_until: Option<Duration>,
    /// The last signal that was received and forwarded, and what was forwarded for it.
    forwarded: Option<(Signal, Signal)>,
    /// The signal that began the stop or ended the command.
    received: Option<Signal>,
    /// Processes that may not be signalled.
    untouchable: HashSet<(i32, u64)>,
    delivered: bool,
}

impl State {
    pub(super) fn new(streams: usize, spec: &Spec) -> Self {
        Self {
            command: Command::Running,
            escalation: Escalation::default(),
            streams: vec![StreamState::Open; streams],
            paused: Duration::ZERO,
            timeout_passed: false,
            next_idle_check: spec.limits.idle_timeout.unwrap_or(Duration::MAX),
            next_memory_sample: MEMORY_SAMPLE,
            drain_until: None,
            drain_ended: false,
            patience_until: None,
            forwarded: None,
            received: None,
            untouchable: HashSet::new(),
            delivered: false,
        }
    }

    fn all_streams_ended(&self) -> bool {
        self.streams.iter().all(|stream| *stream != StreamState::Open)
    }
}

impl Supervisor {
    /// Sees the run to its end, tells the pump how it ended, and stays for as long as that takes to be shown.
    ///
    /// `on_interrupt` is called, on another thread, when somebody sends us INT.
    pub(super) fn run(mut self, on_interrupt: impl FnMut() + Send + 'static) {
        if let Err(source) = self.signals.listen(on_interrupt) {
            self.pump.send(Message::Broken(Error::Spawn { step: "signals", source }));
        }
        loop {
            self.act();
            if self.is_over() {
                break;
            }
            self.wait();
        }
        let outcome = self.outcome();
        if outcome.leaked {
            self.leave_helper();
        }
        self.pump.send(Message::Over(Box::new(outcome)));
        while !self.state.delivered {
            self.act();
            self.wait();
        }
    }

    /// Time on the run's own clock.
    fn now(&self) -> Duration {
        self.shared.elapsed().saturating_sub(self.state.paused)
    }

    /// Does what is due.
    fn act(&mut self) {
        let now = self.now();
        self.act_on_limits(now);
        if let Some(action) = self.state.escalation.tick(now) {
            self.carry_out(action);
        }
        self.settle(now);
        if self.state.patience_until.is_some_and(|until| now >= until)
            && !self.shared.patience.is_over()
        {
            self.shared.patience.end(self.state.received);
        }
        if self.shared.patience.is_over() && !self.state.delivered {
            self.shared.pump.interrupt();
        }
        for reader in self.shared.readers.iter().filter(|reader| reader.needs_interruption()) {
            reader.thread.interrupt();
        }
    }

    /// Looks at the limits of the run. They hold while the command runs and while it is waited for what it
    /// left behind.
    fn act_on_limits(&mut self, now: Duration) {
        let limits = &self.spec.limits;
        if limits.timeout.is_some_and(|timeout| now >= timeout) && !self.state.timeout_passed {
            self.state.timeout_passed = true;
            if self.is_waited_for() {
                self.stop(StopReason::Timeout);
            } else if self.state.drain_until.is_some() {
                // The command ended by itself, in time; there is only no more time to wait for its streams.
                self.state.drain_until = Some(now);
            }
        }
        if let Some(idle_timeout) = self.spec.limits.idle_timeout
            && now >= self.state.next_idle_check
            && self.is_waited_for()
        {
            let idle = self.shared.elapsed().saturating_sub(self.shared.last_output());
            if self.shared.is_held_back() {
                self.state.next_idle_check = now.saturating_add(idle_timeout);
            } else if idle >= idle_timeout {
                self.state.next_idle_check = Duration::MAX;
                self.stop(StopReason::IdleTimeout);
            } else {
                self.state.next_idle_check = now.saturating_add(idle_timeout - idle);
            }
        }
        if let Some(limit) = self.spec.limits.max_memory_bytes
            && now >= self.state.next_memory_sample
            && self.is_waited_for()
        {
            self.state.next_memory_sample = now.saturating_add(MEMORY_SAMPLE);
            if self.tree.resident_bytes() > limit {
                self.request(StopRequest {
                    reason: Some(StopReason::Memory),
                    first: None,
                    grace: Duration::ZERO,
                });
            }
        }
    }

    /// Whether processes of the run are waited for, so that limits can still stop it.
    fn is_waited_for(&self) -> bool {
        match self.state.command {
            Command::Running => true,
            Command::Dead { .. } => {
                self.spec.leftover != Leftover::Leave && self.state.drain_until.is_none()
            }
        }
    }

    /// Brings the run nearer to its end once the command has ended or cannot be killed: what it left behind
    /// is left, waited for or stopped; then streams that are held all the same are drained for a while.
    fn settle(&mut self, now: Duration) {
        if self.state.escalation.is_under_way() {
            if matches!(self.state.command, Command::Dead { .. }) && self.tree.is_empty() {
                self.state.escalation.over();
            } else {
                return;
            }
        }
        let Command::Dead { at, .. } = self.state.command else {
            if self.state.escalation.last_sent() == Some(Signal::KILL) {
                // It was given up.
                self.start_patience(now);
                self.drain(now, Duration::ZERO);
            }
            return;
        };
        let ended_at = at.saturating_sub(self.state.paused);
        if self.state.escalation.last_sent().is_some() {
            self.start_patience(now);
            self.drain(now, self.spec.drain);
            return;
        }
        match self.spec.leftover {
            Leftover::Leave => self.drain(ended_at, self.spec.drain),
            Leftover::Wait if self.tree.is_empty() => self.drain(now, self.spec.drain),
            Leftover::Wait => {}
            Leftover::Kill if self.tree.is_empty() => self.drain(ended_at, self.spec.drain),
            Leftover::Kill => {
                if self.state.all_streams_ended() || now >= ended_at.saturating_add(self.spec.drain)
                {
                    self.request(StopRequest {
                        reason: None,
                        first: Some(self.spec.limits.stop_signal),
                        grace: self.spec.limits.kill_after(),
                    });
                }
            }
        }
    }

    /// Has the streams that are open read to what they hold, and then for `drain` from `begin` on.
    fn drain(&mut self, begin: Duration, drain: Duration) {
        if self.state.all_streams_ended() {
            return;
        }
        let until = *self.state.drain_until.get_or_insert(begin.saturating_add(drain));
        for (index, stream) in self.state.streams.iter().enumerate() {
            // A stream that nobody holds ends by itself, and is read to its end whatever that takes.
            if *stream == StreamState::Open && !descriptors::is_hung_up(self.pipes[index].as_fd()) {
                self.shared.readers[index].drain();
            }
        }
        if self.now() >= until && !self.state.drain_ended {
            self.state.drain_ended = true;
            for reader in &self.shared.readers {
                reader.end_drain();
            }
        }
    }

    /// From now on the reader of a stopped run's output has so long for what is left.
    fn start_patience(&mut self, now: Duration) {
        let patience = self.spec.limits.kill_after().max(LEAST_PATIENCE);
        self.state.patience_until.get_or_insert(now.saturating_add(patience));
    }

    fn is_over(&self) -> bool {
        let settled = match self.state.command {
            Command::Running => {
                !self.state.escalation.is_under_way()
                    && self.state.escalation.last_sent() == Some(Signal::KILL)
            }
            Command::Dead { .. } => {
                !self.state.escalation.is_under_way()
                    && (self.spec.leftover == Leftover::Leave
                        || self.state.escalation.last_sent().is_some()
                        || self.tree.is_empty())
            }
        };
        settled && self.state.all_streams_ended()
    }

    fn outcome(&self) -> Outcome {
        let (ended, at, usage, limit) = match self.state.command {
            Command::Running => (Ended::NotSeen, self.shared.elapsed(), Usage::default(), None),
            Command::Dead { ended, at, usage, limit } => (ended, at, usage, limit),
        };
        let mut stopped_by = self.state.escalation.reason();
        if stopped_by.is_none() && self.state.received.is_some() {
            stopped_by = Some(StopReason::Signal);
        }
        Outcome {
            ended,
            stopped_by,
            received: self.state.received.filter(|_| stopped_by == Some(StopReason::Signal)),
            last_sent: self.state.escalation.last_sent(),
            leaked: self.state.streams.contains(&StreamState::Ended { leaked: true }),
            leftover: if self.tree.is_empty() { Vec::new() } else { self.leftover() },
            limit,
            duration: at,
            usage,
        }
    }

    fn leftover(&self) -> Vec<i32> {
        let mut left: Vec<i32> = self.tree.list().iter().map(|process| process.pid).collect();
        left.sort_unstable();
        left
    }

    /// Leaves somebody behind who empties the pipes that are still held.
    fn leave_helper(&self) {
        let held = self.state.streams.iter().zip(&self.pipes);
        let held: Vec<BorrowedFd<'_>> = held
            .filter(|(stream, _)| **stream == StreamState::Ended { leaked: true })
            .map(|(_, pipe)| pipe.as_fd())
            .collect();
        // Without it they may be killed by their next line of output, as under any other wrapper.
        let _ = drainer::start(&held);
    }

    /// Waits for whatever comes first, and takes in what has come.
    fn wait(&mut self) {
        let timeout = self.next_deadline().map(|at| at.saturating_sub(self.now()));
        let mut fds = Vec::with_capacity(2 + self.watched.len());
        fds.push(PollFd::new(self.signals.pipe(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.notices.bell(), PollFlags::POLLIN));
        fds.extend(self.watched.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())));
        // Interrupted by a signal is as good as woken by one: it is in the pipe.
        let _ = ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None);
        let gone = fds[2..].iter().any(|fd| {
            fd.revents()
                .is_some_and(|events| events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP))
        });
        let received: Vec<Signal> = self.signals.pending().collect();
        let notices: Vec<Notice> = self.notices.pending().collect();
        for signal in received {
            self.receive(signal);
        }
        for notice in notices {
            self.hear(notice);
        }
        if gone {
            self.watched.clear();
            self.stop_for_lost_consumer();
        }
    }

    /// When there is something to do next, on the run's own clock.
    fn next_deadline(&self) -> Option<Duration> {
        let state = &self.state;
        let now = self.now();
        let is_waited_for = self.is_waited_for();
        let timeout = self.spec.limits.timeout.filter(|_| !state.timeout_passed);
        let idle = (is_waited_for && state.next_idle_check != Duration::MAX)
            .then_some(state.next_idle_check);
        let memory = self.spec.limits.max_memory_bytes.filter(|_| is_waited_for);
        let drain = state.drain_until.filter(|_| !state.drain_ended);
        let before_kill = match state.command {
            Command::Dead { at, .. }
                if self.spec.leftover == Leftover::Kill && state.drain_until.is_none() =>
            {
                Some(at.saturating_sub(state.paused).saturating_add(self.spec.drain))
                    .filter(|&at| at > now)
            }
            _ => None,
        };
        let patience = state.patience_until.filter(|_| !self.shared.patience.is_over());
        let interrupting = (self.shared.patience.is_over() && !state.delivered)
            || self.shared.readers.iter().any(ReaderState::needs_interruption);
        [
            timeout,
            idle,
            memory.map(|_| state.next_memory_sample),
            state.escalation.deadline(),
            drain,
            before_kill,
            patience,
            interrupting.then(|| now + interrupt::REPEAT),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Interrupted => self.receive(Signal::INT),
            Notice::StreamEnded { stream, leaked } => {
                self.state.streams[stream.index()] = StreamState::Ended { leaked };
            }
            Notice::OutputLimitPassed if self.is_waited_for() => self.stop(StopReason::Output),
            Notice::OutputLimitPassed => {}
            Notice::ConsumerLost => self.stop_for_lost_consumer(),
            Notice::Delivered => self.state.delivered = true,
        }
    }

    fn stop_for_lost_consumer(&mut self) {
        // Once the command has ended by itself there is only its output left to be lost.
        if self.is_waited_for() {
            self.stop(StopReason::Disconnect);
        }
    }

    /// Takes a signal that somebody sent us.
    fn receive(&mut self, signal: Signal) {
        if signal == Signal::CHLD {
            self.reap();
            return;
        }
        let forward_as = match self.spec.signal_map.iter().rev().find(|(from, _)| *from == signal) {
            Some((_, to)) => *to,
            None => Some(signal),
        };
        let Some(forward_as) = forward_as else { return };
        if self.is_over() {
            // Nobody is left to be told; who sent it wants us to end.
            if matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) {
                self.end_patience(signal);
            }
            return;
        }
        match signal {
            Signal::TERM if !self.state.escalation.is_under_way() => {
                self.state.received = Some(signal);
                self.request(StopRequest {
                    reason: Some(StopReason::Signal),
                    first: Some(forward_as),
                    grace: self.spec.limits.kill_after.unwrap_or(TERM_KILL_AFTER),
                });
            }
            Signal::TSTP | Signal::TTIN | Signal::TTOU => self.suspend(signal, forward_as),
            _ => {
                self.state.forwarded = Some((signal, forward_as));
                self.forward(forward_as);
            }
        }
    }

    /// Everything is over but for a reader that does not read: it has only so long now.
    fn end_patience(&mut self, signal: Signal) {
        if self.state.patience_until.is_some() {
            self.shared.patience.end(Some(signal));
        } else {
            self.start_patience(self.now());
            self.state.received.get_or_insert(signal);
        }
    }

    /// Sends a signal to the command's group.
    fn forward(&self, signal: Signal) {
        if matches!(self.state.command, Command::Running) {
            // Members that may not be signalled are the command's own doing.
            let _ = tree::signal_group(self.pid, signal);
        } else {
            for process in self.group() {
                let _ = tree::signal(&process, signal);
            }
        }
    }

    /// The living members of the command's group.
    fn group(&self) -> Vec<Process> {
        let mut members = self.tree.list();
        members.retain(|process| process.group == self.pid);
        members
    }

    /// Stops the command's group and then this process, as a shell's job is stopped.
    ///
    /// The command's group is an orphaned one, its parent being in another session, and there the kernel
    /// discards the default action of these signals. So whoever leaves it at that gets STOP instead.
    fn suspend(&mut self, signal: Signal, forward_as: Signal) {
        for process in self.group() {
            let stops = tree::has_default_action(&process, forward_as);
            let _ = tree::signal(&process, if stops { Signal::STOP } else { forward_as });
        }
        let before = self.shared.elapsed();
        stop_self(signal);
        let pause = self.shared.elapsed().saturating_sub(before);
        self.state.paused += pause;
        self.shared.shift_activity(pause);
        let received: Vec<Signal> = self.signals.pending().collect();
        if !received.contains(&Signal::CONT) {
            // The kernel did not stop us, since nobody could have continued us.
            self.forward(Signal::CONT);
        }
        for signal in received {
            self.receive(signal);
        }
    }

    /// Stops the run for a limit.
    fn stop(&mut self, reason: StopReason) {
        self.request(StopRequest {
            reason: Some(reason),
            first: Some(self.spec.limits.stop_signal),
            grace: self.spec.limits.kill_after(),
        });
    }

    fn request(&mut self, request: StopRequest) {
        if let Some(action) = self.state.escalation.request(request, self.now()) {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Signal(signal) => {
                self.tell_stop(signal);
                self.signal_all(signal);
            }
            Action::Kill => {
                self.tell_stop(Signal::KILL);
                self.kill_all();
            }
            Action::KillAgain => self.kill_all(),
            Action::GiveUp => {}
        }
    }

    fn tell_stop(&self, signal: Signal) {
        if let Some(reason) = self.state.escalation.reason() {
            let t = Seconds(self.shared.elapsed());
            let stop = Stop { t, reason: reason.as_str(), signal: signal.to_string() };
            self.pump.send(Message::Stop(stop));
        }
    }

    fn kill_all(&mut self) {
        self.signal_all(Signal::KILL);
        let left = self.tree.list();
        let all_untouchable = !left.is_empty()
            && left
                .iter()
                .all(|process| self.state.untouchable.contains(&(process.pid, process.start)));
        if all_untouchable {
            self.state.escalation.over();
        }
    }

    /// Sends a signal to every process of the run: to the group at once, to the others one by one, until two
    /// walks find nobody new. Whoever is stopped is continued, or would never learn of it.
    fn signal_all(&mut self, signal: Signal) {
        let group_told = matches!(self.state.command, Command::Running)
            && tree::signal_group(self.pid, signal).is_ok()
            && signal != Signal::KILL;
        let mut seen = HashSet::new();
        let mut quiet_walks = 0;
        for _ in 0..MOST_WALKS {
            let mut anyone_new = false;
            for process in self.tree.list() {
                if !seen.insert((process.pid, process.start)) {
                    continue;
                }
                anyone_new = true;
                if !(group_told && process.group == self.pid) {
                    self.signal_one(&process, signal);
                }
                if process.is_stopped() && signal != Signal::KILL {
                    self.signal_one(&process, Signal::CONT);
                }
            }
            quiet_walks = if anyone_new { 0 } else { quiet_walks + 1 };
            if quiet_walks == 2 {
                break;
            }
        }
    }

    fn signal_one(&mut self, process: &Process, signal: Signal) {
        if let Err(error) = tree::signal(process, signal)
            && error.raw_os_error() == Some(Errno::EPERM as i32)
        {
            self.state.untouchable.insert((process.pid, process.start));
        }
    }

    /// Reaps whoever ended: the command, and orphans that came to us.
    fn reap(&mut self) {
        while let Ok(Some(dead)) = tree::next_dead() {
            let is_command = dead.pid == self.pid && matches!(self.state.command, Command::Running);
            let limit = if is_command { self.limit_hit(&dead) } else { None };
            let at = self.shared.elapsed();
            let Ok(usage) = tree::reap(dead.pid) else { break };
            if is_command {
                self.command_ended(dead.ended, at, usage, limit);
            }
        }
    }

    fn command_ended(&mut self, ended: Ended, at: Duration, usage: Usage, limit: Option<LimitHit>) {
        self.state.command = Command::Dead { ended, at, usage, limit };
        if let (Ended::Signaled { signal, .. }, Some((received, sent))) =
            (ended, self.state.forwarded)
            && signal == sent
            && matches!(received, Signal::INT | Signal::QUIT | Signal::HUP)
            && self.state.escalation.reason().is_none()
        {
            self.state.received = Some(received);
        }
        let is_held = self.state.streams.iter().zip(&self.pipes).any(|(stream, pipe)| {
            *stream == StreamState::Open && !descriptors::is_hung_up(pipe.as_fd())
        });
        if is_held {
            let (exit_code, signal) = ended_fields(ended);
            self.pump.send(Message::Exited(Exited { t: Seconds(at), exit_code, signal }));
        }
    }

    /// The resource limit that ended the command, where that can be known. It is asked of the dead process
    /// itself, which may have changed its limits, and of its own time, not of its children's.
    fn limit_hit(&self, dead: &Dead) -> Option<LimitHit> {
        let Ended::Signaled { signal, .. } = dead.ended else { return None };
        match signal {
            Signal::XFSZ => {
                let (soft, _) = tree::limit_of(dead.pid, Resource::Fsize).ok()?;
                (soft != RLIM_INFINITY).then_some(LimitHit::FileSize)
            }
            // Each time it sends XCPU, the kernel moves the soft limit on by a second.
            Signal::XCPU => {
                let (soft, _) = tree::limit_of(dead.pid, Resource::Cpu).ok()?;
                used_up(dead, soft.saturating_sub(1)).then_some(LimitHit::Cpu)
            }
            Signal::KILL if self.state.escalation.last_sent() != Some(Signal::KILL) => {
                let (_, hard) = tree::limit_of(dead.pid, Resource::Cpu).ok()?;
                used_up(dead, hard).then_some(LimitHit::Cpu)
            }
            _ => None,
        }
    }
}

/// Whether a dead process has used that many seconds of processor time.
fn used_up(dead: &Dead, seconds: u64) -> bool {
    tree::own_cpu_time(dead.pid)
        .is_some_and(|time| time + CPU_TIME_LAG >= Duration::from_secs(seconds))
}
