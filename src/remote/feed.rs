//! What goes to the other end while a run is shown: signals, and standard input by its offsets. What was not
//! answered when a connection broke goes again over the next one.
//!
//! A thread of its own writes over each connection, since ssh may take nothing for as long as the network stalls:
//! one that is stuck in a connection that was given up holds up none of the next.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::remote::connection::{Ssh, kill};
use crate::remote::wire::{Ask, MOST_PART_BYTES, line};

/// Input that is on its way and not answered. More only takes memory; less, and a far machine gets it slower.
const WINDOW_BYTES: usize = 1 << 20;

/// The way to the other end, over whatever connection there is.
#[derive(Debug, Clone)]
pub(super) struct Feed(Arc<Meeting>);

#[derive(Debug)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Which connection there is, or was: counted, so that who writes into an old one sees that.
    epoch: u64,
    /// The other end was heard of over the connection that there is.
    is_connected: bool,
    /// The ssh of the connection that there is.
    ssh: Option<Ssh>,
    /// What is said first on this connection.
    opening: Vec<u8>,
    /// Requests that were not answered, and how many of them were said on this connection.
    requests: VecDeque<Ask>,
    said: usize,
    /// Input from the first byte that was not answered on.
    input: VecDeque<u8>,
    /// Where that begins; only guessed until the run has said where its input is, for one that we did not start.
    answered: u64,
    is_placed: bool,
    /// How much of it was said on this connection.
    sent: usize,
    /// Nothing follows it.
    is_complete: bool,
    is_end_sent: bool,
    /// The run takes no more.
    is_closed: bool,
}

impl State {
    fn has_something_to_say(&self) -> bool {
        let has_input = self.sent < self.input.len()
            || (self.is_complete && !self.is_end_sent && !self.is_closed);
        !self.opening.is_empty() || self.said < self.requests.len() || (self.is_placed && has_input)
    }

    /// The next thing to be said.
    fn next(&mut self) -> Vec<u8> {
        if !self.opening.is_empty() {
            return std::mem::take(&mut self.opening);
        }
        if let Some(request) = self.requests.get(self.said) {
            self.said += 1;
            return line(request);
        }
        let end = self.input.len().min(self.sent + MOST_PART_BYTES);
        let part: Vec<u8> = self.input.range(self.sent..end).copied().collect();
        let offset = self.answered.saturating_add(self.sent as u64);
        if part.is_empty() {
            self.is_end_sent = true;
            return line(&Ask::End { offset });
        }
        self.sent += part.len();
        let mut said = line(&Ask::Part { bytes: part.len(), offset });
        said.extend_from_slice(&part);
        said
    }
}

impl Feed {
    /// One without a connection. `is_placed`: input begins where that of the run does.
    pub(super) fn new(is_placed: bool) -> Self {
        let state = Mutex::new(State { is_placed, ..State::default() });
        Self(Arc::new(Meeting { state, changed: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has told so by itself.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Says over one connection whatever is to be said, as long as it is the one that there is.
    fn write_all(&self, mut link: ChildStdin, epoch: u64) {
        loop {
            let mut state = self.state();
            while state.epoch == epoch && !state.has_something_to_say() {
                state = self.wait(state);
            }
            if state.epoch != epoch {
                return;
            }
            let said = state.next();
            drop(state);
            if link.write_all(&said).and_then(|()| link.flush()).is_err() {
                // Whoever reads from the connection sees its end.
                return;
            }
        }
    }

    /// There is a connection through this ssh, which has to be ended with the process.
    pub(super) fn reached_by(&self, ssh: Ssh) {
        self.state().ssh = Some(ssh);
    }

    /// The other end was heard of; `opening` is said first, and then whatever was not answered.
    pub(super) fn connected(&self, link: ChildStdin, opening: Vec<u8>) -> std::io::Result<()> {
        let mut state = self.state();
        state.epoch += 1;
        let epoch = state.epoch;
        state.opening = opening;
        state.is_connected = true;
        (state.said, state.sent, state.is_end_sent) = (0, 0, false);
        self.0.changed.notify_all();
        drop(state);
        let writer = self.clone();
        let made = thread::Builder::new().name("feed".to_owned());
        made.spawn(move || writer.write_all(link, epoch)).map(drop)
    }

    /// There is no connection any more.
    pub(super) fn disconnected(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.ssh = None;
        state.is_connected = false;
        self.0.changed.notify_all();
    }

    /// Whether the other end is there to be spoken to.
    pub(super) fn is_connected(&self) -> bool {
        self.state().is_connected
    }

    /// Waits until the other end is there to be spoken to.
    pub(super) fn wait_for_connection(&self) {
        let mut state = self.state();
        while !state.is_connected {
            state = self.wait(state);
        }
    }

    /// Ends the connection that there is, at once.
    pub(super) fn kill(&self) {
        if let Some(ssh) = self.state().ssh.take() {
            kill(&ssh);
        }
    }

    /// Has something asked that is answered with `received`.
    pub(super) fn ask(&self, request: Ask) {
        self.state().requests.push_back(request);
        self.0.changed.notify_all();
    }

    /// One of those was answered.
    pub(super) fn received(&self) {
        let mut state = self.state();
        state.requests.pop_front();
        state.said = state.said.saturating_sub(1);
        self.0.changed.notify_all();
    }

    /// Whether all of those were answered.
    pub(super) fn is_all_received(&self) -> bool {
        self.state().requests.is_empty()
    }

    /// Takes input, once there is room for it. `false`: none is wanted any more.
    pub(super) fn push(&self, bytes: &[u8]) -> bool {
        let mut state = self.state();
        while state.input.len() >= WINDOW_BYTES && !state.is_closed {
            state = self.wait(state);
        }
        state.input.extend(bytes);
        self.0.changed.notify_all();
        !state.is_closed
    }

    /// Nothing follows what was pushed.
    pub(super) fn complete(&self) {
        self.state().is_complete = true;
        self.0.changed.notify_all();
    }

    /// The run has its input up to here, and takes more or not. Returns whether it never took any of ours.
    pub(super) fn answered(&self, offset: u64, is_closed: bool) -> bool {
        let mut state = self.state();
        let is_first = !std::mem::replace(&mut state.is_placed, true);
        if is_first {
            state.answered = offset;
        }
        let count = usize::try_from(offset.saturating_sub(state.answered)).unwrap_or(usize::MAX);
        let count = count.min(state.input.len());
        state.input.drain(..count);
        state.answered = state.answered.saturating_add(count as u64);
        state.sent = state.sent.saturating_sub(count);
        if is_closed {
            state.is_closed = true;
            state.input.clear();
            state.sent = 0;
        }
        self.0.changed.notify_all();
        is_first && is_closed
    }
}
