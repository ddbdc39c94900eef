//! The size of the terminal that one of our standard streams is.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

use crate::sys::descriptors;

/// Columns and rows of the first of our standard streams, the output first, that is a terminal and knows its
/// size.
#[must_use]
pub fn size() -> Option<(u16, u16)> {
    let streams = [1, 2, 0].into_iter();
    streams.filter_map(|number| descriptors::open_descriptor(number).ok()).find_map(size_of)
}

/// Columns and rows of this terminal, if it is one and knows its size.
#[must_use]
pub fn size_of(fd: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, to a live one.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
