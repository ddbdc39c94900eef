//! What is done to a stream before it is shown, kept and recorded: escape sequences taken out, secrets masked.

use std::sync::Arc;

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
}
