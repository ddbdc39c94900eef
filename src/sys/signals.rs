//! Which signals runcast takes, what their dispositions were when it was started, and the pipe they arrive in.
//!
//! ctrlc takes INT, since here every INT goes on to the command whoever sent it; signal-hook takes the others,
//! but for those that stop a process: they stay with the kernel until we stop, so that a CONT can take them back.
//! A signal that was ignored at the start gets no handler and stays ignored, in the command too. All of them
//! are blocked while the command is made: one that came between fork and exec would run a handler of ours in
//! the child. Only the supervisor lets them through.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::model::signal::{FORWARDED, Signal};

/// Whether PIPE was ignored when this process was started.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Has PIPE ignored, and remembers whether it was before.
pub(super) fn ignore_pipe() {
    PIPE_WAS_IGNORED.store(is_ignored(Signal::PIPE), Ordering::Relaxed);
    ignore(Signal::PIPE);
}

/// Whether this signal's disposition is to be ignored now.
pub fn is_ignored(signal: Signal) -> bool {
    // SAFETY: an all-zero sigaction is a valid one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only reads, into a live value.
    let read = unsafe { libc::sigaction(signal.number(), std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Gives a signal its default disposition. Async-signal-safe.
pub(super) fn set_default(signal: Signal) {
    // SAFETY: the default runs no code of ours. It fails only for numbers that are no signal's.
    unsafe { libc::signal(signal.number(), libc::SIG_DFL) };
}

/// Has a signal ignored.
fn ignore(signal: Signal) {
    // SAFETY: as in `set_default`.
    unsafe { libc::signal(signal.number(), libc::SIG_IGN) };
}

/// The signals that runcast takes, from the moment they are taken.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    taken: SigSet,
    /// Those with a handler of ours.
    handled: Vec<Signal>,
    /// Tells that one of [`STOPS`] has come. They are never read from it: see [`Signals::take_stop`].
    stops: SignalFd,
    stop_set: SigSet,
    takes_interrupt: bool,
}

/// Takes the signals and blocks them. Returns them, and those that are to have their default disposition in the
/// command: what we handle or ignore and nobody ignored before. (CHLD is one of them whoever ignored it: where
/// it is, the kernel throws away exit statuses, ours and those of the command's children.)
///
/// # Errors
///
/// Where a pipe cannot be made or a handler not be installed.
pub fn take() -> io::Result<(Signals, Vec<Signal>)> {
    let mut to_reset = vec![Signal::CHLD];
    if !PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
        to_reset.push(Signal::PIPE);
    }
    if !is_ignored(Signal::XFSZ) {
        // A limit on file sizes that was set for us makes a write fail, instead of killing us unheard.
        ignore(Signal::XFSZ);
        to_reset.push(Signal::XFSZ);
    }
    let forwarded = FORWARDED.into_iter().filter(|&signal| !is_ignored(signal));
    let (stops, others): (Vec<Signal>, Vec<Signal>) =
        forwarded.partition(|signal| STOPS.contains(signal));
    let handled: Vec<Signal> = std::iter::once(Signal::CHLD).chain(others).collect();
    to_reset.extend(&handled[1..]);
    let (taken, stop_set) = (set_of(&handled), set_of(&stops));
    let mut blocked = taken;
    blocked.extend(&stop_set);
    // Whatever was blocked when we were started is let through, here and later in the command.
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None)?;
    let stops = SignalFd::with_flags(&stop_set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let (read, write) = UnixStream::pair()?;
    let by_signal_hook = handled.iter().filter(|&&signal| signal != Signal::INT);
    let numbers: Vec<i32> = by_signal_hook.map(|signal| signal.number()).collect();
    let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, numbers)?;
    let takes_interrupt = handled.contains(&Signal::INT);
    Ok((Signals { delivery, taken, handled, stops, stop_set, takes_interrupt }, to_reset))
}

/// The signals of job control that stop a process.
const STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

fn set_of(signals: &[Signal]) -> SigSet {
    signals.iter().filter_map(|signal| NixSignal::try_from(signal.number()).ok()).collect()
}

/// Whoever lets go of the signals has them act by default again.
impl Drop for Signals {
    fn drop(&mut self) {
        for &signal in &self.handled {
            set_default(signal);
        }
        for set in [&self.taken, &self.stop_set] {
            // It fails for no set of signals.
            let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(set), None);
        }
    }
}

impl Signals {
    /// Lets the signals through in the calling thread, which from then on has them in its pipe, and hands
    /// every INT to `on_interrupt`, which is called in a thread of its own.
    ///
    /// # Errors
    ///
    /// Where the thread for INT cannot be made; the others come all the same.
    pub fn listen(&self, on_interrupt: impl FnMut() + Send + 'static) -> io::Result<()> {
        let mut taken = self.taken;
        let mut listening = Ok(());
        if self.takes_interrupt {
            listening = ctrlc::set_handler(on_interrupt).map_err(io::Error::other);
            if listening.is_err() {
                // Without a handler it would end us and leave the run alone.
                taken.remove(NixSignal::SIGINT);
            }
        }
        pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&taken), None)?;
        listening
    }

    /// What becomes readable when a signal that stops a process has come and waits to be taken.
    #[must_use]
    pub fn stops(&self) -> BorrowedFd<'_> {
        self.stops.as_fd()
    }

    /// The signal that waits to stop us.
    #[must_use]
    pub fn pending_stop(&self) -> Option<Signal> {
        // SAFETY: an all-zero set of signals is the empty one.
        let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: writes to one live value. It does not fail.
        unsafe { libc::sigpending(&raw mut pending) };
        // SAFETY: reads one live value.
        STOPS
            .into_iter()
            .find(|stop| unsafe { libc::sigismember(&raw const pending, stop.number()) == 1 })
    }

    /// Throws a signal away that waits to stop us.
    pub fn discard_stop(&self, signal: Signal) {
        if STOPS.contains(&signal) {
            // One that is not there any more was taken back by a CONT.
            let _ = self.stops.read_signal();
        }
    }

    /// Lets the signals that stop a process act, by their default, and returns when we were continued; or at
    /// once, where the kernel discards the stop because nobody could continue us, or where a CONT has come
    /// meanwhile: that takes back a stop that waits, which is why none is ever taken from the kernel's hands.
    pub fn take_stop(&self) {
        for how in [SigmaskHow::SIG_UNBLOCK, SigmaskHow::SIG_BLOCK] {
            // It fails for no set of signals.
            let _ = pthread_sigmask(how, Some(&self.stop_set), None);
        }
    }

    /// What becomes readable when one has come.
    #[must_use]
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Those that came since the last call.
    pub fn pending(&mut self) -> impl Iterator<Item = Signal> + use<'_> {
        self.delivery.pending().filter_map(Signal::from_number)
    }
}

/// Lets every signal through and gives each its default disposition, for a child that goes on without us.
pub(super) fn forget_all() {
    (1..=64).filter_map(Signal::from_number).for_each(set_default);
    unblock_all();
}

/// Empties the calling thread's mask. Async-signal-safe.
pub(super) fn unblock_all() {
    // It fails for no set of signals.
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// Blocks every signal in the calling thread for as long as it is there.
pub(super) struct BlockAll(SigSet);

impl BlockAll {
    pub(super) fn new() -> Self {
        let mut before = SigSet::empty();
        // It fails for no set of signals.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before));
        Self(before)
    }
}

impl Drop for BlockAll {
    fn drop(&mut self) {
        // It fails for no set of signals.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.0), None);
    }
}
