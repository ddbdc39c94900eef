//! Cuts a stream of bytes into whole lines wherever the reads fall, and counts lines.
//!
//! Bytes come out exactly as they went in: nothing is decoded, dropped or added. There is no clock here;
//! when an unfinished line has waited long enough is told by whoever owns the clock.

use std::{iter, mem};

use memchr::{memchr, memchr_iter, memchr2, memrchr};

use crate::model::spec::{MIN_LINE_BYTES, Split};

/// What comes out of a [`LineCutter`]. All pieces joined are the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// One or more whole lines, each with its end, one byte (LF or NUL), and each within the limit.
    Lines(&'a [u8]),
    /// A line with its end, the last line of the stream without one, or a piece of a line.
    One {
        /// The bytes; never empty.
        bytes: &'a [u8],
        /// Whether the line goes on in the next piece.
        partial: bool,
    },
}

impl<'a> Piece<'a> {
    /// Its bytes, however many lines they are.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Lines(bytes) | Self::One { bytes, .. } => bytes,
        }
    }

    /// How many chunks it is: one for each line, or for a piece of one.
    #[must_use]
    pub fn chunks(self) -> u64 {
        match self {
            Self::Lines(lines) => {
                lines.last().map_or(0, |&end| memchr_iter(end, lines).count() as u64)
            }
            Self::One { .. } => 1,
        }
    }
}

/// Whole lines by whether they are UTF-8: those that are, all at once, and behind them the one that is not, if any.
pub fn by_encoding(mut lines: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    iter::from_fn(move || {
        let end = *lines.last()?;
        let Err(error) = simdutf8::compat::from_utf8(lines) else {
            return Some((mem::take(&mut lines), None));
        };
        let (valid, bad) = lines.split_at(error.valid_up_to());
        let begin = memrchr(end, valid).map_or(0, |end| end + 1);
        let length = memchr(end, bad).expect("a run of lines ends with a line's end") + 1;
        let (whole, odd) = lines[..valid.len() + length].split_at(begin);
        lines = &bad[length..];
        Some((whole, Some(odd)))
    })
}

/// Capacity of the buffer for an unfinished line that is always kept. Less, and blocks that a pipe
/// delivers at once, up to 64 KiB, allocate again and again; more, and each stream holds it for nothing.
const MODEST_BYTES: usize = 64 * 1024;

/// How many modest lines in a row give the memory of a giant one back. Fewer, and a stream where giant
/// lines are frequent allocates for each of them; more, and the memory of a single one stays longer.
const MODEST_LINES: u32 = 64;

/// Cuts one stream into lines.
///
/// A line longer than the limit, its end not counted, goes out in pieces within it. A piece never ends
/// inside a UTF-8 character, so far as the bytes are UTF-8; it may be up to three bytes shorter for that.
#[derive(Debug)]
pub struct LineCutter {
    split: Split,
    max_bytes: usize,
    /// The current line so far: at most `max_bytes`, none of them an end, and then the CR if one waits.
    pending: Vec<u8>,
    /// `pending` ends in a CR, and a LF that comes next belongs to it.
    cr_waits: bool,
    /// The piece sent last was partial: what comes is the rest of its line.
    continued: bool,
    /// Modest lines since the last giant one.
    modest_lines: u32,
}

impl LineCutter {
    /// A cutter at the start of a stream. A limit below [`MIN_LINE_BYTES`] counts as that.
    #[must_use]
    pub fn new(split: Split, max_line_bytes: usize) -> Self {
        // No slice is longer than isize::MAX, and one more than that still fits in a usize.
        let max_bytes = max_line_bytes.clamp(MIN_LINE_BYTES, isize::MAX.unsigned_abs());
        Self {
            split,
            max_bytes,
            pending: Vec::new(),
            cr_waits: false,
            continued: false,
            modest_lines: 0,
        }
    }

    /// Takes the next bytes of the stream and emits what they complete. What is unfinished is kept.
    ///
    /// Where LF or NUL ends lines, and blocks are within the limit, this is one search from the block's
    /// end, and only the unfinished rest is copied.
    pub fn push(&mut self, mut block: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        while !block.is_empty() {
            block = if self.cr_waits {
                self.end_at_cr(block, emit)
            } else if self.split == Split::Cr || self.continued || !self.pending.is_empty() {
                self.one_line(block, emit)
            } else {
                self.whole_lines(block, emit)
            };
        }
    }

    /// Emits what is unfinished as a partial piece, but for a character that is unfinished itself. A CR
    /// has then waited in vain: its line is whole, and a LF that comes yet is a line of its own.
    pub fn flush_partial(&mut self, emit: &mut dyn FnMut(Piece<'_>)) {
        if self.cr_waits {
            return self.finish(emit);
        }
        let len = self.pending.len() - unfinished_character(&self.pending);
        if len > 0 {
            self.emit_pending(len, true, emit);
        }
    }

    /// Emits what is unfinished as the stream's last line, whatever its bytes; the stream has ended.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Piece<'_>)) {
        if !self.pending.is_empty() {
            self.emit_pending(self.pending.len(), false, emit);
        }
        self.cr_waits = false;
        self.continued = false;
    }

    /// Whether there is something that [`LineCutter::flush_partial`] would emit: an unfinished line, or a
    /// CR that waits for its LF. The beginning of a character alone is not: only more bytes, or the end of
    /// the stream, can make something of it, and no clock.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.cr_waits || self.pending.len() > unfinished_character(&self.pending)
    }

    // Each of the following takes the start of a block that is not empty and returns the rest of it.

    /// All whole lines of the block at once, at the start of a line.
    fn whole_lines<'b>(&mut self, block: &'b [u8], emit: &mut dyn FnMut(Piece<'_>)) -> &'b [u8] {
        let end = last_end(self.split);
        // Any line within a window of one byte more than the limit is within the limit. So each window
        // needs but its last end, and starts after that of the one before.
        let mut whole = 0;
        while block.len() > whole {
            let window = &block[whole..block.len().min(whole + self.max_bytes + 1)];
            let Some(at) = memrchr(end, window) else { break };
            let is_last = whole + window.len() == block.len();
            whole += at + 1;
            if is_last {
                break;
            }
        }
        let (lines, rest) = block.split_at(whole);
        if !lines.is_empty() {
            emit(Piece::Lines(lines));
        }
        if rest.len() > self.max_bytes {
            return self.cut(rest, emit);
        }
        self.pending.extend_from_slice(rest);
        &[]
    }

    /// The current line up to its end, or to the limit, or all of the block.
    fn one_line<'b>(&mut self, block: &'b [u8], emit: &mut dyn FnMut(Piece<'_>)) -> &'b [u8] {
        // One byte more than the limit: if it is the end, the line is whole.
        let room = self.max_bytes + 1 - self.pending.len();
        let window = &block[..block.len().min(room)];
        let found = match self.split {
            Split::Lf => memchr(b'\n', window),
            Split::Nul => memchr(0, window),
            Split::Cr => memchr2(b'\n', b'\r', window),
        };
        let Some(at) = found else {
            if window.len() == room {
                return self.cut(block, emit);
            }
            self.pending.extend_from_slice(window);
            return &[];
        };
        let mut len = at + 1;
        if window[at] == b'\r' && self.split == Split::Cr {
            match block.get(len) {
                Some(b'\n') => len += 1,
                Some(_) => {}
                None => {
                    self.pending.extend_from_slice(block);
                    self.cr_waits = true;
                    return &[];
                }
            }
        }
        let (line, rest) = block.split_at(len);
        if self.pending.is_empty() {
            emit(Piece::One { bytes: line, partial: false });
            self.continued = false;
        } else {
            self.pending.extend_from_slice(line);
            self.emit_pending(self.pending.len(), false, emit);
        }
        rest
    }

    /// A piece of a line that is longer than the limit: what is pending and the start of the block come to
    /// at least one byte more, without an end. That byte is waited for, so that an end there belongs to
    /// the piece before it, and the last piece of a line is never the end alone.
    fn cut<'b>(&mut self, block: &'b [u8], emit: &mut dyn FnMut(Piece<'_>)) -> &'b [u8] {
        let taken = self.max_bytes - self.pending.len();
        if self.pending.is_empty() {
            let len = taken - unfinished_character(&block[..taken]);
            emit(Piece::One { bytes: &block[..len], partial: true });
            self.continued = true;
            return &block[len..];
        }
        self.pending.extend_from_slice(&block[..taken]);
        let left = unfinished_character(&self.pending);
        self.emit_pending(self.max_bytes - left, true, emit);
        if left > taken {
            return &block[taken..];
        }
        // What is left is in the block too: from there the next piece needs no copy.
        self.pending.clear();
        &block[taken - left..]
    }

    /// The line whose CR waited, with its LF if that is what comes.
    fn end_at_cr<'b>(&mut self, block: &'b [u8], emit: &mut dyn FnMut(Piece<'_>)) -> &'b [u8] {
        let rest = block.strip_prefix(b"\n").unwrap_or(block);
        self.pending.extend_from_slice(&block[..block.len() - rest.len()]);
        self.finish(emit);
        rest
    }

    /// Emits the first `len` bytes of what is pending and forgets them.
    fn emit_pending(&mut self, len: usize, partial: bool, emit: &mut dyn FnMut(Piece<'_>)) {
        emit(Piece::One { bytes: &self.pending[..len], partial });
        self.continued = partial;
        self.pending.drain(..len);
        if len > MODEST_BYTES {
            self.modest_lines = 0;
        } else if self.pending.capacity() > MODEST_BYTES {
            self.modest_lines += 1;
            if self.modest_lines >= MODEST_LINES {
                self.pending.shrink_to(MODEST_BYTES);
            }
        }
    }
}

/// A line without its end, if it has one.
#[must_use]
pub fn without_end(line: &[u8], split: Split) -> &[u8] {
    let ends: &[&[u8]] = match split {
        Split::Lf => &[b"\n"],
        Split::Cr => &[b"\r\n", b"\n", b"\r"],
        Split::Nul => &[b"\0"],
    };
    ends.iter().find_map(|end| line.strip_suffix(*end)).unwrap_or(line)
}

/// How many bytes at the end, 0 to 3, are the beginning of a UTF-8 character, valid so far, whose rest is
/// not there.
#[must_use]
pub fn unfinished_character(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|len| {
            std::str::from_utf8(&bytes[bytes.len() - len..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// Counts the lines of one stream without cutting them.
///
/// It agrees with a [`LineCutter`] over the same stream.
#[derive(Debug, Clone)]
pub struct LineCounter {
    split: Split,
    ends: u64,
    last: Option<u8>,
}

impl LineCounter {
    /// A counter at the start of a stream.
    #[must_use]
    pub fn new(split: Split) -> Self {
        Self { split, ends: 0, last: None }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, block: &[u8]) {
        let Some(last) = block.last() else { return };
        let mut ends = 0;
        if self.split == Split::Cr {
            // A CR is an end at once; a LF after it is none of its own, also where a block begins with it.
            let lone = |at: &usize| block.get(at + 1) != Some(&b'\n');
            ends += memchr_iter(b'\r', block).filter(lone).count();
            if self.last == Some(b'\r') && block[0] == b'\n' {
                self.ends -= 1;
            }
        }
        ends += memchr_iter(last_end(self.split), block).count();
        self.ends += ends as u64;
        self.last = Some(*last);
    }

    /// Says that a cutter over the same stream was flushed: a CR at its end has waited in vain for its LF,
    /// and one that comes yet is a line of its own.
    pub fn flush_partial(&mut self) {
        if self.split == Split::Cr && self.last == Some(b'\r') {
            self.last = Some(b'\n');
        }
    }

    /// How many lines have ended.
    #[must_use]
    pub fn ended_lines(&self) -> u64 {
        self.ends
    }

    /// How many lines the stream has if it ends here, an unfinished last one included.
    #[must_use]
    pub fn lines_at_end(&self) -> u64 {
        let unfinished = self.last.is_some_and(|last| {
            last != last_end(self.split) && !(self.split == Split::Cr && last == b'\r')
        });
        self.ends + u64::from(unfinished)
    }
}

/// The byte that ends a line, or where several may, the last of a pair.
fn last_end(split: Split) -> u8 {
    split.line_end().unwrap_or(b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    use super::*;

    /// A single line or a piece of one, as it came out.
    type Cut = (Vec<u8>, bool);

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>),
        Flush,
    }

    fn end_bytes(split: Split) -> &'static [u8] {
        match split {
            Split::Lf => b"\n",
            Split::Cr => b"\r\n",
            Split::Nul => b"\0",
        }
    }

    /// Runs a cutter to the end of the stream, lines that came together taken apart.
    fn run(split: Split, max: usize, steps: &[Step]) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let mut emit = |piece: Piece<'_>| match piece {
            Piece::Lines(lines) => {
                assert!(split != Split::Cr && lines.ends_with(end_bytes(split)));
                let ends = end_bytes(split);
                cuts.extend(
                    lines.split_inclusive(|b| ends.contains(b)).map(|line| (line.to_vec(), false)),
                );
            }
            Piece::One { bytes, partial } => cuts.push((bytes.to_vec(), partial)),
        };
        let mut cutter = LineCutter::new(split, max);
        for step in steps {
            match step {
                Step::Push(block) => cutter.push(block, &mut emit),
                Step::Flush => {
                    cutter.flush_partial(&mut emit);
                    assert!(!cutter.has_unfinished());
                }
            }
            assert!(cutter.pending.len() <= max + usize::from(cutter.cr_waits));
        }
        cutter.finish(&mut emit);
        assert!(cutter.pending.is_empty());
        cuts
    }

    fn cut(split: Split, max: usize, blocks: &[&[u8]]) -> Vec<Cut> {
        run(split, max, &blocks.iter().map(|block| Step::Push(block.to_vec())).collect::<Vec<_>>())
    }

    fn whole(lines: &[&[u8]]) -> Vec<Cut> {
        lines.iter().map(|line| (line.to_vec(), false)).collect()
    }

    /// The same by one walk over the whole input, byte by byte.
    fn model(split: Split, max: usize, input: &[u8]) -> Vec<Cut> {
        let is_end = |at: usize| end_bytes(split).contains(&input[at]);
        let mut cuts = Vec::new();
        let mut start = 0;
        let mut at = 0;
        while at < input.len() {
            if is_end(at) {
                let crlf = split == Split::Cr && input[at..].starts_with(b"\r\n");
                at += 1 + usize::from(crlf);
                cuts.push((input[start..at].to_vec(), false));
                start = at;
            } else if at - start == max {
                at -= unfinished_character(&input[start..at]);
                cuts.push((input[start..at].to_vec(), true));
                start = at;
            } else {
                at += 1;
            }
        }
        if start < input.len() {
            cuts.push((input[start..].to_vec(), false));
        }
        cuts
    }

    #[test]
    fn lines_come_out_whole_wherever_the_reads_fall() {
        assert_eq!(
            cut(Split::Lf, 9, &[b"a\nb", b"c\n", b"\nd"]),
            whole(&[b"a\n", b"bc\n", b"\n", b"d"])
        );
        assert_eq!(cut(Split::Nul, 9, &[b"a\nb\0c\0"]), whole(&[b"a\nb\0", b"c\0"]));
        assert_eq!(cut(Split::Lf, 9, &[]), whole(&[]));
    }

    #[test]
    fn whole_lines_of_a_block_come_out_together_and_uncopied() {
        let block = b"one\ntwo\nthree";
        let mut pieces = 0;
        LineCutter::new(Split::Lf, 100).push(block, &mut |piece| {
            let Piece::Lines(lines) = piece else { panic!("{piece:?}") };
            assert_eq!((lines.as_ptr(), lines.len()), (block.as_ptr(), 8));
            pieces += 1;
        });
        assert_eq!(pieces, 1);
    }

    #[test]
    fn lines_within_a_limit_far_below_the_block_still_come_out_together() {
        let block = b"12345\n".repeat(100);
        let mut pieces = 0;
        LineCutter::new(Split::Lf, 5).push(&block, &mut |piece| {
            assert_eq!(piece, Piece::Lines(&block));
            pieces += 1;
        });
        assert_eq!(pieces, 1);
    }

    #[test]
    fn the_limit_does_not_count_the_end() {
        assert_eq!(cut(Split::Lf, 4, &[b"1234", b"\n"]), whole(&[b"1234\n"]));
        assert_eq!(cut(Split::Cr, 4, &[b"1234", b"\r", b"\n"]), whole(&[b"1234\r\n"]));
        let pieces = [(b"1234".to_vec(), true), (b"5\n".to_vec(), false)];
        assert_eq!(cut(Split::Lf, 4, &[b"12345\n"]), pieces);
        assert_eq!(cut(Split::Lf, 4, &[b"12", b"34", b"5", b"\n"]), pieces);
        assert_eq!(cut(Split::Lf, 4, &[b"1234"]), whole(&[b"1234"]));
    }

    #[test]
    fn a_piece_never_ends_inside_a_character() {
        let text = "ab€€\n".as_bytes();
        let pieces = [(b"ab".to_vec(), true), ("€".into(), true), ("€\n".into(), false)];
        assert_eq!(cut(Split::Lf, 4, &[text]), pieces);
        for at in 1..text.len() {
            assert_eq!(cut(Split::Lf, 4, &[&text[..at], &text[at..]]), pieces);
        }
    }

    #[test]
    fn cr_lf_is_one_end_wherever_the_reads_fall() {
        let expected = whole(&[b"a\r\n", b"b\r", b"\r", b"c\n", b"\n", b"\r\n", b"d\r"]);
        let input = b"a\r\nb\r\rc\n\n\r\nd\r";
        assert_eq!(cut(Split::Cr, 9, &[input]), expected);
        assert_eq!(cut(Split::Cr, 9, &input.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_cr_that_has_waited_in_vain_ends_its_line_and_the_lf_is_one_of_its_own() {
        let steps = [Step::Push(b"a\r".into()), Step::Flush, Step::Push(b"\nb\n".into())];
        assert_eq!(run(Split::Cr, 9, &steps), whole(&[b"a\r", b"\n", b"b\n"]));
    }

    #[test]
    fn a_flush_sends_the_unfinished_line_but_no_unfinished_character() {
        let mut pieces: Vec<Cut> = Vec::new();
        let mut emit = |piece: Piece<'_>| match piece {
            Piece::One { bytes, partial } => pieces.push((bytes.to_vec(), partial)),
            Piece::Lines(lines) => pieces.push((lines.to_vec(), false)),
        };
        let mut cutter = LineCutter::new(Split::Lf, 9);
        cutter.flush_partial(&mut emit);
        cutter.push(b"a\xe2\x82", &mut emit);
        assert!(cutter.has_unfinished());
        cutter.flush_partial(&mut emit);
        assert!(!cutter.has_unfinished());
        cutter.flush_partial(&mut emit);
        cutter.push(b"\xac", &mut emit);
        cutter.flush_partial(&mut emit);
        cutter.push(b"\nb\xf0\x9f", &mut emit);
        cutter.finish(&mut emit);
        assert_eq!(
            pieces,
            [
                (b"a".to_vec(), true),
                (b"\xe2\x82\xac".to_vec(), true),
                (b"\n".to_vec(), false),
                (b"b\xf0\x9f".to_vec(), false),
            ]
        );
    }

    #[test]
    fn the_memory_of_a_giant_line_is_given_back_but_not_at_once() {
        let mut emit = |_: Piece<'_>| {};
        let mut cutter = LineCutter::new(Split::Lf, 1 << 20);
        assert_eq!(cutter.pending.capacity(), 0);
        cutter.push(&[b'x'; 1 << 20], &mut emit);
        cutter.push(b"\n", &mut emit);
        assert!(cutter.pending.capacity() >= 1 << 20);
        for _ in 0..MODEST_LINES {
            cutter.push(b"x", &mut emit);
            cutter.push(b"\n", &mut emit);
        }
        assert!(cutter.pending.capacity() <= MODEST_BYTES);
    }

    #[test]
    fn an_unfinished_character_is_found_if_it_is_valid_so_far() {
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"a", 0),
            (b"\xc3", 1),
            (b"a\xe2", 1),
            (b"a\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            ("é€😀".as_bytes(), 0),
            (b"\x82", 0),
            (b"\xff", 0),
            (b"\xc3a", 0),
            (b"\xe0\x80", 0),
            (b"\xed\xa0", 0),
            (b"\xf4\x90", 0),
            (b"\xf5", 0),
            (b"\xc1", 0),
            (b"\xe2\x82\xc3", 1),
        ] {
            assert_eq!(unfinished_character(bytes), expected, "{bytes:x?}");
        }
    }

    fn any_split() -> impl Strategy<Value = Split> {
        prop_oneof![Just(Split::Lf), Just(Split::Cr), Just(Split::Nul)]
    }

    /// Text of few characters, so that ends and characters of several bytes meet every edge.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let tokens: [&[u8]; 9] = [
            b"a",
            b"b",
            "é".as_bytes(),
            "€".as_bytes(),
            "😀".as_bytes(),
            b"\n",
            b"\r",
            b"\r\n",
            b"\0",
        ];
        prop::collection::vec(prop::sample::select(tokens.to_vec()), 0..60)
            .prop_map(|tokens| tokens.concat())
    }

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let odd = prop::sample::select(b"a\n\r\0\xc3\xe2\xf0\x9f\x82\x80\xff".to_vec());
        prop_oneof![any_text(), prop::collection::vec(odd, 0..60), any::<Vec<u8>>()]
    }

    /// The input in blocks, with or without flushes between them.
    fn in_steps(input: &[u8], sizes: &[usize], flushes: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut rest = input;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (block, after) = rest.split_at((*size / 2).min(rest.len()));
            steps.push(Step::Push(block.to_vec()));
            if flushes && size % 2 == 1 {
                steps.push(Step::Flush);
            }
            rest = after;
        }
        steps
    }

    fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
        // Twice the size, plus one for a flush after it; a size above 0 so that it ends.
        prop::collection::vec(0..40_usize, 0..12).prop_map(|mut sizes| {
            sizes.push(7);
            sizes
        })
    }

    fn content(split: Split, bytes: &[u8]) -> &[u8] {
        let end = match (split, bytes) {
            (Split::Cr, [.., b'\r', b'\n']) => 2,
            (_, [.., last]) if end_bytes(split).contains(last) => 1,
            _ => 0,
        };
        &bytes[..bytes.len() - end]
    }

    proptest! {
        #[test]
        fn lines_taken_apart_by_encoding_are_all_there_and_each_where_it_belongs(
            ends_in_nul in any::<bool>(),
            parts in prop::collection::vec(
                prop::sample::select(vec![&b"a"[..], b"\xc3\xa9", b"\xc3", b"\xa9", b"\n", b"\0"]),
                0..24,
            ),
        ) {
            let end = if ends_in_nul { 0 } else { b'\n' };
            let mut lines = parts.concat();
            lines.push(end);
            let mut joined = Vec::new();
            for (valid, bad) in by_encoding(&lines) {
                prop_assert!(std::str::from_utf8(valid).is_ok());
                prop_assert!(valid.is_empty() || valid.ends_with(&[end]));
                joined.extend_from_slice(valid);
                if let Some(bad) = bad {
                    prop_assert!(std::str::from_utf8(bad).is_err());
                    prop_assert_eq!(memchr(end, bad), Some(bad.len() - 1));
                    joined.extend_from_slice(bad);
                }
            }
            prop_assert_eq!(joined, lines);
        }

        #[test]
        fn pieces_joined_are_the_input(
            split in any_split(), max in 4..12_usize, input in any_bytes(), sizes in any_sizes(),
        ) {
            let cuts = run(split, max, &in_steps(&input, &sizes, true));
            prop_assert_eq!(cuts.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), input);
            for (at, (bytes, partial)) in cuts.iter().enumerate() {
                let content = content(split, bytes);
                prop_assert!(!bytes.is_empty() && content.len() <= max);
                prop_assert!(!content.iter().any(|byte| end_bytes(split).contains(byte)));
                let ended = content.len() < bytes.len();
                let is_last = at + 1 == cuts.len();
                prop_assert!(ended != *partial || (is_last && !ended && !partial));
            }
        }

        #[test]
        fn cutting_is_the_same_wherever_the_reads_fall(
            split in any_split(), max in 4..12_usize, input in any_bytes(), sizes in any_sizes(),
        ) {
            let expected = model(split, max, &input);
            prop_assert_eq!(&run(split, max, &in_steps(&input, &sizes, false)), &expected);
            prop_assert_eq!(&cut(split, max, &[&input]), &expected);
            // The last piece of a line is never its end alone.
            for pair in expected.windows(2) {
                prop_assert!(!pair[0].1 || !content(split, &pair[1].0).is_empty());
            }
        }

        #[test]
        fn text_is_cut_between_characters(
            split in any_split(), max in 4..12_usize, input in any_text(), sizes in any_sizes(),
        ) {
            for (bytes, _) in run(split, max, &in_steps(&input, &sizes, true)) {
                prop_assert!(std::str::from_utf8(&bytes).is_ok());
            }
        }

        #[test]
        fn the_counter_agrees_with_the_cutter(
            split in any_split(), max in 4..12_usize, input in any_bytes(), sizes in any_sizes(),
        ) {
            // A flush between a CR and its LF makes two lines of what the counter counts as one.
            let cuts = run(split, max, &in_steps(&input, &sizes, split != Split::Cr));
            let whole = cuts.iter().filter(|(_, partial)| !partial).count();
            let cut_short = usize::from(cuts.last().is_some_and(|(_, partial)| *partial));
            let mut counter = LineCounter::new(split);
            for step in in_steps(&input, &sizes, false) {
                if let Step::Push(block) = step {
                    counter.push(&block);
                }
            }
            prop_assert_eq!(counter.lines_at_end(), (whole + cut_short) as u64);
        }
    }
}
