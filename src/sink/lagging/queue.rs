//! The lines that wait for their reader: bounded in bytes, the oldest go first, and every one that went is
//! counted in its place.
//!
//! No threads and no clock here. Only whole lines go: once a piece of one was taken, the rest is kept for it, and
//! once a piece went, the rest goes too, also what is yet to come. The one exception is a line so long that the rest
//! of it alone is more than may wait: it is broken off, and that is told.

use std::collections::VecDeque;
use std::time::Duration;

use memchr::memchr_iter;

use crate::model::event::{Dropped, Event, Seconds, Stream};
use crate::model::lines::Piece;
use crate::sink::lagging::Moment;
use crate::sink::{Cut, DroppedTotals};

/// Something to be shown.
pub enum Entry {
    /// Lines, or a piece of one.
    Output(Output),
    /// What stands for lines that went.
    Dropped(Dropped),
    /// The line of a stream that was begun does not go on.
    Broken(Stream),
    /// An event that is no output. It never goes.
    Event(Event<'static>),
    /// A line that was read back and that nobody here knows. It goes where there is no room for it.
    Unknown(Vec<u8>),
    /// Where the run was. Only the newest is of interest.
    Moment(Box<Moment>),
}

/// Lines, or a piece of one, with bytes of their own.
pub struct Output {
    stream: Stream,
    bytes: Vec<u8>,
    /// Where those begin that did not go.
    from: usize,
    shape: Shape,
    at: Duration,
    seq: u64,
    /// Whether it has a number of its own: where lines are numbered, the rest of one has not.
    is_numbered: bool,
}

/// What the bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Whole lines that end with this byte.
    Lines { end: u8 },
    /// One line, or a piece of one.
    One { partial: bool },
}

impl Output {
    /// A copy of these lines, with a number of their own or, where lines are numbered, as the rest of one without.
    #[must_use]
    pub fn new(cut: Cut<'_>, is_numbered: bool) -> Self {
        let Cut { stream, piece, at, seq } = cut;
        let shape = match piece {
            Piece::One { partial, .. } => Shape::One { partial },
            Piece::Lines(lines) => match lines.last() {
                Some(&end) => Shape::Lines { end },
                None => Shape::One { partial: false },
            },
        };
        Self { stream, bytes: piece.bytes().to_vec(), from: 0, shape, at, seq, is_numbered }
    }

    /// Those of them that did not go.
    #[must_use]
    pub fn cut(&self) -> Cut<'_> {
        let bytes = &self.bytes[self.from..];
        let piece = match self.shape {
            Shape::Lines { .. } => Piece::Lines(bytes),
            Shape::One { partial } => Piece::One { bytes, partial },
        };
        Cut { stream: self.stream, piece, at: self.at, seq: self.seq }
    }

    /// How many numbers it has.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        if self.is_numbered { self.cut().piece.chunks() } else { 0 }
    }

    fn len(&self) -> u64 {
        (self.bytes.len() - self.from) as u64
    }

    /// Whether a line goes on behind it.
    fn is_partial(&self) -> bool {
        self.shape == Shape::One { partial: true }
    }

    /// Lets its oldest lines go, at least so many bytes if there are as many. What then is left of it are whole
    /// lines, or nothing.
    fn shorten(&mut self, bytes: u64) -> Dropped {
        let rest = &self.bytes[self.from..];
        let (mut length, mut chunks) = (rest.len(), u64::from(self.is_numbered));
        if let Shape::Lines { end } = self.shape {
            chunks = 0;
            for at in memchr_iter(end, rest) {
                (length, chunks) = (at + 1, chunks + 1);
                if length as u64 >= bytes {
                    break;
                }
            }
        }
        let dropped =
            Dropped { t: Seconds(self.at), after_seq: self.seq - 1, chunks, bytes: length as u64 };
        self.from += length;
        self.seq += chunks;
        dropped
    }
}

/// What is to be shown, in its order.
pub struct Queue {
    /// What is kept though output behind it went: events, what stands for that output, and the rest of lines
    /// that were begun.
    ahead: VecDeque<Entry>,
    behind: VecDeque<Entry>,
    limit_bytes: u64,
    /// Bytes of output in both, and in the first.
    bytes: u64,
    ahead_bytes: u64,
    /// Bytes of what nobody here knows.
    unknown_bytes: u64,
    totals: DroppedTotals,
    /// Of each stream, whether the first output that is behind goes on with a line that was begun.
    is_begun: [bool; 2],
    /// Of each stream, whether what comes next is the rest of a line that went.
    is_gone: [bool; 2],
    is_given_up: bool,
}

impl Queue {
    /// One in which so many bytes of output may wait.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            limit_bytes,
            bytes: 0,
            ahead_bytes: 0,
            unknown_bytes: 0,
            totals: DroppedTotals::default(),
            is_begun: [false; 2],
            is_gone: [false; 2],
            is_given_up: false,
        }
    }

    /// Whether nothing is to be shown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.behind.is_empty()
    }

    /// Whether this much more would make some of it go.
    #[must_use]
    pub fn is_full_for(&self, output: &Output) -> bool {
        !self.is_empty() && self.bytes + output.len() > self.limit_bytes
    }

    /// All that went so far.
    #[must_use]
    pub fn dropped(&self) -> DroppedTotals {
        self.totals
    }

    /// Takes in what is no output.
    pub fn push_event(&mut self, entry: Entry) {
        if self.is_given_up {
            return;
        }
        // Of what tells where the run is, only the newest is of interest.
        let is_newer = matches!(
            (&entry, self.behind.back()),
            (Entry::Moment(_), Some(Entry::Moment(_)))
                | (Entry::Event(Event::Heartbeat(_)), Some(Entry::Event(Event::Heartbeat(_))))
        );
        if let Entry::Unknown(line) = &entry {
            let bytes = self.unknown_bytes.saturating_add(line.len() as u64);
            if bytes > self.limit_bytes {
                return;
            }
            self.unknown_bytes = bytes;
        }
        if let (true, Some(last)) = (is_newer, self.behind.back_mut()) {
            *last = entry;
        } else {
            self.behind.push_back(entry);
        }
    }

    /// Takes output in, and lets the oldest go that there is no more room for.
    pub fn push(&mut self, output: Output) {
        self.admit(output);
        while self.bytes > self.limit_bytes {
            let Some(entry) = self.behind.pop_front() else { break };
            match entry {
                Entry::Output(output) => self.drop_from(output),
                Entry::Dropped(dropped) => mark(&mut self.ahead, dropped),
                event => self.ahead.push_back(event),
            }
        }
    }

    /// Takes output in, though it may be more than there is room for.
    pub fn admit(&mut self, mut output: Output) {
        if self.is_given_up {
            return;
        }
        let stream = output.stream.index();
        if self.is_gone[stream] {
            self.is_gone[stream] = output.is_partial();
            let dropped = output.shorten(u64::MAX);
            self.totals.add(&dropped);
            mark(&mut self.behind, dropped);
            return;
        }
        self.bytes += output.len();
        self.behind.push_back(Entry::Output(output));
    }

    /// Lets go of the oldest output, as much as there is too much, or keeps it for the line that it is of.
    fn drop_from(&mut self, mut output: Output) {
        let (stream, is_partial) = (output.stream, output.is_partial());
        let is_begun = &mut self.is_begun[stream.index()];
        if *is_begun && self.ahead_bytes + output.len() <= self.limit_bytes {
            *is_begun = is_partial;
            self.ahead_bytes += output.len();
            self.ahead.push_back(Entry::Output(output));
            return;
        }
        if std::mem::take(is_begun) {
            self.ahead.push_back(Entry::Broken(stream));
        }
        let dropped = output.shorten(self.bytes - self.limit_bytes);
        self.bytes -= dropped.bytes;
        self.totals.add(&dropped);
        mark(&mut self.ahead, dropped);
        if output.len() > 0 {
            self.behind.push_front(Entry::Output(output));
        } else if is_partial {
            self.drop_rest_of_line(stream);
        }
    }

    /// Lets go of the rest of a stream's line, wherever it stands, and if it is yet to come, once it does.
    fn drop_rest_of_line(&mut self, stream: Stream) {
        for entry in &mut self.behind {
            let Entry::Output(output) = entry else { continue };
            if output.stream != stream {
                continue;
            }
            let is_partial = output.is_partial();
            // It is one line, or a piece of one: several lines never begin within one.
            let dropped = output.shorten(u64::MAX);
            self.bytes -= dropped.bytes;
            self.totals.add(&dropped);
            *entry = Entry::Dropped(dropped);
            if !is_partial {
                return;
            }
        }
        self.is_gone[stream.index()] = true;
    }

    /// Takes the oldest entries, at least one if there is any, and about so many bytes of output.
    pub fn take(&mut self, bytes: usize) -> Vec<Entry> {
        let (mut taken, mut taken_bytes) = (VecDeque::new(), 0);
        while taken_bytes < bytes as u64 {
            let entry = if let Some(entry) = self.ahead.pop_front() {
                if let Entry::Output(output) = &entry {
                    self.ahead_bytes -= output.len();
                }
                entry
            } else if let Some(entry) = self.behind.pop_front() {
                if let Entry::Output(output) = &entry {
                    self.is_begun[output.stream.index()] = output.is_partial();
                }
                entry
            } else {
                break;
            };
            match entry {
                Entry::Dropped(dropped) => mark(&mut taken, dropped),
                Entry::Output(output) => {
                    taken_bytes += output.len();
                    self.bytes -= output.len();
                    taken.push_back(Entry::Output(output));
                }
                Entry::Unknown(line) => {
                    self.unknown_bytes -= line.len() as u64;
                    taken.push_back(Entry::Unknown(line));
                }
                entry => taken.push_back(entry),
            }
        }
        taken.into()
    }

    /// Nobody will take anything more.
    pub fn give_up(&mut self) {
        self.ahead.clear();
        self.behind.clear();
        (self.bytes, self.ahead_bytes, self.is_given_up) = (0, 0, true);
    }
}

/// Puts down that something went, behind all that is there.
fn mark(entries: &mut VecDeque<Entry>, dropped: Dropped) {
    match entries.back_mut() {
        Some(Entry::Dropped(last)) if last.after_seq + last.chunks == dropped.after_seq => {
            last.t = dropped.t;
            last.chunks += dropped.chunks;
            last.bytes += dropped.bytes;
        }
        _ => entries.push_back(Entry::Dropped(dropped)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::model::lines::LineCutter;
    use crate::model::spec::Split;

    /// What came out: the numbers of the chunks with their bytes and whether they are partial, and what stands
    /// for those that went.
    #[derive(Default)]
    struct Out {
        next: u64,
        shown: Vec<(Stream, Vec<u8>, bool)>,
        dropped: DroppedTotals,
        /// Of each stream, the line that is being shown, and all that were shown whole.
        line: [Vec<u8>; 2],
        whole: [Vec<Vec<u8>>; 2],
        broken: usize,
    }

    impl Out {
        fn take(&mut self, queue: &mut Queue, bytes: usize) {
            for entry in queue.take(bytes) {
                match entry {
                    Entry::Dropped(dropped) => {
                        assert_eq!(dropped.after_seq, self.next, "it stands where they were");
                        self.next += dropped.chunks;
                        self.dropped.add(&dropped);
                    }
                    Entry::Broken(stream) => {
                        assert!(!self.line[stream.index()].is_empty(), "one that was begun");
                        self.line[stream.index()].clear();
                        self.broken += 1;
                    }
                    Entry::Output(output) => {
                        let cut = output.cut();
                        let (line, whole) = (
                            &mut self.line[cut.stream.index()],
                            &mut self.whole[cut.stream.index()],
                        );
                        for part in cut.piece.bytes().split_inclusive(|&byte| byte == b'\n') {
                            line.extend_from_slice(part);
                            if part.ends_with(b"\n") {
                                whole.push(std::mem::take(line));
                            }
                        }
                        assert_eq!(cut.seq, self.next + 1);
                        self.next += output.chunks();
                        match cut.piece {
                            Piece::One { bytes, partial } => {
                                self.shown.push((cut.stream, bytes.to_vec(), partial));
                            }
                            Piece::Lines(lines) => self.shown.extend(
                                lines
                                    .split_inclusive(|&byte| byte == b'\n')
                                    .map(|line| (cut.stream, line.to_vec(), false)),
                            ),
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_chunk_is_shown_or_counted_in_its_place_and_the_newest_stay(
            steps in prop::collection::vec(
                (any::<bool>(), prop::collection::vec(prop::sample::select(&b"ab\n"[..]), 0..30), 0..4_usize, 0..40_usize),
                0..40,
            ),
            limit in 0..200_u64,
            numbers_pieces in any::<bool>(),
        ) {
            let mut queue = Queue::new(limit);
            let mut cutters = [LineCutter::new(Split::Lf, 8), LineCutter::new(Split::Lf, 8)];
            let (mut seq, mut out, mut bytes_in) = (1, Out::default(), 0_u64);
            let mut all: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
            let mut in_line = [false; 2];
            for (is_stderr, block, flush, take) in steps {
                let stream = Stream::ALL[usize::from(is_stderr)];
                bytes_in += block.len() as u64;
                all[stream.index()].extend_from_slice(&block);
                let cutter = &mut cutters[stream.index()];
                let is_in_line = &mut in_line[stream.index()];
                let mut emit = |piece: Piece<'_>| {
                    let goes_on = matches!(piece, Piece::One { partial: true, .. });
                    let is_numbered = !std::mem::replace(is_in_line, goes_on) || numbers_pieces;
                    let cut = Cut { stream, piece, at: Duration::ZERO, seq };
                    let output = Output::new(cut, is_numbered);
                    seq += output.chunks();
                    queue.push(output);
                };
                cutter.push(&block, &mut emit);
                if flush == 0 {
                    cutter.flush_partial(&mut emit);
                }
                prop_assert!(queue.bytes <= limit);
                if take > 20 {
                    out.take(&mut queue, take - 20);
                }
            }
            for stream in Stream::ALL {
                cutters[stream.index()].finish(&mut |piece| {
                    let is_numbered = !in_line[stream.index()] || numbers_pieces;
                    let cut = Cut { stream, piece, at: Duration::ZERO, seq };
                    let output = Output::new(cut, is_numbered);
                    seq += output.chunks();
                    queue.push(output);
                });
            }
            while !queue.is_empty() {
                out.take(&mut queue, 1);
            }
            prop_assert_eq!(out.next, seq - 1);
            if !numbers_pieces {
                let lines = |all: &Vec<u8>| all.split_inclusive(|&byte| byte == b'\n').count() as u64;
                prop_assert_eq!(out.next, all.iter().map(lines).sum::<u64>());
            }
            prop_assert_eq!(out.dropped, queue.dropped());
            let shown: u64 = out.shown.iter().map(|(_, bytes, _)| bytes.len() as u64).sum();
            prop_assert_eq!(shown + out.dropped.bytes, bytes_in);
            for (whole, all) in out.whole.iter().zip(&all) {
                let mut rest = all.split_inclusive(|&byte| byte == b'\n');
                for line in whole {
                    prop_assert!(rest.any(|other| other == line), "lines are whole and in order");
                }
            }
        }
    }

    #[test]
    fn the_rest_of_a_line_that_was_begun_is_kept_and_of_one_that_went_is_not() {
        let mut queue = Queue::new(20);
        let mut out = Out::default();
        let mut seq = 1;
        let mut push = |queue: &mut Queue, bytes: &[u8], partial| {
            let piece = Piece::One { bytes, partial };
            queue.push(Output::new(
                Cut { stream: Stream::Stdout, piece, at: Duration::ZERO, seq },
                true,
            ));
            seq += 1;
        };
        push(&mut queue, b"begun ", true);
        out.take(&mut queue, 1);
        push(&mut queue, b"rest\n", false);
        push(&mut queue, b"goes, ", true);
        push(&mut queue, b"too\n", false);
        push(&mut queue, b"the newest one\n", false);
        while !queue.is_empty() {
            out.take(&mut queue, 100);
        }
        let shown: Vec<u8> = out.shown.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
        assert_eq!(String::from_utf8_lossy(&shown), "begun rest\nthe newest one\n");
        assert_eq!(out.dropped, DroppedTotals { chunks: 2, bytes: 10 });
    }
}
