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

use crate::model::event::{Dropped, Event, Seconds, Stream};
use crate::model::recorded::{Recorded, parse};
use crate::runs::folder::Folder;
use crate::runs::segments::{Before, chunk_seq, first_seq, name_of, position_after};
use crate::sink::write_json_line;

/// How much is read at a time, but for a line that is longer.
const READ_BYTES: usize = 256 * 1024;

/// From where on a run is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// After this chunk.
    After(u64),
    /// After so many lines of standard output, and of standard error.
    Lines([u64; 2]),
}

/// Reads the journal of a run.
#[derive(Debug)]
pub struct Follower {
    folder: Arc<Folder>,
    from: From,
    segment: Option<Segment>,
    /// The number of the last chunk that was given, or passed over.
    last_seq: u64,
    /// Whole lines of each stream up to there.
    lines: [u64; 2],
    /// The time of the last line that told one.
    last_at: Duration,
    /// Chunks up to this one are no longer there, and so many bytes of output with them.
    gap: Option<(u64, u64)>,
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
    pub fn new(folder: Arc<Folder>, from: From) -> Self {
        let last_seq = if let From::After(seq) = from { seq } else { 0 };
        Self {
            folder,
            from,
            segment: None,
            last_seq,
            lines: [0; 2],
            last_at: Duration::ZERO,
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
            let read = self.read()?;
            if !read.is_empty() {
                self.select(&read, lines)?;
                if lines.is_empty() {
                    continue;
                }
                return Ok(true);
            }
            let Some(next) = self.newer()? else { return Ok(false) };
            // It was begun when this one was written to its end: whatever is left of this one is there now.
            let rest = self.read()?;
            if !rest.is_empty() {
                self.select(&rest, lines)?;
                if lines.is_empty() {
                    continue;
                }
                return Ok(true);
            }
            self.segment = self.open(next)?;
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
        if self.last_seq > 0 && !matches!(self.from, From::After(after) if after == self.last_seq) {
            // Segments were deleted faster than they were read: on with the oldest that is left.
            let next = self.firsts()?.into_iter().find(|&first| first > self.last_seq);
            self.segment = next.map_or(Ok(None), |next| self.open(next))?;
            return Ok(self.segment.is_some());
        }
        for first in self.firsts()?.into_iter().rev() {
            let Some(mut segment) = self.open(first)? else { continue };
            let content = whole_lines(&segment.file, 0)?;
            let head = content.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
            let before = Before::parse(head).unwrap_or_default();
            let begins_here = match self.from {
                From::After(after) => first <= after.saturating_add(1),
                From::Lines(lines) => before.lines[0] <= lines[0] && before.lines[1] <= lines[1],
            };
            if begins_here && let From::After(after) = self.from {
                segment.at = (position_after(&content, after)) as u64;
            } else if begins_here {
                (self.last_seq, self.lines) = (before.seq, before.lines);
            }
            self.segment = Some(segment);
            if begins_here {
                break;
            }
        }
        Ok(self.segment.is_some())
    }

    /// The next whole lines of the segment.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let Some(segment) = &mut self.segment else { return Ok(Vec::new()) };
        let mut content = Vec::new();
        loop {
            let have = content.len();
            content.resize(have + READ_BYTES, 0);
            let count = segment.file.read_at(&mut content[have..], segment.at + have as u64)?;
            content.truncate(have + count);
            if let Some(end) = memchr::memrchr(b'\n', &content[have..]) {
                content.truncate(have + end + 1);
                segment.at += content.len() as u64;
                return Ok(content);
            }
            if count == 0 {
                // What is unfinished is not there yet, or never will be.
                return Ok(Vec::new());
            }
        }
    }

    /// Takes what is wanted of these lines.
    fn select(&mut self, read: &[u8], wanted: &mut Vec<u8>) -> io::Result<()> {
        for line in read.split_inclusive(|&byte| byte == b'\n') {
            match (self.from, chunk_seq(line)) {
                (From::After(_), Some(seq)) => {
                    if seq <= self.last_seq {
                        continue;
                    }
                    if seq > self.last_seq + 1 {
                        self.select_parsed(line, wanted)?;
                    } else {
                        self.last_seq = seq;
                        wanted.extend_from_slice(line);
                    }
                }
                _ => self.select_parsed(line, wanted)?,
            }
        }
        Ok(())
    }

    fn select_parsed(&mut self, line: &[u8], wanted: &mut Vec<u8>) -> io::Result<()> {
        if let Some(before) = Before::parse(line) {
            if before.seq > self.last_seq {
                // Told with the time of what comes next.
                self.gap = Some((before.seq, before.bytes.iter().sum()));
            }
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
                    let bytes = self.gap.take().map_or(0, |(_, bytes)| bytes);
                    self.fill_gap(chunk.seq - 1, bytes, wanted)?;
                }
                self.last_seq = chunk.seq;
                let index = chunk.stream.index();
                let is_wanted = match self.from {
                    From::After(_) => true,
                    From::Lines(seen) => self.lines[index] >= seen[index],
                };
                self.lines[index] += u64::from(!chunk.partial);
                if is_wanted {
                    wanted.extend_from_slice(line);
                }
            }
            Recorded::Event(Event::Dropped(dropped)) => {
                self.fill_gap(dropped.after_seq + dropped.chunks, dropped.bytes, wanted)?;
            }
            // Who it is about tells it first, wherever it begins.
            Recorded::Event(Event::Started(_)) => {}
            Recorded::Event(_) | Recorded::Unknown => wanted.extend_from_slice(line),
        }
        Ok(())
    }

    /// Puts into `lines` what is to be said when nothing more comes: that the last chunks are not there.
    ///
    /// # Errors
    ///
    /// None that memory does not have.
    pub fn finish(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        lines.clear();
        if let Some((up_to, bytes)) = self.gap.take() {
            self.fill_gap(up_to, bytes, lines)?;
        }
        Ok(())
    }

    /// Tells that there is nothing up to this chunk, and so many bytes of output were in it, as far as that is
    /// known.
    fn fill_gap(&mut self, up_to: u64, bytes: u64, wanted: &mut Vec<u8>) -> io::Result<()> {
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

/// The whole lines of a file from a place on.
fn whole_lines(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len().saturating_sub(from)).unwrap_or(0);
    let mut content = vec![0; length];
    let mut have = 0;
    while have < length {
        match file.read_at(&mut content[have..], from + have as u64)? {
            0 => break,
            count => have += count,
        }
    }
    let whole = memchr::memrchr(b'\n', &content[..have]).map_or(0, |end| end + 1);
    content.truncate(whole);
    Ok(content)
}

/// What the journal has of each stream: bytes, in their order.
///
/// # Errors
///
/// Where it cannot be read.
pub fn bytes_so_far(folder: &Folder) -> io::Result<[u64; 2]> {
    let newest = folder.names()?.iter().filter_map(|name| first_seq(name)).max();
    let Some(newest) = newest else { return Ok([0; 2]) };
    let file = folder.open_file(&name_of(newest), OFlag::O_RDONLY)?;
    let mut bytes = [0; 2];
    for line in whole_lines(&file, 0)?.split_inclusive(|&byte| byte == b'\n') {
        if let Some(before) = Before::parse(line) {
            bytes = before.bytes;
        } else if let Ok(Recorded::Chunk(chunk)) = parse(line.trim_ascii_end()) {
            let index = Stream::index(chunk.stream);
            bytes[index] += chunk.bytes.len() as u64;
        }
    }
    Ok(bytes)
}
