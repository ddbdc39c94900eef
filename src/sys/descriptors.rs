//! Questions about open descriptors that std has no words for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;

/// A standard stream by its number, checked to be open.
///
/// # Errors
///
/// EBADF where it is not open, or no standard stream.
pub fn standard_stream(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if !(0..=2).contains(&number) {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: F_GETFD only reads; a number that is no descriptor gives EBADF.
    Errno::result(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: it is open, and this process never closes a standard stream but only puts others in its place.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// An inherited descriptor by its number, as one of our own. One that is no standard stream is not passed on to the
/// command any more.
///
/// # Errors
///
/// EBADF where it is not open.
pub fn take_over(number: RawFd) -> io::Result<OwnedFd> {
    const FIRST: libc::c_int = 3;
    // SAFETY: plain numbers; one that is no descriptor gives EBADF.
    let own = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) })?;
    // SAFETY: the kernel has just made it for us, so nobody else owns it.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    if number > 2 {
        // SAFETY: plain numbers; whoever has it does not lose it by this.
        Errno::result(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok(own)
}

/// Whether it was opened for writing.
///
/// # Errors
///
/// What `fcntl(2)` says.
pub fn is_writable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let flags = OFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFL)?);
    Ok(flags & OFlag::O_ACCMODE != OFlag::O_RDONLY)
}

/// Whether both are one file, pipe or terminal, however often it was opened.
#[must_use]
pub fn is_same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let identity =
        |fd: BorrowedFd<'_>| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev));
    match (identity(one.as_fd()), identity(other.as_fd())) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Keeps a descriptor from being passed on to the command.
///
/// # Errors
///
/// What `fcntl(2)` says.
pub fn set_close_on_exec(fd: BorrowedFd<'_>) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(())
}

/// Whether nobody holds the writing end of this pipe any more, whatever it still holds. The hang-up is there
/// at once when the last writer goes, so this is a fact and needs no waiting.
#[must_use]
pub fn is_hung_up(pipe: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    loop {
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
    fds[0]
        .revents()
        .is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// Whether a read would return at once.
#[must_use]
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    // Interrupted, nobody knows; the read then tells.
    !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

/// Bytes that wait in a pipe.
///
/// # Errors
///
/// What `ioctl(2)` says.
pub fn bytes_waiting(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, to a live one.
    Errno::result(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// What a pipe is enlarged to. Larger, and the pipes of one user soon reach the limit past which every new
/// one of that user, other programs' too, gets a single page; smaller, and a fast writer and its reader wake
/// each other for little.
const PIPE_BYTES: i32 = 256 * 1024;

/// A pipe that is enlarged when it has proved to carry much. A short run pays nothing for it.
#[derive(Debug, Default)]
pub struct PipeGrowth {
    passed_bytes: usize,
    is_done: bool,
}

impl PipeGrowth {
    /// Notes bytes that went through, and enlarges the pipe once they are many.
    #[inline]
    pub fn note(&mut self, pipe: BorrowedFd<'_>, bytes: usize) {
        if !self.is_done {
            self.passed_bytes += bytes;
            if self.passed_bytes >= PIPE_BYTES as usize {
                self.is_done = true;
                enlarge(pipe);
            }
        }
    }
}

/// What is no pipe, or is as large already, stays as it is.
fn enlarge(pipe: BorrowedFd<'_>) {
    if fcntl(pipe, FcntlArg::F_GETPIPE_SZ).is_ok_and(|size| size < PIPE_BYTES) {
        // Refused where the user's pipes have reached their limit: it stays as it is.
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    }
}

/// Puts `/dev/null` in place of standard input, so that a pipe which the command has closed is not held open
/// here: whoever writes to it learns at once that nobody reads.
///
/// # Errors
///
/// What `open(2)` or `dup2(2)` say.
pub fn release_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: plain numbers; nothing in this process owns descriptor 0.
    Errno::result(unsafe { libc::dup3(null.as_fd().as_raw_fd(), 0, libc::O_CLOEXEC) })?;
    Ok(())
}
