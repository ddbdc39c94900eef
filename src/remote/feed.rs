//! What goes to the other end while a run is shown: signals, and standard input by its offsets. What was not
//! answered when a connection broke goes again over the next one.
//!
//! A thread of its own writes, since ssh may take nothing for as long as the network stalls.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

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
    /// The connection, but while it is being written to.
    link: Option<ChildStdin>,
    /// Which connection it is: counted, so that one that broke meanwhile is not put back.
    epoch: u64,
    /// What is said first on this connection.
    opening: Vec<u8>,
    /// Requests that were not answered, and how many of them were said on this connection.
    requests: VecDeque<Ask>,
    said: usize,
    /// Input from the first byte that was not answered on.
    input: VecDeque<u8>,
    /// Where that begins.
    answered: u64,
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
        !self.opening.is_empty()
            || self.said < self.requests.len()
            || self.sent < self.input.len()
            || (self.is_complete && !self.is_end_sent)
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
        let part: Vec<u8> =
            self.input.iter().skip(self.sent).take(MOST_PART_BYTES).copied().collect();
        if part.is_empty() {
            self.is_end_sent = true;
            return line(&Ask::End);
        }
        let offset = self.answered + self.sent as u64;
        self.sent += part.len();
        let mut said = line(&Ask::Part { bytes: part.len(), offset });
        said.extend_from_slice(&part);
        said
    }
}

impl Feed {
    /// Makes it, with the thread that writes.
    pub(super) fn new() -> std::io::Result<Self> {
        let meeting =
            Arc::new(Meeting { state: Mutex::new(State::default()), changed: Condvar::new() });
        let feed = Self(meeting);
        let writer = feed.clone();
        thread::Builder::new().name("feed".to_owned()).spawn(move || writer.write_all())?;
        Ok(feed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has told so by itself.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) {
        let mut state = self.state();
        loop {
            while state.link.is_none() || !state.has_something_to_say() {
                state = self.wait(state);
            }
            let Some(mut link) = state.link.take() else { continue };
            let (said, epoch) = (state.next(), state.epoch);
            drop(state);
            let written = link.write_all(&said).and_then(|()| link.flush());
            state = self.state();
            if written.is_ok() && state.epoch == epoch {
                state.link = Some(link);
                self.0.changed.notify_all();
            }
        }
    }

    /// There is a connection; `opening` is said first, and then whatever was not answered.
    pub(super) fn connected(&self, link: ChildStdin, opening: Vec<u8>) {
        let mut state = self.state();
        state.epoch += 1;
        state.link = Some(link);
        state.opening = opening;
        (state.said, state.sent, state.is_end_sent) = (0, 0, false);
        self.0.changed.notify_all();
    }

    /// There is none any more.
    pub(super) fn disconnected(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.link = None;
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

    /// The run has its input up to here, and takes more or not.
    pub(super) fn answered(&self, offset: u64, is_closed: bool) {
        let mut state = self.state();
        let count = usize::try_from(offset.saturating_sub(state.answered)).unwrap_or(usize::MAX);
        let count = count.min(state.input.len());
        state.input.drain(..count);
        state.answered += count as u64;
        state.sent = state.sent.saturating_sub(count);
        if is_closed {
            state.is_closed = true;
            state.input.clear();
            state.sent = 0;
        }
        self.0.changed.notify_all();
    }
}
