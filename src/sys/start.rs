//! The start of the process, in place of Rust's own.
//!
//! Rust's runtime would look for the main thread's stack in `/proc/self/maps` and give every thread a signal
//! stack, to tell a stack overflow from another crash: a tenth of the time that a short run takes. And it would
//! have PIPE ignored before anybody could see what it was. What else it does is done here.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use crate::sys::descriptors::standard_stream;
use crate::sys::{memory, signals};

/// Prepares the process: each standard stream that is closed becomes `/dev/null`, so that nothing of ours can
/// take its place, and a pipe that nobody reads makes a write fail. To be called once, before anything else.
///
/// # Errors
///
/// Where `/dev/null` cannot be opened.
pub fn prepare() -> io::Result<()> {
    for stream in 0..=2 {
        if standard_stream(stream).is_err() {
            // The lowest number that is free is taken: this one, since those below it are open.
            // SAFETY: the path is a literal. The descriptor is nobody's object, and stays for as long as the process.
            Errno::result(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })?;
        }
    }
    signals::ignore_pipe();
    memory::share_one_arena();
    Ok(())
}

/// The command line, as the C library hands it to `main`.
///
/// # Safety
///
/// `argv` has `argc` pointers to strings that end in NUL, and nobody changes them meanwhile.
#[must_use]
pub unsafe fn arguments(argc: libc::c_int, argv: *const *const libc::c_char) -> Vec<OsString> {
    let count = usize::try_from(argc).unwrap_or(0);
    if argv.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise: so many pointers are there, and nobody writes to them meanwhile.
    let words = unsafe { std::slice::from_raw_parts(argv, count) };
    let word = |&word: &*const libc::c_char| {
        // SAFETY: the caller's promise: it leads to a string that ends in NUL.
        let word = unsafe { CStr::from_ptr(word) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    };
    words.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_are_taken_whatever_bytes_they_are() {
        let pointers = [c"runcast".as_ptr(), c"".as_ptr(), c"a b\xff".as_ptr(), std::ptr::null()];
        // SAFETY: three of them lead to strings.
        let words = unsafe { arguments(3, pointers.as_ptr()) };
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(words, [&b"runcast"[..], b"", b"a b\xff"]);
        for argc in [0, -1] {
            // SAFETY: none of them is looked at.
            assert!(unsafe { arguments(argc, pointers.as_ptr()) }.is_empty());
        }
    }
}
