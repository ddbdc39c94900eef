//! Puts the terminal back where a signal ends this process that nobody takes: a limit on its own processor time,
//! an alarm of a kind that is never forwarded, a failed assertion of the C library.
//!
//! The handler is the only one that does anything but to tell that a signal came. It may do no more than what
//! `signal-safety(7)` allows.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level::{emulate_default_handler, register};

use crate::sys::signals;

/// The signals that end a process by default and that nobody takes. KILL cannot be taken; after one that the
/// processor raises, as SEGV, nothing can be relied on.
const ENDING: [i32; 8] = [
    libc::SIGABRT,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGXCPU,
    libc::SIGSTKFLT,
    libc::SIGSYS,
];

/// The terminal, and its modes before they were changed.
static BEFORE: OnceLock<(RawFd, libc::termios)> = OnceLock::new();
static IS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Notes how the terminal is to be left, and takes the signals. The descriptor has to stay open; of several terminals
/// the first one counts.
pub(super) fn prepare(fd: RawFd, before: libc::termios) {
    if BEFORE.set((fd, before)).is_err() {
        return;
    }
    for signal in ENDING {
        if signals::is_ignored_number(signal) {
            continue;
        }
        // Where it cannot be taken it ends us as before.
        // SAFETY: the handler makes system calls and reads values that were there before it was installed.
        let _ = unsafe { register(signal, move || end(signal)) };
    }
}

/// Says whether the terminal is changed at the moment.
pub(super) fn set_changed(is_changed: bool) {
    IS_CHANGED.store(is_changed, Ordering::SeqCst);
}

fn end(signal: i32) {
    if IS_CHANGED.load(Ordering::SeqCst)
        && let Some((fd, before)) = BEFORE.get()
    {
        // SAFETY: reads one live value; it is async-signal-safe, and TTOU is blocked in every thread of ours.
        unsafe { libc::tcsetattr(*fd, libc::TCSANOW, before) };
    }
    // It fails for no signal that exists.
    let _ = emulate_default_handler(signal);
}
