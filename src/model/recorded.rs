//! Reads back what was written: a line of a recording or of a journal, to the event that it is.
//!
//! The opposite of [`event`](crate::model::event). Fields and kinds of event that are not known here are passed
//! over, since a later version may have written them; whoever shows events as they were written has the line.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::chunk_line::plain_chunk;
use crate::model::error::ErrorCode;
use crate::model::event::{
    Base64, Dropped, ErrorFields, Event, Exited, Heartbeat, LossyText, RunResult, Seconds, Started,
    Stop, Stream, UsageFields, text_fields,
};
use crate::model::outcome::{LimitHit, StopReason};
use crate::model::wall_clock::WallClock;

/// One line that was read back.
#[derive(Debug)]
pub enum Recorded<'a> {
    /// A line of output, or a piece of one.
    Chunk(RecordedChunk<'a>),
    /// Another event.
    Event(Event<'a>),
    /// An event of a kind that is not known here.
    Unknown,
}

/// A line of output, or a piece of one, that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedChunk<'a> {
    /// The stream.
    pub stream: Stream,
    /// Its place among all chunks of the run.
    pub seq: u64,
    /// When it was read, since the command started.
    pub at: Duration,
    /// Its exact bytes.
    pub bytes: Cow<'a, [u8]>,
    /// Whether the line goes on in the next chunk of this stream.
    pub partial: bool,
}

impl Recorded<'_> {
    /// When it happened, since the command started; `None` where that is not told.
    #[must_use]
    pub fn at(&self) -> Option<Duration> {
        match self {
            Self::Chunk(chunk) => Some(chunk.at),
            Self::Event(Event::Started(_)) => Some(Duration::ZERO),
            Self::Event(Event::Exited(exited)) => Some(exited.t.0),
            Self::Event(Event::Stop(stop)) => Some(stop.t.0),
            Self::Event(Event::Heartbeat(heartbeat)) => Some(heartbeat.t.0),
            Self::Event(Event::Dropped(dropped)) => Some(dropped.t.0),
            Self::Event(Event::Result(result)) => Some(result.duration.0),
            Self::Event(Event::Chunk(_) | Event::Snapshot(_)) | Self::Unknown => None,
        }
    }
}

/// Any event, as far as it is told apart here.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
}

/// Reads one line, without its end.
///
/// # Errors
///
/// What is wrong with it, where it is no event.
pub fn parse(line: &[u8]) -> Result<Recorded<'_>, String> {
    match plain_chunk(line) {
        Some(chunk) => Ok(Recorded::Chunk(chunk)),
        None => parse_json(line),
    }
}

/// The same of any line, however it is written.
pub(crate) fn parse_json(line: &[u8]) -> Result<Recorded<'_>, String> {
    let op = from_json::<Line<'_>>(line).map_err(|_| "no event of a run".to_owned())?.op;
    Ok(match &*op {
        "chunk" => Recorded::Chunk(from_json::<ChunkLine<'_>>(line)?.read()?),
        "started" => Recorded::Event(Event::Started(from_json::<StartedLine>(line)?.read()?)),
        "exited" => Recorded::Event(Event::Exited(from_json::<ExitedLine>(line)?.read()?)),
        "stop" => Recorded::Event(Event::Stop(from_json::<StopLine>(line)?.read()?)),
        "heartbeat" => Recorded::Event(Event::Heartbeat(from_json::<BeatLine>(line)?.read()?)),
        "dropped" => Recorded::Event(Event::Dropped(from_json::<DroppedLine>(line)?.read()?)),
        "result" => {
            Recorded::Event(Event::Result(Box::new(from_json::<ResultLine<'_>>(line)?.read()?)))
        }
        _ => Recorded::Unknown,
    })
}

fn from_json<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "cut off".to_owned(),
        _ => format!("no event of a run: {error}"),
    })
}

/// The most of anything that a run has, and the highest number of a chunk. More was not written by us; and with this
/// no sum of two is too large.
pub const MOST_COUNT: u64 = u64::MAX / 2;

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count <= MOST_COUNT {
        return Ok(count);
    }
    Err(D::Error::invalid_value(Unexpected::Unsigned(count), &"no more than any run has"))
}

/// The number of a chunk: they are counted from 1.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match count(deserializer)? {
        0 => Err(D::Error::invalid_value(Unexpected::Unsigned(0), &"the number of a chunk")),
        number => Ok(number),
    }
}

fn seconds(number: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number).map_err(|_| format!("{number} is no time"))
}

/// The bytes of a text, and of the base64 beside it where it is not all.
fn exact_bytes<'a>(
    text: Cow<'a, str>,
    base64: Option<Cow<'a, str>>,
) -> Result<Cow<'a, [u8]>, String> {
    Ok(match (base64, text) {
        (Some(exact), _) => {
            STANDARD.decode(exact.as_bytes()).map_err(|error| error.to_string())?.into()
        }
        (None, Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        (None, Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
    })
}

#[derive(Deserialize)]
struct ChunkLine<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(deserialize_with = "number")]
    seq: u64,
    t: f64,
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(default)]
    partial: bool,
    #[serde(borrow)]
    base64: Option<Cow<'a, str>>,
}

impl<'a> ChunkLine<'a> {
    fn read(self) -> Result<RecordedChunk<'a>, String> {
        let stream = Stream::from_word(&self.kind)
            .ok_or_else(|| format!("no stream is called '{}'", self.kind))?;
        let bytes = exact_bytes(self.content, self.base64)?;
        let at = seconds(self.t)?;
        Ok(RecordedChunk { stream, seq: self.seq, at, bytes, partial: self.partial })
    }
}

#[derive(Deserialize)]
struct StartedLine {
    v: u32,
    id: String,
    pid: i32,
    argv: Option<Vec<String>>,
    argv_base64: Option<Vec<String>>,
    cwd: Option<String>,
    time: String,
}

impl StartedLine {
    fn read(self) -> Result<Started, String> {
        let Self { v, id, pid, argv, argv_base64, cwd, time } = self;
        let at: Timestamp = time.parse().map_err(|_| format!("'{time}' is no time"))?;
        Ok(Started { v, id, pid, argv, argv_base64, cwd, time, clock: WallClock(at) })
    }
}

#[derive(Deserialize)]
struct ExitedLine {
    t: f64,
    exit_code: Option<u8>,
    signal: Option<String>,
}

impl ExitedLine {
    fn read(self) -> Result<Exited, String> {
        let Self { t, exit_code, signal } = self;
        Ok(Exited { t: Seconds(seconds(t)?), exit_code, signal })
    }
}

#[derive(Deserialize)]
struct StopLine {
    t: f64,
    reason: Option<String>,
    signal: String,
}

impl StopLine {
    fn read(self) -> Result<Stop, String> {
        let reason = self.reason.as_deref().and_then(StopReason::from_word);
        Ok(Stop { t: Seconds(seconds(self.t)?), reason, signal: self.signal })
    }
}

#[derive(Deserialize)]
struct BeatLine {
    t: f64,
    idle: f64,
    #[serde(deserialize_with = "count")]
    stdout_bytes: u64,
    #[serde(deserialize_with = "count")]
    stderr_bytes: u64,
}

impl BeatLine {
    fn read(self) -> Result<Heartbeat, String> {
        let Self { t, idle, stdout_bytes, stderr_bytes } = self;
        let (t, idle) = (Seconds(seconds(t)?), Seconds(seconds(idle)?));
        Ok(Heartbeat { t, idle, stdout_bytes, stderr_bytes })
    }
}

#[derive(Deserialize)]
struct DroppedLine {
    t: f64,
    #[serde(deserialize_with = "count")]
    after_seq: u64,
    #[serde(deserialize_with = "count")]
    chunks: u64,
    #[serde(deserialize_with = "count")]
    bytes: u64,
}

impl DroppedLine {
    fn read(self) -> Result<Dropped, String> {
        let Self { t, after_seq, chunks, bytes } = self;
        Ok(Dropped { t: Seconds(seconds(t)?), after_seq, chunks, bytes })
    }
}

#[derive(Deserialize)]
struct UsageLine {
    user: f64,
    system: f64,
    max_rss: u64,
}

#[derive(Deserialize)]
struct ErrorLine<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    message: String,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    exit_code: Option<u8>,
    signal: Option<String>,
    #[serde(default)]
    core_dumped: bool,
    status: u8,
    timed_out: bool,
    #[serde(borrow)]
    stopped_by: Option<Cow<'a, str>>,
    received: Option<String>,
    #[serde(borrow)]
    stdout: Cow<'a, str>,
    #[serde(borrow)]
    stderr: Cow<'a, str>,
    #[serde(borrow)]
    stdout_base64: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stderr_base64: Option<Cow<'a, str>>,
    stdout_truncated: bool,
    stderr_truncated: bool,
    stdout_omitted: Option<u64>,
    stderr_omitted: Option<u64>,
    #[serde(deserialize_with = "count")]
    stdout_bytes: u64,
    #[serde(deserialize_with = "count")]
    stderr_bytes: u64,
    #[serde(deserialize_with = "count")]
    stdout_lines: u64,
    #[serde(deserialize_with = "count")]
    stderr_lines: u64,
    undelivered_bytes: Option<u64>,
    leaked: bool,
    #[serde(default)]
    leftover: Vec<i32>,
    #[serde(borrow)]
    limit: Option<Cow<'a, str>>,
    duration: f64,
    usage: UsageLine,
    record_error: Option<String>,
    dropped_bytes: Option<u64>,
    dropped_chunks: Option<u64>,
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<ErrorLine<'a>>,
}

/// A value that is there: null is one too.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The fields of what is kept of a stream.
fn kept_fields<'a>(
    text: Cow<'a, str>,
    base64: Option<Cow<'a, str>>,
) -> Result<(LossyText<'a>, Option<Base64<'a>>), String> {
    exact_bytes(text, base64).map(text_fields)
}

impl<'a> ResultLine<'a> {
    fn read(self) -> Result<RunResult<'a>, String> {
        let (stdout, stdout_base64) = kept_fields(self.stdout, self.stdout_base64)?;
        let (stderr, stderr_base64) = kept_fields(self.stderr, self.stderr_base64)?;
        let usage = UsageFields {
            user: Seconds(seconds(self.usage.user)?),
            system: Seconds(seconds(self.usage.system)?),
            max_rss: self.usage.max_rss,
        };
        Ok(RunResult {
            exit_code: self.exit_code,
            signal: self.signal,
            core_dumped: self.core_dumped,
            status: self.status,
            timed_out: self.timed_out,
            stopped_by: self.stopped_by.and_then(|word| StopReason::from_word(&word)),
            received: self.received,
            stdout,
            stderr,
            stdout_base64,
            stderr_base64,
            stdout_truncated: self.stdout_truncated,
            stderr_truncated: self.stderr_truncated,
            stdout_omitted: self.stdout_omitted,
            stderr_omitted: self.stderr_omitted,
            stdout_bytes: self.stdout_bytes,
            stderr_bytes: self.stderr_bytes,
            stdout_lines: self.stdout_lines,
            stderr_lines: self.stderr_lines,
            undelivered_bytes: self.undelivered_bytes,
            leaked: self.leaked,
            leftover: Cow::Owned(self.leftover),
            limit: self.limit.and_then(|word| LimitHit::from_word(&word)),
            duration: Seconds(seconds(self.duration)?),
            usage,
            record_error: self.record_error,
            dropped_bytes: self.dropped_bytes,
            dropped_chunks: self.dropped_chunks,
            result: self.result,
            error: self.error.map(|error| ErrorFields {
                code: ErrorCode::from_word(&error.code).map_or("unknown", ErrorCode::as_str),
                message: error.message,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;
    use crate::model::event::Chunk;

    proptest! {
        #[test]
        fn a_chunk_comes_back_as_it_was_written(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            is_stderr in any::<bool>(),
            seq in 1..=MOST_COUNT,
            micros in 0..1_000_000_000_000_u64,
            partial in any::<bool>(),
        ) {
            let stream = Stream::ALL[usize::from(is_stderr)];
            let at = Duration::from_micros(micros);
            let (content, base64) = text_fields(Cow::Borrowed(&bytes));
            let chunk = Chunk {
                kind: stream, seq, t: Seconds(at), content, partial, base64, time: None, metadata: None,
            };
            let line = serde_json::to_vec(&Event::Chunk(chunk)).expect("strings into memory");
            let Ok(Recorded::Chunk(read)) = parse(&line) else { panic!("{}", line.escape_ascii()) };
            prop_assert_eq!(read.at.as_micros(), at.as_micros());
            let expected = RecordedChunk { at: read.at, stream, seq, partial, bytes: bytes.into() };
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_line_makes_it_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }

    #[test]
    fn a_result_comes_back_as_it_was_written() {
        let result = |more: &str| {
            format!(
                r#"{{"op":"result","exit_code":null,"signal":"SIGXCPU","core_dumped":true,"status":152,"timed_out":false,"stopped_by":"signal","received":"SIGTERM","stdout":"ä\n\u0000{}","stderr":"","stdout_base64":"w6QKAP8=","stdout_truncated":true,"stderr_truncated":false,"stdout_omitted":9,"stdout_bytes":14,"stderr_bytes":0,"stdout_lines":1,"stderr_lines":0{more},"duration":1.234567,"usage":{{"user":0.5,"system":0.1,"max_rss":1}},"record_error":"full","dropped_bytes":1,"dropped_chunks":2,"result":[1e400],"error":{{"code":"output_failed","message":"x"}}}}"#,
                char::REPLACEMENT_CHARACTER
            )
        };
        for more in [
            r#","leaked":false,"limit":null"#,
            r#","undelivered_bytes":3,"leaked":true,"leftover":[7,8],"limit":"cpu""#,
        ] {
            let line = result(more);
            let Ok(Recorded::Event(event)) = parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(serde_json::to_string(&event).expect("strings into memory"), line);
        }
    }

    #[test]
    fn a_returned_value_comes_back_as_it_was_written_and_null_is_one() {
        let line = |value: &str| {
            format!(
                r#"{{"op":"result","exit_code":0,"signal":null,"status":0,"timed_out":false,"stopped_by":null,"stdout":"","stderr":"","stdout_truncated":false,"stderr_truncated":false,"stdout_bytes":0,"stderr_bytes":0,"stdout_lines":0,"stderr_lines":0,"leaked":false,"limit":null,"duration":0.1,"usage":{{"user":0.0,"system":0.0,"max_rss":1}}{value}}}"#
            )
        };
        for (written, value) in [
            ("", None),
            (",\"result\":null", Some("null")),
            (",\"result\":{\"b\":1e400,\"a\":-0}", Some("{\"b\":1e400,\"a\":-0}")),
        ] {
            let line = line(written);
            let Ok(Recorded::Event(Event::Result(result))) = parse(line.as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!(result.result.map(RawValue::get), value);
        }
    }

    #[test]
    fn a_number_that_no_run_has_is_refused() {
        let chunk = |seq: u64| {
            format!(r#"{{"op":"chunk","kind":"stdout","seq":{seq},"t":1,"content":"a"}}"#)
        };
        let dropped = |after: u64, chunks: u64, bytes: u64| {
            format!(
                r#"{{"op":"dropped","t":1,"after_seq":{after},"chunks":{chunks},"bytes":{bytes}}}"#
            )
        };
        let most = MOST_COUNT;
        for line in [chunk(1), chunk(most), dropped(0, 1, 0), dropped(most, most, most)] {
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
        }
        let more = most + 1;
        for line in [
            chunk(0),
            chunk(more),
            dropped(more, 1, 1),
            dropped(1, more, 1),
            dropped(1, 1, u64::MAX),
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_passed_over_and_what_is_no_event_is_an_error() {
        assert!(matches!(parse(br#"{"op":"later","x":[1]}"#), Ok(Recorded::Unknown)));
        let with_more = br#"{"op":"stop","t":1.5,"reason":"later","signal":"SIGTERM","more":{}}"#;
        assert!(matches!(parse(with_more), Ok(Recorded::Event(Event::Stop(_)))));
        for line in
            [&b""[..], b"x", b"[]", br#"{"kind":"stdout"}"#, br#"{"op":"stop","t":-1,"signal":""}"#]
        {
            assert!(parse(line).is_err(), "{}", line.escape_ascii());
        }
    }
}
