//! Whatever became of a journal, whoever reads it gets whole lines as they were written, each chunk once and in
//! order, and is told of all that are not there: chunks and `dropped` together have no gap. That is so while it is
//! still written too. The place to begin at, and what a chunk's line begins with, are found as if all of it had been
//! read.

#![no_main]

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runcast::model::chunk_line::{chunk_seq, chunk_time};
use runcast::model::event::Event;
use runcast::model::recorded::{Recorded, parse};
use runcast::model::run_id::RunId;
use runcast::runs::folder::Folder;
use runcast::runs::follow::{Follower, Since, written};
use runcast::runs::home::Home;
use runcast::runs::segments::{Before, name_of, position_after};

/// What stands between two segments.
const SEPARATOR: u8 = 0xff;

/// A folder of runs with one in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        DirBuilder::new().mode(0o700).create(place.path().join("run")).expect("so can one in it");
        // What tells it from a folder of somebody else's.
        File::create_new(place.path().join("run/lock")).expect("it is our own");
        Self(place)
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn folder(&self) -> Folder {
        let home = Home::open_at(self.0.path().to_owned()).expect("it is our own");
        home.run(&RunId::parse("run").expect("it is a name")).expect("it is there")
    }
}

fn append(run: &Path, name: &str, bytes: &[u8]) {
    let file = OpenOptions::new().create(true).append(true).open(run.join(name));
    file.and_then(|mut file| file.write_all(bytes)).expect("there is room");
}

/// All that comes until nothing more is there.
fn read(follower: &mut Follower, lines: &mut Vec<u8>) {
    let mut some = Vec::new();
    while follower.next(&mut some).expect("it can be read") {
        assert!(!some.is_empty());
        lines.extend_from_slice(&some);
    }
}

/// Looks at what came of a journal. Whoever has seen lines of each stream, and not all up to a chunk, is not told
/// of chunks in between that are not wanted.
fn check(lines: &[u8], journal: &[u8], since: Since) {
    let is_end = |&byte: &u8| byte == b'\n' || byte == SEPARATOR;
    let written: HashSet<&[u8]> = journal.split(is_end).collect();
    let (is_by_lines, mut last) = match since {
        Since::Chunk(after) => (false, after),
        Since::Lines(_) => (true, 0),
    };
    assert!(lines.is_empty() || lines.ends_with(b"\n"));
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let line = &line[..line.len() - 1];
        let (first, count) = match parse(line) {
            Ok(Recorded::Chunk(chunk)) => (chunk.seq, 1),
            Ok(Recorded::Event(Event::Dropped(dropped))) => {
                assert!(dropped.chunks > 0);
                (dropped.after_seq + 1, dropped.chunks)
            }
            // What is written as ours write it is not looked into.
            _ => chunk_seq(line).map_or((last + 1, 0), |seq| (seq, 1)),
        };
        assert!(first == last + 1 || (is_by_lines && first > last), "{first} after {last}");
        last = first + count - 1;
        let is_ours = matches!(parse(line), Ok(Recorded::Event(Event::Dropped(_))));
        assert!(is_ours || written.contains(line), "{}", line.escape_ascii());
    }
}

fn check_position(segment: &[u8], after: u64) {
    let whole = memchr::memrchr(b'\n', segment).map_or(&[][..], |end| &segment[..=end]);
    let seqs = |lines: &[u8]| -> Vec<u64> {
        lines.split_inclusive(|&byte| byte == b'\n').filter_map(chunk_seq).collect()
    };
    let at = position_after(whole, after);
    assert!(at == 0 || whole[at - 1] == b'\n');
    if seqs(whole).is_sorted_by(|one, next| one < next) {
        assert!(seqs(&whole[..at]).iter().all(|&seq| seq <= after));
        assert!(seqs(&whole[at..]).iter().all(|&seq| seq > after));
    }
}

/// Looks at what is found of a chunk without reading all of its line: that is what reading it gives. The last digits
/// of a time may differ.
fn check_chunk(line: &[u8]) {
    let Ok(Recorded::Chunk(chunk)) = parse(line) else { return };
    assert!(chunk_seq(line).is_none_or(|seq| seq == chunk.seq), "{}", line.escape_ascii());
    let is_near = |time: Duration| {
        time.abs_diff(chunk.at) <= Duration::from_nanos(1) + chunk.at / 1_000_000_000
    };
    assert!(chunk_time(line).is_none_or(is_near), "{}", line.escape_ascii());
}

fuzz_target!(|input: (u8, bool, bool, u16, &[u8])| {
    let (after, is_by_lines, is_late, grows, journal) = input;
    let (after, place) = (u64::from(after), Place::new());
    let since = if is_by_lines { Since::Lines([after; 2]) } else { Since::Chunk(after) };
    let mut follower = Follower::new(Arc::new(place.folder()), since);
    let (mut lines, mut names) = (Vec::new(), HashSet::new());
    for (index, segment) in journal.split(|&byte| byte == SEPARATOR).take(3).enumerate() {
        let head = segment.split(|&byte| byte == b'\n').next().and_then(Before::parse);
        let first = head.map_or(index as u64 + 1, |before| before.seq.saturating_add(1));
        if !names.insert(first) {
            continue;
        }
        let (begin, rest) = segment.split_at(segment.len().min(usize::from(grows)));
        for part in [begin, rest] {
            append(&place.run(), &name_of(first), part);
            if !is_late {
                read(&mut follower, &mut lines);
            }
        }
        check_position(segment, after);
        segment.split(|&byte| byte == b'\n').for_each(check_chunk);
    }
    read(&mut follower, &mut lines);
    let mut last = Vec::new();
    follower.finish(None, &mut last).expect("it can be read");
    lines.extend_from_slice(&last);
    check(&lines, journal, since);
    written(&place.folder()).expect("it can be read");
});
