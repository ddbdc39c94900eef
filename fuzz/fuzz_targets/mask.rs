//! No secret comes out, in none of the forms in which programs write it, wherever the reads fall; and what comes out
//! is what a search for each form at each place would leave. With escape sequences taken out too, that is done first.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use runcast::model::filter::Filter;
use runcast::model::mask::{LEAST_SECRET_BYTES, Mask};
use runcast::model::secret_forms::forms;
use runcast::model::strip::Stripper;
use runcast_fuzz::Reads;

/// What stands between the secrets, and before what they are looked for in.
const SEPARATOR: u8 = 0xff;

/// The stream with the longest of the patterns that begin at a place masked, by trying each at each place.
fn replaced(patterns: &[Vec<u8>], mut stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((first, rest)) = stream.split_first() {
        let found = patterns.iter().filter(|pattern| stream.starts_with(pattern)).map(Vec::len);
        if let Some(length) = found.max() {
            out.extend_from_slice(b"***");
            stream = &stream[length..];
        } else {
            out.push(*first);
            stream = rest;
        }
    }
    out
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fuzz_target!(|input: (u8, Reads, &[u8])| {
    let (options, reads, input) = input;
    let (strips, count) = (options & 1 > 0, usize::from(options >> 1 & 3));
    let mut parts = input.splitn(count + 2, |&byte| byte == SEPARATOR);
    let secrets: Vec<Vec<u8>> = parts.by_ref().take(count + 1).map(<[u8]>::to_vec).collect();
    let stream = parts.next().unwrap_or_default();
    let is_short = |secret: &Vec<u8>| secret.len() < LEAST_SECRET_BYTES;
    let mask = Mask::new(&secrets);
    assert_eq!(mask.is_err(), secrets.iter().any(is_short));
    let Ok(mask) = mask else { return };
    let mut patterns: Vec<_> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    patterns.sort_unstable();
    patterns.dedup();

    let mut plain = Vec::new();
    if strips {
        Stripper::new().push(stream, &mut plain);
    } else {
        plain.extend_from_slice(stream);
    }
    let expected = replaced(&patterns, &plain);
    assert_eq!(&*mask.bytes(&plain), expected);
    // A secret with a star in it can come about from what took the place of another.
    for secret in secrets.iter().filter(|secret| !secret.contains(&b'*')) {
        assert!(!contains(&expected, secret));
        // Whoever wrote this had it right: encoders that know nothing of ours.
        for text in [
            serde_json::to_string(&String::from_utf8_lossy(secret)).expect("a text is JSON"),
            secret.iter().map(|byte| format!("{byte:02x}")).collect(),
        ] {
            let is_exact = std::str::from_utf8(secret).is_ok() || !text.starts_with('"');
            assert!(!is_exact || mask.text(&text) != text, "{text}");
        }
    }
    let mask = Arc::new(mask);
    let mut filter = Filter::new(strips, Some(&mask)).expect("there is something to do");
    let mut out: Vec<u8> = Vec::new();
    reads.of(stream).for_each(|read| out.extend_from_slice(filter.push(read)));
    out.extend_from_slice(filter.finish());
    assert_eq!(out, expected);
});
