//! `logfmt`: the records of `log` as `key=value` pairs.
//!
//! A value in quotes is escaped as a JSON string is: that is what its readers take.

use std::fmt::Display;
use std::io::Write;

use crate::model::event::Stream;
use crate::model::outcome::{LimitHit, StopReason};
use crate::model::spec::Level;
use crate::sink::conclusion::Conclusion;
use crate::sink::logged::{Dialect, Logged};

/// Shows a run as logfmt records.
pub type Logfmt = Logged<Pairs>;

/// Records as `key=value` pairs.
#[derive(Debug, Clone, Copy)]
pub struct Pairs;

/// Writes a pair whose value is a number or a word.
fn put_word(record: &mut Vec<u8>, key: &str, value: impl Display) {
    write!(record, " {key}={value}").expect("memory takes all that is written");
}

/// Writes a pair whose value is any text.
fn put_text(record: &mut Vec<u8>, key: &str, value: &str) {
    write!(record, " {key}=").expect("memory takes all that is written");
    serde_json::to_writer(&mut *record, value).expect("a string into memory cannot fail");
}

impl Dialect for Pairs {
    const END: &[u8] = b"\n";
    const PARTIAL: &[u8] = b" partial=true";
    const BASE64: [&[u8]; 2] = [b" base64=\"", b"\""];

    fn put_head(head: &mut Vec<u8>, time: &[u8], level: Level) {
        for part in [b"time=", time, b" level=", level.as_str().as_bytes(), b" msg=\""] {
            head.extend_from_slice(part);
        }
    }

    fn put_tail(tail: &mut Vec<u8>, stream: Stream, _: Option<&str>) {
        tail.extend_from_slice(b"\" stream=");
        tail.extend_from_slice(stream.as_str().as_bytes());
        tail.extend_from_slice(b" seq=");
    }

    /// What there is not has no pair: without a type, nothing would tell it from a word.
    fn put_rest(rest: &mut Vec<u8>, run: Option<&str>, conclusion: Option<&Conclusion<'_>>) {
        rest.push(b'"');
        let word = |rest: &mut Vec<u8>, key: &str, value: Option<&str>| {
            if let Some(value) = value {
                put_word(rest, key, value);
            }
        };
        let number = |rest: &mut Vec<u8>, key: &str, value: Option<u64>| {
            if let Some(value) = value {
                put_word(rest, key, value);
            }
        };
        word(rest, "run", run);
        if let Some(conclusion) = conclusion {
            number(rest, "exit_code", conclusion.exit_code.map(u64::from));
            word(rest, "signal", conclusion.signal);
            number(rest, "status", Some(conclusion.status.into()));
            put_word(rest, "timed_out", conclusion.timed_out);
            word(rest, "stopped_by", conclusion.stopped_by.map(StopReason::as_str));
            word(rest, "received", conclusion.received);
            word(rest, "limit", conclusion.limit.map(LimitHit::as_str));
            put_word(rest, "duration", format_args!("{:.6}", conclusion.duration.0.as_secs_f64()));
            number(rest, "undelivered_bytes", conclusion.undelivered_bytes);
            if conclusion.leaked.is_some() {
                put_word(rest, "leaked", true);
            }
            if let Some(why) = conclusion.record_error {
                put_text(rest, "record_error", why);
            }
            number(rest, "dropped_bytes", conclusion.dropped_bytes);
            number(rest, "dropped_chunks", conclusion.dropped_chunks);
            if let Some(error) = conclusion.error {
                put_word(rest, "error_code", error.code);
                put_text(rest, "error", &error.message);
            }
        }
        rest.push(b'\n');
    }
}
