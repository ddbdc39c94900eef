//! Whatever is typed, it is a command to run, something else that can be done, or an error of one line in plain
//! words that names what is wrong. It is read the same each time.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use runcast::cli::parse::{Parsed, parse};
use runcast::model::error::STATUS_FAILED;

fuzz_target!(|typed: &[u8]| {
    // No word that was typed holds a NUL.
    let words = typed.split(|&byte| byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
    let words: Vec<_> = std::iter::once("runcast".into()).chain(words).collect();
    let parsed = parse(words.iter().cloned());
    match &parsed {
        Parsed::Error(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
            assert_eq!(error.status(), STATUS_FAILED);
        }
        Parsed::Run(args) => assert!(words.ends_with(&args.command)),
        _ => {}
    }
    let again = parse(words);
    assert_eq!(std::mem::discriminant(&parsed), std::mem::discriminant(&again));
});
