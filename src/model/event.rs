//! The events of a run. Their serde shape is the NDJSON format, field by field and in this order.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use base64::Engine;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::model::error::Error;
use crate::model::kept::Kept;
use crate::model::outcome::{Delivery, Ended, LimitHit, Outcome, StopReason};
use crate::model::wall_clock::WallClock;

/// The version of the format. Fields are added without changing it; what is there changes only with it.
pub const VERSION: u32 = 1;

/// One of the command's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or both where they are merged.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, in their order.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// The word that events carry as `kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// Its place in an array with an entry for each.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Seconds with microsecond resolution, as a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Microseconds of a century fit exactly in the 53 bits of a double.
        #[allow(clippy::cast_precision_loss)]
        serializer.serialize_f64(self.0.as_micros() as f64 / 1e6)
    }
}

/// Bytes as a JSON string, with U+FFFD for what is not UTF-8.
#[derive(Debug, Clone)]
pub struct LossyText<'a>(pub Cow<'a, [u8]>);

impl fmt::Display for LossyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            f.write_str(part.valid())?;
            if !part.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl Serialize for LossyText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Piece by piece: what is kept of a stream may be large.
        serializer.collect_str(self)
    }
}

/// Bytes as base64, in a JSON string.
#[derive(Debug, Clone)]
pub struct Base64<'a>(pub Cow<'a, [u8]>);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

/// Bytes as a text and, where they are not UTF-8, as base64 too.
#[must_use]
pub fn text_fields(bytes: Cow<'_, [u8]>) -> (LossyText<'_>, Option<Base64<'_>>) {
    let exact = std::str::from_utf8(&bytes).is_err().then(|| Base64(bytes.clone()));
    (LossyText(bytes), exact)
}

/// One event: one line of the format.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The command was started; the first line.
    Started(Started),
    /// One line of output, or a piece of one.
    Chunk(Chunk<'a>),
    /// The command ended, and something it started still holds its streams.
    Exited(Exited),
    /// runcast sends a signal to stop the run.
    Stop(Stop),
    /// Nothing else was written for a while.
    Heartbeat(Heartbeat),
    /// Chunks are not there.
    Dropped(Dropped),
    /// What has come so far.
    Snapshot(Snapshot<'a>),
    /// How it all ended; the last line.
    Result(Box<RunResult<'a>>),
}

/// The command was started.
#[derive(Debug, Clone, Serialize)]
pub struct Started {
    /// [`VERSION`].
    pub v: u32,
    /// The run's name.
    pub id: String,
    /// The command's process id.
    pub pid: i32,
    /// The command line; absent when it is not to be shown. What is not UTF-8 has U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The exact bytes of every word, present when one of them is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv_base64: Option<Vec<String>>,
    /// Where the command was started; null where that directory was deleted.
    pub cwd: Option<String>,
    /// When, RFC 3339 in UTC with microseconds.
    pub time: String,
    /// The same, to tell later times by.
    #[serde(skip)]
    pub clock: WallClock,
}

/// The words of a command line as `argv` and, where one is not UTF-8, `argv_base64`.
#[must_use]
pub fn argv_fields(argv: &[OsString]) -> (Vec<String>, Option<Vec<String>>) {
    let shown = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let exact = argv
        .iter()
        .any(|word| word.to_str().is_none())
        .then(|| argv.iter().map(|word| STANDARD.encode(word.as_bytes())).collect());
    (shown, exact)
}

/// One line of output, or a piece of one.
#[derive(Debug, Serialize)]
pub struct Chunk<'a> {
    /// The stream.
    #[serde(serialize_with = "stream_word")]
    pub kind: Stream,
    /// Its place among all chunks of the run, from 1.
    pub seq: u64,
    /// When it was read, since the command started.
    pub t: Seconds,
    /// The line with its end; U+FFFD for what is not UTF-8.
    pub content: LossyText<'a>,
    /// Whether the line goes on in the next chunk of this stream.
    #[serde(skip_serializing_if = "is_false")]
    pub partial: bool,
    /// The exact bytes, present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<Base64<'a>>,
    /// When it was read, RFC 3339 in UTC with microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What `--meta` gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata<'a>>,
}

/// `NAME=VALUE` pairs as a JSON object, in the order given.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a>(pub &'a [(String, String)]);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The command ended, and something it started still holds its streams.
#[derive(Debug, Clone, Serialize)]
pub struct Exited {
    /// When, since the command started.
    pub t: Seconds,
    /// Its exit code; null when a signal ended it.
    pub exit_code: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// runcast sends a signal to stop the run.
#[derive(Debug, Clone, Serialize)]
pub struct Stop {
    /// When, since the command started.
    pub t: Seconds,
    /// Why, as in the result's `stopped_by`: null where only what the command left behind is stopped.
    #[serde(serialize_with = "reason_word")]
    pub reason: Option<StopReason>,
    /// Which signal.
    pub signal: String,
}

/// Nothing else was written for a while.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Heartbeat {
    /// When, since the command started.
    pub t: Seconds,
    /// Time since either stream last produced something.
    pub idle: Seconds,
    /// All bytes of standard output so far.
    pub stdout_bytes: u64,
    /// All bytes of standard error so far.
    pub stderr_bytes: u64,
}

/// Chunks are not there, since the consumer took too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// When the last of them was dropped, since the command started.
    pub t: Seconds,
    /// The number of the chunk before the first of them, or 0.
    pub after_seq: u64,
    /// How many.
    pub chunks: u64,
    /// Bytes of output in them.
    pub bytes: u64,
}

/// What has come so far, cut as in the result.
#[derive(Debug, Serialize)]
pub struct Snapshot<'a> {
    /// Null: the command is still running.
    pub exit_code: Option<u8>,
    /// The kept part of standard output.
    pub stdout: LossyText<'a>,
    /// The kept part of standard error.
    pub stderr: LossyText<'a>,
    /// Its exact bytes, present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<Base64<'a>>,
    /// Its exact bytes, present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<Base64<'a>>,
    /// Whether more came than was kept. This and the following are present once a stream is cut.
    #[serde(flatten)]
    pub cut: Option<SnapshotCut>,
}

/// What a snapshot tells once one of its streams is cut.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SnapshotCut {
    /// Whether more came than was kept.
    pub stdout_truncated: bool,
    /// Whether more came than was kept.
    pub stderr_truncated: bool,
    /// Bytes left out between the two kept halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_omitted: Option<u64>,
    /// Bytes left out between the two kept halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_omitted: Option<u64>,
    /// All bytes that the stream produced.
    pub stdout_bytes: u64,
    /// All bytes that the stream produced.
    pub stderr_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Serialize)]
pub struct RunResult<'a> {
    /// The command's own exit code; null when a signal ended it or it never started.
    pub exit_code: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// Whether it left a core.
    #[serde(skip_serializing_if = "is_false")]
    pub core_dumped: bool,
    /// runcast's exit status.
    pub status: u8,
    /// Whether a timeout stopped it.
    pub timed_out: bool,
    /// Why runcast stopped it.
    pub stopped_by: Option<&'static str>,
    /// The signal that runcast received and that began the stop or ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<String>,
    /// The kept part of standard output.
    pub stdout: LossyText<'a>,
    /// The kept part of standard error.
    pub stderr: LossyText<'a>,
    /// Its exact bytes, present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<Base64<'a>>,
    /// Its exact bytes, present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<Base64<'a>>,
    /// Whether more came than was kept.
    pub stdout_truncated: bool,
    /// Whether more came than was kept.
    pub stderr_truncated: bool,
    /// Bytes left out between the two kept halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_omitted: Option<u64>,
    /// Bytes left out between the two kept halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_omitted: Option<u64>,
    /// All bytes that the stream produced.
    pub stdout_bytes: u64,
    /// All bytes that the stream produced.
    pub stderr_bytes: u64,
    /// All lines that the stream produced, an unfinished last one included.
    pub stdout_lines: u64,
    /// All lines that the stream produced, an unfinished last one included.
    pub stderr_lines: u64,
    /// Bytes of output that the reader of a stopped run did not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undelivered_bytes: Option<u64>,
    /// Whether a stream was still held when reading stopped.
    pub leaked: bool,
    /// Processes of the run that are alive.
    #[serde(skip_serializing_if = "<[i32]>::is_empty")]
    pub leftover: &'a [i32],
    /// The resource limit that ended the command.
    pub limit: Option<&'static str>,
    /// From start to end of the command.
    pub duration: Seconds,
    /// What it used.
    pub usage: UsageFields,
    /// Why the recording is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_error: Option<String>,
    /// Bytes of output that were dropped since the consumer took too little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
    /// Chunks that were dropped since the consumer took too little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_chunks: Option<u64>,
    /// The value that the command returned, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// runcast's own failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFields>,
}

/// What the command and the children it waited for used.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UsageFields {
    /// Processor seconds in user mode.
    pub user: Seconds,
    /// Processor seconds in the kernel.
    pub system: Seconds,
    /// Peak resident bytes of any one of them.
    pub max_rss: u64,
}

/// runcast's own failure.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorFields {
    /// What programs decide by.
    pub code: &'static str,
    /// What people read.
    pub message: String,
}

impl From<&Error> for ErrorFields {
    fn from(error: &Error) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

/// What was seen of one stream over the whole run.
#[derive(Debug)]
pub struct StreamTotals {
    /// The part that the result keeps.
    pub kept: Kept,
    /// All bytes.
    pub bytes: u64,
    /// All lines.
    pub lines: u64,
}

impl<'a> RunResult<'a> {
    /// Puts the result together from how the run ended, what was seen of its streams (standard output
    /// first), and what became of its output on the way to the consumer. What of the output was not shown,
    /// and why, only its sink knows: that is left out, as is the value that the command returned.
    #[must_use]
    pub fn new(outcome: &'a Outcome, streams: &'a [StreamTotals; 2], delivery: &Delivery) -> Self {
        let [stdout, stderr] = streams;
        let (stdout_text, stdout_base64) = text_fields(stdout.kept.bytes());
        let (stderr_text, stderr_base64) = text_fields(stderr.kept.bytes());
        let (exit_code, signal) = ended_fields(outcome.ended);
        Self {
            exit_code,
            signal,
            core_dumped: matches!(outcome.ended, Ended::Signaled { core_dumped: true, .. }),
            status: outcome.status(delivery),
            timed_out: outcome.timed_out(),
            stopped_by: outcome.stopped_by.map(StopReason::as_str),
            received: outcome.received.map(|signal| signal.to_string()),
            stdout: stdout_text,
            stderr: stderr_text,
            stdout_base64,
            stderr_base64,
            stdout_truncated: stdout.kept.is_truncated(),
            stderr_truncated: stderr.kept.is_truncated(),
            stdout_omitted: stdout.kept.omitted_between(),
            stderr_omitted: stderr.kept.omitted_between(),
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
            stdout_lines: stdout.lines,
            stderr_lines: stderr.lines,
            undelivered_bytes: None,
            leaked: outcome.leaked,
            leftover: &outcome.leftover,
            limit: outcome.limit.map(LimitHit::as_str),
            duration: Seconds(outcome.duration),
            usage: UsageFields {
                user: Seconds(outcome.usage.user),
                system: Seconds(outcome.usage.system),
                max_rss: outcome.usage.max_rss_bytes,
            },
            record_error: None,
            dropped_bytes: None,
            dropped_chunks: None,
            result: None,
            error: match delivery {
                Delivery::Failed(error) => Some(error.into()),
                _ => None,
            },
        }
    }
}

/// `exit_code` and `signal` of a command that ended so.
#[must_use]
pub fn ended_fields(ended: Ended) -> (Option<u8>, Option<String>) {
    match ended {
        Ended::Exited(code) => (Some(code), None),
        Ended::Signaled { signal, .. } => (None, Some(signal.to_string())),
        Ended::NotSeen => (None, None),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn reason_word<S: Serializer>(
    reason: &Option<StopReason>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    reason.map(StopReason::as_str).serialize(serializer)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn stream_word<S: Serializer>(stream: &Stream, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stream.as_str())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(value: &bool) -> bool {
    !value
}
