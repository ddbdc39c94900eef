//! Output of any bytes is lines of JSON, or pairs whose texts are JSON, that say the same: the text with U+FFFD for
//! what is not UTF-8, and then the exact bytes too; numbered, and each line apart.

#![no_main]

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use runcast::model::event::Stream;
use runcast::model::lines::{LineCutter, Piece, without_end};
use runcast::model::spec::{Level, Split};
use runcast::sink::destination::{Destination, Outlet, Patience};
use runcast::sink::lined::LineFormat;
use runcast::sink::log::Log;
use runcast::sink::logfmt::Logfmt;
use runcast::sink::ndjson::Ndjson;
use runcast_fuzz::Reads;
use serde_json::Value;

fn destination() -> Destination {
    let null = File::create("/dev/null").expect("it is there");
    Destination::new(Outlet::Opened(null.into()), "nothing", &Arc::new(Patience::default()))
}

/// The bytes of a field, exact where there is base64.
fn bytes(event: &Value, text: &str) -> Vec<u8> {
    let content = event[text].as_str().expect("it has a text");
    let Some(base64) = event["base64"].as_str() else { return content.as_bytes().to_vec() };
    let exact = STANDARD.decode(base64).expect("it is base64");
    assert!(std::str::from_utf8(&exact).is_err());
    assert_eq!(content, String::from_utf8_lossy(&exact));
    exact
}

/// A line of logfmt as an object: a JSON string behind the sign, or a word.
fn pairs(mut line: &str) -> Value {
    let mut object = serde_json::Map::new();
    while let Some((key, rest)) = line.split_once('=') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let (value, length) = match values.next().filter(|_| rest.starts_with('"')) {
            Some(text) => (text.expect("it is a JSON string"), values.byte_offset()),
            None => {
                let length = rest.find(' ').unwrap_or(rest.len());
                (rest[..length].to_owned(), length)
            }
        };
        object.insert(key.to_owned(), value.into());
        line = rest[length..].strip_prefix(' ').unwrap_or_default();
    }
    Value::Object(object)
}

fuzz_target!(|input: (u8, u8, Reads, &[u8])| {
    let (options, more, reads, stream) = input;
    let split = [Split::Lf, Split::Cr, Split::Nul][usize::from(options % 3)];
    let (mut ndjson, mut log, mut logfmt) = (
        Ndjson::new(destination(), &[], false),
        Log::new(destination(), split, Level::Info),
        Logfmt::new(destination(), split, Level::Info),
    );
    let mut pieces: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut cutter = LineCutter::new(split, 4 + usize::from(more));
    let at = Duration::from_micros(stream.len() as u64);
    let mut emit = |piece: Piece<'_>| {
        for format in [&mut ndjson as &mut dyn LineFormat, &mut log, &mut logfmt] {
            format.lines(Stream::Stdout, piece, at).expect("nothing is written");
        }
        match (piece, split.line_end()) {
            (Piece::Lines(lines), Some(end)) => {
                pieces.extend(
                    lines.split_inclusive(|&b| b == end).map(|line| (line.to_vec(), false)),
                );
            }
            (Piece::Lines(lines), None) => pieces.push((lines.to_vec(), false)),
            (Piece::One { bytes, partial }, _) => pieces.push((bytes.to_vec(), partial)),
        }
    };
    reads.of(stream).for_each(|read| cutter.push(read, &mut emit));
    cutter.finish(&mut emit);

    let text = |format: &dyn LineFormat| {
        String::from_utf8(format.out_ref().unwritten().to_vec()).expect("it is UTF-8")
    };
    let (ndjson, log, logfmt) = (text(&ndjson), text(&log), text(&logfmt));
    let shown =
        [ndjson.matches('\n').count(), log.matches('\n').count(), logfmt.matches('\n').count()];
    assert_eq!(shown, [pieces.len(); 3]);
    let lines = ndjson.lines().zip(log.lines()).zip(logfmt.lines());
    for ((seq, (piece, partial)), ((chunk, record), line)) in (1..).zip(&pieces).zip(lines) {
        let content = if *partial { piece } else { without_end(piece, split) };
        let chunk: Value = serde_json::from_str(chunk).expect("it is JSON");
        assert_eq!((bytes(&chunk, "content"), chunk["seq"].as_u64()), (piece.clone(), Some(seq)));
        assert_eq!(chunk["partial"].as_bool().unwrap_or(false), *partial);
        let record: Value = serde_json::from_str(record).expect("it is JSON");
        assert_eq!((&bytes(&record, "message")[..], record["seq"].as_u64()), (content, Some(seq)));
        assert_eq!(record["partial"].as_bool().unwrap_or(false), *partial);
        let line = pairs(line);
        assert_eq!(
            (&bytes(&line, "msg")[..], &line["seq"]),
            (content, &Value::from(seq.to_string()))
        );
    }
});
