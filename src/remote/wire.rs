//! What is said over a connection: lines of JSON in both directions, and the events of the run as they are.
//!
//! The other end's first line is [`MAGIC`]; whatever a login shell prints before it is passed over. Requests and
//! answers only grow: what an end does not know it refuses, or passes over.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::sys::whole::MOST_BYTES;

/// What the first line of the other end begins with, whatever its version.
pub const GREETING: &str = "runcast-remote-end";

/// That line, with the version of what follows.
pub const MAGIC: &str = "runcast-remote-end 1";

/// The one word that makes runcast the other end.
pub const REMOTE_END: &str = "--remote-end";

/// How long nothing may come before the connection counts as broken. Less, and a network that stalls for a moment
/// breaks it; more, and one that is gone is noticed later.
const SILENCE: Duration = Duration::from_secs(12);

/// How often the other end says that it is there, in that time.
const SIGNS_OF_LIFE: u32 = 6;

/// How long nothing may come before the connection counts as broken.
#[must_use]
pub fn silence() -> Duration {
    asked("RUNCAST_TEST_SILENCE_MS").map_or(SILENCE, Duration::from_millis)
}

/// The longest line that is taken for one.
#[must_use]
pub fn most_line_bytes() -> u64 {
    asked("RUNCAST_TEST_LINE_BYTES").unwrap_or(MOST_BYTES)
}

/// What a test asks for, which cannot wait for so long or for so much in each of many cases. No program that is
/// installed looks at this.
fn asked(variable: &str) -> Option<u64> {
    let asked = cfg!(debug_assertions).then(|| std::env::var(variable).ok());
    asked.flatten().and_then(|number| number.parse().ok())
}

/// How often the other end says that it is there while it has nothing to say.
#[must_use]
pub fn alive_every() -> Duration {
    silence() / SIGNS_OF_LIFE
}

/// The largest part of standard input.
pub const MOST_PART_BYTES: usize = 64 * 1024;

/// Bytes as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// As a word of a command line.
    #[must_use]
    pub fn into_word(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A line to the other end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// To start a detached run as these words would behind `runcast`, with these secrets masked.
    Start {
        /// The words.
        words: Vec<Bytes>,
        /// Options that it has beside those, and that another start of the same run may have not.
        uncounted: Vec<Bytes>,
        /// The secrets.
        secrets: Vec<Bytes>,
    },
    /// To show a run from a place on, until it is over.
    Attach {
        /// Its name.
        id: String,
        /// The last chunk that was seen.
        after: u64,
        /// Lines of each stream that are not wanted.
        #[serde(skip_serializing_if = "Option::is_none")]
        lines: Option<[u64; 2]>,
    },
    /// To take standard input for a run, and first to tell how much it has.
    Feed {
        /// Its name.
        id: String,
        /// Nothing else is asked for: what is not taken is a failure.
        alone: bool,
    },
    /// A part of that: so many bytes follow, which belong at `offset`.
    Part {
        /// How many.
        bytes: usize,
        /// Where they belong.
        offset: u64,
    },
    /// The input is complete.
    End {
        /// And has so many bytes.
        offset: u64,
    },
    /// To do as if the run's keeper had received a signal.
    Receive {
        /// By its name.
        signal: String,
        /// What another request to do the same has the same.
        once: String,
    },
    /// To signal the processes of a run that is not shown, or to stop it as a timeout would.
    Signal {
        /// The run's name.
        id: String,
        /// By its name; absent is to stop it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// What another request to do the same has the same.
        once: String,
    },
    /// To stop the run as a timeout would.
    Stop,
    /// To delete the run, whose result has been seen.
    Forget,
    /// To do what these words do behind `runcast`, and answer with what it said.
    Do {
        /// The words.
        words: Vec<Bytes>,
        /// It may have been done already, and the answer was lost.
        again: bool,
    },
}

/// A line from the other end that is no event.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Tell {
    /// The run is there.
    Begun {
        /// Its name.
        id: String,
        /// Whether it was there before.
        existing: bool,
        /// Its `started` event, a line.
        started: String,
    },
    /// It cannot be done, and trying again would not help.
    Failed {
        /// The code of the error.
        code: String,
        /// The exit status.
        status: u8,
        /// What a person reads.
        message: String,
    },
    /// The other end is there.
    Alive,
    /// One more signal was received, or the run was stopped, in the order in which that was asked.
    Received,
    /// The run's standard input has so many bytes.
    Input {
        /// How many.
        offset: u64,
        /// Whether it is closed, and takes nothing more.
        closed: bool,
    },
    /// What was asked is done.
    Done {
        /// The exit status.
        status: u8,
        /// What it printed on standard output.
        stdout: Bytes,
        /// And on standard error.
        stderr: Bytes,
    },
}
