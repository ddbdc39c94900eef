//! Links and folders that are not only ours: what others have laid where all may write, as in `/tmp`, and what the
//! kernel alone can follow.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use nix::unistd::geteuid;

/// The bit of a folder that all may write in.
const IS_SHARED: u32 = 0o002;

/// How many links are followed before they count as a circle; what the kernel takes too.
const MAX_LINKS: usize = 40;

/// Refuses what somebody else has laid where all may lay something: `found` at this path. What the folder's owner has
/// is trusted. The kernel does that for who opens a file to make it (`fs.protected_symlinks` and the like,
/// `proc_sys_fs(5)`), where it is told to; who follows a link by hand, or replaces a file, has to see to it.
///
/// # Errors
///
/// Where it is not to be trusted, or its folder cannot be looked at.
pub fn may_trust(path: &Path, found: &Metadata) -> io::Result<()> {
    let folder = fs::metadata(folder_of(path))?;
    let is_shared = folder.mode() & IS_SHARED != 0;
    if is_shared && ![geteuid().as_raw(), folder.uid()].contains(&found.uid()) {
        return Err(io::Error::other("it is another user's, in a folder that all may write in"));
    }
    Ok(())
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Leads {
    /// To what this path names, whose last part is no link. It need not exist.
    To(PathBuf),
    /// To what a process has open, by this path in `/proc`: its last part is a link that only the kernel can follow.
    ToDescriptor(PathBuf),
}

/// Follows a path as far as its last part is a link.
///
/// # Errors
///
/// Where one of the links is not to be trusted, or they go in a circle.
pub fn follow_links(path: &Path) -> io::Result<Leads> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok(Leads::To(path)) };
        if statfs(folder_of(&path))?.filesystem_type() == PROC_SUPER_MAGIC {
            return Ok(Leads::ToDescriptor(path));
        }
        may_trust(&path, &fs::symlink_metadata(&path)?)?;
        // An absolute target replaces all of it.
        path = folder_of(&path).join(target);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// The folder that a path leads to something in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether both paths lead to one file that is there.
#[must_use]
pub fn are_one_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
