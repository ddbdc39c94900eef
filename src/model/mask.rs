//! Replaces secrets by `***`, in a stream wherever the reads fall and in whole texts.
//!
//! Where secrets come from is no affair of this file, and none is ever shown: not in an error, not by `Debug`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::model::patterns::{Patterns, Undecided};
pub use crate::model::secret_forms::LEAST_BYTES as LEAST_SECRET_BYTES;
use crate::model::secret_forms::{LEAST_BYTES, forms};

/// What is to be masked: secrets, and the forms in which programs write them.
///
/// Of several that begin at the same place the longest is masked, and of those that overlap the one that begins
/// first. What comes out holds no secret, unless that secret has a `*` in it: such a one can come about from a
/// replacement and what stands beside it. It then says nothing of the secret that was there.
pub struct Mask {
    patterns: Patterns,
    /// The first [`LEAST_BYTES`] of each pattern: no pattern begins where none of them is.
    heads: AhoCorasick,
}

impl Mask {
    /// Makes a mask of secrets, of which there may be duplicates. One of no secrets masks nothing.
    ///
    /// # Errors
    ///
    /// A secret is too short, or there are too many.
    pub fn new(secrets: &[Vec<u8>]) -> Result<Self, MaskError> {
        if let Some(index) = secrets.iter().position(|secret| secret.len() < LEAST_BYTES) {
            return Err(MaskError::TooShort { index });
        }
        Self::of_patterns(secrets.iter().flat_map(|secret| forms(secret)).collect())
    }

    /// A mask of exactly these patterns.
    fn of_patterns(patterns: Vec<Vec<u8>>) -> Result<Self, MaskError> {
        let patterns = Patterns::new(patterns).map_err(|_| MaskError::TooMuch)?;
        let mut heads: Vec<&[u8]> =
            patterns.all().iter().map(|pattern| &pattern[..LEAST_BYTES]).collect();
        // They are sorted.
        heads.dedup();
        // All of them have one length, so it makes no difference which kind of leftmost it is; it must be one.
        let heads = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(heads)
            .map_err(|_| MaskError::TooMuch)?;
        Ok(Self { patterns, heads })
    }

    /// A text with all secrets masked. Where a secret ended inside a character, U+FFFD is left of that.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// Bytes with all secrets masked.
    #[must_use]
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let mut masked = Vec::new();
        let undecided = self.advance(Undecided::NOTHING, bytes, &mut masked);
        self.patterns.finish(undecided, &mut masked);
        if masked == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(masked) }
    }

    /// Takes the next bytes of a stream, appends what is decided to `out`, and returns what is undecided.
    ///
    /// While no more is undecided than a search for heads finds again, such a search looks at many bytes at once;
    /// from a head on it goes byte by byte. Each search begins behind the first byte of the head that the one before
    /// found, so no byte is searched more often than a head has bytes.
    fn advance(&self, mut undecided: Undecided, bytes: &[u8], out: &mut Vec<u8>) -> Undecided {
        let mut at = 0;
        while at < bytes.len() {
            let mut steps = 1;
            if let Some(begin) = self.search_from(undecided, at)
                && let rest = &bytes[begin..]
                && rest.len() >= LEAST_BYTES
            {
                let head = self.heads.find(rest);
                // Without a head, one may begin in the last bytes yet.
                let plain = head.map_or(rest.len() + 1 - LEAST_BYTES, |head| head.start());
                out.extend_from_slice(&rest[..plain]);
                undecided = Undecided::NOTHING;
                at = begin + plain;
                steps = rest.len().min(plain + LEAST_BYTES) - plain;
            }
            for byte in &bytes[at..at + steps] {
                undecided = self.patterns.step(undecided, *byte, out);
            }
            at += steps;
        }
        undecided
    }

    /// Where a search for heads can begin, if `at` bytes were taken: where the undecided part begins, if that is
    /// here and no longer than the beginning of a head.
    fn search_from(&self, undecided: Undecided, at: usize) -> Option<usize> {
        let length = self.patterns.length(undecided);
        if length < LEAST_BYTES { at.checked_sub(length) } else { None }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").finish_non_exhaustive()
    }
}

/// Why there can be no mask of some secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskError {
    /// A secret has fewer than 4 bytes.
    TooShort {
        /// Which one, counted from 0.
        index: usize,
    },
    /// The secrets and their forms are gigabytes.
    TooMuch,
}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { .. } => write!(f, "a secret has at least {LEAST_BYTES} bytes"),
            Self::TooMuch => f.write_str("too many secrets"),
        }
    }
}

impl std::error::Error for MaskError {}

/// Masks one stream.
///
/// What may be the beginning of a secret is held back until that is decided; it takes no memory, since it is the
/// beginning of a pattern that the [`Mask`] has.
#[derive(Debug)]
pub struct Masker {
    mask: Arc<Mask>,
    undecided: Undecided,
}

impl Masker {
    /// A masker at the start of a stream.
    #[must_use]
    pub fn new(mask: Arc<Mask>) -> Self {
        Self { mask, undecided: Undecided::NOTHING }
    }

    /// Takes the next bytes of the stream and appends what is decided, masked, to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.undecided = self.mask.advance(self.undecided, bytes, out);
    }

    /// Appends what was held back to `out`; the stream has ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.mask.patterns.finish(self.undecided, out);
        self.undecided = Undecided::NOTHING;
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.mask.patterns.length(self.undecided)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn mask(secrets: &[&[u8]]) -> Mask {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.to_vec()).collect();
        Mask::new(&secrets).expect("they are long enough")
    }

    /// What comes out after each block, and at the end.
    fn outputs(mask: &Arc<Mask>, blocks: &[&[u8]]) -> Vec<String> {
        let mut masker = Masker::new(Arc::clone(mask));
        let mut outputs: Vec<Vec<u8>> = Vec::new();
        for block in blocks {
            outputs.push(Vec::new());
            masker.push(block, outputs.last_mut().expect("there is one"));
        }
        outputs.push(Vec::new());
        masker.finish(outputs.last_mut().expect("there is one"));
        outputs.into_iter().map(|out| String::from_utf8(out).expect("it is text")).collect()
    }

    /// The same as a whole, by trying each pattern at each place.
    fn replaced(patterns: &[Vec<u8>], mut text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some((first, rest)) = text.split_first() {
            let found = patterns.iter().filter(|pattern| text.starts_with(pattern));
            if let Some(longest) = found.map(Vec::len).max() {
                out.extend_from_slice(b"***");
                text = &text[longest..];
            } else {
                out.push(*first);
                text = rest;
            }
        }
        out
    }

    #[test]
    fn a_secret_is_masked_wherever_the_reads_and_the_lines_fall() {
        let mask = Arc::new(mask(&[b"hunter2!", b"two\nlines\r\n"]));
        assert_eq!(outputs(&mask, &[b"is hunt", b"er", b"2!\n"]), ["is ", "", "***\n", ""]);
        assert_eq!(outputs(&mask, &[b"<two\n", b"lines\r\n>"]), ["<", "***>", ""]);
        assert_eq!(
            outputs(&mask, &[b"hunter2?hunter", b"3 hunter"]),
            ["hunter2?", "hunter3 ", "hunter"]
        );
    }

    #[test]
    fn a_secret_that_no_longer_one_begins_with_is_masked_at_once() {
        let mask = Arc::new(mask(&[b"abcd!", b"abcd!efg"]));
        assert_eq!(outputs(&mask, &[b"abcd!", b"efg", b"x"]), ["", "***", "x", ""]);
    }

    #[test]
    fn the_longest_of_several_and_the_first_of_overlapping_ones_is_masked() {
        let mask = Arc::new(mask(&[b"abcd!", b"abcd!efg", b"cd!efghi"]));
        assert_eq!(outputs(&mask, &[b"abcd!efghi"]), ["***hi", ""]);
        assert_eq!(outputs(&mask, &[b"abcd!ef", b" cd!efghi"]), ["", "***ef ***", ""]);
        assert_eq!(outputs(&mask, &[b"abcd!ef"]), ["", "***ef"]);
    }

    #[test]
    fn what_a_longer_beginning_had_covered_is_searched_too() {
        let patterns = ["xabcdyz", "abcd", "dyq1"].map(|text| text.as_bytes().to_vec());
        let mask = Arc::new(Mask::of_patterns(patterns.to_vec()).expect("they are few"));
        assert_eq!(outputs(&mask, &[b"xabcdy", b"q1"]), ["", "x***yq1", ""]);
        assert_eq!(outputs(&mask, &[b"xabcdyz"]), ["***", ""]);
        assert_eq!(outputs(&mask, &[b"xabcdyabcd"]), ["x***y***", ""]);
        let patterns = ["abcd-abcd+abcd?!", "abcd", "d+ab"].map(|text| text.as_bytes().to_vec());
        let mask = Arc::new(Mask::of_patterns(patterns.to_vec()).expect("they are few"));
        assert_eq!(outputs(&mask, &[b"abcd-abcd+abcd?", b"?"]), ["", "***-***+***??", ""]);
    }

    #[test]
    fn whole_texts_are_masked_and_only_copied_if_need_be() {
        let mask = mask(&["p\u{e4}\u{df}w".as_bytes(), b"\xa4\xc3\x9f\xc3"]);
        assert!(matches!(mask.text("nothing here p\u{e4}"), Cow::Borrowed("nothing here p\u{e4}")));
        assert_eq!(mask.text("a p\u{e4}\u{df}w b"), "a *** b");
        assert_eq!(mask.bytes(b"a \xa4\xc3\x9f\xc3"), &b"a ***"[..]);
        assert_eq!(mask.text("\u{e4}\u{df}\u{e4}"), "\u{fffd}***\u{fffd}");
    }

    #[test]
    fn the_forms_of_a_secret_are_masked() {
        let mask = mask(&["s\u{e9}cr\"t /1".as_bytes()]);
        for text in [
            "{\"a\":\"s\u{e9}cr\\\"t /1\"}",
            "{\"a\":\"s\\u00e9cr\\\"t \\/1\"}",
            "{\"a\":\"s%C3%A9cr%22t+%2F1\"}",
            "{\"a\":\"73c3a96372227420 2f31\"}".replace(' ', "").as_str(),
        ] {
            assert_eq!(mask.text(text), "{\"a\":\"***\"}", "{text}");
        }
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_shown() {
        let secrets = [b"long enough".to_vec(), b"abc".to_vec()];
        let error = Mask::new(&secrets).expect_err("three bytes are too few");
        assert_eq!(error, MaskError::TooShort { index: 1 });
        assert_eq!(error.to_string(), "a secret has at least 4 bytes");
        let masker = Masker::new(Arc::new(mask(&[b"shown", b"shown"])));
        assert_eq!(format!("{masker:?}"), "Masker { mask: Mask { .. }, undecided: Undecided(0) }");
        assert_eq!(mask(&[]).text("anything"), "anything");
    }

    /// It takes as many steps as there are bytes, or it would not end.
    #[test]
    fn a_long_beginning_of_a_secret_is_not_gone_through_again() {
        const LENGTH: usize = 1 << 20;
        let long = [b"a".repeat(LENGTH), b"b".to_vec()].concat();
        let text = b"a".repeat(3 * LENGTH);

        let mask = Arc::new(Mask::of_patterns(vec![long.clone()]).expect("it is no more than one"));
        let mut masker = Masker::new(Arc::clone(&mask));
        let mut out = Vec::new();
        text.iter().for_each(|byte| masker.push(&[*byte], &mut out));
        assert_eq!((out.len(), masker.held_bytes()), (2 * LENGTH, LENGTH));
        masker.push(b"b", &mut out);
        assert!(out.ends_with(b"a***") && out.len() == 2 * LENGTH + 3);

        let mask = Mask::of_patterns(vec![long, b"aaaa".to_vec()]).expect("they are two");
        let mut masker = Masker::new(Arc::new(mask));
        let mut out = Vec::new();
        text.chunks(7).for_each(|block| masker.push(block, &mut out));
        masker.finish(&mut out);
        assert_eq!(out, b"***".repeat(3 * LENGTH / 4));
    }

    #[test]
    fn a_long_secret_is_masked_in_base64_and_json_too() {
        let secret: Vec<u8> = (0..100_000_u64).map(|i| ((i * i) >> 7) as u8).collect();
        let mask = mask(&[&secret]);
        assert_eq!(mask.bytes(&secret), &b"***"[..]);
        let text = [b"before ", &secret[..], b" after"].concat();
        assert!(mask.text(&STANDARD.encode(&text)).len() < 30);
        let text: String = secret.iter().map(|byte| char::from(*byte & 127)).collect();
        let json = serde_json::to_string(&text).expect("a string is JSON");
        assert_eq!(self::mask(&[text.as_bytes()]).text(&json), "\"***\"");
    }

    fn of_two_letters(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"ab".to_vec()), length)
    }

    /// Some patterns, and some that are made of those.
    fn patterns() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let indices = prop::collection::vec(any::<prop::sample::Index>(), 2..5);
        let joined = prop::collection::vec((indices, of_two_letters(0..3)), 0..4);
        (prop::collection::vec(of_two_letters(4..9), 1..5), joined).prop_map(
            |(mut patterns, joined)| {
                for (indices, end) in joined {
                    let parts =
                        indices.iter().map(|index| &patterns[index.index(patterns.len())][..]);
                    let pattern = parts.chain([&end[..]]).collect::<Vec<_>>().concat();
                    patterns.push(pattern);
                }
                patterns
            },
        )
    }

    /// Texts that are made of patterns, beginnings and ends of patterns, and others.
    fn patterns_and_text() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>)> {
        let pick = (any::<prop::sample::Index>(), 0..5_usize, 0..40_usize, of_two_letters(0..3));
        (patterns(), prop::collection::vec(pick, 0..9)).prop_map(|(patterns, picks)| {
            let mut text = Vec::new();
            for (index, from, to, other) in picks {
                let pattern: &Vec<u8> = &patterns[index.index(patterns.len())];
                let to = to.min(pattern.len());
                text.extend_from_slice(&pattern[from.min(to)..to]);
                text.extend(other);
            }
            (patterns, text)
        })
    }

    proptest! {
        #[test]
        fn a_stream_comes_out_as_the_whole_text_would_wherever_the_reads_fall(
            (patterns, text) in patterns_and_text(),
            sizes in prop::collection::vec(1..12_usize, 1..6),
        ) {
            let expected = replaced(&patterns, &text);
            let mask = Arc::new(Mask::of_patterns(patterns.clone()).expect("they are few"));
            prop_assert_eq!(mask.bytes(&text), &expected[..]);

            let mut masker = Masker::new(mask);
            let (mut out, mut rest, mut sizes) = (Vec::new(), &text[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let (block, later) = rest.split_at(rest.len().min(*sizes.next().expect("it has no end")));
                masker.push(block, &mut out);
                rest = later;
                // What is held back is the beginning of a pattern, and all before it is as it will be.
                let taken = text.len() - rest.len();
                let held = &text[taken - masker.held_bytes()..taken];
                let goes_on = |pattern: &Vec<u8>| pattern.len() > held.len() && pattern.starts_with(held);
                prop_assert!(held.is_empty() || patterns.iter().any(goes_on));
                prop_assert!(expected.starts_with(&out));
            }
            masker.finish(&mut out);
            prop_assert_eq!(masker.held_bytes(), 0);
            prop_assert_eq!(&out, &expected);
            for pattern in &patterns {
                prop_assert!(!out.windows(pattern.len()).any(|window| window == &pattern[..]));
            }
        }

        #[test]
        fn a_secret_in_base64_of_a_text_is_masked_at_any_place(
            before in prop::collection::vec(any::<u8>(), 0..7),
            secret in prop::collection::vec(any::<u8>(), 8..20),
            after in prop::collection::vec(any::<u8>(), 0..7),
        ) {
            let mask = mask(&[&secret]);
            let text = [&before[..], &secret, &after].concat();
            let start = (before.len() * 8).div_ceil(6);
            let end = (before.len() + secret.len()) * 8 / 6;
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let masked = mask.text(&encoded).into_owned();
                // A character that has bits of what comes next may look like the last of a text.
                let rests = if after.is_empty() { ["", ""] } else { [&encoded[end..], &encoded[end + 1..]] };
                prop_assert!(
                    rests.iter().any(|rest| masked == format!("{}***{rest}", &encoded[..start])),
                    "{encoded} {masked}"
                );
            }
        }

        #[test]
        fn a_text_is_masked_as_its_bytes_are(secret in "\\PC{4,6}", text in "\\PC{0,9}") {
            let mask = mask(&[secret.as_bytes()]);
            let text = format!("{text}{secret}{text}");
            let masked = mask.text(&text).into_owned();
            prop_assert_eq!(masked.as_bytes(), &*mask.bytes(text.as_bytes()));
        }
    }
}
