//! A process of its own: a child that shares nothing with whoever started it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;

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
/// Only while there is one thread: another could hold a lock that the child then never gets.
///
/// # Errors
///
/// What `fork(2)` says; in the child nothing can fail that it could not go on without.
pub fn fork_away(kept: &[BorrowedFd<'_>]) -> io::Result<Side> {
    // SAFETY: there is one thread, as the caller promises, so the child is as whole as the parent.
    let pid = Errno::result(unsafe { libc::fork() })?;
    if pid != 0 {
        return Ok(Side::Parent);
    }
    // It is no group's leader, being new, so this cannot fail.
    let _ = nix::unistd::setsid();
    for stream in 0..=2 {
        // SAFETY: plain numbers and a literal; the standard streams are nobody's objects.
        unsafe {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            if null >= 0 && null != stream {
                libc::dup2(null, stream);
                libc::close(null);
            }
        }
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
    // SAFETY: plain numbers; what is closed here was opened by the parent's parts, none of which run on here.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Has a program that is to be started ignore the keys of a terminal that it shares with us: INT and QUIT. What
/// becomes of them is ours to say, and it would only be gone.
pub fn ignore_keys(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let ignore = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: async-signal-safe; the disposition takes no handler of ours along.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it calls nothing but signal(2).
    unsafe { command.pre_exec(ignore) };
}
