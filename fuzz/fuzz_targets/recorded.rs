//! Whatever stands in a recording, each line of it is refused or is an event. That event, written and read again, is
//! the same; and every format shows it, in lines of JSON where it is made of those.

#![no_main]

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::time::Duration;

use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use runcast::model::event::{Chunk, Event, Seconds, text_fields};
use runcast::model::kept::Kept;
use runcast::model::recorded::{Recorded, parse};
use runcast::model::spec::{Capture, Display, Keep, Pty, Split};
use runcast::model::template::Template;
use runcast::sink::cast::{Cast, LineEnd, Screen};
use runcast::sink::cri::Cri;
use runcast::sink::cutters::Shows;
use runcast::sink::lined::Lined;
use runcast::sink::log::Log;
use runcast::sink::logfmt::Logfmt;
use runcast::sink::ndjson::Ndjson;
use runcast::sink::prefixed::{LinePrefix, Prefixed};
use runcast::sink::snapshot::Snapshot;
use runcast::sink::text::Text;
use runcast::sink::{Seen, Sink};
use runcast_fuzz::{destination, destination_to};
use serde_json::{Map, Value};

/// Up to here microseconds fit into a double, there and back.
const EXACT: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// How much of each stream snapshots show.
const KEPT_BYTES: u64 = 100;

/// One sink of each kind, and the files of those that write lines of JSON.
struct Shown {
    sinks: [Box<dyn Sink>; 8],
    json: [File; 4],
}

impl Shown {
    fn new() -> Self {
        let capture = Capture::default();
        let json = [(); 4].map(|()| tempfile::tempfile().expect("a temporary file can be made"));
        let [ndjson, log, snapshot, cast] = json
            .each_ref()
            .map(|file| destination_to(file.try_clone().expect("a descriptor is free")));
        let two = || [destination(), destination()];
        let (split, level) = (Split::Lf, Display::default().stderr_level);
        let template = "{stream} {pid} {seq} {time} {elapsed} {delta} ";
        let template = Template::parse(template).expect("these are all that there are");
        let prefix = LinePrefix { template, zone: TimeZone::UTC, styles: Default::default() };
        let screen =
            Screen { columns: 80, rows: 24, terminal: None, shell: None, line_end: LineEnd::Lf };
        let sinks: [Box<dyn Sink>; 8] = [
            Box::new(Lined::new(Ndjson::new(ndjson, &[], true), &capture, Shows::Pieces)),
            Box::new(Lined::new(Log::new(log, split, level), &capture, Shows::Pieces)),
            Box::new(Lined::new(Logfmt::new(destination(), split, level), &capture, Shows::Pieces)),
            Box::new(Lined::new(Cri::new(destination(), split), &capture, Shows::Pieces)),
            Box::new(Text::new(two(), &Display::default(), None)),
            Box::new(Prefixed::new(two(), &prefix, split, None, Pty::No, true)),
            Box::new(Snapshot::new(snapshot, Duration::ZERO, false)),
            Box::new(Cast::new(cast, screen, None)),
        ];
        Self { sinks, json }
    }
}

/// Looks at what was written in a format of JSON: each line is an object or an array, or is as it was recorded.
fn check_shown(mut file: File, recording: &[u8]) {
    let mut written = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut written)).expect("it can be read");
    let lines = |text| <[u8]>::split_inclusive(text, |&byte| byte == b'\n');
    let recorded: HashSet<&[u8]> = lines(recording).collect();
    for line in lines(&written).filter(|line| !recorded.contains(line)) {
        let read = serde_json::from_slice::<Value>(line);
        let is_json = read.is_ok_and(|value| value.is_object() || value.is_array());
        assert!(is_json && line.ends_with(b"\n"), "{}", line.escape_ascii());
    }
}

/// The line of an event; `None`: it is none that would be written.
fn written(recorded: &Recorded<'_>) -> Option<Vec<u8>> {
    let line = match recorded {
        Recorded::Unknown => return None,
        Recorded::Event(event) => serde_json::to_vec(event),
        Recorded::Chunk(chunk) => {
            let (content, base64) = text_fields(Cow::Borrowed(&chunk.bytes));
            let (kind, seq, t) = (chunk.stream, chunk.seq, Seconds(chunk.at));
            let (partial, time, metadata) = (chunk.partial, None, None);
            let chunk = Chunk { kind, seq, t, content, partial, base64, time, metadata };
            serde_json::to_vec(&Event::Chunk(chunk))
        }
    };
    Some(line.expect("an event is JSON"))
}

/// Fields that not all of is read, or whose words may be of a later version.
const FREE: [&str; 5] = ["reason", "stopped_by", "limit", "usage", "error"];

/// Looks at what was read of a line, as it would be written: field by field it is what any reader of JSON takes it for.
fn check(line: &[u8], again: &[u8]) {
    let Ok(line) = serde_json::from_slice::<Map<String, Value>>(line) else { return };
    let again: Map<String, Value> = serde_json::from_slice(again).expect("an event is JSON");
    for (key, value) in &again {
        let is_free = FREE.contains(&&**key) || (key == "content" && line.contains_key("base64"));
        let Some(was) = line.get(key).filter(|_| !is_free) else { continue };
        let is_near =
            |number: f64| (number - was.as_f64().unwrap_or(f64::NAN)).abs() < 2e-6 + number * 1e-9;
        let is_same =
            if value.is_f64() { value.as_f64().is_some_and(is_near) } else { value == was };
        assert!(is_same, "{key}: {was} was read as {value}");
    }
}

fuzz_target!(|recording: &[u8]| {
    let (mut kept, mut bytes) = ([(); 2].map(|()| Kept::new(Keep::Head, KEPT_BYTES)), [0; 2]);
    let mut shown: Option<Shown> = None;
    for line in recording.split_inclusive(|&byte| byte == b'\n') {
        let Ok(recorded) = parse(line.strip_suffix(b"\n").unwrap_or(line)) else { continue };
        if let Some(again) = written(&recorded) {
            check(line, &again);
            let read = parse(&again).expect("it was written just now");
            if let (Recorded::Chunk(chunk), Recorded::Chunk(read)) = (&recorded, &read) {
                assert_eq!((&chunk.bytes, chunk.stream), (&read.bytes, read.stream));
            }
            let is_exact = recorded.at().is_some_and(|at| at < EXACT);
            assert!(!is_exact || written(&read) == Some(again));
        }
        if let Recorded::Chunk(chunk) = &recorded {
            kept[chunk.stream.index()].push(&chunk.bytes);
            bytes[chunk.stream.index()] += chunk.bytes.len() as u64;
        }
        for sink in &mut shown.get_or_insert_with(Shown::new).sinks {
            sink.recorded(&recorded, line).expect("there is room");
            let seen =
                Seen { kept: kept.each_ref(), bytes, lines: [0, 0], last_output: Duration::ZERO };
            sink.refresh(recorded.at().unwrap_or_default(), seen).expect("there is room");
        }
    }
    let Some(Shown { mut sinks, json }) = shown else { return };
    sinks.iter_mut().for_each(|sink| sink.flush().expect("there is room"));
    json.into_iter().for_each(|file| check_shown(file, recording));
});
