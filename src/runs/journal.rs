//! Writes the journal of a run: its events, in segments, the oldest of which go when there are too many.
//!
//! It is the sink of a detached run, and its result goes into a file of its own. When the disk is full the run
//! goes on: what cannot be written is counted, and once there is room again the journal says how much there was
//! up to there. Whoever reads it makes one `dropped` event of the difference.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::model::error::Error;
use crate::model::event::{Event, Stream};
use crate::model::recorded::{Recorded, parse};
use crate::model::spec::Capture;
use crate::runs::closing;
use crate::runs::folder::Folder;
use crate::runs::segments::{Before, name_of};
use crate::sink::cutters::Shows;
use crate::sink::destination::{Destination, Lost, Outlet, Patience};
use crate::sink::lined::{LineFormat, Lined};
use crate::sink::ndjson::{Counts, Ndjson};
use crate::sink::{Account, Cut, Sink};

/// The least that a journal is bounded to. Less, and a segment would hold less than one read gives.
pub const LEAST_BYTES: u64 = 64 * 1024;

/// How many segments a journal has. Fewer, and more goes at a time; more, and there are more files.
const SEGMENTS: u64 = 16;

/// The largest segment. Larger, and whoever looks for a place in one reads more.
const MOST_SEGMENT_BYTES: u64 = 4 << 20;

/// How much output is cut into lines at a time, at most and at least: what a segment may be longer by, times what
/// its JSON is longer, which is seventy times with empty lines. So it is a small part of a segment.
const SLICE_BYTES: [usize; 2] = [64, 16 * 1024];

/// See `SLICE_BYTES`.
const SLICES: u64 = 256;

/// Writes a run down.
pub(super) struct Journal {
    folder: Arc<Folder>,
    events: Lined<Ndjson>,
    /// The segments that there are, the newest last: their names and how long they are, the newest's as far as
    /// it was written when it was last looked at.
    segments: VecDeque<(String, u64)>,
    limit_bytes: u64,
    segment_bytes: u64,
    slice_bytes: usize,
    /// What was before the newest segment.
    before: Before,
    /// Nothing can be written: what is in the journal up to here is all there is.
    gap: Option<Before>,
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
        let limit_bytes = limit_bytes.max(LEAST_BYTES);
        Self::with_segments(
            folder,
            limit_bytes,
            (limit_bytes / SEGMENTS).min(MOST_SEGMENT_BYTES),
            capture,
        )
    }

    /// The same with segments of about so many bytes.
    pub(super) fn with_segments(
        folder: Arc<Folder>,
        limit_bytes: u64,
        segment_bytes: u64,
        capture: &Capture,
    ) -> io::Result<Self> {
        closing::reserve(&folder)?;
        let name = name_of(1);
        let file = folder.create(&name)?;
        // Nobody takes anything from a file, so nobody's patience ends.
        let out = Destination::new(
            Outlet::Opened(file.into()),
            "journal",
            &Arc::new(Patience::default()),
        );
        let events = Lined::new(Ndjson::new(out, &[], false), capture, Shows::Pieces);
        let [least, most] = SLICE_BYTES;
        let slice_bytes = usize::try_from(segment_bytes / SLICES).unwrap_or(most);
        let mut journal = Self {
            folder,
            events,
            segments: VecDeque::from([(name, 0)]),
            limit_bytes,
            segment_bytes,
            slice_bytes: slice_bytes.clamp(least, most),
            before: Before::default(),
            gap: None,
        };
        let begun = journal.begin_segment();
        journal.settle(begun);
        Ok(journal)
    }

    /// All that was handed to the events so far.
    fn so_far(&self) -> Before {
        let Counts { seq, lines, bytes, open } = self.events.format().counts();
        Before { seq, lines, bytes, open }
    }

    fn begin_segment(&mut self) -> Result<(), Lost> {
        let line = self.before.line();
        let out = self.events.format_mut().out();
        out.put(&line)?;
        out.flush()
    }

    fn newest(&self) -> &str {
        &self.segments.back().expect("there is always one").0
    }

    /// Looks at what came of writing something. Where it could not be written, the journal ends before it, and
    /// what was to come then is counted.
    fn settle(&mut self, written: Result<(), Lost>) {
        if written.is_err() && self.gap.is_none() {
            // Nothing can be done about a file that cannot even be read; then all of it counts as lost.
            self.gap = Some(self.cut_back().unwrap_or(self.before));
        }
        if self.gap.is_some() {
            self.events.format_mut().out().let_fall();
        }
    }

    /// Tries to write again, before anything more is handed to who could not.
    fn mend(&mut self) {
        if self.gap.is_some() && !self.close_gap() {
            // Half of what was tried may be there.
            self.gap = self.cut_back().ok().or(self.gap);
        }
    }

    /// Cuts the newest segment back to its last whole line, and returns what the journal has up to there. No more
    /// than that: whoever reads it may have read whole lines already.
    fn cut_back(&mut self) -> io::Result<Before> {
        let file = self.folder.open_file(self.newest(), OFlag::O_RDWR)?;
        let mut content = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
        file.read_exact_at(&mut content, 0)?;
        let whole = memchr::memrchr(b'\n', &content).map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut has = self.before;
        for line in content[..whole].split_inclusive(|&byte| byte == b'\n') {
            if let Some(before) = Before::parse(line) {
                has = before;
            } else if let Ok(Recorded::Chunk(chunk)) = parse(line.trim_ascii_end()) {
                has.add(&chunk);
            }
        }
        Ok(has)
    }

    /// Tells what there was up to here, of which not all is in the journal. One line, so that it is there or not.
    fn close_gap(&mut self) -> bool {
        let newest = self.folder.open_file(self.newest(), OFlag::O_WRONLY | OFlag::O_APPEND);
        let closed = newest.and_then(|mut file| {
            let begin = file.metadata()?.len();
            let so_far = self.so_far();
            let mut line = if begin == 0 { self.before.line() } else { Vec::new() };
            line.extend(so_far.line());
            file.write_all(&line)?;
            Ok((begin + line.len() as u64, file))
        });
        let Ok((has_bytes, file)) = closed else { return false };
        self.events.format_mut().out().restart(Outlet::Opened(file.into()), has_bytes);
        self.gap = None;
        true
    }

    /// Begins the next segment when the newest is long enough, and lets the oldest go.
    fn rotate(&mut self) {
        let limit = self.segment_bytes;
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
        self.events.format_mut().out().restart(Outlet::Opened(file.into()), 0);
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

    /// Writes the result down, and before it how much output there was.
    fn put_result(&self, result: &Event<'_>) -> Result<(), Lost> {
        // Without it nobody is told of output that is missing at the end, and nothing else is wrong.
        let _ = closing::put_totals(&self.folder, self.so_far());
        closing::put_result(&self.folder, result)
            .map_err(|source| Lost::Failed(Error::Output { what: "the result".to_owned(), source }))
    }
}

impl Sink for Journal {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.mend();
        for slice in bytes.chunks(self.slice_bytes) {
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
        self.mend();
        let shown = self.events.flush_partial(stream, at);
        self.settle(shown);
        Ok(())
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.events.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.mend();
        let shown = self.events.end(stream, at);
        self.settle(shown);
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.mend();
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
        self.mend();
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
