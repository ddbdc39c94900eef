//! What the line of a chunk tells at a glance, without its being read: most of what passes through here is chunks that
//! are shown as they were written.
//!
//! This holds for lines as [`ndjson`](crate::sink::ndjson) writes them. Of others nothing is told, and they have to be
//! [read](crate::model::recorded).

use std::time::Duration;

use crate::model::event::Stream;
use crate::model::recorded::MOST_COUNT;

/// What such a line begins with, up to its number.
#[must_use]
pub fn beginning(stream: Stream) -> &'static [u8] {
    match stream {
        Stream::Stdout => br#"{"op":"chunk","kind":"stdout","seq":"#,
        Stream::Stderr => br#"{"op":"chunk","kind":"stderr","seq":"#,
    }
}

/// The number of the chunk that a line is; `None`: it is no chunk, or was written by somebody else.
#[must_use]
pub fn chunk_seq(line: &[u8]) -> Option<u64> {
    seq_and_rest(line).map(|(seq, _)| seq)
}

/// The time of such a chunk.
#[must_use]
pub fn chunk_time(line: &[u8]) -> Option<Duration> {
    let (_, rest) = seq_and_rest(line)?;
    let number = rest.strip_prefix(br#","t":"#)?;
    let end = number.iter().position(|&byte| byte == b',')?;
    let seconds = std::str::from_utf8(&number[..end]).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether a chunk can have this number.
#[must_use]
pub fn is_seq(seq: u64) -> bool {
    (1..=MOST_COUNT).contains(&seq)
}

fn seq_and_rest(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = Stream::ALL.iter().find_map(|&stream| line.strip_prefix(beginning(stream)))?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let seq = rest[..digits].iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    is_seq(seq).then_some((seq, &rest[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_tells_its_number_and_its_time() {
        let line = br#"{"op":"chunk","kind":"stderr","seq":17,"t":1.500000,"content":"x\n"}"#;
        assert_eq!(chunk_seq(line), Some(17));
        assert_eq!(chunk_time(line), Some(Duration::from_millis(1500)));
        for other in [&b"{}"[..], br#"{"op":"stop","t":1.5}"#, &line[..36], b""] {
            assert_eq!((chunk_seq(other), chunk_time(other)), (None, None));
        }
    }
}
