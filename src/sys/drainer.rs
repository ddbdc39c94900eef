//! The helper that goes on emptying pipes after runcast has ended, so that a server which was left alone is
//! not killed by its next line of output.
//!
//! It is a fork without an exec: it may neither allocate nor take a lock, keeps nothing but the pipes, leads a
//! session of its own and stands in the root folder, so that it holds up no terminal and no file system.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;

use crate::sys::signals;

/// Where the helper keeps the pipes: its only descriptors, in place of the standard streams, which it closes.
const KEPT: [RawFd; 2] = [0, 1];

/// Starts the helper for these pipes, of which there are at most two.
///
/// # Errors
///
/// What `fork(2)` says.
pub fn start(pipes: &[BorrowedFd<'_>]) -> std::io::Result<()> {
    // A handler of ours must not run in the child.
    let _blocked = signals::BlockAll::new();
    // SAFETY: the child, which has only this thread and a copy of memory that others may have locked, calls
    // async-signal-safe functions alone, and ends in them.
    let pid = Errno::result(unsafe { libc::fork() })?;
    if pid == 0 {
        drain(pipes);
        // SAFETY: ends the process, running nothing of ours.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

/// The helper's whole life.
fn drain(pipes: &[BorrowedFd<'_>]) {
    signals::forget_all();
    // It is no group's leader, being new, so this cannot fail.
    let _ = nix::unistd::setsid();
    // Where that fails it only keeps a file system from being unmounted.
    let _ = nix::unistd::chdir(c"/");
    for (pipe, kept) in pipes.iter().zip(KEPT) {
        // SAFETY: plain numbers; a pipe of ours is above the standard streams.
        unsafe { libc::dup2(pipe.as_raw_fd(), kept) };
    }
    let first_other = pipes.len().min(KEPT.len()) as u32;
    // SAFETY: plain numbers; nothing that is closed here is used again.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first_other, u32::MAX, 0) };
    if closed != 0 {
        // It must not keep our output open: whoever reads that would wait for as long as the helper lives.
        return;
    }
    let mut open = KEPT.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    for absent in &mut open[first_other as usize..] {
        // poll passes over it.
        absent.fd = -1;
    }
    let mut sink = [0_u8; 16384];
    while open.iter().any(|pipe| pipe.fd >= 0) {
        // SAFETY: reads and writes the live array of that length. Interrupted, it found nothing.
        let found = unsafe { libc::poll(open.as_mut_ptr(), open.len() as libc::nfds_t, -1) };
        for pipe in open.iter_mut().filter(|pipe| found > 0 && pipe.revents != 0) {
            // SAFETY: writes to the live buffer of that length.
            let read = unsafe { libc::read(pipe.fd, sink.as_mut_ptr().cast(), sink.len()) };
            if read == 0 || (read < 0 && Errno::last() != Errno::EINTR) {
                pipe.fd = -1;
            }
        }
    }
}
