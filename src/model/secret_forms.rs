//! The forms in which programs write a secret: as it is, and as usual encodings turn it out.
//!
//! A form is here what depends on the secret alone. Encodings of encodings are not looked for.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::model::strip::Stripper;

/// The shortest form that is looked for. Shorter ones would be found everywhere by chance.
pub const LEAST_BYTES: usize = 4;

/// Longer secrets are looked for as they are, in base64 and in the two usual forms of JSON only, each of which is
/// about as long again. With less, keys and tokens would lack forms; with more, one secret of binary data takes
/// hundreds of megabytes.
const MODEST_BYTES: usize = 16 * 1024;

/// All forms of a secret of at least [`LEAST_BYTES`], itself first, some of them more than once.
#[must_use]
pub fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec()];
    // With its escape sequences taken out, as the output may have been.
    let mut stripped = Vec::new();
    Stripper::new().push(secret, &mut stripped);
    forms.push(stripped);
    add_base64(secret, &mut forms);
    add_json(secret, &mut forms);
    if secret.len() <= MODEST_BYTES {
        add_percent(secret, &mut forms);
        forms.push(secret.iter().flat_map(|byte| hex(*byte, LOWER)).collect());
        forms.push(secret.iter().flat_map(|byte| hex(*byte, UPPER)).collect());
    }
    forms.retain(|form| form.len() >= LEAST_BYTES);
    forms
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// Where encoders break long base64 text, and with what: PEM and MIME.
const BREAKS: [(usize, &[u8]); 4] = [(64, b"\n"), (76, b"\n"), (64, b"\r\n"), (76, b"\r\n")];

/// Base64 of a text that the secret is a part of. Three bytes become four characters, so there are three ways for
/// the secret to lie in it. A character that holds bits of a neighbour too is left out; where the text ends with
/// the secret the last one holds none.
fn add_base64(secret: &[u8], forms: &mut Vec<Vec<u8>>) {
    for (padded, unpadded) in [(&STANDARD, &STANDARD_NO_PAD), (&URL_SAFE, &URL_SAFE_NO_PAD)] {
        for before in 0..3 {
            let text = [&[0; 2][..before], secret].concat();
            let start = (before * 8).div_ceil(6);
            let inner_end = text.len() * 8 / 6;
            let at_end = unpadded.encode(&text);
            for whole in [&at_end[..inner_end], &at_end, &padded.encode(&text)] {
                let form = &whole.as_bytes()[start..];
                forms.push(form.to_vec());
                // Only where the text begins with the secret is it known where the lines break.
                if before == 0 && secret.len() <= MODEST_BYTES {
                    forms.extend(
                        BREAKS.map(|(width, end)| form.chunks(width).collect::<Vec<_>>().join(end)),
                    );
                }
            }
        }
    }
}

/// How an encoder writes the inside of a JSON string, where encoders differ.
#[derive(Clone, Copy)]
struct JsonStyle {
    /// ASCII characters that are written as `\u00XX` though they need not be.
    guarded: &'static [u8],
    /// All that is not printable ASCII is written so too.
    ascii: bool,
    /// `\n` and its like, not `\u000a`.
    short: bool,
    /// `\/`
    slash: bool,
    digits: &'static [u8; 16],
}

/// What serde_json and JavaScript write.
const JSON: JsonStyle =
    JsonStyle { guarded: b"", ascii: false, short: true, slash: false, digits: LOWER };

/// What those encoders guard that make JSON safe inside HTML: most of them, and Gson.
const GUARDED: [&[u8]; 3] = [b"", b"<>&", b"<>&='"];

/// What .NET writes.
const DOT_NET: JsonStyle = JsonStyle { guarded: b"\"'+<>&`", ascii: true, digits: UPPER, ..JSON };

fn add_json(secret: &[u8], forms: &mut Vec<Vec<u8>>) {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b" !#$%()*,-.:;?@[]^_{|}~".contains(byte);
    if secret.iter().all(is_plain) {
        return;
    }
    // Python's is the ASCII one.
    forms.extend([JSON, JsonStyle { ascii: true, ..JSON }].map(|style| json(secret, style)));
    if secret.len() > MODEST_BYTES {
        return;
    }
    forms.push(json(secret, DOT_NET));
    for guarded in GUARDED {
        for digits in [LOWER, UPPER] {
            for choice in 0..8 {
                let [ascii, short, slash] = [1, 2, 4].map(|bit| choice & bit != 0);
                forms.push(json(secret, JsonStyle { guarded, ascii, short, slash, digits }));
            }
        }
    }
}

/// A secret as the inside of a JSON string. Bytes that are not UTF-8 have no form in JSON: they are written as
/// they are or, where that is not ASCII, as the surrogates by which Python represents them.
fn json(secret: &[u8], style: JsonStyle) -> Vec<u8> {
    let mut out = Vec::with_capacity(secret.len());
    for chunk in secret.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_json(c, style, &mut out);
        }
        for byte in chunk.invalid() {
            if style.ascii {
                push_unit(0xdc00 + u16::from(*byte), style, &mut out);
            } else {
                out.push(*byte);
            }
        }
    }
    out
}

fn push_json(c: char, style: JsonStyle, out: &mut Vec<u8>) {
    let short = match c {
        '"' | '\\' => Some(c),
        '/' => style.slash.then_some('/'),
        '\n' => style.short.then_some('n'),
        '\t' => style.short.then_some('t'),
        '\r' => style.short.then_some('r'),
        '\x08' => style.short.then_some('b'),
        '\x0c' => style.short.then_some('f'),
        _ => None,
    };
    let is_guarded = match u8::try_from(c) {
        Ok(byte) if c.is_ascii() => style.guarded.contains(&byte),
        // Two line ends that are none in JSON but in old JavaScript.
        _ => !style.guarded.is_empty() && matches!(c, '\u{2028}' | '\u{2029}'),
    };
    let must = c < ' ' || style.ascii && !matches!(c, ' '..='~');
    if let Some(short) = short.filter(|_| !is_guarded) {
        out.extend([b'\\', short as u8]);
    } else if is_guarded || must {
        for unit in c.encode_utf16(&mut [0; 2]) {
            push_unit(*unit, style, out);
        }
    } else {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// `\uXXXX`
fn push_unit(unit: u16, style: JsonStyle, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u");
    out.extend(unit.to_be_bytes().iter().flat_map(|byte| hex(*byte, style.digits)));
}

/// What percent-encoders leave as it is beside letters and digits, and what they write for a space: RFC 3986,
/// Python's `quote`, `encodeURIComponent`, `encodeURI`, forms, and Python's `quote_plus`.
const PERCENT_STYLES: [(&[u8], &[u8]); 6] = [
    (b"-._~", b"%20"),
    (b"-._~/", b"%20"),
    (b"-._~!*'()", b"%20"),
    (b"-._~!*'();,/?:@&=+$#", b"%20"),
    (b"-._*", b"+"),
    (b"-._~", b"+"),
];

fn add_percent(secret: &[u8], forms: &mut Vec<Vec<u8>>) {
    for (safe, space) in PERCENT_STYLES {
        for digits in [LOWER, UPPER] {
            let mut form = Vec::with_capacity(secret.len());
            for byte in secret {
                match byte {
                    b' ' => form.extend_from_slice(space),
                    _ if byte.is_ascii_alphanumeric() || safe.contains(byte) => form.push(*byte),
                    _ => {
                        form.push(b'%');
                        form.extend(hex(*byte, digits));
                    }
                }
            }
            forms.push(form);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    fn has(secret: &[u8], form: &[u8]) -> bool {
        forms(secret).iter().any(|known| known == form)
    }

    #[test]
    fn the_json_forms_are_those_of_known_encoders() {
        let secret = "p\u{e4}\"\\\n\x01\x7f/<&'+\u{1f600}\u{2028}".as_bytes();
        for form in [
            // JavaScript, PHP, Python, Go, Gson, .NET.
            "p\u{e4}\\\"\\\\\\n\\u0001\x7f/<&'+\u{1f600}\u{2028}",
            "p\\u00e4\\\"\\\\\\n\\u0001\\u007f/<&'+\\ud83d\\ude00\\u2028",
            "p\u{e4}\\\"\\\\\\n\\u0001\x7f/\\u003c\\u0026'+\u{1f600}\\u2028",
            "p\u{e4}\\\"\\\\\\n\\u0001\x7f/\\u003c\\u0026\\u0027+\u{1f600}\\u2028",
            "p\\u00E4\\u0022\\\\\\n\\u0001\\u007F/\\u003C\\u0026\\u0027\\u002B\\uD83D\\uDE00\\u2028",
            "p\\u00e4\\\"\\\\\\u000a\\u0001\\u007f\\/<&'+\\ud83d\\ude00\\u2028",
        ] {
            assert!(has(secret, form.as_bytes()), "{form}");
        }
        assert!(has(b"a\xffb/c", b"a\\udcffb/c"));
        assert!(has(b"a\xff\nb", b"a\xff\\nb"));
    }

    #[test]
    fn the_percent_and_hex_forms_are_those_of_known_encoders() {
        let secret = "a b/\u{e9}~*?".as_bytes();
        for form in [
            "a%20b%2F%C3%A9~%2A%3F",
            "a%20b%2f%c3%a9~%2a%3f",
            "a%20b/%C3%A9~%2A%3F",
            "a%20b%2F%C3%A9~*%3F",
            "a%20b/%C3%A9~*?",
            "a+b%2F%C3%A9%7E*%3F",
            "a+b%2F%C3%A9~%2A%3F",
            "6120622fc3a97e2a3f",
            "6120622FC3A97E2A3F",
        ] {
            assert!(has(secret, form.as_bytes()), "{form}");
        }
    }

    #[test]
    fn base64_with_line_ends_is_a_form() {
        let secret = [b'k'; 100];
        let (first, rest) = (STANDARD.encode(&secret[..57]), STANDARD.encode(&secret[57..]));
        assert!(has(&secret, format!("{first}\n{rest}").as_bytes()));
        let (first, rest) = (STANDARD.encode(&secret[..48]), STANDARD.encode(&secret[48..96]));
        assert!(has(&secret, format!("{first}\r\n{rest}\r\na2traw").as_bytes()));
    }

    #[test]
    fn a_secret_with_escape_sequences_is_known_without_them_too() {
        assert!(has(b"a\x1b[1mbcd", b"abcd"));
        assert!(!has(b"a\x1b[1mb", b"ab"));
    }

    proptest! {
        #[test]
        fn what_serde_json_writes_is_a_form(secret in "\\PC{4,8}|[\\x00-\\x7f]{4,8}") {
            let json = serde_json::to_string(&secret).expect("a string is JSON");
            prop_assert!(has(secret.as_bytes(), &json.as_bytes()[1..json.len() - 1]));
        }

        #[test]
        fn base64_of_what_a_secret_is_in_holds_a_form(
            before in prop::collection::vec(any::<u8>(), 0..7),
            secret in prop::collection::vec(any::<u8>(), 4..20),
            after in prop::collection::vec(any::<u8>(), 0..7),
        ) {
            let text = [&before[..], &secret, &after].concat();
            let start = (before.len() * 8).div_ceil(6);
            let end = (before.len() + secret.len()) * 8 / 6;
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let inner = if after.is_empty() { &encoded[start..] } else { &encoded[start..end] };
                prop_assert!(has(&secret, inner.as_bytes()));
            }
        }

        #[test]
        fn no_form_is_shorter_than_what_is_looked_for(secret in prop::collection::vec(any::<u8>(), 4..9)) {
            prop_assert!(forms(&secret).iter().all(|form| form.len() >= LEAST_BYTES));
        }
    }
}
