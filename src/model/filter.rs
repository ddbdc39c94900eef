//! What is done to a stream before it is shown, kept and recorded: escape sequences taken out, secrets masked.

use std::sync::Arc;

use memchr::memchr_iter;

use crate::model::mask::{Mask, Masker};
use crate::model::strip::Stripper;

/// The filter of one stream.
#[derive(Debug)]
pub struct Filter {
    strip: Option<Stripper>,
    mask: Option<Masker>,
    stripped: Vec<u8>,
    masked: Vec<u8>,
}

impl Filter {
    /// A filter at the start of a stream; `None` if there is nothing to do.
    #[must_use]
    pub fn new(strip: bool, mask: Option<&Arc<Mask>>) -> Option<Self> {
        (strip || mask.is_some()).then(|| Self {
            strip: strip.then(Stripper::new),
            mask: mask.map(|mask| Masker::new(Arc::clone(mask))),
            stripped: Vec::new(),
            masked: Vec::new(),
        })
    }

    /// Takes the next bytes of the stream and returns what can go on. It may be nothing, and after what was held
    /// back it may be more than came in.
    ///
    /// Escape sequences go first, so that a secret is found that has one inside it.
    pub fn push<'f>(&'f mut self, mut bytes: &'f [u8]) -> &'f [u8] {
        if let Some(strip) = &mut self.strip {
            self.stripped.clear();
            strip.push(bytes, &mut self.stripped);
            bytes = &self.stripped;
        }
        if let Some(mask) = &mut self.mask {
            self.masked.clear();
            mask.push(bytes, &mut self.masked);
            bytes = &self.masked;
        }
        bytes
    }

    /// Returns what was held back; the stream has ended.
    pub fn finish(&mut self) -> &[u8] {
        self.masked.clear();
        if let Some(mask) = &mut self.mask {
            mask.finish(&mut self.masked);
        }
        &self.masked
    }
}

/// What editors of other systems begin a file with, the byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The secrets of a file, one a line, each with the number of its line from 1.
///
/// A line ends in LF or CR LF, the last one perhaps in nothing, or in CR. Empty lines are none, nor is a byte
/// order mark at the beginning part of the first. All else is: blanks, `#`, quotes, and what is not UTF-8.
#[must_use]
pub fn secrets_of_file(content: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
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
    use super::*;

    fn mask(secrets: &[&[u8]]) -> Arc<Mask> {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.to_vec()).collect();
        Arc::new(Mask::new(&secrets).expect("they are long enough"))
    }

    fn filtered(filter: &mut Filter, blocks: &[&[u8]]) -> String {
        let mut out = Vec::new();
        for block in blocks {
            out.extend_from_slice(filter.push(block));
        }
        out.extend_from_slice(filter.finish());
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn there_is_no_filter_where_there_is_nothing_to_do() {
        assert!(Filter::new(false, None).is_none());
    }

    #[test]
    fn each_part_works_alone() {
        let mut strip = Filter::new(true, None).expect("it strips");
        assert_eq!(filtered(&mut strip, &[b"a\x1b[1", b"mb", b"\n"]), "ab\n");
        let mut masks = Filter::new(false, Some(&mask(&[b"secret"]))).expect("it masks");
        assert_eq!(filtered(&mut masks, &[b"a\x1b[1msec", b"retb\nsec"]), "a\x1b[1m***b\nsec");
    }

    #[test]
    fn a_secret_with_an_escape_sequence_inside_is_masked_once_that_is_gone() {
        let mut both = Filter::new(true, Some(&mask(&[b"secret"]))).expect("it does both");
        assert_eq!(filtered(&mut both, &[b"a sec\x1b[3", b"1mret\x1b[m b\n"]), "a *** b\n");
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
}
