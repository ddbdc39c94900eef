//! The events of a run. Their serde shape is the NDJSON format, field by field and in this order.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use base64::Engine;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::model::error::Error;
#[cfg(feature = "schema")]
use crate::model::error::ErrorCode;
use crate::model::kept::Kept;
use crate::model::outcome::{Delivery, Ended, LimitHit, Outcome, StopReason};
#[cfg(feature = "schema")]
use crate::model::schema::{RunId, SignalName, Time};
use crate::model::spec::Keep;
use crate::model::wall_clock::WallClock;
use crate::model::words::words;

/// The version of the format. Fields are added without changing it; what is there changes only with it.
pub const VERSION: u32 = 1;

words! {
    /// One of the command's output streams.
    pub enum Stream {
        /// Standard output, or both where they are merged (`--merge`).
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

impl Stream {
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

/// One event of a run, which is one line of `runcast --format ndjson` and of a file of `--record`. With
/// `--format snapshot` there are snapshots in place of chunks; what `--result` writes is the result alone.
///
/// A run is one `started` (none where the command could not be started), then the others, each where it
/// happened, then one `result`, the last line. Without a result the outcome is unknown, never success.
/// A reader passes over fields and values of `op` that it does not know. A field that is not required is left
/// out where it does not apply. Sizes are bytes; a time `t` is seconds since the command started, with
/// microseconds, by a clock that never goes back.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    /// Chunks are left out, since the reader took too little.
    Dropped(Dropped),
    /// All output so far.
    Snapshot(Snapshot<'a>),
    /// How it all ended; the last line.
    Result(Box<RunResult<'a>>),
}

/// The command was started: the first line of a run.
///
/// Where `runcast --detach` finds the run that was asked for, what it prints of it has `existing` too.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema), schemars(transform = crate::model::schema::add_existing))]
pub struct Started {
    /// The version of the format. Fields are added without changing it; what is there changes only with it.
    #[cfg_attr(feature = "schema", schemars(extend("const" = VERSION)))]
    pub v: u32,
    /// The name of the run.
    #[cfg_attr(feature = "schema", schemars(with = "RunId"))]
    pub id: String,
    /// The process id of the command.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub pid: i32,
    /// The command line. What is not UTF-8 has U+FFFD in its place. Present unless `--no-argv` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The exact bytes of every word of `argv`, each in base64. Present where one of them is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<Base64<'_>>>"))]
    pub argv_base64: Option<Vec<String>>,
    /// Where the command was started; null where that directory was deleted.
    pub cwd: Option<String>,
    /// When the command was started, by RFC 3339, in UTC with microseconds.
    #[cfg_attr(feature = "schema", schemars(with = "Time"))]
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

/// One line of output, or a piece of one, written as soon as it has arrived. The `base64` of each chunk of one
/// kind, or where there is none the `content`, put together, is the stream byte for byte.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Chunk<'a> {
    /// Which stream it is of.
    pub kind: Stream,
    /// Its place among the chunks of both streams, from 1, without a gap but for what `dropped` tells of.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: u64,
    /// When it was read, in seconds since the command started; but not before the event in front of it.
    pub t: Seconds,
    /// The line with its line end. What is not UTF-8 has U+FFFD in its place.
    pub content: LossyText<'a>,
    /// Present, and true, where the line goes on in the next chunk of this kind: it is longer than `--max-line`,
    /// or `--partial-after` ran out. The last line of a stream without a line end is not partial, unless all of it had
    /// gone out before its stream ended.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub partial: bool,
    /// The exact bytes. Present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<Base64<'a>>,
    /// The same, by RFC 3339, in UTC with microseconds. Present where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Time>"))]
    pub time: Option<String>,
    /// The names and values that `--meta` gave. Present with it.
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

/// The command ended, and something that it started still holds its streams. Written only then; the result
/// follows when they close or `--drain` is over.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Exited {
    /// When, in seconds since the command started.
    pub t: Seconds,
    /// The exit code of the command; null where a signal ended it.
    pub exit_code: Option<u8>,
    /// The signal that ended the command, as `SIGKILL`; null where none did.
    #[cfg_attr(feature = "schema", schemars(with = "Option<SignalName>"))]
    pub signal: Option<String>,
}

/// runcast sends a signal to stop the run; a second one follows if it comes to KILL.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Stop {
    /// When, in seconds since the command started.
    pub t: Seconds,
    /// Why, as `stopped_by` in the result; null where the command had ended by itself and `--leftover kill` stops
    /// what it left behind.
    pub reason: Option<StopReason>,
    /// The signal that is sent, as `SIGTERM`.
    #[cfg_attr(feature = "schema", schemars(with = "SignalName"))]
    pub signal: String,
}

/// Nothing else was written for the time of `--heartbeat`.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Heartbeat {
    /// When, in seconds since the command started.
    pub t: Seconds,
    /// Seconds since either stream last produced something.
    pub idle: Seconds,
    /// All bytes that standard output produced so far.
    pub stdout_bytes: u64,
    /// All bytes that standard error produced so far.
    pub stderr_bytes: u64,
}

/// Chunks are left out here, since the reader took too little: `seq` goes on at `after_seq` + `chunks` + 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Dropped {
    /// When the last of them was dropped, in seconds since the command started.
    pub t: Seconds,
    /// The `seq` of the chunk before the first of them, or 0.
    pub after_seq: u64,
    /// How many chunks are left out.
    pub chunks: u64,
    /// The bytes of output in them.
    pub bytes: u64,
}

/// All output so far, cut as in the result. The fields about a cut are present once either stream is cut.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Snapshot<'a> {
    /// Null: the command is still running. The result has the exit code.
    pub exit_code: Option<u8>,
    /// What is kept of standard output, cut between characters; with `--keep both` the two halves joined.
    /// What is not UTF-8 has U+FFFD in its place.
    pub stdout: LossyText<'a>,
    /// What is kept of standard error, cut between characters; with `--keep both` the two halves joined.
    /// What is not UTF-8 has U+FFFD in its place.
    pub stderr: LossyText<'a>,
    /// The exact bytes of `stdout`. Present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<Base64<'a>>,
    /// The exact bytes of `stderr`. Present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<Base64<'a>>,
    /// Present once either stream is cut.
    #[serde(flatten)]
    pub cut: Option<SnapshotCut>,
}

/// What a snapshot tells once one of its streams is cut.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SnapshotCut {
    /// Whether standard output produced more than is kept.
    pub stdout_truncated: bool,
    /// Whether standard error produced more than is kept.
    pub stderr_truncated: bool,
    /// Bytes left out between the two halves of `--keep both`. Present where some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_omitted: Option<u64>,
    /// Bytes left out between the two halves of `--keep both`. Present where some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_omitted: Option<u64>,
    /// All bytes that standard output produced.
    pub stdout_bytes: u64,
    /// All bytes that standard error produced.
    pub stderr_bytes: u64,
}

/// How a run ended, with its output: the last line, and what `--result` writes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema), schemars(rename = "Result"))]
pub struct RunResult<'a> {
    /// The exit code of the command itself; null where a signal ended it or it never started.
    pub exit_code: Option<u8>,
    /// The signal that ended the command, as `SIGKILL`; null where none did, or it never started.
    #[cfg_attr(feature = "schema", schemars(with = "Option<SignalName>"))]
    pub signal: Option<String>,
    /// Present, and true, where the command left a core.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub core_dumped: bool,
    /// The exit status of runcast.
    pub status: u8,
    /// Whether a timeout stopped the run; false where the command had ended by itself before, however late its
    /// output was read.
    pub timed_out: bool,
    /// Why runcast stopped the run; null where it did not.
    pub stopped_by: Option<StopReason>,
    /// The signal that runcast received and that began the stop or ended the command, as `SIGTERM`. Present where
    /// `stopped_by` is `signal`, unless it was `runcast signal --stop` that stopped the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SignalName>"))]
    pub received: Option<String>,
    /// What is kept of standard output, cut between characters; with `--keep both` the two halves joined.
    /// What is not UTF-8 has U+FFFD in its place.
    pub stdout: LossyText<'a>,
    /// What is kept of standard error, cut between characters; with `--keep both` the two halves joined.
    /// What is not UTF-8 has U+FFFD in its place.
    pub stderr: LossyText<'a>,
    /// The exact bytes of `stdout`. Present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<Base64<'a>>,
    /// The exact bytes of `stderr`. Present where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<Base64<'a>>,
    /// Whether standard output produced more than is kept.
    pub stdout_truncated: bool,
    /// Whether standard error produced more than is kept.
    pub stderr_truncated: bool,
    /// Bytes left out between the two halves of `--keep both`. Present where some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_omitted: Option<u64>,
    /// Bytes left out between the two halves of `--keep both`. Present where some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_omitted: Option<u64>,
    /// All bytes that standard output produced.
    pub stdout_bytes: u64,
    /// All bytes that standard error produced.
    pub stderr_bytes: u64,
    /// All lines that standard output produced, an unfinished last one included.
    pub stdout_lines: u64,
    /// All lines that standard error produced, an unfinished last one included.
    pub stderr_lines: u64,
    /// Bytes of output that the reader of a stopped run did not take. Present where it did not take all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undelivered_bytes: Option<u64>,
    /// Whether a stream was still held by something when runcast stopped reading.
    pub leaked: bool,
    /// The process ids of the run that are alive at its end, among them those that could not be killed. Present
    /// where there are any.
    #[serde(skip_serializing_if = "<[i32]>::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub leftover: Cow<'a, [i32]>,
    /// The resource limit that ended the command, where that can be known; else null.
    pub limit: Option<LimitHit>,
    /// Seconds from the start of the command to its end.
    pub duration: Seconds,
    /// What the command and the children that it waited for used.
    pub usage: UsageFields,
    /// Why the recording is not whole. Present where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_error: Option<String>,
    /// The bytes of output that `--on-lag drop` dropped. Present where it dropped any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
    /// The chunks that `--on-lag drop` dropped. Present where it dropped any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_chunks: Option<u64>,
    /// The value that the command returned, as it was written. Present where it returned one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// The failure of runcast itself. Present where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFields>,
}

/// What the command and the children that it waited for used.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema), schemars(rename = "Usage"))]
pub struct UsageFields {
    /// Processor seconds in user mode.
    pub user: Seconds,
    /// Processor seconds in the kernel.
    pub system: Seconds,
    /// The most resident bytes of any one of them.
    pub max_rss: u64,
}

/// The failure of runcast itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema), schemars(rename = "Error"))]
pub struct ErrorFields {
    /// What failed, for programs.
    #[cfg_attr(feature = "schema", schemars(with = "ErrorCode"))]
    pub code: &'static str,
    /// The same for people: the line that is also on standard error, without `runcast: `.
    pub message: String,
}

impl From<&Error> for ErrorFields {
    fn from(error: &Error) -> Self {
        Self { code: error.code().as_str(), message: error.to_string() }
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

impl StreamTotals {
    /// Of a stream of which nothing was seen.
    #[must_use]
    pub fn nothing() -> Self {
        Self { kept: Kept::new(Keep::Head, 0), bytes: 0, lines: 0 }
    }

    fn is_truncated(&self) -> bool {
        self.bytes > self.kept.kept_len()
    }
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
            stopped_by: outcome.stopped_by,
            received: outcome.received.map(|signal| signal.to_string()),
            stdout: stdout_text,
            stderr: stderr_text,
            stdout_base64,
            stderr_base64,
            stdout_truncated: stdout.is_truncated(),
            stderr_truncated: stderr.is_truncated(),
            stdout_omitted: stdout.kept.omitted_between(),
            stderr_omitted: stderr.kept.omitted_between(),
            stdout_bytes: stdout.bytes,
            stderr_bytes: stderr.bytes,
            stdout_lines: stdout.lines,
            stderr_lines: stderr.lines,
            undelivered_bytes: None,
            leaked: outcome.leaked,
            leftover: Cow::Borrowed(&outcome.leftover),
            limit: outcome.limit,
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
fn is_false(value: &bool) -> bool {
    !value
}
