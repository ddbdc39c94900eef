//! What is in the text files that options name: variables (`--env-file`) and secrets (`--mask-file`).
//!
//! Nothing is expanded or unquoted. Reading the files is for others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use memchr::{memchr, memchr_iter};

use crate::model::units::parse_assignment;

/// What some editors put before a text in UTF-8. It is no part of the text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without the byte order mark that it may begin with.
pub(crate) fn without_byte_order_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads the lines of an environment file: `NAME=VALUE`, split at the first `=`, nothing expanded or
/// unquoted, the value as it stands up to the LF.
///
/// Blank lines and those whose first character that is not blank is `#` are skipped. A CR before the LF
/// and a byte order mark at the start belong to neither name nor value.
///
/// # Errors
///
/// The first line, by its number, that has no `=`, no NAME, or a NUL, which no variable can hold.
pub fn parse_env_file(bytes: &[u8]) -> Result<Vec<(OsString, OsString)>, String> {
    let bytes = without_byte_order_mark(bytes);
    let mut variables = Vec::new();
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = match line {
            [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] | line => line,
        };
        if matches!(line.trim_ascii_start(), [] | [b'#', ..]) {
            continue;
        }
        let variable = match memchr(0, line) {
            None => parse_assignment(OsStr::from_bytes(line)),
            Some(_) => Err("has a NUL".to_owned()),
        };
        variables.push(variable.map_err(|error| format!("line {}: {error}", index + 1))?);
    }
    Ok(variables)
}

/// The secrets of a file, one a line, each with the number of its line from 1.
///
/// A line ends in LF or CR LF, the last one perhaps in nothing, or in CR. Empty lines are none, nor is a byte
/// order mark at the beginning part of the first. All else is: blanks, `#`, quotes, and what is not UTF-8.
#[must_use]
pub fn secrets_of_file(content: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let content = without_byte_order_mark(content);
    let ends = memchr_iter(b'\n', content).chain([content.len()]);
    let mut begin = 0;
    let mut secrets = Vec::new();
    for (index, end) in ends.enumerate() {
        let line = &content[begin..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            secrets.push((index + 1, line.to_vec()));
        }
        begin = end + 1;
    }
    secrets
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn an_environment_file_is_taken_as_it_stands() {
        let file = b"\xef\xbb\xbfONE=1\r\n# comment\n  \t# another\n\n \t\r\nTWO= a \"b\" $HOME \nX=\nY==\xff\r";
        let expected =
            [("ONE", &b"1"[..]), ("TWO", b" a \"b\" $HOME "), ("X", b""), ("Y", b"=\xff\r")]
                .map(|(name, value)| (OsString::from(name), OsString::from_vec(value.to_vec())));
        assert_eq!(parse_env_file(file), Ok(expected.to_vec()));
        assert_eq!(parse_env_file(b""), Ok(Vec::new()));
        assert_eq!(parse_env_file(b"\xef\xbb\xbf"), Ok(Vec::new()));
    }

    #[test]
    fn an_environment_files_error_names_the_line() {
        assert_eq!(parse_env_file(b"A=1\n\nB\n"), Err("line 3: not NAME=VALUE".to_owned()));
        assert_eq!(parse_env_file(b"=1"), Err("line 1: the name is empty".to_owned()));
        assert_eq!(parse_env_file(b"#\nA=\0\n"), Err("line 2: has a NUL".to_owned()));
    }

    #[test]
    fn the_lines_of_a_file_are_its_secrets() {
        let content = b"\xef\xbb\xbfone\r\n\n  two # \xff \n\r\na\rb\nlast\r";
        let expected: [(usize, &[u8]); 4] =
            [(1, b"one"), (3, b"  two # \xff "), (5, b"a\rb"), (6, b"last")];
        assert_eq!(
            secrets_of_file(content),
            expected.map(|(line, secret)| (line, secret.to_vec()))
        );
        assert_eq!(secrets_of_file(b"\n\r\n\n"), []);
        assert_eq!(secrets_of_file(b""), []);
    }

    proptest! {
        #[test]
        fn secrets_are_what_is_between_line_ends_and_no_variable_lacks_a_name(bytes in any::<Vec<u8>>()) {
            let lines = without_byte_order_mark(&bytes).split(|byte| *byte == b'\n');
            let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec());
            let filled = (1..).zip(lines).filter(|(_, line)| !line.is_empty());
            prop_assert_eq!(secrets_of_file(&bytes), filled.collect::<Vec<_>>());
            let variables = parse_env_file(&bytes).unwrap_or_default();
            prop_assert!(variables.iter().all(|(name, _)| !name.is_empty()));
        }
    }
}
