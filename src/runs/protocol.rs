//! What is said over a keeper's socket: a request, one line of JSON, and its answer, another.
//!
//! Who sends standard input says `send`, then parts, each a line with its length and then the bytes, then `end`.

use serde::{Deserialize, Serialize};

/// The longest line of a request.
pub const MOST_LINE_BYTES: usize = 4096;

/// The largest part.
pub const MOST_PART_BYTES: usize = 64 * 1024;

/// A line to the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// To be told of the keeper's end, by the end of the connection.
    Watch,
    /// To signal the processes of the run.
    Signal {
        /// By its name.
        signal: String,
        /// See `Receive`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        once: Option<String>,
    },
    /// To do as if the keeper had received a signal, which somebody received who stands for it.
    Receive {
        /// By its name.
        signal: String,
        /// What the same request, made again since its answer was lost, has the same: it is done once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        once: Option<String>,
    },
    /// To stop the run as a timeout would.
    Stop,
    /// To send standard input.
    Send,
    /// A part of it: so many bytes follow.
    Part {
        /// How many.
        bytes: usize,
        /// Where they belong; the end where it is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    },
    /// All of it was sent.
    End {
        /// Nothing follows it.
        eof: bool,
    },
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// The input is in the command's pipe: bytes accepted since the start.
    Stdin {
        /// How many.
        offset: u64,
    },
    /// It cannot be done.
    Failed {
        /// The code of the error.
        code: String,
        /// What a person reads.
        message: String,
        /// Where the input would have to begin.
        #[serde(skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    },
}
