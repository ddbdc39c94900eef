//! Reads a journal from a given place on, while it is still written or afterwards.
//!
//! What comes out are whole lines, each chunk once and in order; where some are no longer there, or never were,
//! one `dropped` event says which.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::model::chunk_line::{chunk_seq, chunk_time};
use crate::model::event::{Dropped, Event, Seconds};
use crate::model::recorded::{Recorded, parse};
use crate::runs::folder::Folder;
use crate::runs::segments::{Before, first_seq, name_of, position_after};
use crate::sink::write_json_line;
use crate::sys::whole::MOST_BYTES;

/// How much is read at a time, but for a line that is longer.
const READ_BYTES: usize = 256 * 1024;

/// The longest line that a segment begins with.
const HEAD_BYTES: usize = 512;

/// What of a run was seen before, and is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// All up to this chunk.
    Chunk(u64),
    /// So many lines of standard output, and of standard error.
    Lines([u64; 2]),
}

/// Reads the journal of a run.
#[derive(Debug)]
pub struct Follower {
    folder: Arc<Folder>,
    since: Since,
    segment: Option<Segment>,
    /// The one before it, which may be the one that tells how much there was.
    previous: Option<Segment>,
    /// The number of the last chunk that was given, or passed over.
    last_seq: u64,
    /// Whole lines of each stream up to there.
    lines: [u64; 2],
    /// The time of the last line that told one.
    last_at: Duration,
    /// A chunk, and bytes of output up to it, as far as that was found out.
    known: (u64, u64),
    /// What there was up to here is known, and some of it is no longer there.
    gap: Option<Before>,
}

/// A segment that is being read.
#[derive(Debug)]
struct Segment {
    first_seq: u64,
    file: File,
    /// Where reading goes on.
    at: u64,
}

impl Follower {
    /// A follower of this run.
    #[must_use]
    pub fn new(folder: Arc<Folder>, since: Since) -> Self {
        let last_seq = if let Since::Chunk(seq) = since { seq } else { 0 };
        Self {
            folder,
            since,
            segment: None,
            previous: None,
            last_seq,
            lines: [0; 2],
            last_at: Duration::ZERO,
            known: (0, 0),
            gap: None,
        }
    }

    /// Puts whole lines that have come into `lines`, which is emptied first. `false`: none has come yet.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be read.
    pub fn next(&mut self, lines: &mut Vec<u8>) -> io::Result<bool> {
        lines.clear();
        loop {
            if self.segment.is_none() && !self.open_first()? {
                return Ok(false);
            }
            if self.read_into(lines)? {
                return Ok(true);
            }
            let Some(next) = self.newer()? else { return Ok(false) };
            // It was begun when this one was written to its end: whatever is left of this one is there now.
            if self.read_into(lines)? {
                return Ok(true);
            }
            let opened = self.open(next)?;
            if opened.is_none() || next > self.last_seq.saturating_add(1) {
                // Some are not there any more. How much there was before them this segment still tells.
                self.find_known()?;
            }
            self.previous = std::mem::replace(&mut self.segment, opened);
        }
    }

    /// Reads what there is in the segment until something of it is wanted. `false`: nothing is.
    fn read_into(&mut self, lines: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let read = self.read()?;
            if read.is_empty() {
                return Ok(false);
            }
            self.select(&read, lines)?;
            if !lines.is_empty() {
                return Ok(true);
            }
        }
    }

    fn firsts(&self) -> io::Result<Vec<u64>> {
        let mut firsts: Vec<u64> =
            self.folder.names()?.iter().filter_map(|name| first_seq(name)).collect();
        firsts.sort_unstable();
        Ok(firsts)
    }

    /// The segment behind the one that is being read.
    fn newer(&self) -> io::Result<Option<u64>> {
        let current = self.segment.as_ref().map_or(0, |segment| segment.first_seq);
        Ok(self.firsts()?.into_iter().find(|&first| first > current))
    }

    /// Opens a segment; `None` where it has just been deleted.
    fn open(&self, first_seq: u64) -> io::Result<Option<Segment>> {
        match self.folder.open_file(&name_of(first_seq), OFlag::O_RDONLY) {
            Ok(file) => Ok(Some(Segment { first_seq, file, at: 0 })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the segment in which what is wanted begins, and finds the place in it.
    fn open_first(&mut self) -> io::Result<bool> {
        let begun = match self.since {
            Since::Chunk(after) => self.last_seq > after,
            Since::Lines(_) => self.last_seq > 0,
        };
        if begun {
            // Segments were deleted faster than they were read: on with the oldest that is left.
            let next = self.firsts()?.into_iter().find(|&first| first > self.last_seq);
            self.segment = next.map_or(Ok(None), |next| self.open(next))?;
            return Ok(self.segment.is_some());
        }
        for first in self.firsts()?.into_iter().rev() {
            let begins_here = match self.since {
                Since::Chunk(after) => first <= after.saturating_add(1),
                Since::Lines(_) => true,
            };
            let Some(mut segment) = self.open(first)? else { continue };
            match self.since {
                Since::Chunk(after) if begins_here => {
                    let content = whole_lines(&segment.file)?;
                    segment.at = position_after(&content, after) as u64;
                }
                Since::Chunk(_) => {}
                Since::Lines(seen) => match head(&segment.file)? {
                    Some(before) if before.is_within(seen) => {
                        (self.last_seq, self.lines) = (before.seq, before.lines);
                        self.known = (before.seq, before.sum_bytes());
                    }
                    // It is too late, or was just begun.
                    _ => {
                        self.segment = Some(segment);
                        continue;
                    }
                },
            }
            self.segment = Some(segment);
            if begins_here {
                break;
            }
        }
        Ok(self.segment.is_some())
    }

    /// Finds out how much output there was up to the last chunk that was given, as far as the segments at hand
    /// tell that.
    fn find_known(&mut self) -> io::Result<()> {
        for segment in [&self.segment, &self.previous].into_iter().flatten() {
            if self.known.0 == self.last_seq {
                break;
            }
            let so_far = so_far(&segment.file, self.last_seq)?;
            if let Some(so_far) = so_far.filter(|so_far| so_far.seq > self.known.0) {
                self.known = (so_far.seq, so_far.sum_bytes());
            }
        }
        Ok(())
    }

    /// The next whole lines of the segment.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let Some(segment) = &mut self.segment else { return Ok(Vec::new()) };
        let mut content = Vec::new();
        loop {
            let have = content.len();
            // Mostly little has come, if anything, since it was looked for last.
            let there = segment.file.metadata()?.len().saturating_sub(segment.at + have as u64);
            let length = usize::try_from(there).unwrap_or(READ_BYTES).min(READ_BYTES);
            content.resize(have + length, 0);
            let count = segment.file.read_at(&mut content[have..], segment.at + have as u64)?;
            content.truncate(have + count);
            if let Some(end) = memchr::memrchr(b'\n', &content[have..]) {
                content.truncate(have + end + 1);
                segment.at += content.len() as u64;
                return Ok(content);
            }
            let has_zeros = memchr::memchr(0, &content[have..]).is_some();
            if count == 0 || has_zeros || content.len() as u64 > MOST_BYTES {
                // What is unfinished is not there yet, or never will be.
                return Ok(Vec::new());
            }
        }
    }

    /// Takes what is wanted of these lines.
    fn select(&mut self, read: &[u8], wanted: &mut Vec<u8>) -> io::Result<()> {
        // A file system that lost its power leaves zeros, which no line has.
        let is_sound = memchr::memchr(0, read).is_none();
        let is_by_seq = is_sound && matches!(self.since, Since::Chunk(_));
        // Lines that are taken as they stand, together: from `begin` to `at`.
        let (mut begin, mut at) = (0, 0);
        while at < read.len() {
            let end = memchr::memchr(b'\n', &read[at..]).map_or(read.len(), |end| at + end + 1);
            let line = &read[at..end];
            match chunk_seq(line).filter(|_| is_by_seq) {
                Some(seq) if self.last_seq.checked_add(1) == Some(seq) => self.last_seq = seq,
                seq => {
                    wanted.extend_from_slice(&read[begin..at]);
                    begin = end;
                    if seq.is_none_or(|seq| seq > self.last_seq) {
                        self.select_parsed(line, wanted)?;
                    }
                }
            }
            at = end;
        }
        let taken = &read[begin..];
        wanted.extend_from_slice(taken);
        let last = memchr::memrchr(b'\n', taken.strip_suffix(b"\n").unwrap_or(taken));
        if let Some(at) = chunk_time(&taken[last.map_or(0, |end| end + 1)..]) {
            self.last_at = at;
        }
        Ok(())
    }

    fn select_parsed(&mut self, line: &[u8], wanted: &mut Vec<u8>) -> io::Result<()> {
        if let Some(before) = Before::parse(line) {
            if before.seq > self.last_seq {
                // Told with the time of what comes next.
                self.gap = Some(before);
            }
            self.lines = before.lines;
            return Ok(());
        }
        // A line that makes no sense was cut by a power failure, with all behind it in its segment.
        let Ok(recorded) = parse(line.trim_ascii_end()) else { return Ok(()) };
        if let Some(at) = recorded.at() {
            self.last_at = at;
        }
        match recorded {
            Recorded::Chunk(chunk) => {
                if chunk.seq <= self.last_seq {
                    return Ok(());
                }
                if chunk.seq > self.last_seq + 1 {
                    self.tell_gap(wanted)?;
                    if chunk.seq <= self.last_seq {
                        // It was told that it is not there, by who had it wrong.
                        return Ok(());
                    }
                    // Up to here for sure, whatever is known of it.
                    self.tell_dropped(chunk.seq - 1, 0, wanted)?;
                }
                self.last_seq = chunk.seq;
                let index = chunk.stream.index();
                let is_wanted = match self.since {
                    Since::Chunk(_) => true,
                    Since::Lines(seen) => self.lines[index] >= seen[index],
                };
                self.lines[index] = self.lines[index].saturating_add(u64::from(!chunk.partial));
                if is_wanted {
                    wanted.extend_from_slice(line);
                }
            }
            Recorded::Event(Event::Dropped(dropped)) => {
                self.tell_gap(wanted)?;
                let up_to = dropped.after_seq.saturating_add(dropped.chunks);
                self.tell_dropped(up_to, dropped.bytes, wanted)?;
            }
            // Who it is about tells it first, wherever it begins.
            Recorded::Event(Event::Started(_)) => {}
            Recorded::Event(_) | Recorded::Unknown => wanted.extend_from_slice(line),
        }
        Ok(())
    }

    /// Puts into `lines` what is to be said when nothing more comes: that the last chunks are not there. `totals` is
    /// what there was in all, where that is known.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be read.
    pub fn finish(&mut self, totals: Option<Before>, lines: &mut Vec<u8>) -> io::Result<()> {
        lines.clear();
        self.tell_gap(lines)?;
        if let Some(totals) = totals.filter(|totals| totals.seq > self.last_seq) {
            self.gap = Some(totals);
            self.tell_gap(lines)?;
        }
        Ok(())
    }

    /// Tells of a gap that was found, if there is one.
    fn tell_gap(&mut self, wanted: &mut Vec<u8>) -> io::Result<()> {
        let Some(before) = self.gap.take() else { return Ok(()) };
        self.find_known()?;
        // What is not known to have been there before it counts too: whoever has seen it can tell.
        let (_, seen) = self.known;
        self.tell_dropped(before.seq, before.sum_bytes().saturating_sub(seen), wanted)?;
        self.known = (before.seq, before.sum_bytes());
        Ok(())
    }

    /// Tells that there is nothing up to this chunk, and so many bytes of output were in it.
    fn tell_dropped(&mut self, up_to: u64, bytes: u64, wanted: &mut Vec<u8>) -> io::Result<()> {
        if up_to <= self.last_seq {
            return Ok(());
        }
        let dropped = Dropped {
            t: Seconds(self.last_at),
            after_seq: self.last_seq,
            chunks: up_to - self.last_seq,
            bytes,
        };
        self.last_seq = up_to;
        write_json_line(wanted, &Event::Dropped(dropped))
    }
}

/// What a segment tells there was up to this chunk, or to the last one before it that it has; `None`: nothing.
fn so_far(file: &File, up_to: u64) -> io::Result<Option<Before>> {
    let mut so_far: Option<Before> = None;
    for line in whole_lines(file)?.split_inclusive(|&byte| byte == b'\n') {
        if let Some(before) = Before::parse(line) {
            if before.seq > up_to {
                break;
            }
            so_far = Some(before);
        } else if let Ok(Recorded::Chunk(chunk)) = parse(line.trim_ascii_end()) {
            if chunk.seq > up_to {
                break;
            }
            if let Some(so_far) = &mut so_far {
                so_far.add(&chunk);
            }
        }
    }
    Ok(so_far)
}

/// What was before a segment; `None` where it does not say so yet.
fn head(file: &File) -> io::Result<Option<Before>> {
    let mut content = [0; HEAD_BYTES];
    let count = file.read_at(&mut content, 0)?;
    Ok(memchr::memchr(b'\n', &content[..count]).and_then(|end| Before::parse(&content[..end])))
}

/// The whole lines of a file, up to the first zero: a file system that lost its power leaves those, in a file of any
/// length.
fn whole_lines(file: &File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let have = content.len();
        content.resize(have + READ_BYTES, 0);
        let count = file.read_at(&mut content[have..], have as u64)?;
        content.truncate(have + count);
        let zero = memchr::memchr(0, &content[have..]);
        if count == 0 || zero.is_some() || content.len() as u64 > MOST_BYTES {
            content.truncate(zero.map_or(content.len(), |at| have + at));
            break;
        }
    }
    let whole = memchr::memrchr(b'\n', &content).map_or(0, |end| end + 1);
    content.truncate(whole);
    Ok(content)
}

/// How much there was in all, as far as the journal knows.
///
/// # Errors
///
/// Where it cannot be read.
pub fn written(folder: &Folder) -> io::Result<Before> {
    let newest = folder.names()?.iter().filter_map(|name| first_seq(name)).max();
    let Some(newest) = newest else { return Ok(Before::default()) };
    let file = folder.open_file(&name_of(newest), OFlag::O_RDONLY)?;
    Ok(so_far(&file, u64::MAX)?.unwrap_or_default())
}
