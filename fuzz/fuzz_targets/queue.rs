//! What waits for a reader that is slow is never more than it may be; each chunk comes out, in its order, or is
//! counted in its place; and lines go whole: of one that was begun the rest comes, or it is told that it does not.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use runcast::model::event::Stream;
use runcast::model::lines::{LineCutter, Piece};
use runcast::model::spec::Split;
use runcast::sink::lagging::queue::{Entry, Output, Queue};
use runcast::sink::{Cut, DroppedTotals};

/// The reader: what it was shown, and what it was told of the rest.
#[derive(Default)]
struct Reader {
    /// The number of the last chunk that was shown or dropped.
    last: u64,
    shown: u64,
    dropped: DroppedTotals,
    /// Of each stream, the line that is being shown, and all that were whole.
    line: [Vec<u8>; 2],
    whole: [Vec<Vec<u8>>; 2],
}

impl Reader {
    fn take(&mut self, queue: &mut Queue, bytes: usize) {
        for entry in queue.take(bytes) {
            match entry {
                Entry::Dropped(dropped) => {
                    assert_eq!(dropped.after_seq, self.last);
                    self.last += dropped.chunks;
                    self.dropped.add(&dropped);
                }
                Entry::Broken(stream) => {
                    let line = std::mem::take(&mut self.line[stream.index()]);
                    assert!(!line.is_empty(), "none was begun");
                }
                Entry::Output(output) => self.show(output.cut(), output.chunks()),
                Entry::Event(_) | Entry::Unknown(_) | Entry::Moment(_) => {}
            }
        }
    }

    fn show(&mut self, cut: Cut<'_>, chunks: u64) {
        let (bytes, index) = (cut.piece.bytes(), cut.stream.index());
        assert!(!bytes.is_empty());
        assert_eq!(cut.seq, self.last + 1);
        self.last += chunks;
        self.shown += bytes.len() as u64;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line[index].extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.whole[index].push(std::mem::take(&mut self.line[index]));
            }
        }
    }
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (limit, max, steps) = input;
    let mut queue = Queue::new(limit.into());
    let mut cutters = [(); 2].map(|()| LineCutter::new(Split::Lf, usize::from(max % 32)));
    let (mut seq, mut reader, mut all) = (1, Reader::default(), [Vec::new(), Vec::new()]);
    // As chunks are numbered, or as lines are.
    let numbers_pieces = max & 32 == 0;
    let (mut waiting, mut in_line) = (0, [false; 2]);
    // A step is a byte that says what it is, and how many follow that are of it.
    let mut rest = steps;
    while let Some((&step, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(step >> 3)));
        rest = after;
        let stream = Stream::ALL[usize::from(step & 1)];
        let is_in_line = &mut in_line[stream.index()];
        let mut emit = |piece: Piece<'_>| {
            let goes_on = matches!(piece, Piece::One { partial: true, .. });
            let is_numbered = !std::mem::replace(is_in_line, goes_on) || numbers_pieces;
            let output = Output::new(Cut { stream, piece, at: Duration::ZERO, seq }, is_numbered);
            seq += output.chunks();
            queue.push(output);
        };
        let cutter = &mut cutters[stream.index()];
        all[stream.index()].extend_from_slice(block);
        cutter.push(block, &mut emit);
        match step >> 1 & 3 {
            0 => cutter.flush_partial(&mut emit),
            1 => reader.take(&mut queue, block.len()),
            _ => {}
        }
        waiting += block.len();
    }
    for stream in Stream::ALL {
        cutters[stream.index()].finish(&mut |piece| {
            let is_numbered = !in_line[stream.index()] || numbers_pieces;
            let output = Output::new(Cut { stream, piece, at: Duration::ZERO, seq }, is_numbered);
            seq += output.chunks();
            queue.push(output);
        });
    }
    let before = reader.shown;
    while !queue.is_empty() {
        reader.take(&mut queue, 1);
    }
    assert!(reader.shown - before <= limit.into());
    assert_eq!((reader.last, reader.dropped), (seq - 1, queue.dropped()));
    assert_eq!(reader.shown + reader.dropped.bytes, waiting as u64);
    // Each line that was shown whole is one that was written, in their order.
    for (whole, all) in reader.whole.iter().zip(&all) {
        let mut written = all.split_inclusive(|&byte| byte == b'\n');
        assert!(whole.iter().all(|line| written.any(|other| other == line)));
    }
});
