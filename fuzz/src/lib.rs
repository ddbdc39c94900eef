//! What the targets have in common: from the bytes that the fuzzer makes to what reads give.

use std::fs::File;
use std::sync::Arc;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use runcast::sink::destination::{Destination, Outlet, Patience};

/// How long the reads are that give a stream, over and over again.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Reads([u8; 4]);

impl Reads {
    /// The stream as such reads give it. None is empty, and a length of 0 is all that is left.
    pub fn of(self, mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut lengths = self.0.into_iter().cycle();
        std::iter::from_fn(move || {
            let length = match usize::from(lengths.next()?) {
                0 => stream.len(),
                length => length.min(stream.len()),
            };
            let (read, rest) = stream.split_at(length);
            stream = rest;
            Some(read).filter(|read| !read.is_empty())
        })
    }
}

/// Whether a cut at this place would leave parts of a character on both sides.
#[must_use]
pub fn is_inside_character(text: &[u8], at: usize) -> bool {
    (at.saturating_sub(3)..at).any(|begin| {
        (at + 1..=text.len().min(begin + 4)).any(|end| {
            std::str::from_utf8(&text[begin..end]).is_ok_and(|text| text.chars().count() == 1)
        })
    })
}

/// A destination that takes all, and keeps what is little.
///
/// # Panics
///
/// Where there is no `/dev/null`.
#[must_use]
pub fn destination() -> Destination {
    destination_to(File::create("/dev/null").expect("it is there"))
}

/// A destination that is this file.
#[must_use]
pub fn destination_to(file: File) -> Destination {
    Destination::new(Outlet::Opened(file.into()), "a file", &Arc::new(Patience::default()))
}
