//! What becomes of the signals that runcast receives: they go on to the command, begin a stop of the run, or stop this
//! process as a shell's job.
//!
//! Where the command shares our terminal, it has got most of them already, and which that are is told here.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::channel::Message;
use crate::engine::console::Console;
use crate::engine::supervisor::Supervisor;
use crate::model::signal::Signal;
use crate::sys::child_setup::Session;
use crate::sys::descriptors;
use crate::sys::signals::{self, Received, Sender};

/// A signal that was received and may end the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forwarded {
    pub(super) received: Signal,
    /// What the command got for it.
    pub(super) sent: Signal,
    /// Whether the terminal sent it to the command, and not we did.
    pub(super) by_terminal: bool,
}

/// How long output that was written before a stop has to be shown. Too short, and a prompt comes only when the job
/// goes on; too long, and a stalled reader keeps the shell waiting.
const OUTPUT_PASSES: Duration = Duration::from_millis(100);

/// How often to look whether it was.
const OUTPUT_LOOK: Duration = Duration::from_millis(5);

impl Supervisor {
    /// Takes a signal that somebody sent us.
    pub(super) fn receive(&mut self, received: Received) {
        let signal = received.signal;
        if signal == Signal::CHLD {
            self.reap();
            self.stop_with_command();
            return;
        }
        if signal == Signal::WINCH && self.follow_size() {
            // Whoever is in the foreground of the command's terminal was told by that.
            return;
        }
        let mapped = self.signal_map.iter().rev().find(|(from, _)| *from == signal);
        let forward_as = mapped.map_or(Some(signal), |(_, to)| *to);
        if self.death.is_some()
            && matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT)
        {
            // The command is no more. Who sent it wants us to end too.
            self.hurried_by.get_or_insert(signal);
            self.course.hurry();
        }
        if self.is_shared() && self.has_command_got(received) {
            self.note_forwarded(Forwarded { received: signal, sent: signal, by_terminal: true });
            return;
        }
        let Some(forward_as) = forward_as else {
            self.links.signals.discard_stop(signal);
            return;
        };
        match signal {
            Signal::TERM => self.terminate(signal, forward_as),
            _ if signals::is_stop(signal) && signals::is_stop(forward_as) => {
                self.processes.suspend_group(forward_as);
                self.suspend();
            }
            _ if signals::is_stop(signal) => {
                // Something else is wanted in its place, so we do not stop either.
                self.links.signals.discard_stop(signal);
                self.forward(signal, forward_as);
            }
            _ if signals::is_stop(forward_as) => self.processes.suspend_group(forward_as),
            Signal::CONT if forward_as == Signal::CONT => self.processes.continue_group(),
            _ => self.forward(signal, forward_as),
        }
    }

    fn forward(&mut self, signal: Signal, forward_as: Signal) {
        let forwarded = Forwarded { received: signal, sent: forward_as, by_terminal: false };
        self.note_forwarded(forwarded);
        self.processes.signal_group(forward_as);
    }

    fn note_forwarded(&mut self, forwarded: Forwarded) {
        if matches!(forwarded.received, Signal::INT | Signal::QUIT | Signal::HUP)
            && !self.forwarded.contains(&forwarded)
        {
            self.forwarded.push(forwarded);
        }
    }

    /// Whether the command shares our terminal.
    fn is_shared(&self) -> bool {
        matches!(self.links.console, Console::Shared(_))
    }

    /// Whether the command, which shares our terminal, has got this signal as we have. The terminal sends its
    /// signals to all of our group, but for a hang-up, which only the leader of the session hears of.
    fn has_command_got(&self, received: Received) -> bool {
        let hears_alone = received.signal == Signal::HUP && signals::leads_session();
        received.sender == Sender::Terminal && !hears_alone
    }

    /// Takes a signal that is to stop us.
    pub(super) fn receive_stop(&mut self) {
        let Some(stop) = self.links.signals.pending_stop() else { return };
        if !self.is_shared() {
            return self.receive(Received { signal: stop, sender: Sender::Anybody });
        }
        if self.death.is_some() || self.processes.does_command_stop_by(stop) {
            // Our group has mostly got it from the terminal. Who stops by it stops once, however often it comes.
            self.processes.stop_members(stop);
            return self.suspend();
        }
        // The command handles or ignores it: whether it stops then we are told when it does.
        if let Some(received) = self.links.signals.read_stop()
            && received.sender == Sender::Anybody
        {
            self.processes.signal_group(stop);
        }
    }

    /// Stops where the command, which shares our terminal, was stopped by job control: whoever started us has to
    /// see that, as they would see it of the command. A STOP that somebody sent to the command alone is no part
    /// of that, and who sent it will continue it.
    pub(super) fn stop_with_command(&mut self) {
        if !self.is_shared() {
            return;
        }
        let Some(stop) = self.processes.command_stopped_by().filter(|&stop| signals::is_stop(stop))
        else {
            return;
        };
        self.links.signals.ask_to_stop(stop);
        if self.processes.command_stopped_by().is_none() {
            // It was continued meanwhile. If we were told too, before it waited, nothing has taken that back.
            self.links.signals.discard_stop(stop);
            return;
        }
        self.suspend();
    }

    /// Has the size of our terminal passed on. Returns whether it was another one and whoever is in the foreground
    /// of the command's terminal has been told.
    pub(super) fn follow_size(&mut self) -> bool {
        let Some(size) = self.links.console.other_size() else { return false };
        let shared = &self.links.shared;
        // Before the command knows, so that what it shows then is behind it.
        if shared.set_window_size(size) {
            self.links.pump.send(Message::Resized { at: shared.elapsed() });
        }
        self.links.console.resize(size);
        self.links.console.session() == Session::OnPty
    }

    /// Begins the stop of the run, if that has not begun.
    fn terminate(&mut self, signal: Signal, forward_as: Signal) {
        match self.course.terminate(forward_as, self.now()) {
            Some(action) => {
                self.received = Some(signal);
                self.carry_out(action);
            }
            None => {
                if self.course.adopt_signal() {
                    self.received = Some(signal);
                }
                self.forward(signal, forward_as);
            }
        }
    }

    /// Lets what the command wrote before it was stopped be shown: a prompt is to stand there before the shell says
    /// that its job is stopped. A reader that takes nothing is not waited for.
    fn let_output_pass(&self) {
        let is_empty = |pipe: &Arc<OwnedFd>| {
            descriptors::bytes_waiting(pipe.as_fd()).is_ok_and(|count| count == 0)
        };
        let begun = Instant::now();
        while begun.elapsed() < OUTPUT_PASSES && !self.links.pipes.iter().all(is_empty) {
            std::thread::sleep(OUTPUT_LOOK);
        }
        // From the reader to where it is shown.
        std::thread::sleep(OUTPUT_LOOK);
    }

    /// Stops this process, as a shell's job is stopped; the command's group is stopped already.
    fn suspend(&mut self) {
        self.let_output_pass();
        let foreground = self.links.console.suspend(self.processes.command_group());
        let before = self.links.shared.elapsed();
        self.links.signals.take_stop();
        let pause = self.links.shared.elapsed().saturating_sub(before);
        self.paused += pause;
        self.links.shared.shift_activity(pause);
        self.links.console.go_on(foreground);
        self.follow_size();
        let received = self.links.signals.pending();
        if !received.iter().any(|received| received.signal == Signal::CONT) {
            // The kernel did not stop us, since nobody could have continued us, or the CONT is yet to come.
            self.processes.continue_group();
        }
        for received in received {
            self.receive(received);
        }
    }
}
