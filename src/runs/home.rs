//! The folder that the runs live in.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::model::error::{Error, RunFault, reason};
use crate::model::run_id::RunId;
use crate::runs::folder::{ABOUT, Folder, Part, State};

/// How a folder is opened: itself, and not what a link in its place leads to.
pub(super) const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What the names of folders begin with that are no runs yet, or no more.
const UNFINISHED: &str = ".new-";
const FORGOTTEN: &str = ".old-";

/// How old a folder is that is no run yet before it counts as left behind. Too small, and a start that is slow
/// loses its folder; too big, and it only stays for longer.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// The folder that the runs live in.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    dir: OwnedFd,
}

/// Where the runs are to live: `RUNCAST_DIR`, else a folder in the user's state folder.
fn place() -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("RUNCAST_DIR") {
        // With a slash at its end, or `/.`, a link would be followed.
        return Ok(Path::new(&path).components().collect());
    }
    // A relative one is to be passed over, says the specification of these folders.
    if let Some(state) =
        variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute())
    {
        return Ok(state.join("runcast"));
    }
    match variable("HOME") {
        Some(home) => Ok(Path::new(&home).join(".local/state/runcast")),
        None => Err(Error::Home {
            path: PathBuf::from("~"),
            why: "neither RUNCAST_DIR nor HOME is set".to_owned(),
        }),
    }
}

impl Home {
    /// Opens it, made first where it is not there.
    ///
    /// # Errors
    ///
    /// Where that fails, or it is not the user's own.
    pub fn create() -> Result<Self, Error> {
        let path = place()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| failed(&path, &reason(&error)))?;
        Self::open_at(path)
    }

    /// Opens it; `None` where there is none, and so no run.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is not the user's own.
    pub fn open() -> Result<Option<Self>, Error> {
        let path = place()?;
        match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Self::open_at(path).map(Some),
        }
    }

    /// Opens the one that is at this path.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is not the user's own.
    pub fn open_at(path: PathBuf) -> Result<Self, Error> {
        let opened = openat(AT_FDCWD, &path, FOLDER, Mode::empty()).map_err(io::Error::from);
        let dir = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP | libc::ENOTDIR) => failed(&path, "it is no folder, or a link to one"),
            _ => failed(&path, &reason(&error)),
        })?;
        let dir = File::from(dir);
        let found = dir.metadata().map_err(|error| failed(&path, &reason(&error)))?;
        if found.uid() != geteuid().as_raw() {
            return Err(failed(&path, "it belongs to another user"));
        }
        if found.mode() & 0o022 != 0 {
            return Err(failed(&path, "other users may write in it"));
        }
        Ok(Self { path, dir: dir.into() })
    }

    /// The run of this name, as far as there is one.
    ///
    /// # Errors
    ///
    /// Where there is none, or it is not the user's own.
    pub fn run(&self, id: &RunId) -> Result<Folder, Error> {
        let found = Folder::open(&self.dir, id).and_then(|folder| {
            // A folder that runcast did not make.
            if folder.has_lock()? { Ok(folder) } else { Err(io::ErrorKind::NotFound.into()) }
        });
        found.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unknown(id),
            _ => failed(&self.path.join(id.as_str()), &reason(&error)),
        })
    }

    /// A folder that is no run yet, and is locked.
    pub(super) fn unfinished(&self) -> Result<(Folder, String), Error> {
        let name = format!("{UNFINISHED}{}", RunId::fresh());
        let made = || {
            mkdirat(&self.dir, name.as_str(), Mode::S_IRWXU)?;
            Folder::make(&self.dir, &name)
        };
        let folder = made().map_err(|error| failed(&self.path, &reason(&error)))?;
        Ok((folder, name))
    }

    /// Gives it the name of a run. `false`: there is one of that name.
    ///
    /// # Errors
    ///
    /// Where that fails, or what has the name is no run.
    pub(super) fn finish(&self, unfinished: &str, id: &RunId) -> Result<bool, Error> {
        // A folder takes the place of an empty one alone, and that of a run never is. So this needs no flag that
        // some file systems do not have.
        match renameat(&self.dir, unfinished, &self.dir, id.as_str()) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST | Errno::ENOTEMPTY) => self.look_for_stranger(id).map(|()| false),
            Err(errno) => Err(failed(&self.path.join(id.as_str()), &reason(&errno.into()))),
        }
    }

    /// Fails where what has the name of a run is a folder that runcast did not make, and so never goes away.
    fn look_for_stranger(&self, id: &RunId) -> Result<(), Error> {
        let failed = |error: io::Error| failed(&self.path.join(id.as_str()), &reason(&error));
        let is_run = match Folder::open(&self.dir, id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            found => found.and_then(|folder| folder.has_lock()).map_err(failed)?,
        };
        if is_run { Ok(()) } else { Err(failed(io::Error::other("it is no folder of a run"))) }
    }

    /// Makes sure that the names in it are there after a power cut.
    pub(super) fn settle(&self) -> Result<(), Error> {
        nix::unistd::fsync(&self.dir).map_err(|errno| failed(&self.path, &reason(&errno.into())))
    }

    /// Deletes the folder of this name, if it is this one: out of sight at once, and then all that is in it.
    /// `false`: another has taken its place meanwhile, or somebody else is at it.
    pub(super) fn remove(&self, name: &str, folder: &Folder) -> Result<bool, Error> {
        let gone = format!("{FORGOTTEN}{}", RunId::fresh());
        let remove = || -> io::Result<bool> {
            // Only who has this takes the folder away, so its name stays its own until then.
            let Some(_alone) = folder.lock(Part::Removed)? else { return Ok(false) };
            match Folder::open_named(&self.dir, name) {
                Ok(found) if found.is_same(folder)? => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
            if folder.is_forgotten()? && !folder.has_only_own_files()? {
                return Err(io::Error::other("it holds other things than a run"));
            }
            renameat(&self.dir, name, &self.dir, gone.as_str())?;
            self.delete(&gone).map(|()| true)
        };
        remove().map_err(|error| failed(&self.path.join(name), &reason(&error)))
    }

    /// Deletes a folder of files, first of all what it says of itself: who reads on then knows that it is not
    /// whole any more. What is gone already was deleted by its keeper, which just ends, or by who tidies.
    fn delete(&self, name: &str) -> io::Result<()> {
        let is_done = |done: nix::Result<()>| match done {
            Err(Errno::ENOENT) => Ok(()),
            done => done,
        };
        let dir = match openat(&self.dir, name, FOLDER, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(()),
            opened => opened?,
        };
        is_done(unlinkat(&dir, ABOUT, UnlinkatFlags::NoRemoveDir))?;
        for file in names(&dir)? {
            is_done(unlinkat(&dir, file.as_os_str(), UnlinkatFlags::NoRemoveDir))?;
        }
        is_done(unlinkat(&self.dir, name, UnlinkatFlags::RemoveDir))?;
        Ok(())
    }

    /// The names of all runs.
    ///
    /// # Errors
    ///
    /// Where they cannot be read.
    pub fn ids(&self) -> Result<Vec<RunId>, Error> {
        let names = names(&self.dir).map_err(|error| failed(&self.path, &reason(&error)))?;
        Ok(names.iter().filter_map(|name| RunId::parse(name.to_str()?).ok()).collect())
    }

    /// Deletes the folder of a run that was never started, if it is one.
    pub(super) fn tidy_away(&self, id: &RunId) {
        let Ok(folder) = self.run(id) else { return };
        if matches!(folder.state(), Ok(State::Lost)) && matches!(folder.about(), Ok(None)) {
            // Another may be at it; what stays is found the next time.
            let _ = self.remove(id.as_str(), &folder);
        }
    }

    /// Clears away what starts and forgets left behind that were killed. Whatever else is in the folder is not ours
    /// to delete.
    pub(super) fn tidy(&self) {
        for name in names(&self.dir).unwrap_or_default() {
            let Some(name) = name.to_str() else { continue };
            let is_made = |prefix| name.strip_prefix(prefix).is_some_and(RunId::is_like_fresh);
            let is_unfinished = is_made(UNFINISHED);
            if !is_unfinished && !is_made(FORGOTTEN) {
                continue;
            }
            let Ok(folder) = Folder::open_named(&self.dir, name) else { continue };
            // A young one may just not be locked yet.
            let is_dead = !is_unfinished
                || (folder.age().is_ok_and(|age| age > STALE_AFTER)
                    && folder.is_kept().is_ok_and(|is_kept| !is_kept));
            if is_dead {
                // Another may be at it; what stays is found the next time.
                let _ = self.delete(name);
            }
        }
    }
}

/// The names in a folder.
pub(super) fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let again = openat(dir, ".", FOLDER, Mode::empty())?;
    let mut names = Vec::new();
    for entry in nix::dir::Dir::from_fd(again)?.iter() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn failed(path: &Path, why: &str) -> Error {
    Error::Home { path: path.to_owned(), why: why.to_owned() }
}

/// There is no run of this name.
pub(super) fn unknown(id: &RunId) -> Error {
    Error::run(RunFault::Unknown, id, None)
}

/// The path of what is called so in an open folder: short enough for a socket, however long the folder's own is.
pub(super) fn socket_path(dir: &impl std::os::fd::AsRawFd, name: &str) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    path.push(OsStr::new(name));
    path
}
