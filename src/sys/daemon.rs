//! A process of its own: a child that shares nothing with whoever started it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was there.
    Parent,
    /// The new one: it leads a session of its own, has `/dev/null` for its standard streams, and none of the
    /// other descriptors but those that it was to keep.
    Child,
}

/// Starts a process that goes on in this program on its own.
///
/// # Errors
///
/// What `fork(2)` says, and where there is more than one thread: another could hold a lock that the child then never
/// gets. In the child nothing can fail that it could not go on without.
pub fn fork_away(kept: &[BorrowedFd<'_>]) -> io::Result<Side> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("there are other threads"));
    }
    // SAFETY: there is one thread, this one, and nobody else could make another. So the child is as whole as the
    // parent.
    let pid = Errno::result(unsafe { libc::fork() })?;
    if pid != 0 {
        return Ok(Side::Parent);
    }
    // It is no group's leader, being new, so this cannot fail.
    let _ = nix::unistd::setsid();
    // Where there is no /dev/null, the streams stay whose they were.
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null).and(dup2_stdout(&null)).and(dup2_stderr(&null));
    }
    let mut kept: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).filter(|&fd| fd > 2).collect();
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept.into_iter().chain([RawFd::MAX]) {
        if fd > from {
            close_between(from, fd - 1);
        }
        from = fd.saturating_add(1);
    }
    Ok(Side::Child)
}

fn close_between(first: RawFd, last: RawFd) {
    let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
    // SAFETY: plain numbers. What is closed here was opened by the parent's parts, none of which run on here: whoever
    // still has the number of one in this process only finds it closed.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_other_threads_is_not_forked() {
        let (held, waits) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || waits.recv().is_err());
        let forked = fork_away(&[]);
        drop(held);
        assert!(other.join().expect("it only waits"));
        assert!(forked.is_err());
    }
}
