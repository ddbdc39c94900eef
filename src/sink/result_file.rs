//! The result in a place of its own: a file that is there whole or not at all, or an open descriptor.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::AT_FDCWD;
use nix::unistd::{AccessFlags, faccessat, geteuid};
use tempfile::{Builder, NamedTempFile, PersistError};

use crate::model::error::{Error, reason};
use crate::model::event::Event;
use crate::sink::destination::{Destination, Lost, Outlet, Patience};
use crate::sink::write_json_line;
use crate::sys::descriptors;
use crate::sys::shared_folder::{Leads, are_one_file, folder_of, follow_links, may_trust};

/// How often to look whether a fifo has got a reader.
const FIFO_LOOK: Duration = Duration::from_millis(10);

/// Where the result goes, checked to be writable as far as that can be known before there is one.
#[derive(Debug)]
pub struct ResultFile {
    /// As it was given, for messages.
    given: OsString,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// To be replaced as a whole. The path has no link in its last part.
    Regular { path: PathBuf, staged: Option<NamedTempFile> },
    /// An inherited descriptor, or something that is no regular file, opened.
    Open(OwnedFd),
    /// A fifo that nobody reads yet.
    Fifo(PathBuf),
}

impl ResultFile {
    /// Checks a path and, for something there that is no regular file, opens it.
    ///
    /// # Errors
    ///
    /// Where it could not be written.
    pub fn at_path(given: &Path) -> Result<Self, Error> {
        let place =
            place_at(given).map_err(|error| file_error(given.as_os_str().to_owned(), &error))?;
        Ok(Self { given: given.as_os_str().to_owned(), place })
    }

    /// Takes an inherited descriptor and keeps it from the command.
    ///
    /// # Errors
    ///
    /// Where it is not open for writing.
    pub fn at_descriptor(number: i32) -> Result<Self, Error> {
        let given = OsString::from(format!("fd:{number}"));
        let open = || {
            let fd = descriptors::take_over(number)?;
            if !descriptors::is_writable(fd.as_fd())? {
                return Err(io::Error::other("it is not open for writing"));
            }
            Ok(fd)
        };
        let fd = open().map_err(|error| file_error(given.clone(), &error))?;
        Ok(Self { given, place: Place::Open(fd) })
    }

    /// Where it is a file, writes the result beside it, so that a full disk is known in time to say so
    /// elsewhere too. A second call replaces what the first wrote.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn stage(&mut self, result: &Event<'_>) -> Result<(), Error> {
        if let Place::Regular { path, staged } = &mut self.place {
            match write_beside(path, |writer| write_json_line(writer, result)) {
                Ok(file) => *staged = Some(file),
                Err(error) => return Err(self.error(error)),
            }
        }
        Ok(())
    }

    /// Whether it is a file, which is written beside its place first.
    #[must_use]
    pub fn is_staged(&self) -> bool {
        matches!(self.place, Place::Regular { .. })
    }

    /// Puts the result in its place, for as long as `patience` lasts where a reader has to take it. A file has
    /// what was staged, if that was done.
    ///
    /// A file is not synchronised to its disk before: that costs milliseconds. So it is whole for whoever looks, however
    /// runcast ends; after a power cut the old one may be there, or none, or under a new name one that lacks what was
    /// not on the disk yet.
    ///
    /// # Errors
    ///
    /// Where that fails.
    pub fn commit(mut self, result: &Event<'_>, patience: &Arc<Patience>) -> Result<(), Error> {
        if let Place::Regular { staged: None, .. } = &self.place {
            self.stage(result)?;
        }
        self.put(patience, |destination| destination.put_event(result))
    }

    /// Puts a result that is a line already in its place.
    ///
    /// # Errors
    ///
    /// Where that fails.
    pub fn replace(mut self, line: &[u8], patience: &Arc<Patience>) -> Result<(), Error> {
        if let Place::Regular { path, staged } = &mut self.place {
            match write_beside(path, |writer| writer.write_all(line)) {
                Ok(file) => *staged = Some(file),
                Err(error) => return Err(self.error(error)),
            }
        }
        self.put(patience, |destination| destination.put(line))
    }

    /// Puts what was staged in its place, or writes to who reads it.
    fn put(
        self,
        patience: &Arc<Patience>,
        write: impl FnOnce(&mut Destination) -> Result<(), Lost>,
    ) -> Result<(), Error> {
        let name = self.name();
        let failed = |source: io::Error| Error::Output { what: name.clone(), source };
        match self.place {
            Place::Regular { path, staged } => {
                staged.map_or(Ok(()), |file| put_in_place(file, &path)).map_err(failed)
            }
            Place::Open(fd) => write_out(fd, &name, patience, write),
            Place::Fifo(path) => {
                let fifo = open_when_read(&path, patience).map_err(failed)?;
                write_out(fifo.into(), &name, patience, write)
            }
        }
    }

    /// Whether it is the file that this path leads to.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        matches!(&self.place, Place::Regular { path: own, .. } if are_one_file(own, path))
    }

    fn name(&self) -> String {
        format!("--result {}", self.given.to_string_lossy())
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Output { what: self.name(), source }
    }
}

fn file_error(path: OsString, error: &io::Error) -> Error {
    Error::File { option: "--result", path, why: reason(error) }
}

fn place_at(given: &Path) -> io::Result<Place> {
    let path = match follow_links(given)? {
        Leads::To(path) => path,
        Leads::ToDescriptor(path) => {
            // Behind what is in it, where it is a file: somebody else may write to it too.
            let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
            let file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
            return Ok(Place::Open(file.into()));
        }
    };
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        Ok(found) if !found.is_file() => {
            if found.file_type().is_fifo() {
                may_trust(&path, &found)?;
            }
            // Without waiting: until somebody reads a fifo the command would not start.
            let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
            match OpenOptions::new().write(true).custom_flags(flags).open(&path) {
                Ok(file) => Ok(Place::Open(file.into())),
                Err(error)
                    if error.raw_os_error() == Some(libc::ENXIO) && found.file_type().is_fifo() =>
                {
                    Ok(Place::Fifo(path))
                }
                Err(error) => Err(error),
            }
        }
        Ok(found) => {
            may_trust(&path, &found)?;
            may_write(&path)?;
            may_write(folder_of(&path))?;
            Ok(Place::Regular { path, staged: None })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(io::Error::from_raw_os_error(libc::EISDIR));
            }
            may_write(folder_of(&path))?;
            Ok(Place::Regular { path, staged: None })
        }
        Err(error) => Err(error),
    }
}

/// Opens a fifo once somebody reads it.
fn open_when_read(path: &Path, patience: &Arc<Patience>) -> io::Result<File> {
    loop {
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if patience.is_over() {
                    return Err(io::Error::other("nobody reads it"));
                }
                std::thread::sleep(FIFO_LOOK);
            }
            opened => return opened,
        }
    }
}

/// Writes to something that somebody reads.
fn write_out(
    fd: OwnedFd,
    name: &str,
    patience: &Arc<Patience>,
    write: impl FnOnce(&mut Destination) -> Result<(), Lost>,
) -> Result<(), Error> {
    let failed = |source: io::Error| Error::Output { what: name.to_owned(), source };
    let mut destination = Destination::new(Outlet::Opened(fd), name, patience);
    match write(&mut destination).and_then(|()| destination.flush()) {
        Ok(()) => Ok(()),
        Err(Lost::Gone) => Err(failed(io::Error::from_raw_os_error(libc::EPIPE))),
        Err(Lost::Failed(error)) => Err(error),
        Err(Lost::Abandoned) => Err(failed(io::Error::other("its reader did not take all of it"))),
    }
}

/// The number of our own descriptor that a path leads to, as `/dev/stdout` does, and links to that.
#[must_use]
pub fn own_descriptor(path: &Path) -> Option<i32> {
    let Ok(Leads::ToDescriptor(path)) = follow_links(path) else { return None };
    let folder = folder_of(&path).canonicalize().ok()?;
    let is_own =
        folder.starts_with(format!("/proc/{}", std::process::id())) && folder.ends_with("fd");
    if is_own { path.file_name()?.to_str()?.parse().ok() } else { None }
}

/// Puts a file that was written beside its place there.
fn put_in_place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(PersistError { error, file }) if error.raw_os_error() == Some(libc::EBUSY) => {
            // Something is mounted there, as containers are given a single file: it can only be written where it is.
            let mut options = OpenOptions::new();
            options.write(true).truncate(true).custom_flags(libc::O_NOFOLLOW);
            io::copy(&mut file.reopen()?, &mut options.open(path)?).map(drop)
        }
        Err(PersistError { error, .. }) => Err(error),
    }
}

fn may_write(path: &Path) -> io::Result<()> {
    faccessat(AT_FDCWD, path, AccessFlags::W_OK, nix::fcntl::AtFlags::AT_EACCESS)?;
    Ok(())
}

/// The bits of a mode that say who may do what. Those beside them would make what is written here run as us.
const RIGHTS: u32 = 0o777;

/// Writes a file beside `path`, with the mode of our file that is there or that of any new one.
fn write_beside(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let old = fs::symlink_metadata(path).ok();
    let old = old
        .filter(|found| found.is_file() && found.uid() == geteuid().as_raw())
        .map(|found| Permissions::from_mode(found.mode() & RIGHTS));
    let mode = old.clone().unwrap_or_else(|| Permissions::from_mode(0o666));
    let mut file =
        Builder::new().prefix(".runcast-").permissions(mode).tempfile_in(folder_of(path))?;
    if let Some(old) = old {
        // The mode of a new file is cut by the mask; an old one's is taken over as it is.
        file.as_file().set_permissions(old)?;
    }
    let mut writer = BufWriter::new(&mut file);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Exited, Seconds};

    #[test]
    fn links_are_followed_also_where_nothing_is_there_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("target", &link).expect("a link");
        assert_eq!(
            follow_links(&link).expect("it leads somewhere"),
            Leads::To(folder.path().join("target"))
        );
        let event =
            Event::Exited(Exited { t: Seconds(Duration::ZERO), exit_code: Some(0), signal: None });
        let mut file = ResultFile::at_path(&link).expect("it can be written");
        file.stage(&event).expect("there is room");
        file.commit(&event, &Arc::default()).expect("it takes its place");
        let written = fs::read_to_string(folder.path().join("target")).expect("it is there");
        assert!(written.starts_with("{\"op\":\"exited\"") && written.ends_with("}\n"), "{written}");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    }

    #[test]
    fn links_in_a_circle_are_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("link", &link).expect("a link");
        assert!(ResultFile::at_path(&link).is_err());
    }

    #[test]
    fn an_old_file_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.json");
        fs::write(&path, b"old").expect("there is room");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        let event =
            Event::Exited(Exited { t: Seconds(Duration::ZERO), exit_code: Some(0), signal: None });
        let mut file = ResultFile::at_path(&path).expect("it can be written");
        file.stage(&event).expect("there is room");
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        file.commit(&event, &Arc::default()).expect("it takes its place");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o640);
    }
}
