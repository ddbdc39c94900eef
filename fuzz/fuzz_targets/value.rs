//! A returned value is taken where it is one JSON value, and only there; then it is on one line and says the same,
//! digit by digit, and taken again it is what it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runcast::model::json::one_value;
use serde_json::Value;

/// The tokens of a JSON text: all but the space between them.
fn without_space(json: &str) -> String {
    let (mut is_inside, mut is_escaped) = (false, false);
    let mut tokens = String::new();
    for c in json.chars() {
        if is_inside || !c.is_ascii_whitespace() {
            tokens.push(c);
        }
        is_inside ^= c == '"' && !is_escaped;
        is_escaped = is_inside && c == '\\' && !is_escaped;
    }
    tokens
}

fuzz_target!(|bytes: &[u8]| {
    let taken = one_value(bytes.to_vec());
    let Ok(value) = taken else {
        assert!(serde_json::from_slice::<Value>(bytes).is_err(), "it is one");
        return;
    };
    let line = value.get();
    assert!(!line.contains(['\n', '\r']));
    let text = std::str::from_utf8(bytes).expect("JSON is UTF-8");
    assert_eq!(line, without_space(text.strip_prefix('\u{feff}').unwrap_or(text)));
    assert_eq!(one_value(line.as_bytes().to_vec()).expect("it is one").get(), line);
});
