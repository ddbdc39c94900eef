//! Lines come out as they went in, wherever the reads fall and whatever is flushed in between: joined they are the
//! stream, none is longer than it may be, and none ends inside a character but where the stream does. The counter
//! counts what the cutter cuts, and lines taken apart by encoding are all there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runcast::model::lines::{LineCounter, LineCutter, Piece, by_encoding, without_end};
use runcast::model::spec::{MIN_LINE_BYTES, Split};
use runcast_fuzz::{Reads, is_inside_character};

/// A single line, or a piece of one.
#[derive(Debug, PartialEq)]
struct Cut {
    bytes: Vec<u8>,
    partial: bool,
}

/// The pieces of a stream, lines that came together taken apart. Every so many reads the cutter is flushed; never,
/// if that is 0.
fn cut<'a>(
    split: Split,
    max: usize,
    reads: impl Iterator<Item = &'a [u8]>,
    flush: usize,
) -> (Vec<Cut>, LineCounter) {
    let (mut cuts, mut counter) = (Vec::new(), LineCounter::new(split));
    let mut emit = |piece: Piece<'_>| match piece {
        Piece::One { bytes, partial } => cuts.push(Cut { bytes: bytes.to_vec(), partial }),
        Piece::Lines(lines) => {
            let end = split.line_end().expect("lines only come together where one byte ends them");
            assert_eq!(lines.last(), Some(&end));
            let each = lines.split_inclusive(|&byte| byte == end);
            cuts.extend(each.clone().map(|line| Cut { bytes: line.to_vec(), partial: false }));
            check_encodings(lines, each);
        }
    };
    let mut cutter = LineCutter::new(split, max);
    for (index, read) in reads.enumerate() {
        cutter.push(read, &mut emit);
        counter.push(read);
        if flush > 0 && index % flush == 0 {
            cutter.flush_partial(&mut emit);
            counter.flush_partial();
            assert!(!cutter.has_unfinished());
        }
    }
    cutter.finish(&mut emit);
    (cuts, counter)
}

fn check_encodings<'a>(lines: &'a [u8], each: impl Iterator<Item = &'a [u8]>) {
    let end = lines[lines.len() - 1];
    let parts: Vec<_> = by_encoding(lines).collect();
    let apart = parts.iter().flat_map(|(valid, odd)| {
        assert!(std::str::from_utf8(valid).is_ok());
        assert!(odd.is_none_or(|odd| std::str::from_utf8(odd).is_err()));
        valid.split_inclusive(move |&byte| byte == end).chain(*odd)
    });
    assert!(apart.eq(each));
}

fuzz_target!(|input: (u8, u8, u8, Reads, &[u8])| {
    let (split, more, flush, reads, stream) = input;
    let split = [Split::Lf, Split::Cr, Split::Nul][usize::from(split % 3)];
    let max = MIN_LINE_BYTES + usize::from(more % 64);
    let (cuts, counter) = cut(split, max, reads.of(stream), usize::from(flush % 8));

    assert_eq!(cuts.iter().flat_map(|cut| cut.bytes.clone()).collect::<Vec<_>>(), stream);
    let is_end = |byte: &u8| split.line_end().map_or(b"\r\n".contains(byte), |end| *byte == end);
    let mut at = 0;
    for (index, cut) in cuts.iter().enumerate() {
        let content = without_end(&cut.bytes, split);
        assert!(!cut.bytes.is_empty() && content.len() <= max && !content.iter().any(is_end));
        let (has_end, is_last) = (content.len() < cut.bytes.len(), index + 1 == cuts.len());
        assert!(if cut.partial { !has_end } else { has_end || is_last });
        at += cut.bytes.len();
        assert!(!is_inside_character(stream, at));
    }
    // What was flushed at the very end is the beginning of a last line all the same.
    let lines = cuts.iter().filter(|cut| !cut.partial).count();
    let unfinished = usize::from(cuts.last().is_some_and(|last| last.partial));
    assert_eq!((lines + unfinished) as u64, counter.lines_at_end());
    if flush % 8 == 0 {
        assert_eq!(unfinished, 0);
        assert_eq!(cuts, cut(split, max, std::iter::once(stream), 0).0);
    }
});
