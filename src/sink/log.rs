//! `log`: one JSON object a line for log viewers, and a last one that tells how the run ended.

use serde::Serialize;

use crate::model::event::Stream;
use crate::model::spec::Level;
use crate::sink::conclusion::Conclusion;
use crate::sink::logged::{Dialect, Logged};

/// Shows a run as JSON records.
pub type Log = Logged<Json>;

/// Records as JSON objects.
#[derive(Debug, Clone, Copy)]
pub struct Json;

/// What stands behind the message of a record that is no line.
#[derive(Serialize)]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(flatten)]
    conclusion: Option<&'a Conclusion<'a>>,
}

impl Dialect for Json {
    const END: &[u8] = b"}\n";
    const PARTIAL: &[u8] = b",\"partial\":true";
    const BASE64: [&[u8]; 2] = [b",\"base64\":\"", b"\""];

    fn put_head(head: &mut Vec<u8>, time: &[u8], level: Level) {
        let level = level.as_str().as_bytes();
        for part in [b"{\"time\":\"", time, b"\",\"level\":\"", level, b"\",\"message\":\""] {
            head.extend_from_slice(part);
        }
    }

    fn put_tail(tail: &mut Vec<u8>, stream: Stream, run: Option<&str>) {
        tail.extend_from_slice(b"\",\"stream\":\"");
        tail.extend_from_slice(stream.as_str().as_bytes());
        tail.extend_from_slice(b"\",\"run\":");
        serde_json::to_writer(&mut *tail, &run).expect("a string into memory cannot fail");
        tail.extend_from_slice(b",\"seq\":");
    }

    fn put_rest(rest: &mut Vec<u8>, run: Option<&str>, conclusion: Option<&Conclusion<'_>>) {
        let begin = rest.len();
        let fields = Rest { run, conclusion };
        serde_json::to_writer(&mut *rest, &fields).expect("fields into memory cannot fail");
        // In place of its brace: it goes on with what stands before it.
        let between: &[u8] = if rest[begin..] == *b"{}" { b"\"" } else { b"\"," };
        rest.splice(begin..=begin, between.iter().copied());
        rest.push(b'\n');
    }
}
