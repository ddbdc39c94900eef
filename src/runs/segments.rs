//! The segments of a journal: their names, the line that each begins with, and where in one a chunk is.

use serde::{Deserialize, Serialize};

use crate::model::chunk_line::{chunk_seq, is_seq};
use crate::model::json::line;
use crate::model::recorded::{MOST_COUNT, RecordedChunk};

/// What the name of a segment begins with; the number of its first chunk follows.
const PREFIX: &str = "journal-";

/// Digits of that number: names are in order as texts too.
const DIGITS: usize = 20;

/// The name of the segment whose first chunk has this number.
#[must_use]
pub fn name_of(first_seq: u64) -> String {
    format!("{PREFIX}{first_seq:0DIGITS$}")
}

/// The number of the first chunk of the segment of this name; `None`: it is no segment.
#[must_use]
pub fn first_seq(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
        .filter(|&seq| is_seq(seq))
}

/// The first line of a segment: all that was before it. Readers of events pass over it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The number of the last chunk.
    pub seq: u64,
    /// Whole lines of standard output, and of standard error.
    pub lines: [u64; 2],
    /// Bytes of standard output, and of standard error.
    pub bytes: [u64; 2],
    /// Whether the last line of each is not whole yet.
    #[serde(default)]
    pub open: [bool; 2],
}

/// The shape of that line.
#[derive(Serialize, Deserialize)]
struct Line {
    op: String,
    #[serde(flatten)]
    before: Before,
}

const OP: &str = "segment";

impl Before {
    /// Whether a run can have so much.
    fn is_possible(&self) -> bool {
        let counts = [[self.seq; 2], self.lines, self.bytes];
        counts.as_flattened().iter().all(|&count| count <= MOST_COUNT)
    }

    /// Bytes of both.
    #[must_use]
    pub fn sum_bytes(&self) -> u64 {
        self.bytes[0].saturating_add(self.bytes[1])
    }

    /// Adds a chunk that follows.
    pub fn add(&mut self, chunk: &RecordedChunk<'_>) {
        let index = chunk.stream.index();
        self.seq = chunk.seq;
        // What a damaged file says may add up to any number.
        self.lines[index] = self.lines[index].saturating_add(u64::from(!chunk.partial));
        self.bytes[index] = self.bytes[index].saturating_add(chunk.bytes.len() as u64);
        self.open[index] = chunk.partial;
    }

    /// Whether whoever has seen so many lines of each stream has seen all that was before.
    #[must_use]
    pub fn is_within(&self, seen_lines: [u64; 2]) -> bool {
        (0..2).all(|index| {
            let whole = self.lines[index];
            whole < seen_lines[index] || (whole == seen_lines[index] && !self.open[index])
        })
    }

    /// The line, with its end.
    #[must_use]
    pub fn line(self) -> Vec<u8> {
        line(&Line { op: OP.to_owned(), before: self })
    }

    /// What the line says; `None`: it is no such line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Line>(line)
            .ok()
            .filter(|line| line.op == OP)
            .map(|line| line.before)
            .filter(Before::is_possible)
    }
}

/// Where in whole lines that are in the order of their numbers the first one begins whose chunk comes after
/// `after`, or events stand just before it: no chunk that is before it is wanted. Looks at few of the lines.
#[must_use]
pub fn position_after(lines: &[u8], after: u64) -> usize {
    // Each line that begins before `low` is not wanted; no chunk at `high` or behind is unwanted.
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let begin = memchr::memrchr(b'\n', &lines[low..middle]).map_or(low, |end| low + end + 1);
        // The next chunk from there on; events have no number.
        let mut at = begin;
        let found = loop {
            if at >= high {
                break None;
            }
            let end = memchr::memchr(b'\n', &lines[at..]).map_or(lines.len(), |end| at + end + 1);
            match chunk_seq(&lines[at..end]) {
                Some(seq) => break Some((seq, end)),
                None => at = end,
            }
        };
        match found {
            Some((seq, end)) if seq <= after => low = end,
            _ => high = begin,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        for seq in [1, 9, 10, MOST_COUNT] {
            assert_eq!(first_seq(&name_of(seq)), Some(seq));
        }
        assert!(name_of(9) < name_of(10));
        for name in [
            "journal-",
            "journal-1",
            "result",
            "journal-0000000000000000000x",
            &name_of(0),
            &name_of(MOST_COUNT + 1),
        ] {
            assert_eq!(first_seq(name), None, "{name}");
        }
    }

    #[test]
    fn what_was_before_comes_back_as_it_was_written() {
        let mut before =
            Before { seq: 7, lines: [3, 4], bytes: [30, MOST_COUNT], open: [true, false] };
        assert_eq!(Before::parse(&before.line()), Some(before));
        assert_eq!(Before::parse(br#"{"op":"chunk","seq":1}"#), None);
        before.bytes[0] = u64::MAX;
        assert_eq!(Before::parse(&before.line()), None, "no run has so much");
    }

    proptest! {
        #[test]
        fn no_chunk_before_the_position_is_wanted_and_none_behind_is_not(
            gaps in prop::collection::vec((1..4_u64, any::<bool>(), 0..40_usize), 0..60),
            after in 0..200_u64,
        ) {
            let (mut lines, mut seq) = (Vec::new(), 0);
            for (gap, is_event, length) in gaps {
                if is_event {
                    lines.extend_from_slice(b"{\"op\":\"stop\"}\n");
                }
                seq += gap;
                let text = "x".repeat(length);
                lines.extend_from_slice(
                    format!("{{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":{seq},\"t\":1,\"content\":\"{text}\"}}\n").as_bytes(),
                );
            }
            let at = position_after(&lines, after);
            prop_assert!(at == 0 || lines[at - 1] == b'\n');
            let seqs = |lines: &[u8]| -> Vec<u64> {
                lines.split_inclusive(|&byte| byte == b'\n').filter_map(chunk_seq).collect()
            };
            prop_assert!(seqs(&lines[..at]).iter().all(|&seq| seq <= after));
            prop_assert!(seqs(&lines[at..]).iter().all(|&seq| seq > after));
            prop_assert_eq!(seqs(&lines[..at]).len() + seqs(&lines[at..]).len(), seqs(&lines).len());
        }
    }
}
