//! Makes a blocking system call of another thread return with EINTR.
//!
//! Standard output belongs to whoever started runcast, so it cannot be made non-blocking, and a reader that
//! polled before each read would pay for it on every line. A signal with a handler that does nothing, and
//! without SA_RESTART, ends the call instead. It can come just before the call begins and be lost, so whoever
//! interrupts repeats it until the thread has answered.

use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;

use crate::model::signal::Signal;
use crate::sys::signals;

/// How often an interruption is repeated. Too small wastes processor time while a thread is busy; too big is
/// how late it can be noticed when the first one came too early.
pub const REPEAT: std::time::Duration = std::time::Duration::from_millis(5);

/// The signal used, once it is chosen.
static NUMBER: AtomicI32 = AtomicI32::new(0);

fn number() -> i32 {
    NUMBER.load(Ordering::Relaxed)
}

/// A real-time signal that nobody had ignored: one that was is to stay so in the command. The last of them is
/// what is least likely to mean anything to anybody.
fn choose() -> i32 {
    let mut free = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().filter(|&number| {
        Signal::from_number(number).is_some_and(|signal| !signals::is_ignored(signal))
    });
    free.next().unwrap_or(libc::SIGRTMAX())
}

extern "C" fn nothing(_: i32) {}

/// Installs the handler. The signal must not be blocked in the threads that are to be interrupted.
///
/// # Errors
///
/// What `sigaction(2)` says; it does not fail for a signal that exists.
pub fn prepare() -> std::io::Result<()> {
    NUMBER.store(choose(), Ordering::Relaxed);
    // SAFETY: an all-zero sigaction is a valid one: no flags, an empty mask, no pointer.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing, so it is safe at any moment; the pointers are to live values.
    Errno::result(unsafe { libc::sigaction(number(), &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// A thread that can be interrupted, once it has said which one it is.
#[derive(Debug, Default)]
pub struct Interruptible(AtomicI32);

impl Interruptible {
    /// Says that the calling thread is the one.
    pub fn register(&self) {
        self.0.store(nix::unistd::gettid().as_raw(), Ordering::Release);
    }

    /// Interrupts it. Does nothing before it registered; whoever waits for an answer repeats this.
    pub fn interrupt(&self) {
        let thread = self.0.load(Ordering::Acquire);
        if thread != 0 {
            let process = std::process::id();
            // SAFETY: plain numbers. A thread that has ended meanwhile gives ESRCH, which is no loss, and another
            // one of ours that has its id runs a handler that does nothing.
            let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, number()) };
        }
    }
}
