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

use crate::model::json::line;
use crate::remote::connection::{Ssh, kill};
use crate::remote::wire::{Ask, MOST_PART_BYTES};

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

    /// How much of its input the run is known to have.
    pub(super) fn offset(&self) -> u64 {
        self.state().answered
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    /// The run's end of it: input at its places, as the other end takes it.
    fn take(said: &[u8], has: &mut Vec<u8>) -> bool {
        let end = said.iter().position(|&byte| byte == b'\n').expect("a line has an end") + 1;
        match serde_json::from_slice(&said[..end]).expect("it is a request") {
            Ask::Part { bytes, offset } => {
                let part = &said[end..];
                assert_eq!(part.len(), bytes);
                let known = has.len() - usize::try_from(offset).expect("it is small");
                has.extend(part.get(known..).unwrap_or_default());
                false
            }
            Ask::End { offset } => {
                assert_eq!(offset, has.len() as u64, "the end comes behind all of it");
                true
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn input_arrives_once_and_in_order_wherever_connections_break_and_answers_are_lost(
            pushes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
            steps in prop::collection::vec((any::<bool>(), any::<bool>()), 0..60),
        ) {
            let feed = Feed::new(true);
            let mut has = Vec::new();
            let (mut pushes, mut steps) = (pushes.into_iter(), steps.into_iter());
            let mut all = Vec::new();
            let mut is_over = false;
            while !is_over {
                match pushes.next() {
                    Some(bytes) => {
                        all.extend_from_slice(&bytes);
                        feed.push(&bytes);
                    }
                    None => feed.complete(),
                }
                // Where no steps are left nothing breaks.
                let (breaks, answers) = steps.next().unwrap_or((false, true));
                let mut state = feed.state();
                if state.has_something_to_say() {
                    let said = state.next();
                    is_over = take(&said, &mut has);
                }
                drop(state);
                if answers {
                    feed.answered(has.len() as u64, false);
                }
                if breaks {
                    let mut state = feed.state();
                    (state.said, state.sent, state.is_end_sent) = (0, 0, false);
                }
            }
            prop_assert_eq!(has, all);
        }
    }

    #[test]
    fn what_was_not_answered_is_asked_again_in_its_order() {
        let feed = Feed::new(true);
        let once =
            |number: u32| Ask::Receive { signal: "INT".to_owned(), once: number.to_string() };
        (0..3).for_each(|number| feed.ask(once(number)));
        let said = || {
            let mut state = feed.state();
            let mut said = Vec::new();
            while state.has_something_to_say() {
                said.extend(state.next());
            }
            said
        };
        let lines = |range: std::ops::Range<u32>| {
            range.flat_map(|number| line(&once(number))).collect::<Vec<u8>>()
        };
        assert_eq!(said(), lines(0..3));
        feed.received();
        assert_eq!(said(), b"");
        feed.state().said = 0;
        assert_eq!(said(), lines(1..3));
        feed.received();
        feed.received();
        assert!(feed.is_all_received());
    }

    #[test]
    fn input_for_a_run_that_others_sent_to_begins_where_theirs_ends() {
        let feed = Feed::new(false);
        feed.push(b"x");
        assert!(!feed.state().has_something_to_say(), "nobody knows where it belongs");
        assert!(!feed.answered(7, false));
        let said = feed.state().next();
        assert!(said.starts_with(&line(&Ask::Part { bytes: 1, offset: 7 })));
        assert!(Feed::new(false).answered(0, true), "it takes none of ours");
    }
}
