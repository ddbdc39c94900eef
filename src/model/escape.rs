//! Text as the inside of a JSON string, sixteen bytes at a time.
//!
//! Every line of output passes through here. The search for what needs an escape is at the same time the
//! search for the line's end, which needs one too: so a line is looked at once, and copied while it is.

use wide::u8x16;

/// Bytes looked at together.
const STEP: usize = 16;

/// Room that is needed to write one escape: the longest has six bytes and is written as eight.
const ESCAPE_ROOM: usize = 8;

/// The least output that [`escape_until`] makes any progress in.
pub const LEAST_ROOM: usize = STEP + ESCAPE_ROOM;

/// How far one call of [`escape_until`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done, the end included.
    pub read: usize,
    /// Bytes of the output that are filled.
    pub written: usize,
    /// Whether the end was met.
    pub at_end: bool,
}

/// Escapes `input` into `output` until `end`, a control character, was met (it is not written), the input is
/// used up, or the output has no room for another step. Bytes above 127 pass as they are; what of the output
/// lies behind the filled part may have been written to.
#[inline]
pub fn escape_until(input: &[u8], output: &mut [u8], end: Option<u8>) -> Progress {
    let (mut read, mut written) = (0, 0);
    loop {
        let (count, stop) = copy_plain(&input[read..], &mut output[written..]);
        read += count;
        written += count;
        let Stop::Special = stop else { break };
        let special = input[read];
        if Some(special) == end {
            return Progress { read: read + 1, written, at_end: true };
        }
        let Some(room) = output[written..].first_chunk_mut() else { break };
        let (escape, length) = escaped(special);
        *room = escape;
        read += 1;
        written += length;
    }
    Progress { read, written, at_end: false }
}

/// Why [`copy_plain`] stopped.
enum Stop {
    /// The next byte needs an escape.
    Special,
    /// The input is used up, or the output has no room for another step.
    Limit,
}

/// Copies bytes that can stand as they are, up to one that cannot. Returns how many; behind them the output
/// may have been written to.
///
/// Short lines are met in the first step. What is longer goes on in steps of twice the size, which ask twice as
/// seldom whether that was all.
#[inline]
fn copy_plain(input: &[u8], output: &mut [u8]) -> (usize, Stop) {
    if let (Some(bytes), Some(room)) = (input.first_chunk(), output.first_chunk_mut()) {
        let found = copy_step(bytes, room);
        if found != 0 {
            return (found.trailing_zeros() as usize, Stop::Special);
        }
        return copy_long(input, output);
    }
    copy_last(input, output).unwrap_or((0, Stop::Limit))
}

/// The rest of [`copy_plain`], behind its first step.
fn copy_long(input: &[u8], output: &mut [u8]) -> (usize, Stop) {
    let mut done = STEP;
    let (steps, _) = input[STEP..].as_chunks::<{ 2 * STEP }>();
    let (rooms, _) = output[STEP..].as_chunks_mut::<{ 2 * STEP }>();
    for (bytes, room) in steps.iter().zip(rooms) {
        let found = copy_two_steps(bytes, room);
        if found != 0 {
            return (done + found.trailing_zeros() as usize, Stop::Special);
        }
        done += 2 * STEP;
    }
    while let (Some(bytes), Some(room)) =
        (input[done..].first_chunk(), output[done..].first_chunk_mut())
    {
        let found = copy_step(bytes, room);
        if found != 0 {
            return (done + found.trailing_zeros() as usize, Stop::Special);
        }
        done += STEP;
    }
    let last = copy_last(&input[done..], &mut output[done..]);
    last.map_or((done, Stop::Limit), |(count, stop)| (done + count, stop))
}

/// Copies the bytes of one step and returns a bit for each that cannot stand as it is.
#[inline]
fn copy_step(bytes: &[u8; STEP], room: &mut [u8; STEP]) -> u32 {
    *room = *bytes;
    specials(*bytes).to_bitmask()
}

/// The same for two steps.
#[inline]
fn copy_two_steps(bytes: &[u8; 2 * STEP], room: &mut [u8; 2 * STEP]) -> u32 {
    *room = *bytes;
    let [first, second] = halves(bytes);
    let (first, second) = (specials(first), specials(second));
    if !(first | second).any() {
        return 0;
    }
    first.to_bitmask() | second.to_bitmask() << STEP
}

#[inline]
fn halves(bytes: &[u8; 2 * STEP]) -> [[u8; STEP]; 2] {
    let (first, second) = bytes.split_at(STEP);
    [first, second].map(|half| half.try_into().expect("it is half of twice that"))
}

/// What [`copy_plain`] does with fewer bytes than a step takes; `None` where there is no room for a step.
fn copy_last(input: &[u8], output: &mut [u8]) -> Option<(usize, Stop)> {
    let room = output.first_chunk_mut::<STEP>()?;
    let mut bytes = [b' '; STEP];
    bytes.get_mut(..input.len())?.copy_from_slice(input);
    *room = bytes;
    Some(match specials(bytes).to_bitmask() {
        0 => (input.len(), Stop::Limit),
        found => (found.trailing_zeros() as usize, Stop::Special),
    })
}

/// Which bytes cannot stand in a JSON string as they are: controls, the quote and the backslash.
#[inline]
fn specials(bytes: [u8; STEP]) -> u8x16 {
    let bytes = u8x16::new(bytes);
    let controls = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    let quotes = bytes.simd_eq(u8x16::splat(b'"'));
    let backslashes = bytes.simd_eq(u8x16::splat(b'\\'));
    controls | quotes | backslashes
}

/// The escape of a byte that needs one: its bytes, padded, and its length.
#[must_use]
pub fn escaped(byte: u8) -> ([u8; 8], usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        0x08 => b'b',
        0x0c => b'f',
        b'"' | b'\\' => byte,
        _ => {
            let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
            return ([b'\\', b'u', b'0', b'0', high, low, 0, 0], 6);
        }
    };
    ([b'\\', short, 0, 0, 0, 0, 0, 0], 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn escape_all(mut input: &[u8], room: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut output = vec![0; room];
        while !input.is_empty() {
            let progress = escape_until(input, &mut output, None);
            assert!(progress.read > 0, "no progress with room for {room}");
            all.extend_from_slice(&output[..progress.written]);
            input = &input[progress.read..];
        }
        all
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_a_json_string(text in any::<String>(), room in LEAST_ROOM..200) {
            let mut json = vec![b'"'];
            json.extend(escape_all(text.as_bytes(), room));
            json.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&json).expect("it is JSON"), text);
        }

        #[test]
        fn a_line_ends_at_its_end_wherever_that_is(mut line in "[ -~é]{0,60}", rest in any::<String>()) {
            let length = line.len();
            line.push('\n');
            line.push_str(&rest);
            let mut output = [0; 1000];
            let progress = escape_until(line.as_bytes(), &mut output, Some(b'\n'));
            prop_assert!(progress.at_end);
            prop_assert_eq!(progress.read, length + 1);
        }
    }

    #[test]
    fn every_byte_below_128_is_escaped_as_serde_json_does() {
        for byte in 0..128_u8 {
            let text = char::from(byte).to_string();
            let json = serde_json::to_string(&text).expect("a string is JSON");
            assert_eq!(escape_all(text.as_bytes(), 64), json.as_bytes()[1..json.len() - 1]);
        }
    }
}
