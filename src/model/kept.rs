//! The part of a stream that the result keeps: its beginning, its end, or half and half.
//!
//! Memory is bounded by what is asked for, and taken only as bytes come. What the bytes mean is not known
//! here, but for where a UTF-8 character ends.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::model::lines::unfinished_character;
use crate::model::spec::Keep;

/// The part of one stream that is kept, while it comes.
#[derive(Debug, Clone)]
pub struct Kept {
    keep: Keep,
    head: Vec<u8>,
    head_max: usize,
    /// The end of what the head had no room for.
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
}

impl Kept {
    /// Keeps at most `max_bytes` of a stream; [`u64::MAX`] is all of it. Of [`Keep::Both`] the beginning
    /// gets half, rounded down.
    #[must_use]
    pub fn new(keep: Keep, max_bytes: u64) -> Self {
        let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let (head_max, tail_max) = match keep {
            Keep::Head => (max, 0),
            Keep::Tail => (0, max),
            Keep::Both => (max / 2, max - max / 2),
        };
        Self { keep, head: Vec::new(), head_max, tail: VecDeque::new(), tail_max, total: 0 }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        if !first.is_empty() {
            let more = growth(self.head.len(), self.head.capacity(), first.len(), self.head_max);
            self.head.reserve_exact(more);
            self.head.extend_from_slice(first);
        }
        if rest.is_empty() || self.tail_max == 0 {
            return;
        }
        let last = &rest[rest.len().saturating_sub(self.tail_max)..];
        let overwritten = self.tail.len().saturating_sub(self.tail_max - last.len());
        self.tail.drain(..overwritten);
        let more = growth(self.tail.len(), self.tail.capacity(), last.len(), self.tail_max);
        self.tail.reserve_exact(more);
        self.tail.extend(last);
    }

    /// What is kept. All of the stream, exactly, if it fits; else without the parts of a character that
    /// the cuts left at the end of the beginning and at the start of the end.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.parts() {
            [only, [], []] | [[], only, []] | [[], [], only] => Cow::Borrowed(only),
            parts => Cow::Owned(parts.concat()),
        }
    }

    /// Puts what is kept in one piece, so that [`Kept::bytes`] need not copy it. No more bytes may follow.
    pub fn settle(&mut self) {
        if self.keep == Keep::Tail {
            self.tail.make_contiguous();
        }
    }

    /// How many bytes [`Kept::bytes`] has.
    #[must_use]
    pub fn kept_len(&self) -> u64 {
        self.parts().iter().map(|part| part.len() as u64).sum()
    }

    /// Whether the stream produced more bytes than [`Kept::bytes`] has.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// How many bytes are missing between the two halves; `None` if nothing is, or if only one is kept.
    #[must_use]
    pub fn omitted_between(&self) -> Option<u64> {
        (self.keep == Keep::Both && self.is_truncated()).then(|| self.total - self.kept_len())
    }

    /// What is kept, in order: the head, and the two runs of the ring that the tail is.
    fn parts(&self) -> [&[u8]; 3] {
        let (mut first, mut second) = self.tail.as_slices();
        if !self.is_truncated() {
            return [&self.head, first, second];
        }
        let head = &self.head[..self.head.len() - unfinished_character(&self.head)];
        let leading =
            self.tail.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
        let of_first = leading.min(first.len());
        first = &first[of_first..];
        second = &second[leading - of_first..];
        [head, first, second]
    }
}

/// How many bytes to reserve for `more`: twice the capacity, as std does, but never past the limit, which
/// a user may set as high as their memory allows.
fn growth(len: usize, capacity: usize, more: usize, max: usize) -> usize {
    let needed = len + more;
    if needed <= capacity { 0 } else { needed.max(capacity.saturating_mul(2)).min(max) - len }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    use super::*;

    fn kept(keep: Keep, max_bytes: u64, blocks: &[&[u8]]) -> Kept {
        let mut kept = Kept::new(keep, max_bytes);
        for block in blocks {
            kept.push(block);
        }
        kept
    }

    /// What is kept of the whole input and how much is missing.
    fn model(keep: Keep, max: usize, input: &[u8]) -> (Vec<u8>, usize) {
        if input.len() <= max {
            return (input.to_vec(), 0);
        }
        let (head, tail) = match keep {
            Keep::Head => (max, 0),
            Keep::Tail => (0, max),
            Keep::Both => (max / 2, max - max / 2),
        };
        let mut head = input[..head].to_vec();
        let mut tail = input[input.len() - tail..].to_vec();
        head.truncate(head.len() - unfinished_character(&head));
        for _ in 0..3 {
            if tail.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
                tail.remove(0);
            }
        }
        let bytes = [head, tail].concat();
        let missing = input.len() - bytes.len();
        (bytes, missing)
    }

    #[test]
    fn what_fits_is_kept_exactly() {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let all = kept(keep, 6, &[b"\x80ab", b"cd\xe2"]);
            assert_eq!(&*all.bytes(), b"\x80abcd\xe2");
            assert!(!all.is_truncated() && all.omitted_between().is_none());
            let none = kept(keep, 6, &[]);
            assert!(none.bytes().is_empty() && !none.is_truncated());
        }
    }

    #[test]
    fn past_that_it_is_the_beginning_the_end_or_half_and_half() {
        let blocks: [&[u8]; 3] = [b"012", b"3456", b"789"];
        assert_eq!(&*kept(Keep::Head, 5, &blocks).bytes(), b"01234");
        assert_eq!(&*kept(Keep::Tail, 5, &blocks).bytes(), b"56789");
        let both = kept(Keep::Both, 5, &blocks);
        assert_eq!(&*both.bytes(), b"01789");
        assert_eq!(
            (both.kept_len(), both.is_truncated(), both.omitted_between()),
            (5, true, Some(5))
        );
        assert_eq!(kept(Keep::Head, 5, &blocks).omitted_between(), None);
    }

    #[test]
    fn a_character_that_was_cut_is_left_out() {
        let text = "a€b€c".as_bytes();
        assert_eq!(&*kept(Keep::Head, 3, &[text]).bytes(), b"a");
        assert_eq!(&*kept(Keep::Tail, 3, &[text]).bytes(), b"c");
        let both = kept(Keep::Both, 6, &[text]);
        assert_eq!(&*both.bytes(), b"ac");
        assert_eq!((both.kept_len(), both.omitted_between()), (2, Some(7)));
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing_and_says_so() {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let none = kept(keep, 0, &[b"x"]);
            assert!(none.bytes().is_empty() && none.is_truncated());
            assert_eq!(none.omitted_between(), (keep == Keep::Both).then_some(1));
        }
    }

    #[test]
    fn without_a_limit_everything_is_kept() {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let all = kept(keep, u64::MAX, &[&[b'x'; 100_000], &[b'y'; 100_000]]);
            assert_eq!(all.kept_len(), 200_000);
            assert!(!all.is_truncated() && matches!(all.bytes(), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn memory_is_taken_as_bytes_come_and_not_past_the_limit() {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let mut kept = Kept::new(keep, 1000);
            assert_eq!(kept.head.capacity() + kept.tail.capacity(), 0);
            for _ in 0..700 {
                kept.push(b"abc");
            }
            assert!(kept.head.capacity() + kept.tail.capacity() <= 1000);
        }
    }

    proptest! {
        #[test]
        fn the_kept_part_is_exact_for_any_blocks(
            keep in prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::Both)],
            max in 0..24_usize,
            blocks in prop::collection::vec(
                prop_oneof!["[aé€😀]{0,6}".prop_map(String::into_bytes), any::<Vec<u8>>()], 0..8),
        ) {
            let parts: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            let input = blocks.concat();
            let kept = kept(keep, max as u64, &parts);
            let (bytes, missing) = model(keep, max, &input);
            prop_assert_eq!(&*kept.bytes(), &bytes[..]);
            prop_assert_eq!(kept.kept_len(), bytes.len() as u64);
            prop_assert_eq!(kept.is_truncated(), missing > 0);
            prop_assert_eq!(kept.omitted_between(), (keep == Keep::Both && missing > 0).then_some(missing as u64));
        }

        #[test]
        fn what_is_kept_of_text_is_text(
            keep in prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::Both)],
            max in 0..24_u64,
            text in "[aé€😀]{0,40}",
        ) {
            let kept = kept(keep, max, &[text.as_bytes()]);
            prop_assert!(std::str::from_utf8(&kept.bytes()).is_ok());
        }
    }
}
