//! Output of any bytes is lines of JSON, or pairs whose texts are JSON, that say the same: the text with U+FFFD for
//! what is not UTF-8, and then the exact bytes too; numbered, and each line apart.

#![no_main]

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use runcast::model::event::Stream;
use runcast::model::lines::{LineCutter, Piece, without_end};
use runcast::model::spec::{Level, Split};
use runcast::sink::lined::LineFormat;
use runcast::sink::log::Log;
use runcast::sink::logfmt::Logfmt;
use runcast::sink::ndjson::Ndjson;
use runcast_fuzz::{Reads, destination};
use serde_json::Value;

/// The bytes of a field, exact where there is base64.
fn bytes(event: &Value, text: &str) -> Vec<u8> {
    let content = event[text].as_str().expect("it has a text");
    let Some(base64) = event["base64"].as_str() else { return content.as_bytes().to_vec() };
    let exact = STANDARD.decode(base64).expect("it is base64");
    assert!(std::str::from_utf8(&exact).is_err());
    assert_eq!(content, String::from_utf8_lossy(&exact));
    exact
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("it is JSON")
}

/// A line of logfmt as an object: a JSON string behind the sign, or a word, which may be a number.
fn pairs(mut line: &str) -> Value {
    let mut object = serde_json::Map::new();
    while let Some((key, rest)) = line.split_once('=') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let (value, length) = match values.next().filter(|_| rest.starts_with('"')) {
            Some(text) => (text.expect("it is a JSON string").into(), values.byte_offset()),
            None => {
                let length = rest.find(' ').unwrap_or(rest.len());
                let word = &rest[..length];
                (word.parse().unwrap_or_else(|_| word.into()), length)
            }
        };
        object.insert(key.to_owned(), value);
        line = rest[length..].strip_prefix(' ').unwrap_or_default();
    }
    Value::Object(object)
}

fuzz_target!(|input: (u8, u8, u8, Reads, &[u8])| {
    let (format, split, more, reads, stream) = input;
    let split = [Split::Lf, Split::Cr, Split::Nul][usize::from(split % 3)];
    type Format = (Box<dyn LineFormat>, &'static str, fn(&str) -> Value);
    let mut format: Format = match format % 3 {
        0 => (Box::new(Ndjson::new(destination(), &[], false)), "content", json),
        1 => (Box::new(Log::new(destination(), split, Level::Info)), "message", json),
        _ => (Box::new(Logfmt::new(destination(), split, Level::Info)), "msg", pairs),
    };
    let mut pieces: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut cutter = LineCutter::new(split, 4 + usize::from(more));
    let mut emit = |piece: Piece<'_>| {
        format.0.lines(Stream::Stdout, piece, Duration::ZERO).expect("nothing is written");
        match (piece, split.line_end()) {
            (Piece::Lines(lines), Some(end)) => {
                let each = lines.split_inclusive(|&byte| byte == end);
                pieces.extend(each.map(|line| (line.to_vec(), false)));
            }
            (Piece::Lines(_), None) => panic!("lines only come together where one byte ends them"),
            (Piece::One { bytes, partial }, _) => pieces.push((bytes.to_vec(), partial)),
        }
    };
    reads.of(stream).for_each(|read| cutter.push(read, &mut emit));
    cutter.finish(&mut emit);

    let (format, text, parse) = format;
    let shown = str::from_utf8(format.out_ref().unwritten()).expect("it is UTF-8");
    assert_eq!(shown.matches('\n').count(), pieces.len());
    for ((line, seq), (piece, partial)) in shown.lines().zip(1..).zip(pieces) {
        let is_whole = text == "content" || partial;
        let content = if is_whole { &piece } else { without_end(&piece, split) };
        let line = parse(line);
        assert_eq!(bytes(&line, text), content);
        assert_eq!(line["seq"], Value::from(seq));
        assert_eq!(line["partial"].as_bool().unwrap_or(false), partial);
    }
});
