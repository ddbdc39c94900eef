//! One JSON value as text: checked to be one, and put on one line, without touching what it says.
//!
//! It is never taken apart: numbers keep their digits whatever their size, objects the order of their names,
//! and strings their escapes.

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::model::text_files::without_byte_order_mark;

/// A value as one line of JSON, with its end.
///
/// # Panics
///
/// Where it cannot be one: it has keys that are no texts, or fails by itself.
#[must_use]
pub fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("texts and numbers into memory cannot fail");
    line.push(b'\n');
    line
}

/// Whether a line, with its end or without, is one JSON value.
#[must_use]
pub fn is_json(line: &[u8]) -> bool {
    simdutf8::basic::from_utf8(line)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Whether a line, with its end or without, is one JSON object.
#[must_use]
pub fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{") && is_json(line)
}

/// Returns the one value that `bytes` hold, on one line.
///
/// # Errors
///
/// What is wrong, with line and column, where they are anything else.
pub fn one_value(mut bytes: Vec<u8>) -> Result<Box<RawValue>, String> {
    // JSON has no place for such a mark, and readers may pass over it.
    let text = without_byte_order_mark(&bytes);
    serde_json::from_slice::<&RawValue>(text).map_err(|error| error.to_string())?;
    bytes.drain(..bytes.len() - text.len());
    remove_space(&mut bytes);
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// Removes the space between the tokens of a JSON text, which may hold line ends.
fn remove_space(json: &mut Vec<u8>) {
    let mut in_string = false;
    let mut is_escaped = false;
    json.retain(|&byte| {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            return true;
        }
        in_string = byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use serde_json::Value;

    use super::*;

    fn kept(json: &str) -> String {
        one_value(json.as_bytes().to_vec()).expect("it is JSON").get().to_owned()
    }

    #[test]
    fn digits_order_and_escapes_stay_as_they_were_written() {
        for json in [
            "12345678901234567890123",
            "1e400",
            "-0",
            "0.10",
            "1E+2",
            r#"{"b":1,"a":2,"b":3}"#,
            r#""\ud800 \u00e9 \/ \\""#,
            "\"\u{e9}\u{2028}\"",
            "null",
        ] {
            assert_eq!(kept(json), json);
        }
    }

    #[test]
    fn space_between_tokens_goes_and_space_in_strings_stays() {
        assert_eq!(kept(" {\r\n\t\"a b\" : [ 1 ,\n2 ] }\n"), r#"{"a b":[1,2]}"#);
        assert_eq!(kept(r#" "\\" "#), r#""\\""#);
        assert_eq!(kept(r#"[ " \" , [ " , "\\" , 1 ]"#), r#"[" \" , [ ","\\",1]"#);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(kept("\u{feff}{}"), "{}");
    }

    #[test]
    fn a_value_may_be_nested_as_deep_as_it_likes() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(kept(&deep), deep);
    }

    #[test]
    fn what_is_not_one_value_is_refused_with_its_place() {
        for (json, place) in [
            (&b""[..], "line 1 column 0"),
            (b" \n", "line 2 column 0"),
            (b"{\"a\":", "line 1 column 5"),
            (b"{\n \"a\": nope}", "line 2 column 8"),
            (b"1 2", "line 1 column 3"),
            (b"NaN", "line 1 column 1"),
            (b"01", "line 1 column 2"),
            (b"\"\xff\"", "line 1 column"),
            (b"\"a\nb\"", "line"),
            (b"1\0", "line 1 column 2"),
        ] {
            let why = one_value(json.to_vec()).expect_err("it is no JSON");
            assert!(why.contains(place), "{}: {why}", json.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn a_value_says_the_same_on_one_line(text in ".*", number in any::<i64>(), space in "[ \t\r\n]{0,3}") {
            let value = serde_json::json!({ text.clone(): [text, number, null, {}] });
            let pretty = serde_json::to_string_pretty(&value).expect("it is a value");
            let spaced = format!("{space}{pretty}{space}");
            let line = kept(&spaced);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Value>(&line).expect("it is JSON"), value.clone());
            prop_assert_eq!(line, serde_json::to_string(&value).expect("it is a value"));
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let is_json = serde_json::from_slice::<Value>(&bytes).is_ok();
            prop_assert!(!is_json || one_value(bytes).is_ok());
        }
    }
}
