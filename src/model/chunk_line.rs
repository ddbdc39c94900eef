//! What the line of a chunk tells at a glance: most of what passes through here is chunks that are shown as they were
//! written, or have nothing in them that takes a parser of JSON.
//!
//! This holds for lines as [`ndjson`](crate::sink::ndjson) writes them. Of others nothing is told, and they have to be
//! [read](crate::model::recorded).

use std::borrow::Cow;
use std::time::Duration;

use crate::model::event::Stream;
use crate::model::recorded::{MOST_COUNT, RecordedChunk};

/// Digits of whole seconds that a time may have to be told here. With more a parser of JSON could round otherwise.
const MOST_SECOND_DIGITS: usize = 8;

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
    head(line).map(|(_, seq, _)| seq)
}

/// The time of such a chunk.
#[must_use]
pub fn chunk_time(line: &[u8]) -> Option<Duration> {
    let (_, _, rest) = head(line)?;
    let number = rest.strip_prefix(br#","t":"#)?;
    let end = number.iter().position(|&byte| byte == b',')?;
    let seconds = std::str::from_utf8(&number[..end]).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The chunk that a line, without its end, is: one of text without an escape but that of its own end. `None`: it is
/// another, or none, or was written by somebody else.
#[must_use]
pub fn plain_chunk(line: &[u8]) -> Option<RecordedChunk<'_>> {
    let (stream, seq, rest) = head(line)?;
    if line[beginning(stream).len()] == b'0' {
        return None;
    }
    let (at, rest) = plain_time(rest.strip_prefix(br#","t":"#)?)?;
    let rest = rest.strip_prefix(br#","content":""#)?;
    let (text, rest) = rest.split_at(memchr::memchr2(b'"', b'\\', rest)?);
    if text.iter().any(u8::is_ascii_control) || simdutf8::basic::from_utf8(text).is_err() {
        return None;
    }
    let (bytes, partial) = match rest {
        br#"\n"}"# => (Cow::Owned([text, b"\n"].concat()), false),
        br#""}"# => (Cow::Borrowed(text), false),
        br#"","partial":true}"# => (Cow::Borrowed(text), true),
        _ => return None,
    };
    Some(RecordedChunk { stream, seq, at, bytes, partial })
}

/// A time as it is written here, with six digits behind its point, and what follows it.
fn plain_time(text: &[u8]) -> Option<(Duration, &[u8])> {
    let point = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let length = point + 1 + 6;
    let is_plain = (1..=MOST_SECOND_DIGITS).contains(&point)
        && (point == 1 || text[0] != b'0')
        && text[point] == b'.'
        && text.get(point + 1..length)?.iter().all(u8::is_ascii_digit)
        && text.get(length) == Some(&b',');
    let seconds =
        std::str::from_utf8(text.get(..length).filter(|_| is_plain)?).ok()?.parse().ok()?;
    Some((Duration::try_from_secs_f64(seconds).ok()?, &text[length..]))
}

/// Whether a chunk can have this number.
#[must_use]
pub fn is_seq(seq: u64) -> bool {
    (1..=MOST_COUNT).contains(&seq)
}

/// The stream and the number of a chunk, and what follows them in its line.
fn head(line: &[u8]) -> Option<(Stream, u64, &[u8])> {
    let begins = |&stream: &Stream| Some((stream, line.strip_prefix(beginning(stream))?));
    let (stream, rest) = Stream::ALL.iter().find_map(begins)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let seq = rest[..digits].iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    is_seq(seq).then_some((stream, seq, &rest[digits..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::model::recorded::parse_json;

    /// What a parser of JSON makes of a line that is a chunk.
    fn parsed(line: &[u8]) -> Option<RecordedChunk<'_>> {
        match parse_json(line) {
            Ok(crate::model::recorded::Recorded::Chunk(chunk)) => Some(chunk),
            _ => None,
        }
    }

    #[test]
    fn a_plain_chunk_is_read_and_any_other_is_left_to_a_parser() {
        let line = |rest: &str| format!("{{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":{rest}}}");
        for (rest, text, partial) in [
            (r#"7,"t":0.000001,"content":"a b\n""#, "a b\n", false),
            (r#"7,"t":12345678.100000,"content":"é""#, "é", false),
            (r#"7,"t":0.500000,"content":"x","partial":true"#, "x", true),
            (r#"7,"t":0.500000,"content":"\n""#, "\n", false),
        ] {
            let line = line(rest);
            let chunk = plain_chunk(line.as_bytes()).expect("it is plain");
            assert_eq!((&*chunk.bytes, chunk.partial), (text.as_bytes(), partial));
            assert_eq!(Some(chunk), parsed(line.as_bytes()));
        }
        for rest in [
            r#"07,"t":0.500000,"content":"x""#,
            r#"7,"t":00.500000,"content":"x""#,
            r#"7,"t":.500000,"content":"x""#,
            r#"7,"t":0.5,"content":"x""#,
            r#"7,"t":123456789.500000,"content":"x""#,
            r#"7,"t":0.500000,"content":"a\tb""#,
            r#"7,"t":0.500000,"content":"x\n","base64":"eAo=""#,
            r#"7,"t":0.500000,"content":"x\n","time":"2026-01-01T00:00:00Z""#,
            r#"7,"t":0.500000,"content":"x","partial":false"#,
            "7,\"t\":0.500000,\"content\":\"a\tb\"",
        ] {
            assert_eq!(plain_chunk(line(rest).as_bytes()), None, "{rest}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_at_a_glance_is_what_a_parser_reads(
            is_stderr in any::<bool>(),
            (seq, seconds, micros) in (any::<u64>(), 0..200_000_000_u64, 0..1_000_000_u32),
            content in "([ -~é€]|\\\\n|\\PC){0,20}",
            tail in prop::sample::select(vec!["\"}", "\\n\"}", "\",\"partial\":true}", "\"", "}"]),
            at in any::<prop::sample::Index>(),
            other in any::<Option<u8>>(),
        ) {
            let mut line = beginning(Stream::ALL[usize::from(is_stderr)]).to_vec();
            line.extend(format!("{seq},\"t\":{seconds}.{micros:06},\"content\":\"{content}{tail}").into_bytes());
            if let Some(other) = other {
                let at = at.index(line.len());
                line[at] = other;
            }
            if let Some(chunk) = plain_chunk(&line) {
                prop_assert_eq!(Some(chunk), parsed(&line));
            } else {
                let is_plain = !content.contains(['"', '\\'])
                    && !content.contains(|c: char| c.is_ascii_control())
                    && is_seq(seq)
                    && seconds <= 99_999_999
                    && tail.len() > 1;
                prop_assert!(other.is_some() || !is_plain);
            }
        }
    }

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
