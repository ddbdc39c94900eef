//! A program to be started as from a prompt: with no signal ignored, whatever the tests themselves were started with.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;

/// A program that will start with every signal at its default. Those that are ignored are handed down, and `nohup` and
/// a shell's `&` ignore HUP, INT and QUIT: a test that sends one would then wait for what does not come.
#[allow(unsafe_code, reason = "there is no safe call for it")]
pub(crate) fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    // SAFETY: it makes system calls and nothing else.
    unsafe { command.pre_exec(ignore_no_signal) };
    command
}

/// Gives every signal its default, past the C library: that keeps two to itself, which posix_spawn leaves ignored.
#[allow(unsafe_code, reason = "there is no safe call for it")]
fn ignore_no_signal() -> io::Result<()> {
    let (default, old) = ([0_u64; 4], std::ptr::null_mut::<u64>());
    for number in (1..=64).filter(|number| ![libc::SIGKILL, libc::SIGSTOP].contains(number)) {
        // SAFETY: the kernel's sigaction has at most this size, and all of it zero is the default disposition.
        let result =
            unsafe { libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), old, 8) };
        Errno::result(result)?;
    }
    Ok(())
}
