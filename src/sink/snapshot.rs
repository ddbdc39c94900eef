//! `snapshot`: the growing output as whole snapshots, from time to time.
//!
//! What a snapshot shows is what the result would keep, which others have; so its cost is bounded by that, and
//! no output is held here.

use std::borrow::Cow;
use std::time::Duration;

use crate::model::event::{Event, Snapshot as Shown, SnapshotCut, Stream, text_fields};
use crate::model::kept::Kept;
use crate::model::lines::unfinished_character;
use crate::model::recorded::Recorded;
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Account, Cut, Seen, Sink};

/// Shows a run as snapshots.
#[derive(Debug)]
pub struct Snapshot {
    out: Destination,
    /// The least time from one to the next.
    every: Duration,
    quiet: bool,
    /// When the last one was shown.
    last: Option<Duration>,
    has_news: bool,
    /// What the last one showed; at first, nothing.
    sight: Sight,
    /// Bytes of output that the last snapshot which was written whole told of.
    shown_bytes: u64,
}

impl Snapshot {
    /// Shows snapshots at most this often on this destination.
    #[must_use]
    pub fn new(out: Destination, every: Duration, quiet: bool) -> Self {
        let sight = Sight::Whole([0, 0]);
        Self { out, every, quiet, last: None, has_news: false, sight, shown_bytes: 0 }
    }
}

/// What tells one snapshot from the next. What came may be no more than a part of a character, and then there is
/// nothing new to be seen.
#[derive(Debug, PartialEq, Eq)]
enum Sight {
    /// All of both streams, so many bytes: it only grows.
    Whole([usize; 2]),
    /// Not all, and with it how many bytes each stream has produced.
    Cut([u64; 2]),
}

impl Sight {
    fn new(seen: Seen<'_>) -> Self {
        if seen.kept.iter().any(|kept| kept.is_truncated()) {
            return Self::Cut(seen.bytes);
        }
        Self::Whole(seen.kept.map(|kept| so_far(kept).len()))
    }
}

/// What is kept so far, but for a character whose rest is yet to come.
fn so_far(kept: &Kept) -> Cow<'_, [u8]> {
    let mut bytes = kept.bytes();
    if !kept.is_truncated() {
        let whole = bytes.len() - unfinished_character(&bytes);
        match &mut bytes {
            Cow::Borrowed(borrowed) => *borrowed = &borrowed[..whole],
            Cow::Owned(owned) => owned.truncate(whole),
        }
    }
    bytes
}

fn snapshot(seen: Seen<'_>) -> Event<'_> {
    let [stdout, stderr] = seen.kept;
    let (stdout_text, stdout_base64) = text_fields(so_far(stdout));
    let (stderr_text, stderr_base64) = text_fields(so_far(stderr));
    let is_cut = stdout.is_truncated() || stderr.is_truncated();
    Event::Snapshot(Shown {
        exit_code: None,
        stdout: stdout_text,
        stderr: stderr_text,
        stdout_base64,
        stderr_base64,
        cut: is_cut.then(|| SnapshotCut {
            stdout_truncated: stdout.is_truncated(),
            stderr_truncated: stderr.is_truncated(),
            stdout_omitted: stdout.omitted_between(),
            stderr_omitted: stderr.omitted_between(),
            stdout_bytes: seen.bytes[Stream::Stdout.index()],
            stderr_bytes: seen.bytes[Stream::Stderr.index()],
        }),
    })
}

impl Sink for Snapshot {
    fn block(&mut self, _: Stream, _: &[u8], _: Duration) -> Result<(), Lost> {
        self.has_news = !self.quiet;
        Ok(())
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.out.put_event(event)?;
        if matches!(event, Event::Result(_)) {
            self.out.flush()?;
        }
        Ok(())
    }

    fn recorded(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        match recorded {
            Recorded::Chunk(chunk) => self.piece(chunk.into()),
            Recorded::Event(_) | Recorded::Unknown => self.out.put(line),
        }
    }

    fn due(&self) -> Option<Duration> {
        let due = self.last.map_or(Duration::ZERO, |last| last.saturating_add(self.every));
        self.has_news.then_some(due)
    }

    fn refresh(&mut self, now: Duration, seen: Seen<'_>) -> Result<(), Lost> {
        self.has_news = false;
        let sight = Sight::new(seen);
        if sight == self.sight {
            return Ok(());
        }
        self.sight = sight;
        self.last = Some(now);
        self.out.put_event(&snapshot(seen))?;
        // At once: the next one is for later, and there may be no moment without output until then.
        self.out.flush()?;
        self.shown_bytes = seen.bytes.iter().sum();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.out.flush()
    }

    fn is_lost(&self) -> bool {
        self.out.is_lost()
    }

    fn account(&self) -> Account {
        Account { delivered_bytes: self.shown_bytes, ..Account::default() }
    }
}
