//! The folder of one run: what is in it, and what that says of the run.
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | held by the keeper for as long as it lives |
//! | `run` | what the run is: a line about it, and its `started` event |
//! | `journal-N` | a segment of the journal, from chunk N on |
//! | `totals` | how much output there was in all, in room that was kept for it; blank until the run is over |
//! | `result` | the result, whole; absent until the run is over |
//! | `result.reserved` | room for the least result, until there is one |
//! | `control` | the socket that the keeper is spoken to through |
//!
//! The lock is one of the open file, for a part of it, so that whoever has inherited it holds it too, and others
//! can ask for it without taking it: nobody who looks ever stands in the way of who takes it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat, renameat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use serde::{Deserialize, Serialize};

use crate::model::run_id::RunId;
use crate::runs::client::SOCKET;
use crate::runs::closing::{RESERVED, RESULT, TOTALS};
use crate::runs::home::{FOLDER, names};
use crate::runs::segments::first_seq;
use crate::sys::whole::{MOST_BYTES, read_file};

/// The name of the file whose parts are locked.
const LOCK: &str = "lock";

/// What the name of a file ends in that is not whole yet.
const TEMPORARY: &str = ".new";

/// What a part of the lock stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The run is kept.
    Kept,
    /// The folder is being taken out of its place: for one at a time, so that nobody takes another that has come
    /// there meanwhile.
    Removed,
}

impl Part {
    fn as_flock(self) -> libc::flock {
        // The constants are small numbers.
        libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: match self {
                Self::Kept => 0,
                Self::Removed => 1,
            },
            l_len: 1,
            l_pid: 0,
        }
    }
}

/// The folder of one run.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
}

/// What a run is, beside its `started` event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// The version of the folder's layout.
    pub v: u32,
    /// What the same command with the same options has the same of.
    pub digest: String,
    /// Makes the digest this run's own.
    pub salt: String,
    /// The machine that it runs on, and which start of that machine.
    pub host: String,
    /// See `host`.
    pub boot: String,
    /// Whether its standard input is open to others.
    pub stdin_open: bool,
}

/// The name of the file that says what the run is.
pub(super) const ABOUT: &str = "run";

/// The version of the folder's layout. Files and fields are added without changing it.
pub const LAYOUT: u32 = 1;

/// What is known of a run.
#[derive(Debug)]
pub enum State {
    /// Its keeper has not started its command yet.
    Starting,
    /// Its keeper lives.
    Running,
    /// It is over; this is its result, one line with its end.
    Ended(Vec<u8>),
    /// Its keeper died before it was over.
    Lost,
    /// It is or was kept on another machine, so nothing can be told from here.
    Elsewhere(String),
}

impl Folder {
    pub(super) fn open(home: &OwnedFd, id: &RunId) -> io::Result<Self> {
        Self::open_named(home, id.as_str())
    }

    pub(super) fn open_named(home: &OwnedFd, name: &str) -> io::Result<Self> {
        let dir = File::from(openat(home, name, FOLDER, Mode::empty())?);
        let found = dir.metadata()?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(io::Error::other("it is not the user's own"));
        }
        Ok(Self { dir: dir.into() })
    }

    /// Fills a new folder.
    pub(super) fn make(home: &OwnedFd, name: &str) -> io::Result<Self> {
        let folder = Self { dir: openat(home, name, FOLDER, Mode::empty())? };
        folder.create(LOCK)?;
        Ok(folder)
    }

    /// The same folder, to be used on its own.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self { dir: self.dir.try_clone()? })
    }

    /// Holds a part of the lock, until the file is closed in every process that has it. `None`: another holds it,
    /// or there is none any more.
    pub(super) fn lock(&self, part: Part) -> io::Result<Option<File>> {
        let file = match self.open_file(LOCK, OFlag::O_RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&part.as_flock())) {
            Ok(_) => Ok(Some(file)),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether it has the lock that each folder of a run has from its beginning to its end.
    pub(super) fn has_lock(&self) -> io::Result<bool> {
        match fstatat(&self.dir, LOCK, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether a keeper, or who is about to become it, holds the lock.
    ///
    /// # Errors
    ///
    /// Where that cannot be told.
    pub fn is_kept(&self) -> io::Result<bool> {
        let file = match self.open_file(LOCK, OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        let mut found = Part::Kept.as_flock();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    /// Whether it was forgotten. What a run is, is deleted before anything else of it.
    ///
    /// # Errors
    ///
    /// Where that cannot be told.
    pub(super) fn is_forgotten(&self) -> io::Result<bool> {
        match self.open_file(ABOUT, OFlag::O_RDONLY) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether it is the same folder, whatever its name is now.
    pub(super) fn is_same(&self, other: &Self) -> io::Result<bool> {
        let identity = |folder: &Self| -> io::Result<(u64, u64)> {
            let found = File::from(folder.dir.try_clone()?).metadata()?;
            Ok((found.dev(), found.ino()))
        };
        Ok(identity(self)? == identity(other)?)
    }

    /// How long ago something was made or deleted in it.
    pub(super) fn age(&self) -> io::Result<Duration> {
        let changed = File::from(self.dir.try_clone()?).metadata()?.modified()?;
        Ok(changed.elapsed().unwrap_or_default())
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Makes a file that must not be there yet, for its owner alone.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.dir, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into())
    }

    /// Opens a file of the user's own.
    pub(super) fn open_file(&self, name: &str, access: OFlag) -> io::Result<File> {
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = File::from(openat(&self.dir, name, flags, Mode::empty())?);
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != geteuid().as_raw() {
            return Err(io::Error::other("it is no file of the user's own"));
        }
        Ok(file)
    }

    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open_file(name, OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        read_file(&file, MOST_BYTES).map(Some)
    }

    /// Puts a file in its place, whole, and known to be there after a power cut.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}{TEMPORARY}");
        self.remove(&temporary)?;
        let mut file = self.create(&temporary)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // What stays is replaced by the next.
            let _ = self.remove(&temporary);
            return Err(error);
        }
        self.rename(&temporary, name)
    }

    /// Gives a file another name, also after a power cut.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        renameat(&self.dir, from, &self.dir, to)?;
        nix::unistd::fsync(&self.dir)?;
        Ok(())
    }

    /// Deletes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(nix::errno::Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names of its files that are texts.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        Ok(names(&self.dir)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Whether it has nothing in it but what a keeper makes: one that does not say what it is may be somebody's folder
    /// of other things.
    pub(super) fn has_only_own_files(&self) -> io::Result<bool> {
        let is_own = |name: &str| {
            let name = name.strip_suffix(TEMPORARY).unwrap_or(name);
            [LOCK, ABOUT, SOCKET, TOTALS, RESULT, RESERVED].contains(&name)
                || first_seq(name).is_some()
        };
        Ok(names(&self.dir)?.iter().all(|name| name.to_str().is_some_and(is_own)))
    }

    /// Writes down what the run is.
    pub(super) fn put_about(&self, about: &About, started: &[u8]) -> io::Result<()> {
        let mut content = serde_json::to_vec(about)?;
        content.push(b'\n');
        content.extend_from_slice(started);
        self.put(ABOUT, &content)
    }

    /// What the run is, and its `started` event, a line with its end; `None` where that is not written yet.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or makes no sense.
    pub fn about(&self) -> io::Result<Option<(About, Vec<u8>)>> {
        let Some(content) = self.read(ABOUT)? else { return Ok(None) };
        let Some(end) = memchr::memchr(b'\n', &content) else {
            return Err(io::Error::other("what is written of it makes no sense"));
        };
        let about = serde_json::from_slice(&content[..end])?;
        Ok(Some((about, content[end + 1..].to_vec())))
    }

    /// The result, one line with its end.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub fn result(&self) -> io::Result<Option<Vec<u8>>> {
        self.read(RESULT)
    }

    /// What is known of the run.
    ///
    /// # Errors
    ///
    /// Where that cannot be read.
    pub fn state(&self) -> io::Result<State> {
        if let Some(result) = self.result()? {
            return Ok(State::Ended(result));
        }
        let is_kept = self.is_kept()?;
        let Some((about, _)) = self.about()? else {
            return Ok(if is_kept { State::Starting } else { State::Lost });
        };
        let is_of_this_boot = !about.boot.is_empty() && about.boot == boot();
        if about.host != host() && !is_of_this_boot {
            return Ok(State::Elsewhere(about.host));
        }
        if is_kept && (is_of_this_boot || about.boot.is_empty()) {
            return Ok(State::Running);
        }
        // Between the first look and the lock's it may have ended.
        Ok(self.result()?.map_or(State::Lost, State::Ended))
    }
}

/// The name of this machine.
pub(super) fn host() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Which start of this machine it is. A name can be changed under a run; this cannot.
pub(super) fn boot() -> String {
    // Where there is none, a run of before the last start is told by its lock.
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
