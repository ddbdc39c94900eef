//! What the puppet waits at until the test lets it go on.

use std::fmt;
use std::fs;

use tempfile::TempDir;

use super::scratch;

/// A gate that the puppet waits at until the test opens it. Written into the puppet's steps it is the one that waits.
pub(crate) struct Gate(TempDir);

impl Gate {
    /// One that is shut.
    pub(crate) fn new() -> Self {
        Self(scratch())
    }

    /// Opens it, for good.
    pub(crate) fn open(&self) {
        fs::write(self.0.path().join("open"), "").expect("the scratch folder is ours");
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wait-file:{}/open", self.0.path().display())
    }
}
