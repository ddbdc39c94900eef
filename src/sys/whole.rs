//! Reads all that is in a file, as long as that ends: a device may give bytes without end, and a damaged file system
//! a length that nothing has.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most that is taken for a value, a program or a result. Longer ones are not written but with limits far from the
/// defaults.
pub const MOST_BYTES: u64 = 1 << 30;

/// The most that is taken for variables or secrets. No system hands so many variables to a program.
pub const MOST_SETTINGS_BYTES: u64 = 16 << 20;

/// Reads a file, a fifo or a device by its path, at most so many bytes.
///
/// # Errors
///
/// Where it cannot be read, or has more: [`io::ErrorKind::FileTooLarge`].
pub fn read_path(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    read_file(&file, most_bytes)
}

/// Reads what is left of an open file, at most so many bytes.
///
/// # Errors
///
/// Where it cannot be read, or has more: [`io::ErrorKind::FileTooLarge`].
pub fn read_file(file: &File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    // Room for a length that is told is made before anything is read; and somebody may still be writing to it.
    if found.is_file() && found.len() > most_bytes {
        return Err(too_large(most_bytes));
    }
    read(file, most_bytes)
}

/// Reads to the end, at most so many bytes.
///
/// # Errors
///
/// Where it cannot be read, or there are more: [`io::ErrorKind::FileTooLarge`].
pub fn read(source: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok(bytes)
}

fn too_large(most_bytes: u64) -> io::Error {
    let why = format!("it has more than {} MiB", most_bytes >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_may_be_is_read_and_one_byte_more_is_refused() {
        assert_eq!(read(&b"abc"[..], 3).ok().as_deref(), Some(&b"abc"[..]));
        assert!(read(&b"abcd"[..], 3).is_err());
        assert!(read(io::repeat(0), 1 << 10).is_err());
    }
}
