//! The private folder of a run: what is handed to the command and what it returns. It is removed with its
//! value; what a killed runcast could not remove, a later one does.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use tempfile::{Builder, TempDir};

use crate::model::error::reason;
use crate::sys::whole::read_file;

/// How every such folder's name begins.
const PREFIX: &str = "runcast-call-";

/// A folder that nobody has locked for so long was left behind. Too short and one is removed between being made
/// and being locked; too long and it only lies about.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// How many entries of the temporary folder are looked at for what was left behind. Too many and a full
/// temporary folder slows every start; too few and something lies about for longer.
const MOST_ENTRIES: usize = 4096;

/// What a command returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Nothing,
    Bytes(Vec<u8>),
    TooLarge,
    /// It is there and cannot be read, for this reason.
    Unreadable(String),
}

/// A folder that only this user may enter, with files that only this user may read.
#[derive(Debug)]
pub(super) struct Folder {
    /// It goes before its lock.
    place: TempDir,
    /// The folder itself, whatever becomes of its name. It is locked for as long as this lives, which tells
    /// other runs that it is in use.
    handle: File,
}

impl Folder {
    /// Makes one in the folder for temporary files.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        remove_left_behind(parent);
        let mut builder = Builder::new();
        let place = builder.prefix(PREFIX).rand_bytes(12).tempdir_in(parent)?;
        let handle = open_folder(place.path())?;
        // Whatever the mask took away.
        handle.set_permissions(Permissions::from_mode(0o700))?;
        // Where there are no locks, nobody gets one and nothing is taken for left behind.
        let _ = handle.try_lock();
        Ok(Self { place, handle })
    }

    /// Where a file of this name is, or would be.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Makes a file with this content.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(content)?;
        Ok(path)
    }

    /// Reads what the command left in this file, at most so many bytes. No link is followed, and nothing is
    /// waited for.
    pub(super) fn read(&self, name: &str, max_bytes: u64) -> Returned {
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let file = match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Returned::Nothing,
            Err(Errno::ELOOP) => return Returned::Unreadable("it is a link".to_owned()),
            Err(errno) => return Returned::Unreadable(errno.desc().to_owned()),
        };
        let read = || {
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            read_file(&file, max_bytes)
        };
        match read() {
            Ok(bytes) if bytes.is_empty() => Returned::Nothing,
            Ok(bytes) => Returned::Bytes(bytes),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Returned::TooLarge,
            Err(error) => Returned::Unreadable(reason(&error)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The command may have made it read-only, and then nothing in it could be removed. If that fails, so
        // does the removal, and the next run tries.
        let _ = self.handle.set_permissions(Permissions::from_mode(0o700));
    }
}

/// Opens a folder itself, and not what a link in its place leads to.
fn open_folder(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Removes the folders of runs that were killed before they could do so.
fn remove_left_behind(parent: &Path) {
    // What cannot be looked at or removed is as it was.
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.take(MOST_ENTRIES).flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            let _ = remove_if_left(&entry.path());
        }
    }
}

/// Removes one that is ours, old and not locked: its files one by one, so that nothing goes that is not a
/// run's.
fn remove_if_left(path: &Path) -> io::Result<()> {
    let folder = open_folder(path)?;
    // What was opened is looked at, whatever is in its place by now.
    let found = folder.metadata()?;
    let is_ours = found.uid() == Uid::effective().as_raw();
    let is_old = found.modified()?.elapsed().is_ok_and(|age| age >= LEFT_AFTER);
    if !is_ours || !is_old {
        return Ok(());
    }
    folder.try_lock()?;
    for name in super::launch::file_names() {
        // One that stays keeps the folder, which the next run looks at again.
        let _ = unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir);
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    fn parent() -> TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn only_the_user_gets_at_it_and_it_goes_with_its_value() {
        let parent = parent();
        let folder = Folder::new(parent.path()).expect("there is room");
        let path = folder.write("input.json", b"1").expect("there is room");
        assert_eq!((mode(folder.place.path()), mode(&path)), (0o700, 0o600));
        assert_eq!(folder.read("input.json", 1), Returned::Bytes(b"1".to_vec()));
        fs::create_dir(folder.path("more")).expect("there is room");
        folder.handle.set_permissions(Permissions::from_mode(0o500)).expect("it is ours");
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn what_is_returned_is_never_read_past_its_limit_or_through_a_link() {
        let parent = parent();
        let folder = Folder::new(parent.path()).expect("there is room");
        assert_eq!(folder.read("none", 9), Returned::Nothing);
        let path = folder.write("result", b"").expect("there is room");
        assert_eq!(folder.read("result", 0), Returned::Nothing);
        fs::write(&path, b"123").expect("it is ours");
        assert_eq!(folder.read("result", 3), Returned::Bytes(b"123".to_vec()));
        assert_eq!(folder.read("result", 2), Returned::TooLarge);
        File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a hole takes no room");
        assert_eq!(folder.read("result", 1 << 20), Returned::TooLarge);
        symlink("/etc/passwd", folder.path("link")).expect("a link");
        fs::create_dir(folder.path("folder")).expect("there is room");
        nix::unistd::mkfifo(&folder.path("fifo"), Mode::S_IRUSR).expect("a fifo");
        for name in ["link", "folder", "fifo"] {
            let read = folder.read(name, 1 << 20);
            assert!(matches!(read, Returned::Unreadable(_)), "{name}: {read:?}");
        }
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_in_use_or_new_or_not_ours_stays() {
        let parent = parent();
        let age = |path: &Path| {
            let then = SystemTime::now() - LEFT_AFTER * 2;
            File::open(path).and_then(|file| file.set_modified(then)).expect("it is ours");
        };
        let make = |name: &str, file: Option<&str>| {
            let path = parent.path().join(name);
            fs::create_dir(&path).expect("there is room");
            if let Some(file) = file {
                fs::write(path.join(file), b"1").expect("there is room");
            }
            path
        };
        let left = make(&format!("{PREFIX}left"), Some("input.json"));
        age(&left);
        let new = make(&format!("{PREFIX}new"), Some("input.json"));
        let other = make("other", Some("input.json"));
        age(&other);
        let foreign = make(&format!("{PREFIX}foreign"), Some("thesis.txt"));
        age(&foreign);
        let in_use = Folder::new(parent.path()).expect("there is room");
        in_use.write("input.json", b"1").expect("there is room");
        age(in_use.place.path());
        let _next = Folder::new(parent.path()).expect("there is room");
        assert!(!left.exists());
        assert!(new.exists() && other.exists() && foreign.join("thesis.txt").exists());
        assert!(in_use.path("input.json").exists());
    }
}
