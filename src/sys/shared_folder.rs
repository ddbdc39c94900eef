//! Folders that all may write in, as `/tmp`, and what others have laid there.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::geteuid;

/// The bits of a folder that all may write in, and where only its owner takes a file away.
const IS_SHARED: u32 = 0o1002;

/// Refuses what somebody else has laid where all may lay something: `found` at this path. The kernel does that
/// for who opens a file to make it (`fs.protected_symlinks` and the like, `proc_sys_fs(5)`), where it is told to; who
/// follows a link by hand, or replaces a file, has to see to it.
///
/// # Errors
///
/// Where it is not to be trusted, or its folder cannot be looked at.
pub fn may_trust(path: &Path, found: &Metadata) -> io::Result<()> {
    let folder = fs::metadata(folder_of(path))?;
    let is_shared = folder.mode() & IS_SHARED == IS_SHARED;
    if is_shared && ![geteuid().as_raw(), folder.uid()].contains(&found.uid()) {
        return Err(io::Error::other("it is another user's, in a folder that all may write in"));
    }
    Ok(())
}

/// The folder that a path leads to something in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
