//! The lines that wait for their reader: bounded in bytes, the oldest go first, and every one that went is
//! counted in its place.
//!
//! No threads and no clock here. Only whole lines go: once a piece of one was taken, the rest is kept for it, and
//! once a piece went, the rest goes too. The one exception is a line so long that the rest of it alone is more
//! than may wait.

use std::collections::VecDeque;
use std::time::Duration;

use memchr::memchr_iter;

use crate::model::event::{Dropped, Event, Seconds, Stream};
use crate::model::lines::Piece;
use crate::sink::lagging::Moment;
use crate::sink::{Cut, DroppedTotals};

/// Something to be shown.
pub(super) enum Entry {
    /// Lines, or a piece of one.
    Output(Output),
    /// What stands for lines that went.
    Dropped(Dropped),
    /// An event that is no output. It never goes.
    Event(Event<'static>),
    /// Where the run was. Only the newest is of interest.
    Moment(Box<Moment>),
}

/// Lines, or a piece of one, with bytes of their own.
pub(super) struct Output {
    stream: Stream,
    bytes: Vec<u8>,
    /// Where those begin that did not go.
    from: usize,
    shape: Shape,
    at: Duration,
    seq: u64,
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
    pub(super) fn new(cut: Cut<'_>) -> Self {
        let Cut { stream, piece, at, seq } = cut;
        let shape = match piece {
            Piece::One { partial, .. } => Shape::One { partial },
            Piece::Lines(lines) => match lines.last() {
                Some(&end) => Shape::Lines { end },
                None => Shape::One { partial: false },
            },
        };
        Self { stream, bytes: piece.bytes().to_vec(), from: 0, shape, at, seq }
    }

    pub(super) fn cut(&self) -> Cut<'_> {
        let bytes = &self.bytes[self.from..];
        let piece = match self.shape {
            Shape::Lines { .. } => Piece::Lines(bytes),
            Shape::One { partial } => Piece::One { bytes, partial },
        };
        Cut { stream: self.stream, piece, at: self.at, seq: self.seq }
    }

    /// How many chunks it is.
    pub(super) fn chunks(&self) -> u64 {
        match self.shape {
            Shape::Lines { end } => memchr_iter(end, &self.bytes[self.from..]).count() as u64,
            Shape::One { .. } => 1,
        }
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
        let (mut length, mut chunks) = (rest.len(), 1);
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
pub(super) struct Queue {
    /// What is kept though output behind it went: events, what stands for that output, and the rest of lines
    /// that were begun.
    ahead: VecDeque<Entry>,
    behind: VecDeque<Entry>,
    limit_bytes: u64,
    /// Bytes of output in both, and in the first.
    bytes: u64,
    ahead_bytes: u64,
    totals: DroppedTotals,
    lines: [LineState; 2],
    is_given_up: bool,
}

/// What became of a stream's line whose rest is yet to come to the front.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// There is none.
    Whole,
    /// A piece of it was taken.
    Taken,
    /// A piece of it went.
    Gone,
}

impl Queue {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self {
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            limit_bytes,
            bytes: 0,
            ahead_bytes: 0,
            totals: DroppedTotals::default(),
            lines: [LineState::Whole; 2],
            is_given_up: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.behind.is_empty()
    }

    /// All that went so far.
    pub(super) fn dropped(&self) -> DroppedTotals {
        self.totals
    }

    pub(super) fn push_event(&mut self, entry: Entry) {
        if self.is_given_up {
            return;
        }
        if let (Entry::Moment(_), Some(last @ Entry::Moment(_))) = (&entry, self.behind.back_mut())
        {
            *last = entry;
        } else {
            self.behind.push_back(entry);
        }
    }

    /// Takes output in, and lets the oldest go that there is no more room for.
    pub(super) fn push(&mut self, output: Output) {
        if self.is_given_up {
            return;
        }
        self.bytes += output.len();
        self.behind.push_back(Entry::Output(output));
        while self.bytes > self.limit_bytes {
            let Some(entry) = self.behind.pop_front() else { break };
            match entry {
                Entry::Output(output) => self.drop_from(output),
                Entry::Dropped(dropped) => self.mark(dropped),
                event => self.ahead.push_back(event),
            }
        }
    }

    /// Lets go of the oldest output, as much as there is too much, or keeps it for the line that it is of.
    fn drop_from(&mut self, mut output: Output) {
        let line = &mut self.lines[output.stream.index()];
        let fits = self.ahead_bytes + output.len() <= self.limit_bytes / 2;
        if *line == LineState::Taken && fits {
            if !output.is_partial() {
                *line = LineState::Whole;
            }
            self.ahead_bytes += output.len();
            self.ahead.push_back(Entry::Output(output));
            return;
        }
        *line = if output.is_partial() { LineState::Gone } else { LineState::Whole };
        let dropped = output.shorten(self.bytes - self.limit_bytes);
        self.count(dropped);
        if output.len() > 0 {
            self.behind.push_front(Entry::Output(output));
        }
    }

    fn count(&mut self, dropped: Dropped) {
        self.bytes -= dropped.bytes;
        self.totals.add(&dropped);
        self.mark(dropped);
    }

    /// Puts down that something went, behind all that is ahead.
    fn mark(&mut self, dropped: Dropped) {
        match self.ahead.back_mut() {
            Some(Entry::Dropped(last)) if last.after_seq + last.chunks == dropped.after_seq => {
                last.t = dropped.t;
                last.chunks += dropped.chunks;
                last.bytes += dropped.bytes;
            }
            _ => self.ahead.push_back(Entry::Dropped(dropped)),
        }
    }

    /// Takes the oldest entries, at least one if there is any, and about so many bytes of output.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<Entry> {
        let (mut taken, mut taken_bytes) = (Vec::new(), 0);
        while taken_bytes < bytes as u64 {
            // The rest of a line that went goes too, and is counted where it stood.
            self.drop_rest();
            let entry = match self.ahead.pop_front() {
                Some(entry) => {
                    if let Entry::Output(output) = &entry {
                        self.ahead_bytes -= output.len();
                    }
                    entry
                }
                None => match self.behind.pop_front() {
                    Some(entry) => {
                        if let Entry::Output(output) = &entry {
                            let state = if output.is_partial() {
                                LineState::Taken
                            } else {
                                LineState::Whole
                            };
                            self.lines[output.stream.index()] = state;
                        }
                        entry
                    }
                    None => break,
                },
            };
            if let Entry::Output(output) = &entry {
                taken_bytes += output.len();
                self.bytes -= output.len();
            }
            taken.push(entry);
        }
        taken
    }

    /// Lets go of what stands in front and is the rest of a line that went.
    fn drop_rest(&mut self) {
        while let Some(Entry::Output(output)) = self.behind.front()
            && self.lines[output.stream.index()] == LineState::Gone
            && let Some(Entry::Output(mut output)) = self.behind.pop_front()
        {
            if !output.is_partial() {
                self.lines[output.stream.index()] = LineState::Whole;
            }
            // It is one line, or a piece of one: several lines never begin within one.
            let dropped = output.shorten(u64::MAX);
            self.count(dropped);
        }
    }

    /// Nobody will take anything more.
    pub(super) fn give_up(&mut self) {
        self.ahead.clear();
        self.behind.clear();
        (self.bytes, self.ahead_bytes, self.is_given_up) = (0, 0, true);
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
                    Entry::Output(output) => {
                        let cut = output.cut();
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
        ) {
            let mut queue = Queue::new(limit);
            let mut cutters = [LineCutter::new(Split::Lf, 8), LineCutter::new(Split::Lf, 8)];
            let (mut seq, mut out, mut bytes_in) = (1, Out::default(), 0_u64);
            for (is_stderr, block, flush, take) in steps {
                let stream = Stream::ALL[usize::from(is_stderr)];
                bytes_in += block.len() as u64;
                let cutter = &mut cutters[stream.index()];
                let mut emit = |piece: Piece<'_>| {
                    let output = Output::new(Cut { stream, piece, at: Duration::ZERO, seq });
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
                    let output = Output::new(Cut { stream, piece, at: Duration::ZERO, seq });
                    seq += output.chunks();
                    queue.push(output);
                });
            }
            while !queue.is_empty() {
                out.take(&mut queue, 1);
            }
            prop_assert_eq!(out.next, seq - 1);
            prop_assert_eq!(out.dropped, queue.dropped());
            let shown: u64 = out.shown.iter().map(|(_, bytes, _)| bytes.len() as u64).sum();
            prop_assert_eq!(shown + out.dropped.bytes, bytes_in);
        }
    }

    #[test]
    fn the_rest_of_a_line_that_was_begun_is_kept_and_of_one_that_went_is_not() {
        let mut queue = Queue::new(20);
        let mut out = Out::default();
        let mut seq = 1;
        let mut push = |queue: &mut Queue, bytes: &[u8], partial| {
            let piece = Piece::One { bytes, partial };
            queue.push(Output::new(Cut { stream: Stream::Stdout, piece, at: Duration::ZERO, seq }));
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
