//! The standard input of a detached run: bytes that others send, each once and in order, however often they are
//! sent.
//!
//! Pure: who sends, and what takes the bytes, is for others.

use std::collections::VecDeque;

/// Bytes that are held for a command that does not read. A sender waits for room; more would only be memory.
const MOST_HELD_BYTES: usize = 1 << 20;

/// Why input is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It begins behind what there is; this is where it would have to begin.
    Gap(u64),
    /// Nothing more is taken.
    Closed,
}

/// The standard input of one run.
#[derive(Debug, Default)]
pub struct Input {
    /// Bytes accepted since the start.
    accepted: u64,
    /// The last of them, which the command's pipe does not have yet.
    held: VecDeque<u8>,
    /// Nothing follows what was accepted.
    is_complete: bool,
    /// The command reads no more.
    is_unread: bool,
}

impl Input {
    /// Bytes accepted since the start.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// How many of those the command's pipe has.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.accepted - self.held.len() as u64
    }

    /// How many more bytes there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        MOST_HELD_BYTES - self.held.len()
    }

    /// Takes bytes that belong at `offset`, else at the end; what is there already is passed over. No more than
    /// there is room for may be given.
    ///
    /// # Errors
    ///
    /// Where they are not taken.
    pub fn accept(&mut self, offset: Option<u64>, bytes: &[u8]) -> Result<(), Refused> {
        let offset = offset.unwrap_or(self.accepted);
        if offset > self.accepted {
            // Nothing could fill the gap where nothing is taken.
            let is_closed = self.is_complete || self.is_unread;
            return Err(if is_closed { Refused::Closed } else { Refused::Gap(self.accepted) });
        }
        let known = usize::try_from(self.accepted - offset).unwrap_or(usize::MAX);
        let new = bytes.get(known..).unwrap_or_default();
        if new.is_empty() {
            return Ok(());
        }
        if self.is_complete || self.is_unread {
            return Err(Refused::Closed);
        }
        self.held.extend(new);
        self.accepted += new.len() as u64;
        Ok(())
    }

    /// Nothing follows what was accepted so far.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// The next bytes for the command's pipe.
    #[must_use]
    pub fn next(&self) -> &[u8] {
        self.held.as_slices().0
    }

    /// The pipe took so many of those.
    pub fn pass(&mut self, count: usize) {
        self.held.drain(..count);
    }

    /// The command reads no more: what it does not have it will not get.
    pub fn give_up(&mut self) {
        self.accepted = self.passed();
        self.held.clear();
        self.is_unread = true;
    }

    /// Whether the pipe is to be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_unread || (self.is_complete && self.held.is_empty())
    }

    /// Whether the command reads no more.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_sent_again_cut_and_overlapping_the_command_gets_each_byte_once_and_in_order(
            sends in prop::collection::vec((0..120_usize, 0..60_usize, any::<bool>(), 0..30_usize), 0..60),
        ) {
            let all: Vec<u8> = (0..200_u8).collect();
            let (mut input, mut got) = (Input::default(), Vec::new());
            for (offset, length, appends, passed) in sends {
                let end = usize::try_from(input.accepted()).expect("small");
                if appends {
                    let bytes = &all[end.min(200)..(end + length).min(200)];
                    prop_assert_eq!(input.accept(None, bytes), Ok(()));
                } else {
                    let taken = input.accept(Some(offset as u64), &all[offset..offset + length]);
                    let expected = if offset > end { Err(Refused::Gap(end as u64)) } else { Ok(()) };
                    prop_assert_eq!(taken, expected);
                }
                let count = input.next().len().min(passed);
                got.extend_from_slice(&input.next()[..count]);
                input.pass(count);
                prop_assert_eq!(input.passed(), got.len() as u64);
            }
            while !input.next().is_empty() {
                got.extend_from_slice(input.next());
                input.pass(input.next().len());
            }
            prop_assert_eq!(input.accepted(), got.len() as u64);
            prop_assert!(all.starts_with(&got));
        }
    }

    #[test]
    fn a_closed_one_takes_again_what_it_has_and_nothing_new() {
        let mut input = Input::default();
        assert_eq!(input.accept(None, b"abc"), Ok(()));
        input.complete();
        assert!(!input.is_over(), "the pipe does not have all of it");
        assert_eq!(input.accept(Some(1), b"bc"), Ok(()));
        assert_eq!(input.accept(Some(1), b"bcd"), Err(Refused::Closed));
        input.pass(3);
        assert!(input.is_over());
    }
}
