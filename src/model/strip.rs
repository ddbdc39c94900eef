//! Takes terminal escape sequences out of a stream of bytes wherever the reads fall.
//!
//! Every other byte passes as it is, also what is not UTF-8. Nothing is interpreted here: what a sequence would
//! have done to a screen does not happen, and text that it would have covered stays.

use anstyle_parse::state::{Action, State, state_change};
use memchr::memchr;

/// What each sequence begins with. Bytes 0x80 to 0x9f, which begin one in 8-bit character sets, are parts of
/// characters in UTF-8.
const ESC: u8 = 0x1b;

/// The first byte that is no ASCII.
const NON_ASCII: u8 = 0x80;

/// Takes the escape sequences out of one stream.
///
/// Where a sequence ends is decided as a terminal does it:
///
/// - CAN and SUB end any sequence, and are taken out with it; an ESC ends it and begins the next.
/// - Inside a control sequence or a short escape sequence, control characters count as if they stood before it:
///   they pass. So does a character that is no ASCII; such a sequence is broken, and ends there.
/// - The strings (OSC, DCS, SOS, PM, APC) end with ST, OSC also with BEL, and hold everything up to there. An OSC,
///   a title or a link, has no line end in it, and one that comes ends it: so two stray bytes hide a line at the
///   most. The others may have some, as images do; one that never ends hides all up to the next ESC, as it does on
///   a terminal. Nothing of it is stored.
///
/// A sequence that is unfinished where the stream ends is dropped.
#[derive(Debug)]
pub struct Stripper {
    state: State,
}

impl Stripper {
    /// A stripper at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Ground }
    }

    /// Takes the next bytes of the stream and appends what of them is not part of a sequence to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.state == State::Ground {
                let plain = memchr(ESC, bytes).unwrap_or(bytes.len());
                out.extend_from_slice(&bytes[..plain]);
                bytes = &bytes[plain..];
                if let Some((_, inside)) = bytes.split_first() {
                    self.state = State::Escape;
                    bytes = inside;
                }
            } else {
                if self.shows(first) {
                    out.push(first);
                }
                bytes = rest;
            }
        }
    }

    /// Takes a byte inside a sequence and says whether it is none of it.
    fn shows(&mut self, byte: u8) -> bool {
        if byte >= NON_ASCII {
            // The table takes 0x9c for the end of a string, but it is in the middle of many a character.
            let shown = !self.is_in_string();
            if shown {
                self.state = State::Ground;
            }
            return shown;
        }
        if self.state == State::OscString && byte == b'\n' {
            self.state = State::Ground;
            return true;
        }
        let (next, action) = state_change(self.state, byte);
        // `Anywhere` is the table's word for no change.
        if next == State::Anywhere {
            return action == Action::Execute;
        }
        self.state = next;
        false
    }

    fn is_in_string(&self) -> bool {
        matches!(
            self.state,
            State::OscString
                | State::SosPmApcString
                | State::DcsEntry
                | State::DcsParam
                | State::DcsIntermediate
                | State::DcsIgnore
                | State::DcsPassthrough
        )
    }
}

impl Default for Stripper {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    use super::*;

    fn strip(blocks: &[&[u8]]) -> Vec<u8> {
        let mut stripper = Stripper::new();
        let mut out = Vec::new();
        for block in blocks {
            stripper.push(block, &mut out);
        }
        out
    }

    fn stripped(text: &str) -> String {
        String::from_utf8(strip(&[text.as_bytes()])).expect("characters stay whole")
    }

    #[test]
    fn sequences_of_each_kind_are_taken_out() {
        for sequence in [
            "\x1b[m",
            "\x1b[1;31m",
            "\x1b[38:2::1:2:3m",
            "\x1b[?25l",
            "\x1b[2 q",
            "\x1b[>0c",
            "\x1b[200~",
            "\x1b]0;title\x07",
            "\x1b]8;;http://a/\x1b\\",
            "\x1b]0;caf\u{e9} \u{201c}x\u{201d}\x1b\\",
            "\x1bP1$r0m\x1b\\",
            "\x1bPq#0\n-\x1b\\",
            "\x1b_Ga=T;AAAA\x1b\\",
            "\x1b^private \u{201c}\x1b\\",
            "\x1bXstart\x1b\\",
            "\x1bc",
            "\x1b7",
            "\x1b=",
            "\x1bM",
            "\x1b(B",
            "\x1b)0",
            "\x1b#8",
            "\x1b%G",
            "\x1b F",
        ] {
            assert_eq!(stripped(&format!("a{sequence}b\n")), "ab\n", "{sequence:?}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_sequence_passes_unchanged() {
        let all: Vec<u8> = (0..=255).filter(|byte| *byte != ESC).collect();
        assert_eq!(strip(&[&all]), all);
        assert_eq!(stripped("\x07\r\n\0\u{9b}31m[31m\x18\x1a"), "\x07\r\n\0\u{9b}31m[31m\x18\x1a");
    }

    #[test]
    fn a_string_ends_with_can_sub_or_the_next_escape() {
        for end in ["\x18", "\x1a", "\x1b[m", "\x1b\\"] {
            for begin in ["\x1b]0;t", "\x1bP1$r", "\x1b_x", "\x1b[1", "\x1b", "\x1b("] {
                assert_eq!(stripped(&format!("a{begin}{end}b")), "ab", "{begin:?} {end:?}");
            }
        }
        assert_eq!(stripped("\x1b_no end of it\x07\n"), "");
    }

    #[test]
    fn controls_inside_a_control_sequence_pass() {
        assert_eq!(stripped("a\x1b[3\n1\0mb"), "a\n\0b");
    }

    #[test]
    fn a_character_that_is_no_ascii_ends_a_broken_sequence_and_passes() {
        for begin in ["\x1b", "\x1b[", "\x1b[1", "\x1b[1;<", "\x1b[ ", "\x1b("] {
            assert_eq!(stripped(&format!("a{begin}\u{20ac}mb")), "a\u{20ac}mb", "{begin:?}");
        }
    }

    #[test]
    fn a_sequence_that_the_stream_ends_in_is_dropped() {
        assert_eq!(stripped("text\n\x1b[1;3"), "text\n");
    }

    /// Text without sequences, or one sequence.
    fn part() -> impl Strategy<Value = (bool, Vec<u8>)> {
        let text = prop::collection::vec(any::<u8>(), 0..6)
            .prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != ESC).collect::<Vec<u8>>());
        let control = "\x1b\\[[0-?]{0,4}[ -/]{0,1}[@-~]".prop_map(String::into_bytes);
        let short = "\x1b[ -/]{0,2}[0-9=>a-z]".prop_map(String::into_bytes);
        let string =
            ("\x1b[\\]P_X^][!-~\u{2018}-\u{201f}]{0,8}", prop_oneof![Just("\x1b\\"), Just("\x18")])
                .prop_map(|(begin, end)| (begin + end).into_bytes());
        prop_oneof![
            text.prop_map(|bytes| (true, bytes)),
            control.prop_map(|bytes| (false, bytes)),
            short.prop_map(|bytes| (false, bytes)),
            string.prop_map(|bytes| (false, bytes)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_between_the_sequences_is_all_that_comes_out(
            parts in prop::collection::vec(part(), 0..12),
            size in 1..9_usize,
        ) {
            let stream: Vec<u8> = parts.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let text: Vec<u8> =
                parts.iter().filter(|(is_text, _)| *is_text).flat_map(|(_, bytes)| bytes.clone()).collect();
            prop_assert_eq!(&strip(&[&stream]), &text);
            prop_assert_eq!(&strip(&stream.chunks(size).collect::<Vec<_>>()), &text);
        }

        #[test]
        fn any_stream_comes_out_the_same_wherever_the_reads_fall_and_without_an_escape(
            stream in prop::collection::vec(prop_oneof![
                any::<u8>(), Just(ESC), Just(b'['), Just(b']'), Just(b'P'), Just(b'\\'), Just(0x9c), Just(7), Just(0x18),
            ], 0..60),
            size in 1..9_usize,
        ) {
            let whole = strip(&[&stream]);
            prop_assert!(!whole.contains(&ESC));
            prop_assert_eq!(strip(&stream.chunks(size).collect::<Vec<_>>()), whole);
        }
    }
}
