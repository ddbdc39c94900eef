//! Escape sequences go wherever the reads fall, and nothing else does: what is left has no escape in it, is in its
//! order a part of what there was, and is all of it where there was none. What is UTF-8 stays so.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runcast::model::strip::Stripper;
use runcast_fuzz::Reads;

const ESC: u8 = 0x1b;

fn strip<'a>(reads: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut stripper, mut out) = (Stripper::new(), Vec::new());
    reads.for_each(|read| stripper.push(read, &mut out));
    out
}

fuzz_target!(|input: (Reads, &[u8])| {
    let (reads, stream) = input;
    let whole = strip(std::iter::once(stream));
    assert_eq!(strip(reads.of(stream)), whole);
    assert!(!whole.contains(&ESC));
    let plain = stream.iter().position(|&byte| byte == ESC).unwrap_or(stream.len());
    assert!(whole.starts_with(&stream[..plain]));
    let mut rest = stream.iter();
    assert!(whole.iter().all(|byte| rest.any(|other| other == byte)), "something was added");
    assert!(std::str::from_utf8(stream).is_err() || std::str::from_utf8(&whole).is_ok());
    // What is left has nothing to be taken out.
    assert_eq!(strip(std::iter::once(&whole[..])), whole);
});
