//! `ndjson`: one JSON object per line.
//!
//! Events come through serde, but for the chunk: of those there are millions. It is a ready-made envelope with
//! the escaped line in it, written where it goes out from. A test holds the two ways against each other.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::chunk_line::beginning;
use crate::model::escape::{LEAST_ROOM, escape_until, escaped};
use crate::model::event::{Event, Metadata, Started, Stream};
use crate::model::lines::{Piece, by_encoding};
use crate::model::wall_clock::WallClock;
use crate::sink::destination::{Destination, Lost};
use crate::sink::json_text::{put_base64, put_lossy};
use crate::sink::lined::LineFormat;

/// Shows a run as NDJSON.
#[derive(Debug)]
pub struct Ndjson {
    out: Destination,
    head: Head,
    /// What ends every chunk: the metadata and the closing brace.
    end: Vec<u8>,
    /// What ends a chunk behind its own fields: the time, if that is shown, and `end`.
    tail: Vec<u8>,
    /// Whether every chunk has its time, and with the first event what that is told by.
    clock: Option<WallClock>,
    shows_time: bool,
    /// Lines that were put to their end, and bytes, in the order of the streams.
    lines: [u64; 2],
    bytes: [u64; 2],
    /// Whether the last line of each is unfinished.
    open: [bool; 2],
    /// Bytes of output whose chunks went whole into the buffer.
    put_bytes: u64,
    /// Bytes of output in the last chunk of which a part was written before the rest was put.
    split_bytes: u64,
}

/// What was put, whatever became of it; where there are two, in the order of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// The number of the last chunk.
    pub seq: u64,
    /// Whole lines.
    pub lines: [u64; 2],
    /// Bytes of output.
    pub bytes: [u64; 2],
    /// Whether the last line is unfinished.
    pub open: [bool; 2],
}

impl Ndjson {
    /// Shows a run on this destination, every chunk with this metadata, and with its `time` if that is asked
    /// for.
    #[must_use]
    pub fn new(out: Destination, metadata: &[(String, String)], shows_time: bool) -> Self {
        let mut end = Vec::new();
        if !metadata.is_empty() {
            end.extend_from_slice(b",\"metadata\":");
            serde_json::to_writer(&mut end, &Metadata(metadata))
                .expect("strings into memory cannot fail");
        }
        end.extend_from_slice(b"}\n");
        let (tail, head) = (end.clone(), Head::new());
        Self {
            out,
            head,
            end,
            tail,
            clock: None,
            shows_time,
            lines: [0; 2],
            bytes: [0; 2],
            open: [false; 2],
            put_bytes: 0,
            split_bytes: 0,
        }
    }

    /// What was put so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (lines, bytes, open) = (self.lines, self.bytes, self.open);
        Counts { seq: self.head.seq - 1, lines, bytes, open }
    }

    fn set_time(&mut self, at: Duration) {
        if let Some(clock) = self.clock.filter(|_| self.shows_time) {
            self.tail.clear();
            self.tail.extend_from_slice(b",\"time\":\"");
            self.tail.extend_from_slice(clock.utc(at).as_bytes());
            self.tail.push(b'"');
            self.tail.extend_from_slice(&self.end);
        }
    }

    /// Whole lines: those that are UTF-8 all at once, others one by one.
    fn put_lines(&mut self, lines: &[u8]) -> Result<(), Lost> {
        let end = *lines.last().expect("a run of lines has at least one");
        for (valid, bad) in by_encoding(lines) {
            self.put_valid_lines(valid, end)?;
            if let Some(bad) = bad {
                self.put_one(bad, false)?;
            }
        }
        Ok(())
    }

    /// Whole lines that are UTF-8. This is where the time goes.
    fn put_valid_lines(&mut self, mut lines: &[u8], end: u8) -> Result<(), Lost> {
        let closing = &self.closing(end);
        let mut in_line = false;
        // Of what is left to put: where the last buffer began, and where the last whole line ended.
        let (mut left, mut whole) = (lines.len(), lines.len());
        while !lines.is_empty() {
            let mut is_split = in_line;
            let room = self.out.room(HEAD_BYTES + LEAST_ROOM + closing.room())?;
            // A line's closing always has room behind whatever was escaped before it.
            let limit = room.len() - closing.room();
            let mut at = 0;
            while !lines.is_empty() {
                if !in_line {
                    if limit.saturating_sub(at) < HEAD_BYTES {
                        break;
                    }
                    at += self.head.put(&mut room[at..limit]);
                    in_line = true;
                }
                let progress = escape_until(lines, &mut room[at..limit], Some(end));
                lines = &lines[progress.read..];
                at += progress.written;
                if !progress.at_end {
                    break;
                }
                at += closing.put(&mut room[at..]);
                in_line = false;
                if std::mem::take(&mut is_split) {
                    self.split_bytes = (whole - lines.len()) as u64;
                }
                whole = lines.len();
            }
            self.out.fill(at);
            self.put_bytes += (left - whole) as u64;
            left = whole;
        }
        Ok(())
    }

    /// A single line, or a piece of one.
    fn put_one(&mut self, bytes: &[u8], partial: bool) -> Result<(), Lost> {
        let flushes = self.out.flushes();
        let room = self.out.room(HEAD_BYTES)?;
        let length = self.head.put(room);
        self.out.fill(length);
        let exact = put_lossy(&mut self.out, bytes)?;
        self.out.put(b"\"")?;
        if partial {
            self.out.put(b",\"partial\":true")?;
        }
        if !exact {
            self.out.put(b",\"base64\":\"")?;
            put_base64(&mut self.out, bytes)?;
            self.out.put(b"\"")?;
        }
        self.out.put(&self.tail)?;
        self.put_bytes += bytes.len() as u64;
        if self.out.flushes() != flushes {
            self.split_bytes = bytes.len() as u64;
        }
        Ok(())
    }

    fn closing(&self, end: u8) -> Closing {
        let (escape, length) = escaped(end);
        Closing::new(&[&escape[..length], b"\"", &self.tail].concat())
    }
}

impl LineFormat for Ndjson {
    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration) -> Result<(), Lost> {
        if self.head.set(stream, at) {
            self.set_time(at);
        }
        let first = self.head.seq;
        let was_lost = self.out.is_lost();
        let put = match piece {
            // What was put before and could not be written is still in the buffer, to be counted.
            _ if was_lost => Ok(()),
            Piece::One { bytes, partial } => self.put_one(bytes, partial),
            Piece::Lines(lines) => self.put_lines(lines),
        };
        if was_lost || put.is_err() {
            // Those that could not be put have their numbers too.
            self.head.set_seq(first + piece.chunks());
        }
        let is_partial = matches!(piece, Piece::One { partial: true, .. });
        let ended = if is_partial { 0 } else { self.head.seq - first };
        self.open[stream.index()] = is_partial;
        self.lines[stream.index()] += ended;
        self.bytes[stream.index()] += piece.bytes().len() as u64;
        put
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        if let Event::Started(started) = event {
            self.note_started(started);
        }
        self.out.put_event(event)
    }

    fn note_started(&mut self, started: &Started) {
        self.clock = Some(started.clock);
        self.set_time(Duration::ZERO);
    }

    /// What is added to chunks is not in what was written.
    fn shows_as_written(&self, is_chunk: bool) -> bool {
        !is_chunk || (!self.shows_time && self.end == b"}\n")
    }

    fn set_seq(&mut self, seq: u64) {
        self.head.set_seq(seq);
    }

    fn out(&mut self) -> &mut Destination {
        &mut self.out
    }

    fn out_ref(&self) -> &Destination {
        &self.out
    }

    /// Half a line is of no use to a reader, so what counts is in lines that were written to their end.
    fn delivered_bytes(&self) -> u64 {
        let unwritten = self.out.unwritten().split_inclusive(|&byte| byte == b'\n');
        // One without its end is not among those that were put.
        let put = unwritten.filter(|line| line.ends_with(b"\n"));
        let bytes = put.map(|line| chunk_bytes(line).unwrap_or(self.split_bytes));
        self.put_bytes.saturating_sub(bytes.sum())
    }
}

/// The longest head: its words, twice twenty digits, six more and some.
const HEAD_BYTES: usize = 128;

/// How much of a head is copied in most cases: up to a number of seven digits and a time of hours.
const USUAL_HEAD_BYTES: usize = 80;

/// What stands before a chunk's content. It is made once for all lines that were read together; from one to
/// the next only the last three digits of the number change, but for each thousandth.
#[derive(Debug)]
struct Head {
    stream: Stream,
    at: Duration,
    /// The number of the next chunk.
    seq: u64,
    bytes: [u8; HEAD_BYTES],
    length: usize,
    /// Where the number's digits end.
    digits_end: usize,
    /// The last three of them, or with a small number what stands before it.
    last_digits: [u8; 3],
}

impl Head {
    fn new() -> Self {
        let (stream, at, bytes) = (Stream::Stdout, Duration::ZERO, [0; HEAD_BYTES]);
        let mut head =
            Self { stream, at, seq: 1, bytes, length: 0, digits_end: 0, last_digits: [0; 3] };
        head.make();
        head
    }

    /// Returns whether something of it changed.
    fn set(&mut self, stream: Stream, at: Duration) -> bool {
        let is_new = (self.stream, self.at) != (stream, at);
        if is_new {
            (self.stream, self.at) = (stream, at);
            self.make();
        }
        is_new
    }

    fn set_seq(&mut self, seq: u64) {
        if self.seq != seq {
            self.seq = seq;
            self.make();
        }
    }

    fn make(&mut self) {
        self.length = 0;
        self.add(beginning(self.stream));
        self.add(itoa::Buffer::new().format(self.seq).as_bytes());
        self.digits_end = self.length;
        self.last_digits.copy_from_slice(&self.bytes[self.length - 3..self.length]);
        self.add(b",\"t\":");
        self.add(itoa::Buffer::new().format(self.at.as_secs()).as_bytes());
        // The seventh digit is there only to keep the zeros behind it.
        let mut micros = itoa::Buffer::new();
        let micros = micros.format(1_000_000 + self.at.subsec_micros());
        self.add(b".");
        self.add(&micros.as_bytes()[1..]);
        self.add(b",\"content\":\"");
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Writes the head of the next chunk, and may write a little behind it. Returns its length.
    #[inline]
    fn put(&mut self, room: &mut [u8]) -> usize {
        let room = &mut room[..HEAD_BYTES];
        if self.length <= USUAL_HEAD_BYTES {
            room[..USUAL_HEAD_BYTES].copy_from_slice(&self.bytes[..USUAL_HEAD_BYTES]);
        } else {
            room.copy_from_slice(&self.bytes);
        }
        let length = self.length;
        room[self.digits_end - 3..self.digits_end].copy_from_slice(&self.last_digits);
        self.seq += 1;
        if !count_up(&mut self.last_digits) {
            self.make();
        }
        length
    }
}

/// Adds one to the digits that a number ends with. Returns whether it is as long as before.
#[inline]
fn count_up(last_digits: &mut [u8; 3]) -> bool {
    for digit in last_digits.iter_mut().rev() {
        match *digit {
            b'0'..=b'8' => {
                *digit += 1;
                return true;
            }
            b'9' => *digit = b'0',
            // A number of fewer digits begins here.
            _ => return false,
        }
    }
    false
}

/// What stands behind a chunk's content, its own line's end included.
struct Closing {
    /// At least [`Closing::USUAL_BYTES`] long, with zeros behind its end.
    bytes: Vec<u8>,
    length: usize,
}

impl Closing {
    /// How much is copied in most cases.
    const USUAL_BYTES: usize = 16;

    fn new(closing: &[u8]) -> Self {
        let mut bytes = closing.to_vec();
        bytes.resize(closing.len().max(Self::USUAL_BYTES), 0);
        Self { bytes, length: closing.len() }
    }

    /// How much room it takes.
    fn room(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn put(&self, room: &mut [u8]) -> usize {
        if self.length <= Self::USUAL_BYTES {
            room[..Self::USUAL_BYTES].copy_from_slice(&self.bytes[..Self::USUAL_BYTES]);
        } else {
            room[..self.length].copy_from_slice(&self.bytes[..self.length]);
        }
        self.length
    }
}

/// How many bytes of output a whole line of this format carries; `None` where it is only a part of one.
fn chunk_bytes(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Carried<'a> {
        #[serde(borrow)]
        content: Option<Cow<'a, str>>,
        #[serde(borrow)]
        base64: Option<Cow<'a, str>>,
    }
    let carried: Carried<'_> = serde_json::from_slice(line).ok()?;
    Some(match carried {
        Carried { base64: Some(exact), .. } => {
            STANDARD.decode(exact.as_bytes()).map_or(0, |bytes| bytes.len() as u64)
        }
        Carried { content, .. } => content.map_or(0, |text| text.len() as u64),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::sync::Arc;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;
    use crate::model::event::{Chunk, Seconds, text_fields};
    use crate::model::lines::LineCutter;
    use crate::model::spec::Split;
    use crate::sink::destination::Outlet;
    use crate::sink::write_json_line;

    /// What the sink writes for these pieces, and what serde makes of them.
    fn both_ways(
        blocks: &[Vec<u8>],
        split: Split,
        first: u64,
        metadata: &[(String, String)],
    ) -> [Vec<u8>; 2] {
        let mut file: File = tempfile::tempfile().expect("a file");
        let outlet = Outlet::Opened(file.try_clone().expect("a descriptor is free").into());
        let mut expected = Vec::new();
        let out = Destination::new(outlet, "a file", &Arc::default());
        let mut sink = Ndjson::new(out, metadata, false);
        let mut cutter = LineCutter::new(split, 100);
        sink.head.seq = first;
        sink.head.make();
        let mut seq = first;
        let at = Duration::from_micros(1_234_567);
        for block in blocks {
            cutter.push(block, &mut |piece| {
                sink.lines(Stream::Stderr, piece, at).expect("there is room");
                let (lines, partial): (Vec<&[u8]>, bool) = match piece {
                    Piece::One { bytes, partial } => (vec![bytes], partial),
                    Piece::Lines(lines) => {
                        let end = *lines.last().expect("there is one");
                        (lines.split_inclusive(|&byte| byte == end).collect(), false)
                    }
                };
                for line in lines {
                    let (content, base64) = text_fields(Cow::Borrowed(line));
                    let metadata = (!metadata.is_empty()).then_some(Metadata(metadata));
                    let t = Seconds(at);
                    let chunk = Chunk {
                        kind: Stream::Stderr,
                        seq,
                        t,
                        content,
                        partial,
                        base64,
                        time: None,
                        metadata,
                    };
                    write_json_line(&mut expected, &Event::Chunk(chunk)).expect("memory has room");
                    seq += 1;
                }
            });
        }
        sink.out.flush().expect("there is room");
        let mut written = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut written)).expect("it can be read");
        [written, expected]
    }

    proptest! {
        #[test]
        fn a_chunk_is_what_serde_would_make_of_it(
            blocks in proptest::collection::vec(proptest::collection::vec(
                proptest::prop_oneof![any::<u8>(), b' '..=b'~', proptest::prelude::Just(b'\n'), 0..4_u8], 0..300), 0..6),
            nul in any::<bool>(),
            first in proptest::prop_oneof![1..3_u64, 990..1010_u64, 999_990..1_000_010_u64, 1_000_000_000..u64::MAX - 5000],
            metadata in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..3),
        ) {
            let split = if nul { Split::Nul } else { Split::Lf };
            let [written, expected] = both_ways(&blocks, split, first, &metadata);
            prop_assert_eq!(String::from_utf8(written), String::from_utf8(expected));
        }
    }

    #[test]
    fn metadata_and_lines_larger_than_the_buffer_are_written_whole() {
        let metadata = [("a".to_owned(), "x".repeat(100_000))];
        let blocks = [vec![b'y'; 50], b"\n".to_vec(), "one\ntwo\n".repeat(20_000).into_bytes()];
        let [written, expected] = both_ways(&blocks[..2], Split::Lf, 1, &metadata);
        assert!(written == expected, "{} bytes for {}", written.len(), expected.len());
        let [written, expected] = both_ways(&blocks, Split::Lf, 1, &[]);
        assert!(written == expected, "{} bytes for {}", written.len(), expected.len());
    }
}
