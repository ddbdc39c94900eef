//! Words as one would type them in a shell.

use std::borrow::Cow;

use shlex::Quoter;

/// A word, quoted where a shell would not take it as it is.
#[must_use]
pub fn quoted(word: &str) -> Cow<'_, str> {
    Quoter::new().allow_nul(true).quote(word).expect("nothing but a NUL is ever refused")
}

/// Several, as one line.
pub fn joined<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    Quoter::new().allow_nul(true).join(words).expect("nothing but a NUL is ever refused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_as_one_would_type_them() {
        assert_eq!(joined(["make", "-j4", "src/a.b"]), "make -j4 src/a.b");
        assert_eq!(joined(["echo", "a b", "~", "", "{a,b}"]), "echo 'a b' '~' '' '{a,b}'");
        assert_eq!(quoted("ä"), "'ä'");
    }

    #[test]
    fn a_shell_reads_them_back() {
        let words = ["sh", "-c", "it's \"x\" $y `z` !", "A=b", "\\", "a\nb", "日本"];
        assert_eq!(shlex::split(&joined(words)).expect("it is one line of words"), words);
    }
}
