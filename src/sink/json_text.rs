//! Bytes as the inside of a JSON string, however many, put straight into a destination.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::escape::{LEAST_ROOM, escape_until};
use crate::sink::destination::{Destination, Lost};

/// What stands for bytes that are not UTF-8.
pub(super) const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Bytes that are put into base64 at a time: a multiple of three is encoded without padding, so the parts can
/// stand one behind another.
const BASE64_BYTES: usize = 3 * 1024;

/// Puts bytes escaped, with U+FFFD for what is not UTF-8. Returns whether all was.
pub(super) fn put_lossy(out: &mut Destination, bytes: &[u8]) -> Result<bool, Lost> {
    let mut exact = true;
    for part in bytes.utf8_chunks() {
        put_escaped(out, part.valid())?;
        if !part.invalid().is_empty() {
            exact = false;
            out.put(REPLACEMENT)?;
        }
    }
    Ok(exact)
}

/// Puts text escaped.
pub(super) fn put_escaped(out: &mut Destination, text: &str) -> Result<(), Lost> {
    let mut text = text.as_bytes();
    while !text.is_empty() {
        let progress = escape_until(text, out.room(LEAST_ROOM)?, None);
        out.fill(progress.written);
        text = &text[progress.read..];
    }
    Ok(())
}

/// Puts bytes as base64.
pub(super) fn put_base64(out: &mut Destination, bytes: &[u8]) -> Result<(), Lost> {
    for part in bytes.chunks(BASE64_BYTES) {
        let room = out.room(BASE64_BYTES / 3 * 4)?;
        let length = STANDARD.encode_slice(part, room).expect("four bytes for three have room");
        out.fill(length);
    }
    Ok(())
}
