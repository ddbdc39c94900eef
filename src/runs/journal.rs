//! Writes the journal of a run: its events, in segments, the oldest of which go when there are too many.
//!
//! It is the sink of a detached run, and its result goes into a file of its own. When the disk is full the run
//! goes on: what cannot be written is counted, and stands in the journal as one `dropped` event once there is
//! room again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::model::event::{Dropped, Event, RunResult, Seconds, Stream};
use crate::model::recorded::{Recorded, parse};
use crate::model::spec::Capture;
use crate::runs::folder::Folder;
use crate::runs::segments::{Before, name_of};
use crate::sink::destination::{Destination, Lost, Outlet, Patience};
use crate::sink::lined::{LineFormat, Lined, Shows};
use crate::sink::ndjson::Ndjson;
use crate::sink::{Account, Cut, Sink, write_json_line};

/// The least that a journal is bounded to. Less, and a segment would hold less than one read gives.
pub const LEAST_BYTES: u64 = 64 * 1024;

/// How many segments a journal has. Fewer, and more goes at a time; more, and there are more files.
const SEGMENTS: u64 = 16;

/// The largest segment. Larger, and whoever looks for a place in one reads more.
const MOST_SEGMENT_BYTES: u64 = 4 << 20;

/// How much output is cut into lines at a time: what a segment may be longer by, times what its JSON is longer.
const SLICE_BYTES: usize = 16 * 1024;

/// Room that is kept for the least result, so that a full disk cannot hold up all of it.
const RESERVED_BYTES: usize = 4096;

/// The name of the file that keeps that room.
const RESERVED: &str = "result.reserved";

/// Writes a run down.
pub(super) struct Journal {
    folder: Arc<Folder>,
    events: Lined<Ndjson>,
    /// The segments that there are, the newest last: their names and how long they are, the newest's as far as
    /// it was written when it was last looked at.
    segments: VecDeque<(String, u64)>,
    limit_bytes: u64,
    /// What was before the newest segment.
    before: Before,
    /// Nothing can be written: what is in the journal up to here is all there is.
    gap: Option<Before>,
    last_at: Duration,
}

impl Journal {
    /// A journal in this folder, bounded to about so many bytes.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(super) fn new(
        folder: Arc<Folder>,
        limit_bytes: u64,
        capture: &Capture,
    ) -> io::Result<Self> {
        let mut reserved = folder.create(RESERVED)?;
        reserved.write_all(&[b' '; RESERVED_BYTES])?;
        let name = name_of(1);
        let file = folder.create(&name)?;
        // Nobody takes anything from a file, so nobody's patience ends.
        let out = Destination::new(
            Outlet::Opened(file.into()),
            "journal",
            &Arc::new(Patience::default()),
        );
        let events = Lined::new(Ndjson::new(out, &[], false), capture, Shows::Pieces);
        let mut journal = Self {
            folder,
            events,
            segments: VecDeque::from([(name, 0)]),
            limit_bytes: limit_bytes.max(LEAST_BYTES),
            before: Before::default(),
            gap: None,
            last_at: Duration::ZERO,
        };
        let begun = journal.begin_segment();
        journal.settle(begun);
        Ok(journal)
    }

    fn segment_bytes(&self) -> u64 {
        (self.limit_bytes / SEGMENTS).min(MOST_SEGMENT_BYTES)
    }

    /// All that was handed to the events so far.
    fn so_far(&self) -> Before {
        let (seq, lines, bytes) = self.events.format().counts();
        Before { seq, lines, bytes }
    }

    fn begin_segment(&mut self) -> Result<(), Lost> {
        let line = self.before.line();
        let out = self.events.format_mut().out();
        out.put(&line)?;
        out.flush()
    }

    /// Looks at what came of writing something. Where it could not be written, the journal ends before it, and
    /// what was to come then is counted.
    fn settle(&mut self, written: Result<(), Lost>) {
        if written.is_err() && self.gap.is_none() {
            // Nothing can be done about a file that cannot even be read; then all of it counts as lost.
            self.gap = Some(self.cut_back().unwrap_or(self.before));
        }
        if let Some(whole) = self.gap {
            self.close_gap(whole);
        }
    }

    /// Cuts the newest segment back to its last whole line, and returns what the journal has up to there.
    fn cut_back(&mut self) -> io::Result<Before> {
        let (name, _) = self.segments.back().expect("there is always one");
        let file = self.folder.open_file(name, OFlag::O_RDWR)?;
        let mut content = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
        file.read_exact_at(&mut content, 0)?;
        let whole = memchr::memrchr(b'\n', &content).map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut has = self.before;
        for line in content[..whole].split_inclusive(|&byte| byte == b'\n') {
            match parse(line) {
                Ok(Recorded::Chunk(chunk)) => {
                    has.seq = chunk.seq;
                    has.bytes[chunk.stream.index()] += chunk.bytes.len() as u64;
                }
                Ok(Recorded::Event(Event::Dropped(dropped))) => {
                    has.seq = dropped.after_seq + dropped.chunks;
                    // Of which stream they were matters only to the sum.
                    has.bytes[0] += dropped.bytes;
                }
                _ => {}
            }
        }
        Ok(has)
    }

    /// Tries to write again: what stands for all that could not be written.
    fn close_gap(&mut self, whole: Before) {
        let missing = self.so_far();
        let sum = |before: &Before| before.bytes.iter().sum::<u64>();
        let dropped = Event::Dropped(Dropped {
            t: Seconds(self.last_at),
            after_seq: whole.seq,
            chunks: missing.seq - whole.seq,
            bytes: sum(&missing).saturating_sub(sum(&whole)),
        });
        let (name, _) = self.segments.back().expect("there is always one");
        let closed =
            self.folder.open_file(name, OFlag::O_WRONLY | OFlag::O_APPEND).and_then(|mut file| {
                let begin = file.metadata()?.len();
                let mut line = if begin == 0 { self.before.line() } else { Vec::new() };
                if missing.seq > whole.seq {
                    write_json_line(&mut line, &dropped)?;
                }
                let written = file.write_all(&line);
                if written.is_err() {
                    file.set_len(begin)?;
                }
                written.map(|()| file)
            });
        if let Ok(file) = closed {
            self.events.format_mut().out().restart(Outlet::Opened(file.into()));
            self.gap = None;
        } else {
            // What came since is part of it, and is not kept either.
            self.events.format_mut().out().let_fall();
        }
    }

    /// Begins the next segment when the newest is long enough, and lets the oldest go.
    fn rotate(&mut self) {
        let limit = self.segment_bytes();
        if self.events.format().out_ref().passed_bytes() < limit || self.gap.is_some() {
            return;
        }
        let flushed = self.events.flush();
        let is_whole = flushed.is_ok();
        self.settle(flushed);
        if !is_whole {
            return;
        }
        let so_far = self.so_far();
        let name = name_of(so_far.seq + 1);
        // Where it cannot be made the one that there is grows on, and it is tried again.
        let Ok(file) = self.folder.create(&name) else { return };
        let length = self.events.format().out_ref().passed_bytes();
        self.segments.back_mut().expect("there is always one").1 = length;
        self.segments.push_back((name, 0));
        self.before = so_far;
        self.events.format_mut().out().restart(Outlet::Opened(file.into()));
        let begun = self.begin_segment();
        self.settle(begun);
        while self.segments.len() > 1
            && self.segments.iter().map(|(_, bytes)| bytes).sum::<u64>() + limit > self.limit_bytes
        {
            if let Some((oldest, _)) = self.segments.pop_front() {
                // One that stays for now takes room, and is deleted with the run.
                let _ = self.folder.remove(&oldest);
            }
        }
    }

    /// Writes the result, whole or not at all; on a full disk at least how the run ended.
    fn put_result(&self, result: &Event<'_>) -> Result<(), Lost> {
        let mut line = Vec::new();
        let failed = |source| {
            let what = "the result".to_owned();
            Lost::Failed(crate::model::error::Error::Output { what, source })
        };
        write_json_line(&mut line, result).map_err(failed)?;
        let Err(error) = self.folder.put("result", &line) else {
            let _ = self.folder.remove(RESERVED);
            return Ok(());
        };
        self.put_least_result(&line).map_err(|_| failed(error))
    }

    /// The result without the output, in the room that was kept for it.
    fn put_least_result(&self, line: &[u8]) -> io::Result<()> {
        let Ok(Recorded::Event(Event::Result(result))) = parse(line.trim_ascii_end()) else {
            return Err(io::Error::other("it makes no sense"));
        };
        let least = Event::Result(Box::new(RunResult {
            stdout: crate::model::event::LossyText(b"".into()),
            stderr: crate::model::event::LossyText(b"".into()),
            stdout_truncated: result.stdout_bytes > 0,
            stderr_truncated: result.stderr_bytes > 0,
            ..*result
        }));
        let mut short = Vec::new();
        write_json_line(&mut short, &least)?;
        if short.len() > RESERVED_BYTES {
            return Err(io::Error::other("it is too long"));
        }
        let file: File = self.folder.open_file(RESERVED, OFlag::O_RDWR)?;
        file.write_all_at(&short, 0)?;
        file.set_len(short.len() as u64)?;
        file.sync_all()?;
        self.folder.rename(RESERVED, "result")
    }
}

impl Sink for Journal {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.last_at = at;
        for slice in bytes.chunks(SLICE_BYTES) {
            let shown = self.events.block(stream, slice, at);
            self.settle(shown);
            self.rotate();
        }
        Ok(())
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        let shown = self.events.flush_partial(stream, at);
        self.settle(shown);
        Ok(())
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.events.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        let shown = self.events.end(stream, at);
        self.settle(shown);
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        if let Event::Result(_) = event {
            let flushed = self.events.flush();
            self.settle(flushed);
            return self.put_result(event);
        }
        let shown = self.events.event(event);
        self.settle(shown);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        let shown = self.events.flush();
        self.settle(shown);
        Ok(())
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn account(&self) -> Account {
        self.events.account()
    }
}
