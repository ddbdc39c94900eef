//! What must be true of a journal and of those who read it, whatever is written, deleted, cut and read again.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::TestCaseError;

use crate::model::error::Error;
use crate::model::event::{Event, RunResult, Seconds, Stop, Stream, StreamTotals};
use crate::model::kept::Kept;
use crate::model::outcome::{Delivery, Outcome, StopReason};
use crate::model::recorded::{Recorded, parse};
use crate::model::spec::{Capture, Keep};
use crate::runs::closing;
use crate::runs::folder::Folder;
use crate::runs::follow::{Follower, Since};
use crate::runs::journal::Journal;
use crate::runs::segments::{Before, first_seq, name_of};
use crate::sink::Sink;

/// Segments of a few lines, and few of them: most of a run's output is deleted.
const SEGMENT_BYTES: u64 = 600;
const LIMIT_BYTES: u64 = 2400;

/// What happens to a journal and to one who reads it.
#[derive(Debug, Clone)]
enum Step {
    Output(Stream, Vec<u8>),
    Unfinished(Stream),
    Event,
    Flush,
    /// The reader takes what it can get, at most so many times.
    Read(usize),
    /// The reader is killed, and another goes on after the last chunk that it has seen.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let stream = any::<bool>().prop_map(|is_err| Stream::ALL[usize::from(is_err)]);
    let bytes = prop::collection::vec(
        prop_oneof![6 => any::<u8>(), 3 => Just(b'a'), 2 => Just(b'\n')],
        0..200,
    );
    prop_oneof![
        6 => (stream.clone(), bytes).prop_map(|(stream, bytes)| Step::Output(stream, bytes)),
        1 => stream.prop_map(Step::Unfinished),
        1 => Just(Step::Event),
        4 => Just(Step::Flush),
        3 => (0..4_usize).prop_map(Step::Read),
        1 => Just(Step::Again),
    ]
}

/// A chunk, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    seq: u64,
    stream: Stream,
    bytes: Vec<u8>,
    partial: bool,
}

/// Chunks that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    after: u64,
    chunks: u64,
    bytes: u64,
}

/// What a reader has got.
#[derive(Debug, Default)]
struct Got {
    chunks: Vec<Seen>,
    gaps: Vec<Gap>,
}

impl Got {
    fn take(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            match parse(line.strip_suffix(b"\n").expect("only whole lines are given")) {
                Ok(Recorded::Chunk(chunk)) => self.chunks.push(Seen {
                    seq: chunk.seq,
                    stream: chunk.stream,
                    bytes: chunk.bytes.into_owned(),
                    partial: chunk.partial,
                }),
                Ok(Recorded::Event(Event::Dropped(dropped))) => self.gaps.push(Gap {
                    after: dropped.after_seq,
                    chunks: dropped.chunks,
                    bytes: dropped.bytes,
                }),
                Ok(_) => {}
                Err(why) => panic!("{why}: {}", line.escape_ascii()),
            }
        }
    }

    fn last(&self) -> u64 {
        let gap = self.gaps.last().map_or(0, |gap| gap.after + gap.chunks);
        self.chunks.last().map_or(0, |chunk| chunk.seq).max(gap)
    }

    /// Reads on until nothing comes, and what is said at the end.
    fn drain(&mut self, folder: &Folder, follower: &mut Follower) {
        let mut lines = Vec::new();
        while follower.next(&mut lines).expect("it can be read") {
            self.take(&lines);
        }
        let totals = closing::totals(folder).expect("it can be read");
        follower.finish(totals, &mut lines).expect("it can be read");
        self.take(&lines);
    }
}

fn folder(place: &Path) -> Arc<Folder> {
    let dir: OwnedFd = File::open(place).expect("it is there").into();
    Arc::new(Folder::make(&dir, ".").expect("it can be filled"))
}

fn journal(folder: &Arc<Folder>, limit_bytes: u64) -> Journal {
    let capture = Capture::default();
    Journal::with_segments(Arc::clone(folder), limit_bytes, SEGMENT_BYTES, &capture)
        .expect("it can be written")
}

fn put_result(journal: &mut Journal) {
    let nothing = || StreamTotals { kept: Kept::new(Keep::Head, 0), bytes: 0, lines: 0 };
    let delivery = Delivery::Failed(Error::Internal("nothing ran"));
    let streams = [nothing(), nothing()];
    let outcome = Outcome::never_started();
    let result = RunResult::new(&outcome, &streams, &delivery);
    journal.event(&Event::Result(Box::new(result))).expect("there is room");
}

/// A journal, and beside it one that loses nothing, given the same.
struct Both {
    _places: [tempfile::TempDir; 2],
    folder: Arc<Folder>,
    whole: Arc<Folder>,
    journals: [Journal; 2],
    at: Duration,
}

impl Both {
    fn new() -> Self {
        // In memory if possible: each result waits for the disk.
        let memory = Path::new("/dev/shm");
        let temp = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let place = || tempfile::tempdir_in(&temp).expect("a temporary folder can be made");
        let places = [place(), place()];
        let [small, whole] = places.each_ref().map(|place| folder(place.path()));
        let journals = [journal(&small, LIMIT_BYTES), journal(&whole, u64::MAX)];
        Self { _places: places, folder: small, whole, journals, at: Duration::ZERO }
    }

    fn give(&mut self, step: &Step) {
        self.at += Duration::from_micros(10);
        for journal in &mut self.journals {
            let done = match step {
                Step::Output(stream, bytes) => journal.block(*stream, bytes, self.at),
                Step::Unfinished(stream) => journal.flush_partial(*stream, self.at),
                Step::Event => journal.event(&Event::Stop(Stop {
                    t: Seconds(self.at),
                    reason: Some(StopReason::Timeout),
                    signal: "SIGTERM".to_owned(),
                })),
                Step::Flush => journal.flush(),
                Step::Read(_) | Step::Again => Ok(()),
            };
            done.expect("there is room");
        }
    }

    /// Ends both streams and the run, and returns all chunks.
    fn end(&mut self, with_result: bool) -> Vec<Seen> {
        for journal in &mut self.journals {
            for stream in Stream::ALL {
                journal.end(stream, self.at).expect("there is room");
            }
            journal.flush().expect("there is room");
            if with_result {
                put_result(journal);
            }
        }
        let mut all = Got::default();
        all.drain(&self.whole, &mut Follower::new(Arc::clone(&self.whole), Since::Chunk(0)));
        all.chunks
    }
}

/// Checks that what was got is everything after `after`, each once and in order, or told to be missing. `is_exact`:
/// the bytes of each gap but the first are exact; else they are no less.
fn check(got: &Got, all: &[Seen], after: u64, is_exact: bool) -> Result<(), TestCaseError> {
    let mut next = after + 1;
    let mut gaps = got.gaps.iter().peekable();
    let mut pass_gap = |next: &mut u64| -> Result<(), TestCaseError> {
        while let Some(gap) = gaps.next_if(|gap| gap.after + 1 == *next) {
            let end = gap.after + gap.chunks;
            let gone = &all[gap.after as usize..end as usize];
            let bytes = gone.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
            if is_exact || gap.after > after {
                prop_assert_eq!(gap.bytes, bytes, "{:?}", gap);
            } else {
                prop_assert!(gap.bytes >= bytes, "{:?}", gap);
            }
            *next = end + 1;
        }
        Ok(())
    };
    for chunk in &got.chunks {
        pass_gap(&mut next)?;
        prop_assert_eq!(chunk.seq, next);
        prop_assert_eq!(chunk, &all[next as usize - 1]);
        next += 1;
    }
    pass_gap(&mut next)?;
    prop_assert!(gaps.next().is_none(), "a gap out of its place: {:?}", got.gaps);
    prop_assert_eq!(next, (all.len() as u64).max(after) + 1);
    Ok(())
}

fn segments(folder: &Folder) -> Vec<String> {
    let mut names = folder.names().expect("it can be read");
    names.retain(|name| first_seq(name).is_some());
    names.sort();
    names
}

proptest! {
    // Each makes and deletes many files.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whoever_reads_dies_and_goes_on_gets_each_chunk_once_and_is_told_of_the_rest(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut both = Both::new();
        let mut got = Got::default();
        let mut follower = Follower::new(Arc::clone(&both.folder), Since::Chunk(0));
        let mut lines = Vec::new();
        let (mut written, mut is_exact) = ([Vec::new(), Vec::new()], true);
        for step in &steps {
            match step {
                Step::Read(count) => {
                    for _ in 0..*count {
                        if follower.next(&mut lines).expect("it can be read") {
                            got.take(&lines);
                        }
                    }
                }
                Step::Again => {
                    is_exact = is_exact && got.last() == 0;
                    follower = Follower::new(Arc::clone(&both.folder), Since::Chunk(got.last()));
                }
                Step::Output(stream, bytes) => {
                    written[stream.index()].extend_from_slice(bytes);
                    both.give(step);
                }
                other => both.give(other),
            }
        }
        let all = both.end(true);
        got.drain(&both.folder, &mut follower);
        if is_exact {
            check(&got, &all, 0, true)?;
        } else {
            // Whoever goes on in what is gone already cannot be told how much of it was seen before.
            check_order(&got, &all)?;
        }
        for stream in Stream::ALL {
            let of = all.iter().filter(|chunk| chunk.stream == stream);
            let joined: Vec<u8> = of.flat_map(|chunk| chunk.bytes.iter().copied()).collect();
            prop_assert_eq!(&joined, &written[stream.index()]);
        }
    }

    #[test]
    fn reading_from_any_chunk_on_gives_all_behind_it(
        steps in prop::collection::vec(step(), 0..120),
        after in 0..200_u64,
    ) {
        let mut both = Both::new();
        steps.iter().for_each(|step| both.give(step));
        let all = both.end(true);
        let mut got = Got::default();
        got.drain(&both.folder, &mut Follower::new(Arc::clone(&both.folder), Since::Chunk(after)));
        check(&got, &all, after, after == 0)?;
    }

    #[test]
    fn reading_from_any_lines_on_gives_what_is_behind_them_of_each_stream(
        steps in prop::collection::vec(step(), 0..120),
        from in [0..60_u64, 0..60_u64],
    ) {
        let mut both = Both::new();
        steps.iter().for_each(|step| both.give(step));
        let all = both.end(true);
        let mut got = Got::default();
        got.drain(&both.folder, &mut Follower::new(Arc::clone(&both.folder), Since::Lines(from)));
        let mut lines = [0; 2];
        let mut wanted = Vec::new();
        for chunk in &all {
            let count = &mut lines[chunk.stream.index()];
            if *count >= from[chunk.stream.index()] {
                wanted.push(chunk.clone());
            }
            *count += u64::from(!chunk.partial);
        }
        let is_gone = |chunk: &Seen| {
            got.gaps.iter().any(|gap| (gap.after + 1..=gap.after + gap.chunks).contains(&chunk.seq))
        };
        let (gone, there): (Vec<Seen>, Vec<Seen>) = wanted.into_iter().partition(is_gone);
        prop_assert_eq!(&got.chunks, &there);
        // Nothing is said to be missing of which nothing is wanted, nor is anything that is there.
        prop_assert!(got.gaps.is_empty() || !gone.is_empty(), "{:?}", got.gaps);
        let oldest = segments(&both.folder).iter().find_map(|name| first_seq(name));
        prop_assert!(gone.iter().all(|chunk| Some(chunk.seq) < oldest));
    }

    #[test]
    fn a_journal_cut_at_any_byte_gives_the_whole_lines_before_it(
        steps in prop::collection::vec(step(), 0..80),
        after in 0..100_u64,
        cut in 0.0..1.0_f64,
        with_result in any::<bool>(),
    ) {
        let mut both = Both::new();
        steps.iter().for_each(|step| both.give(step));
        let all = both.end(with_result);
        let newest = segments(&both.folder).pop().expect("there is always one");
        let file = both.folder.open_file(&newest, OFlag::O_RDWR).expect("it is there");
        let content = both.folder.read(&newest).expect("it can be read").expect("it is there");
        let length = (content.len() as f64 * cut) as usize;
        file.set_len(length as u64).expect("it can be cut");
        let mut got = Got::default();
        got.drain(&both.folder, &mut Follower::new(Arc::clone(&both.folder), Since::Chunk(after)));
        if with_result {
            check(&got, &all, after, after == 0)?;
        } else {
            let seen = got.last().max(after);
            check(&got, &all[..(seen as usize).min(all.len())], after, after == 0)?;
            let whole = content[..length].iter().filter(|&&byte| byte == b'\n').count();
            let there = content.split_inclusive(|&byte| byte == b'\n').take(whole);
            let last = there.filter_map(|line| match parse(line.trim_ascii_end()) {
                Ok(Recorded::Chunk(chunk)) => Some(chunk.seq),
                _ => None,
            });
            prop_assert!(last.max().is_none_or(|last| last <= seen), "whole lines were not given");
        }
    }
}

#[test]
fn a_chunk_that_was_told_missing_does_not_come_though_a_segment_has_it_after_all() {
    let place = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder(place.path());
    // What was before it is told wrong: the chunks 3 and 4 are in it.
    let before = Before { seq: 4, ..Before::default() };
    let mut content = before.line();
    for seq in [3, 4, 5] {
        let chunk = format!(r#"{{"op":"chunk","kind":"stdout","seq":{seq},"t":1,"content":"a"}}"#);
        content.extend_from_slice(format!("{chunk}\n").as_bytes());
    }
    let mut file = folder.create(&name_of(5)).expect("it can be made");
    file.write_all(&content).expect("there is room");
    let mut got = Got::default();
    got.drain(&folder, &mut Follower::new(Arc::clone(&folder), Since::Chunk(1)));
    assert_eq!(got.gaps, [Gap { after: 1, chunks: 3, bytes: 0 }]);
    assert_eq!(got.chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [5]);
}

/// Checks that chunks and gaps are everything, each once and in order, and that no gap has more bytes than it tells.
fn check_order(got: &Got, all: &[Seen]) -> Result<(), TestCaseError> {
    let mut parts: Vec<(u64, u64)> = got.chunks.iter().map(|chunk| (chunk.seq, 1)).collect();
    prop_assert!(parts.is_sorted());
    parts.extend(got.gaps.iter().map(|gap| (gap.after + 1, gap.chunks)));
    parts.sort_unstable();
    let mut next = 1;
    for (first, count) in parts {
        prop_assert_eq!(first, next);
        next = first + count;
    }
    prop_assert_eq!(next, all.len() as u64 + 1);
    for chunk in &got.chunks {
        prop_assert_eq!(chunk, &all[chunk.seq as usize - 1]);
    }
    for gap in &got.gaps {
        let gone = &all[gap.after as usize..(gap.after + gap.chunks) as usize];
        let bytes = gone.iter().map(|chunk| chunk.bytes.len() as u64).sum();
        prop_assert!(gap.bytes >= bytes, "{:?}", gap);
    }
    Ok(())
}
