//! The name of a run that others find it by.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The longest name, in bytes.
const MAX_BYTES: usize = 64;

/// A name that is safe as the name of a folder, as a word of a shell and in a message: 1 to 64 of letters, digits,
/// `.`, `_` and `-`, and neither `.` nor `-` first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// The name that this text is.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > MAX_BYTES {
            Err(format!("it has to have 1 to {MAX_BYTES} characters"))
        } else if !text.bytes().all(is_allowed) {
            Err("it may hold only A-Z, a-z, 0-9, '.', '_' and '-'".to_owned())
        } else if text.starts_with(['.', '-']) {
            Err("it may not begin with '.' or '-'".to_owned())
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    /// A name for a run that was not given one. The keys of std's hashes are random, drawn from the system.
    #[must_use]
    pub fn fresh() -> Self {
        Self(format!("{:016x}", RandomState::new().build_hasher().finish()))
    }

    /// Whether this text is as those names are.
    #[must_use]
    pub fn is_like_fresh(text: &str) -> bool {
        text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// The name as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_that_no_path_or_option_can_be() {
        let longest = "x".repeat(MAX_BYTES);
        for good in ["a", "build-42", "A.b_c-1", "0", &longest] {
            assert_eq!(RunId::parse(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        let too_long = "x".repeat(MAX_BYTES + 1);
        for bad in
            ["", "../up", "a/b", "-x", ".hid", "..", ".", "a b", "ä", "a\n", "a\0", &too_long]
        {
            assert!(RunId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_fresh_names_are_the_same() {
        let names = [RunId::fresh(), RunId::fresh()];
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| RunId::parse(name.as_str()).is_ok()));
    }
}
