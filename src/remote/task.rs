//! What is to be done on another machine, and shown here.

use std::fs::File;
use std::time::Duration;

use crate::model::run_id::RunId;
use crate::model::spec::{Capture, Limits};
use crate::remote::host::Host;
use crate::remote::wire::{Ask, Bytes};

/// A run on another machine that is to be shown.
#[derive(Debug)]
pub struct Task<'a> {
    /// Where.
    pub host: &'a Host,
    /// How long to try again, since the last line from there.
    pub retry: Duration,
    /// The run's name.
    pub id: &'a RunId,
    /// What starts it; `None`: it is there.
    pub start: Option<Start>,
    /// The last chunk that was seen before.
    pub after: u64,
    /// In place of that: lines of each stream that were seen.
    pub lines: Option<[u64; 2]>,
    /// What its standard input is to be.
    pub input: Input,
    /// Whether signals are passed on, and the run is deleted once its result was seen.
    pub hold: Hold,
    /// What is hidden in what is said here.
    pub capture: &'a Capture,
    /// What stops it, for messages.
    pub limits: Option<&'a Limits>,
}

/// What starts a run: words as behind `runcast`, and secrets that are masked.
#[derive(Debug, Clone)]
pub struct Start {
    /// The words.
    pub words: Vec<Bytes>,
    /// Options beside them, which another start of the same run may have not.
    pub uncounted: Vec<Bytes>,
    /// The secrets.
    pub secrets: Vec<Bytes>,
}

impl Start {
    pub(super) fn ask(&self) -> Ask {
        Ask::Start {
            words: self.words.clone(),
            uncounted: self.uncounted.clone(),
            secrets: self.secrets.clone(),
        }
    }
}

/// What is sent as the run's standard input.
#[derive(Debug)]
pub enum Input {
    /// Nothing.
    None,
    /// Our own standard input.
    Ours,
    /// A file.
    From(File),
}

/// Whether the run is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is as if it ran here, and leaves nothing there.
    Ours,
    /// It is as if it ran here, and stays there to be looked at.
    Named,
    /// It is only looked at.
    Watched,
}
