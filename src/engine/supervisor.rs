//! The supervisor: takes signals, notices and the time, asks the course of the run what is due, and does it.
//!
//! It writes no output and waits for nobody who does: a consumer that stalls delays no deadline.

mod receiving;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::engine::channel::{Message, Notice, Notices, ReaderState, Shared, ToPump};
use crate::engine::console::Console;
use crate::engine::processes::{Death, KilledBy, Processes};
use crate::engine::supervisor::receiving::Forwarded;
use crate::model::course::{Course, Due, Facts};
use crate::model::error::Error;
use crate::model::escalation::Action;
use crate::model::event::{Exited, Seconds, Stop, ended_fields};
use crate::model::outcome::{Ended, Outcome, StopReason, Usage};
use crate::model::signal::Signal;
use crate::model::spec::{Limits, Spec};
use crate::sys::signals::{Received, Sender, Signals};
use crate::sys::{descriptors, drainer, interrupt, terminal};

/// The longest wait in one piece; a deadline that lies further off than the system's clock goes is met in
/// several.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The supervisor of one run.
#[derive(Debug)]
pub(super) struct Supervisor {
    limits: Limits,
    signal_map: Vec<(Signal, Option<Signal>)>,
    links: Links,
    processes: Processes,
    course: Course,
    death: Option<Death>,
    streams: Vec<StreamState>,
    /// How long the run was stopped by job control; its own clock stands still meanwhile.
    paused: Duration,
    /// Signals that were received and may end the command.
    forwarded: Vec<Forwarded>,
    /// The signal of our terminal that ended the command.
    interrupted_by: Option<Signal>,
    /// The signal that began the stop or ended the command.
    received: Option<Signal>,
    /// A signal that came when the command had ended.
    hurried_by: Option<Signal>,
    is_delivered: bool,
}

/// What the supervisor hears and speaks to.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) signals: Signals,
    pub(super) notices: Notices,
    pub(super) pump: ToPump,
    pub(super) shared: Arc<Shared>,
    /// The command's pipes, in the order of the streams.
    pub(super) pipes: Vec<Arc<OwnedFd>>,
    /// Descriptors whose consumer's end stops the run.
    pub(super) watched: Vec<BorrowedFd<'static>>,
    /// The terminals of the run.
    pub(super) console: Console,
}

/// What has become of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Open,
    Ended { leaked: bool },
}

impl Supervisor {
    pub(super) fn new(spec: &Spec, processes: Processes, links: Links) -> Self {
        Self {
            limits: spec.limits.clone(),
            signal_map: spec.signal_map.clone(),
            course: Course::new(spec, links.pipes.len()),
            streams: vec![StreamState::Open; links.pipes.len()],
            processes,
            links,
            death: None,
            paused: Duration::ZERO,
            forwarded: Vec::new(),
            interrupted_by: None,
            received: None,
            hurried_by: None,
            is_delivered: false,
        }
    }

    /// Sees the run to its end, tells the pump how it ended, and stays for as long as that takes to be shown.
    ///
    /// `on_interrupt` is called, on another thread, when somebody sends us INT.
    pub(super) fn run(mut self, on_interrupt: impl FnMut() + Send + 'static) {
        if let Err(source) = self.links.signals.listen(on_interrupt) {
            self.links.pump.send(Message::Broken(Error::Spawn { step: "signals", source }));
        }
        // It may have changed before we were told of changes.
        self.follow_size();
        self.act();
        while !self.course.is_delivering() {
            self.wait();
            self.act();
        }
        let outcome = self.outcome();
        if outcome.leaked {
            self.leave_helper();
        }
        self.links.pump.send(Message::Over(Box::new(outcome)));
        while !self.is_delivered {
            self.wait();
            self.act();
        }
        // The process is about to end with its status; a signal that comes now is to change nothing of that.
        std::mem::forget(self.links.signals);
    }

    /// Time on the run's own clock.
    fn now(&self) -> Duration {
        self.links.shared.elapsed().saturating_sub(self.paused)
    }

    fn facts(&self) -> Facts {
        let shared = &self.links.shared;
        Facts {
            now: self.now(),
            idle: shared.elapsed().saturating_sub(shared.last_output()),
            is_held_back: shared.is_held_back(),
            are_gone: self.death.is_some()
                && !self.course.is_settled()
                && self.processes.are_gone(),
        }
    }

    /// Does what is due.
    fn act(&mut self) {
        while let Some(due) = self.course.due(&self.facts()) {
            self.do_due(due);
        }
        if self.links.shared.patience.is_over() && !self.is_delivered {
            self.links.shared.pump.interrupt();
        }
        for reader in self.links.shared.readers.iter().filter(|reader| reader.needs_interruption())
        {
            reader.thread.interrupt();
        }
    }

    fn do_due(&mut self, due: Due) {
        match due {
            Due::Limit(reason) => self.stop(reason),
            Due::MemorySample => {
                if self
                    .limits
                    .max_memory_bytes
                    .is_some_and(|limit| self.processes.resident_bytes() > limit)
                {
                    self.stop(StopReason::Memory);
                }
            }
            Due::Act(action) => self.carry_out(action),
            Due::Drain => self.drain(),
            Due::EndDrain => self.links.shared.readers.iter().for_each(ReaderState::end_drain),
            Due::EndPatience => self.links.shared.patience.end(self.hurried_by.or(self.received)),
        }
    }

    /// Stops the run for a limit, unless the command has ended by itself meanwhile.
    fn stop(&mut self, reason: StopReason) {
        self.reap();
        if let Some(action) = self.course.stop(reason, self.now()) {
            self.carry_out(action);
        }
    }

    /// Stops the run, since nobody takes its output any more.
    fn lose_consumer(&mut self) {
        if !self.links.watched.iter().any(|&fd| terminal::is_hung_up(fd)) {
            self.links.watched.clear();
            return self.stop(StopReason::Disconnect);
        }
        self.links.watched.clear();
        self.reap();
        if let Some(action) = self.course.hang_up(self.now()) {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Signal(signal) => {
                self.tell_stop(signal);
                self.processes.signal_all(signal);
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
        let t = Seconds(self.links.shared.elapsed());
        let reason = self.course.escalation().reason();
        self.links.pump.send(Message::Stop(Stop { t, reason, signal: signal.to_string() }));
    }

    fn kill_all(&mut self) {
        self.processes.kill_all();
        if self.processes.are_untouchable() {
            self.course.cannot_kill();
        }
        self.reap();
    }

    /// Has streams that are held only drained. One that nobody holds ends by itself, and is read to its end
    /// whatever that takes.
    fn drain(&self) {
        for index in self.held_streams() {
            self.links.shared.readers[index].drain();
        }
    }

    /// The places of the streams that are still to be read and that somebody holds.
    fn held_streams(&self) -> impl Iterator<Item = usize> {
        let is_held = |index: &usize| {
            self.streams[*index] == StreamState::Open
                && !descriptors::is_hung_up(self.links.pipes[*index].as_fd())
        };
        (0..self.streams.len()).filter(is_held)
    }

    fn outcome(&self) -> Outcome {
        let (ended, usage, limit, duration) = match self.death {
            Some(death) => (death.ended, death.usage, death.limit, self.since_start(death.at)),
            None => (Ended::NotSeen, Usage::default(), None, self.links.shared.elapsed()),
        };
        let stopped_by =
            self.course.escalation().reason().or(self.received.map(|_| StopReason::Signal));
        Outcome {
            ended,
            stopped_by,
            received: self.received.filter(|_| stopped_by == Some(StopReason::Signal)),
            interrupted_by: self.interrupted_by,
            // What would have been sent, had the command not ended before its output was seen to be too much.
            last_sent: self.course.escalation().last_sent().or_else(|| {
                (stopped_by == Some(StopReason::Output)).then_some(self.limits.stop_signal)
            }),
            leaked: self.streams.contains(&StreamState::Ended { leaked: true }),
            leftover: self.processes.alive(),
            limit,
            duration,
            usage,
        }
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.links.shared.start)
    }

    /// Leaves somebody behind who empties the pipes that are still held.
    fn leave_helper(&self) {
        let held: Vec<BorrowedFd<'_>> = self
            .streams
            .iter()
            .zip(&self.links.pipes)
            .filter(|(stream, _)| **stream == StreamState::Ended { leaked: true })
            .map(|(_, pipe)| pipe.as_fd())
            .collect();
        // Without it they may be killed by their next line of output, as under any other wrapper.
        let _ = drainer::start(&held);
    }

    /// Waits for whatever comes first, and takes in what has come.
    fn wait(&mut self) {
        let mut fds = Vec::with_capacity(3 + self.links.watched.len());
        fds.push(PollFd::new(self.links.signals.pipe(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.links.signals.stops(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.links.notices.bell(), PollFlags::POLLIN));
        fds.extend(self.links.watched.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())));
        // Interrupted by a signal is as good as woken by one: it is in the pipe. Anything else passes.
        let found = ppoll(&mut fds, Some(TimeSpec::from_duration(self.next_wait())), None);
        let is_consumer_gone = found.is_ok()
            && fds[3..].iter().any(|fd| {
                fd.revents().is_some_and(|events| {
                    events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
                })
            });
        for received in self.links.signals.pending() {
            self.receive(received);
        }
        self.receive_stop();
        let notices: Vec<Notice> = self.links.notices.pending().collect();
        for notice in notices {
            self.hear(notice);
        }
        if is_consumer_gone {
            self.lose_consumer();
        }
    }

    /// How long to wait at the most.
    fn next_wait(&self) -> Duration {
        let shared = &self.links.shared;
        let is_interrupting = (shared.patience.is_over() && !self.is_delivered)
            || shared.readers.iter().any(ReaderState::needs_interruption);
        let longest = if is_interrupting { interrupt::REPEAT } else { LONGEST_WAIT };
        let until_deadline = self.course.deadline().map(|at| at.saturating_sub(self.now()));
        until_deadline.map_or(longest, |wait| wait.min(longest))
    }

    fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Interrupted => {
                self.receive(Received { signal: Signal::INT, sender: Sender::Anybody });
            }
            Notice::StreamEnded { stream, leaked } => {
                self.streams[stream.index()] = StreamState::Ended { leaked };
                self.course.stream_ended();
            }
            Notice::OutputLimitPassed => self.stop(StopReason::Output),
            Notice::OutputLost => self.lose_consumer(),
            Notice::Broken => {
                if let Some(action) = self.course.abort(self.now()) {
                    self.carry_out(action);
                }
            }
            Notice::Signal(signal) => self.processes.deliver(signal),
            Notice::Received(signal) => {
                self.receive(Received { signal, sender: Sender::Anybody });
            }
            Notice::Stop => self.stop(StopReason::Signal),
            Notice::Delivered => self.is_delivered = true,
        }
    }

    fn reap(&mut self) {
        self.processes.reap(match self.course.escalation().last_sent() {
            Some(Signal::KILL) => KilledBy::Us,
            _ => KilledBy::Anyone,
        });
        if let Some(death) = self.processes.take_death() {
            self.command_died(death);
        }
    }

    fn command_died(&mut self, death: Death) {
        let at = self.since_start(death.at);
        self.death = Some(death);
        self.links.shared.tell_command_ended();
        self.links.console.command_ended();
        self.course.command_ended(at.saturating_sub(self.paused));
        if let Ended::Signaled { signal, .. } = death.ended
            && let Some(forwarded) = self.forwarded.iter().find(|known| known.sent == signal)
            && self.course.escalation().reason().is_none()
        {
            self.received = Some(forwarded.received);
            self.interrupted_by = Some(signal).filter(|&signal| {
                matches!(signal, Signal::INT | Signal::QUIT)
                    && self.forwarded.iter().any(|known| known.sent == signal && known.by_terminal)
            });
            self.course.hurry();
        }
        if self.held_streams().next().is_some() {
            let (exit_code, signal) = ended_fields(death.ended);
            self.links.pump.send(Message::Exited(Exited { t: Seconds(at), exit_code, signal }));
        }
    }
}
