//! The events as their readers see them, and what must be true of every run's.

use std::fmt;
use std::ops::Index;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// One event: its fields in the order in which they stand.
pub(crate) struct Event(Vec<(String, Value)>);

/// The fields that each event has, in their order.
const ALWAYS: [(&str, &[&str]); 8] = [
    ("started", &["op", "v", "id", "pid", "cwd", "time"]),
    ("chunk", &["op", "kind", "seq", "t", "content"]),
    ("exited", &["op", "t", "exit_code", "signal"]),
    ("stop", &["op", "t", "reason", "signal"]),
    ("heartbeat", &["op", "t", "idle", "stdout_bytes", "stderr_bytes"]),
    ("dropped", &["op", "t", "after_seq", "chunks", "bytes"]),
    ("snapshot", &["op", "exit_code", "stdout", "stderr"]),
    ("result", RESULT),
];

const RESULT: &[&str] = &[
    "op",
    "exit_code",
    "signal",
    "status",
    "timed_out",
    "stopped_by",
    "stdout",
    "stderr",
    "stdout_truncated",
    "stderr_truncated",
    "stdout_bytes",
    "stderr_bytes",
    "stdout_lines",
    "stderr_lines",
    "leaked",
    "limit",
    "duration",
    "usage",
];

/// The fields that some have too.
const SOMETIMES: [(&str, &[&str]); 8] = [
    ("started", &["argv", "argv_base64", "existing"]),
    ("chunk", &["partial", "base64", "time", "metadata"]),
    ("exited", &[]),
    ("stop", &[]),
    ("heartbeat", &[]),
    ("dropped", &[]),
    (
        "snapshot",
        &[
            "stdout_base64",
            "stderr_base64",
            "stdout_truncated",
            "stderr_truncated",
            "stdout_omitted",
            "stderr_omitted",
            "stdout_bytes",
            "stderr_bytes",
        ],
    ),
    (
        "result",
        &[
            "core_dumped",
            "received",
            "stdout_base64",
            "stderr_base64",
            "stdout_omitted",
            "stderr_omitted",
            "undelivered_bytes",
            "leftover",
            "record_error",
            "dropped_bytes",
            "dropped_chunks",
            "result",
            "error",
        ],
    ),
];

impl Event {
    /// The events in what runcast wrote: whole lines, an object each.
    #[track_caller]
    pub(crate) fn lines(bytes: &[u8]) -> Vec<Self> {
        assert!(
            bytes.is_empty() || bytes.ends_with(b"\n"),
            "the last line is unfinished: {}",
            bytes.escape_ascii()
        );
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        lines
            .map(|line| {
                serde_json::from_slice(line)
                    .unwrap_or_else(|error| panic!("{error}: {}", line.escape_ascii()))
            })
            .collect()
    }

    /// A field that is text.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        self[name].as_str().unwrap_or_else(|| panic!("{name} is no text: {self}"))
    }

    /// A field that is a whole number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self[name].as_u64().unwrap_or_else(|| panic!("{name} is no whole number: {self}"))
    }

    /// The bytes of a chunk.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.exact("content", "base64")
    }

    /// The kept bytes of a stream in a result.
    pub(crate) fn kept(&self, kind: &str) -> Vec<u8> {
        self.exact(kind, &format!("{kind}_base64"))
    }

    /// The names of the fields.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The pairs of a record as an event, each value as text.
    pub(crate) fn of_pairs(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect())
    }

    /// The bytes that a field has as text and, where they are none, another one as base64.
    pub(crate) fn exact(&self, text: &str, base64: &str) -> Vec<u8> {
        let Some(coded) = self[base64].as_str() else { return self.text(text).as_bytes().to_vec() };
        let bytes = STANDARD.decode(coded).unwrap_or_else(|error| panic!("{error}: {self}"));
        assert!(std::str::from_utf8(&bytes).is_err(), "{base64} without need: {self}");
        assert_eq!(String::from_utf8_lossy(&bytes), self.text(text), "{self}");
        bytes
    }
}

impl Index<&str> for Event {
    type Output = Value;

    /// A field, null where it is not there.
    fn index(&self, name: &str) -> &Value {
        self.0.iter().find(|(found, _)| found == name).map_or(&Value::Null, |(_, value)| value)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| write!(f, "{name}={value} "))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Event(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Checks what is true of all events of a run together.
#[track_caller]
pub(super) fn check(events: &[Event], code: Option<i32>) {
    let result = events.last().expect("there is at least the result");
    check_result(result);
    assert_eq!(result["status"].as_i64(), code.map(i64::from), "the exit status differs: {result}");
    let mut last_t = 0.0;
    let mut seq = 0;
    let mut shown = [0, 0];
    let mut dropped = 0;
    for (place, event) in events.iter().enumerate() {
        check_fields(event);
        let op = event.text("op");
        assert_eq!(op == "started", place == 0 && events.len() > 1, "out of place: {event}");
        assert_eq!(op == "result", place + 1 == events.len(), "out of place: {event}");
        if op == "chunk" {
            seq += 1;
            assert_eq!(event.number("seq"), seq, "a gap: {event}");
            let kind = ["stdout", "stderr"].iter().position(|kind| event["kind"] == **kind);
            shown[kind.unwrap_or_else(|| panic!("no such kind: {event}"))] +=
                event.bytes().len() as u64;
        }
        if op == "dropped" {
            assert_eq!(event.number("after_seq"), seq, "not in its place: {event}");
            seq += event.number("chunks");
            dropped += event.number("bytes");
        }
        if let Some(t) = event["t"].as_f64() {
            assert!(t >= last_t, "time went back from {last_t}: {event}");
            last_t = t;
        }
    }
    if seq > 0
        && result["undelivered_bytes"].is_null()
        && result["dropped_bytes"].is_null()
        && result["error"].is_null()
    {
        let all = ["stdout_bytes", "stderr_bytes"].map(|name| result.number(name));
        if dropped == 0 {
            assert_eq!(shown, all, "chunks and counts differ");
        }
        assert_eq!(shown[0] + shown[1] + dropped, all[0] + all[1], "chunks and counts differ");
    }
}

fn check_fields(event: &Event) {
    let op = event.text("op");
    let of = |table: [(&str, &'static [&'static str]); 8]| {
        let found = table.into_iter().find(|(found, _)| *found == op);
        found.unwrap_or_else(|| panic!("no such event: {event}")).1
    };
    let (always, sometimes) = (of(ALWAYS), of(SOMETIMES));
    let (extra, basic): (Vec<&str>, Vec<&str>) =
        event.names().into_iter().partition(|name| sometimes.contains(name));
    assert_eq!(basic, always, "{event}");
    let places = extra.iter().map(|name| sometimes.iter().position(|known| known == name));
    assert!(op == "result" || places.is_sorted(), "{event}");
}

/// Checks what is true of every result.
#[track_caller]
pub(crate) fn check_result(result: &Event) {
    check_fields(result);
    let timed_out =
        ["timeout", "idle_timeout"].iter().any(|reason| result["stopped_by"] == *reason);
    assert_eq!(result["timed_out"], timed_out, "{result}");
    assert!(!timed_out || result["status"] == 124 || !result["error"].is_null(), "{result}");
    let ends =
        [&result["exit_code"], &result["signal"]].iter().filter(|end| !end.is_null()).count();
    assert!(ends == 1 || ends == 0 && !result["error"].is_null(), "how did it end? {result}");
    assert!(result["signal"].is_null() || result.text("signal").starts_with("SIG"), "{result}");
    for kind in ["stdout", "stderr"] {
        let (kept, all) = (result.kept(kind).len() as u64, result.number(&format!("{kind}_bytes")));
        assert_eq!(result[&format!("{kind}_truncated")[..]], kept < all, "{result}");
        let omitted = &result[&format!("{kind}_omitted")[..]];
        assert!(omitted.is_null() || *omitted == all - kept, "{result}");
    }
    for time in [&result["duration"], &result["usage"]["user"], &result["usage"]["system"]] {
        assert!(time.as_f64().is_some_and(|seconds| seconds >= 0.0), "{result}");
    }
    assert!(result["usage"]["max_rss"].is_u64() && result["leaked"].is_boolean(), "{result}");
}
