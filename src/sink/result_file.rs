//! The result in a place of its own: a file that is there whole or not at all, or an open descriptor.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::unistd::{AccessFlags, faccessat};
use tempfile::{Builder, NamedTempFile};

use crate::model::error::{Error, reason};
use crate::sys::descriptors;

/// How many links are followed before they count as a circle; what the kernel takes too.
const MAX_LINKS: usize = 40;

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
    /// A fifo, a terminal, a device: opened, or to be opened when a reader is there.
    Special { path: PathBuf, open: Option<File>, staged: Vec<u8> },
    /// Inherited.
    Descriptor { fd: BorrowedFd<'static>, staged: Vec<u8> },
}

impl ResultFile {
    /// Checks a path and, for something there that is no regular file, opens it.
    ///
    /// # Errors
    ///
    /// Where it could not be written.
    pub fn at_path(given: &Path) -> Result<Self, Error> {
        if let Some(number) = descriptor_named(given) {
            return Self::at_descriptor(number);
        }
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
            let fd = descriptors::open_descriptor(number)?;
            if !descriptors::is_writable(fd)? {
                return Err(io::Error::other("it is not open for writing"));
            }
            if number > 2 {
                descriptors::set_close_on_exec(fd)?;
            }
            Ok(fd)
        };
        let fd = open().map_err(|error| file_error(given.clone(), &error))?;
        Ok(Self { given, place: Place::Descriptor { fd, staged: Vec::new() } })
    }

    /// Takes the result. For a file it is written beside it now, so that a full disk is known in time to say
    /// so elsewhere too. A second call replaces what the first took.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn stage(&mut self, line: &[u8]) -> Result<(), Error> {
        let result = match &mut self.place {
            Place::Regular { path, staged } => {
                write_beside(path, line).map(|file| *staged = Some(file))
            }
            Place::Special { staged, .. } | Place::Descriptor { staged, .. } => {
                *staged = line.to_vec();
                Ok(())
            }
        };
        result.map_err(|error| self.error(&error))
    }

    /// Puts what was taken in its place.
    ///
    /// # Errors
    ///
    /// Where that fails.
    pub fn commit(mut self) -> Result<(), Error> {
        let result = match &mut self.place {
            Place::Regular { path, staged } => match staged.take() {
                Some(file) => file.persist(path).map(drop).map_err(|error| error.error),
                None => Ok(()),
            },
            Place::Special { path, open, staged } => {
                let open = match open.take() {
                    Some(file) => Ok(file),
                    None => OpenOptions::new().write(true).open(path),
                };
                open.and_then(|mut file| file.write_all(staged))
            }
            Place::Descriptor { fd, staged } => {
                fd.try_clone_to_owned().and_then(|fd| File::from(fd).write_all(staged))
            }
        };
        result.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::Output {
            what: format!("--result {}", self.given.to_string_lossy()),
            source: copy(error),
        }
    }
}

/// An error that can be kept, of one that was only lent.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn file_error(path: OsString, error: &io::Error) -> Error {
    Error::File { option: "--result", path, why: reason(error) }
}

/// The number of a path that names one of our own descriptors. Opened by that path, a file would be written
/// from its beginning, over what was written to the descriptor before.
fn descriptor_named(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        text => {
            let number =
                text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/self/fd/"))?;
            number.parse().ok()
        }
    }
}

fn place_at(given: &Path) -> io::Result<Place> {
    let path = follow_links(given)?;
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        Ok(found) if !found.is_file() => {
            let open = open_special(&path, found.file_type().is_fifo())?;
            Ok(Place::Special { path, open, staged: Vec::new() })
        }
        Ok(_) => {
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

/// Opens a fifo or a device. A fifo that nobody reads yet is left for later: to wait for its reader would
/// keep the command from starting. `None` is that.
fn open_special(path: &Path, is_fifo: bool) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.write(true);
    if !is_fifo {
        return options.custom_flags(libc::O_NOCTTY).open(path).map(Some);
    }
    match options.custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => {
            // Opened without waiting, but to be written with: the flag is our own description's.
            nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()))?;
            Ok(Some(file))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a path leads, as far as its last part is a link; what the last link names need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            // An absolute target replaces all of it.
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn may_write(path: &Path) -> io::Result<()> {
    faccessat(AT_FDCWD, path, AccessFlags::W_OK, nix::fcntl::AtFlags::AT_EACCESS)?;
    Ok(())
}

/// Writes a file beside `path`, with the mode of what is there or that of any new file.
fn write_beside(path: &Path, line: &[u8]) -> io::Result<NamedTempFile> {
    let old = fs::metadata(path).ok().map(|found| found.permissions());
    let mode = old.clone().unwrap_or_else(|| Permissions::from_mode(0o666));
    let mut file =
        Builder::new().prefix(".runcast-").permissions(mode).tempfile_in(folder_of(path))?;
    if let Some(old) = old {
        // The mode of a new file is cut by the mask; an old one's is taken over as it is.
        file.as_file().set_permissions(old)?;
    }
    file.write_all(line)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_also_where_nothing_is_there_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("target", &link).expect("a link");
        assert_eq!(follow_links(&link).expect("it leads somewhere"), folder.path().join("target"));
        let mut file = ResultFile::at_path(&link).expect("it can be written");
        file.stage(b"one\n").expect("there is room");
        file.commit().expect("it takes its place");
        assert_eq!(fs::read(folder.path().join("target")).expect("it is there"), b"one\n");
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
        let mut file = ResultFile::at_path(&path).expect("it can be written");
        file.stage(b"new\n").expect("there is room");
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        file.commit().expect("it takes its place");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o640);
    }
}
