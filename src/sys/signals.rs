//! Which signals runcast takes, what their dispositions were when it was started, and the pipe they arrive in.
//!
//! Where the command has a session of its own ctrlc takes INT, since every INT goes on to the command then whoever
//! sent it; signal-hook takes the others. Where it shares our terminal signal-hook takes INT too, and tells what
//! came from the kernel, since the terminal has sent that to the command as well. Those that stop a process stay
//! with the kernel until we stop, so that a CONT can take them back.
//! A signal that was ignored at the start gets no handler and stays ignored, in the command too. All of them
//! are blocked while the command is made: one that came between fork and exec would run a handler of ours in
//! the child. Only the supervisor lets them through.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::{SignalOnly, WithRawSiginfo};

use crate::model::signal::{FORWARDED, Signal};
use crate::sys::child_setup::Session;

/// Whether PIPE was ignored when this process was started.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Has PIPE ignored, and remembers whether it was before.
pub(super) fn ignore_pipe() {
    PIPE_WAS_IGNORED.store(is_ignored(Signal::PIPE), Ordering::Relaxed);
    ignore(Signal::PIPE);
}

/// Whether this signal's disposition is to be ignored now.
pub fn is_ignored(signal: Signal) -> bool {
    is_ignored_number(signal.number())
}

/// The same of a signal's number.
pub(super) fn is_ignored_number(signal: i32) -> bool {
    // SAFETY: of an all-zero sigaction every field is a valid one: numbers, and a pointer that may be none.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only reads, into a live value.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Gives a signal its default disposition. Async-signal-safe.
pub(super) fn set_default(signal: Signal) {
    // SAFETY: the default runs no code of ours. It fails only where there is nothing to change: for KILL, STOP and
    // the signals that the C library keeps to itself.
    unsafe { libc::signal(signal.number(), libc::SIG_DFL) };
}

/// Has a signal ignored.
fn ignore(signal: Signal) {
    // SAFETY: as in `set_default`.
    unsafe { libc::signal(signal.number(), libc::SIG_IGN) };
}

/// One signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Who sent it.
    pub sender: Sender,
}

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The kernel, for our terminal. Only told where the command shares it.
    Terminal,
    /// A process, or nobody knows who.
    Anybody,
}

/// What signal-hook writes into our pipe.
#[derive(Debug)]
enum Delivery {
    Signals(SignalDelivery<UnixStream, SignalOnly>),
    SignalsAndSenders(SignalDelivery<UnixStream, WithRawSiginfo>),
}

impl Delivery {
    fn new(session: Session, signals: impl Iterator<Item = Signal>) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let numbers: Vec<i32> = signals.map(Signal::number).collect();
        Ok(if session == Session::Shared {
            Self::SignalsAndSenders(SignalDelivery::with_pipe(
                read,
                write,
                WithRawSiginfo,
                numbers,
            )?)
        } else {
            Self::Signals(SignalDelivery::with_pipe(read, write, SignalOnly, numbers)?)
        })
    }

    fn pipe(&self) -> BorrowedFd<'_> {
        match self {
            Self::Signals(delivery) => delivery.get_read().as_fd(),
            Self::SignalsAndSenders(delivery) => delivery.get_read().as_fd(),
        }
    }

    fn pending(&mut self) -> Vec<Received> {
        let received = |number: i32, sender: Sender| {
            Signal::from_number(number).map(|signal| Received { signal, sender })
        };
        match self {
            Self::Signals(delivery) => {
                delivery.pending().filter_map(|number| received(number, Sender::Anybody)).collect()
            }
            Self::SignalsAndSenders(delivery) => delivery
                .pending()
                .filter_map(|info| {
                    let is_kernel = info.si_code == libc::SI_KERNEL;
                    let sender = if is_kernel { Sender::Terminal } else { Sender::Anybody };
                    received(info.si_signo, sender)
                })
                .collect(),
        }
    }
}

/// The signals that runcast takes, from the moment they are taken.
#[derive(Debug)]
pub struct Signals {
    delivery: Delivery,
    taken: SigSet,
    /// Those with a handler of ours.
    handled: Vec<Signal>,
    /// Tells that one of [`STOPS`] has come. They are never read from it: see [`Signals::take_stop`].
    stops: SignalFd,
    stop_set: SigSet,
    ctrlc_takes_interrupt: bool,
}

/// Takes the signals and blocks them. Returns them, and those that are to have their default disposition in the
/// command: what we handle or ignore and nobody ignored before. (CHLD is one of them whoever ignored it: where
/// it is, the kernel throws away exit statuses, ours and those of the command's children.)
///
/// # Errors
///
/// Where a pipe cannot be made or a handler not be installed.
pub fn take(session: Session) -> io::Result<(Signals, Vec<Signal>)> {
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
    let by_ctrlc = |signal: Signal| signal == Signal::INT && session != Session::Shared;
    let by_signal_hook = handled.iter().copied().filter(|&signal| !by_ctrlc(signal));
    let delivery = Delivery::new(session, by_signal_hook)?;
    let ctrlc_takes_interrupt = handled.iter().any(|&signal| by_ctrlc(signal));
    Ok((Signals { delivery, taken, handled, stops, stop_set, ctrlc_takes_interrupt }, to_reset))
}

/// The signals of job control that stop a process.
const STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Whether this process leads its session, so that the kernel tells it of a hang-up.
#[must_use]
pub fn leads_session() -> bool {
    nix::unistd::getsid(None) == Ok(nix::unistd::getpid())
}

/// Whether it is one of the signals of job control that stop a process.
#[must_use]
pub fn is_stop(signal: Signal) -> bool {
    STOPS.contains(&signal)
}

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
    /// every INT to `on_interrupt`, which is called in a thread of its own. (Where the command shares our terminal
    /// INT is in the pipe too.)
    ///
    /// # Errors
    ///
    /// Where the thread for INT cannot be made; the others come all the same.
    pub fn listen(&self, on_interrupt: impl FnMut() + Send + 'static) -> io::Result<()> {
        let mut taken = self.taken;
        let mut listening = Ok(());
        if self.ctrlc_takes_interrupt {
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
        let waits = |stop: &Signal| {
            // SAFETY: reads one live value.
            unsafe { libc::sigismember(&raw const pending, stop.number()) == 1 }
        };
        STOPS.into_iter().find(waits)
    }

    /// Takes a signal from the kernel's hands that waits to stop us.
    pub fn read_stop(&self) -> Option<Received> {
        // One that is not there any more was taken back by a CONT.
        let info = self.stops.read_signal().ok()??;
        let signal = i32::try_from(info.ssi_signo).ok().and_then(Signal::from_number)?;
        let is_kernel = info.ssi_code == libc::SI_KERNEL;
        let sender = if is_kernel { Sender::Terminal } else { Sender::Anybody };
        Some(Received { signal, sender })
    }

    /// Throws a signal away that waits to stop us.
    pub fn discard_stop(&self, signal: Signal) {
        if is_stop(signal) {
            self.read_stop();
        }
    }

    /// Has a signal that stops a process wait to stop us, as if somebody had sent it: it is blocked in every thread of
    /// ours.
    pub fn ask_to_stop(&self, signal: Signal) {
        if let Ok(named) = NixSignal::try_from(signal.number()) {
            // It fails for no process that is there.
            let _ = nix::sys::signal::kill(nix::unistd::getpid(), named);
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
        self.delivery.pipe()
    }

    /// Those that came since the last call.
    pub fn pending(&mut self) -> Vec<Received> {
        self.delivery.pending()
    }
}

/// Ends the process by this signal, without a core. Returns where that cannot be: process 1 has no default
/// actions, and a signal that is ignored does nothing.
pub fn end_by(signal: Signal) {
    // Where it fails there may be a core.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    set_default(signal);
    if let Ok(named) = NixSignal::try_from(signal.number()) {
        // To this thread: were it sent to the process, and leaves a core, another thread could be about to end by it
        // while this one ends the process with a status. It waits until it is let through.
        let _ = nix::sys::signal::raise(named);
        // It fails for no set of signals.
        let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&SigSet::from(named)), None);
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

/// Has this process end at once, with 128 + N, when it receives one of these signals, unless it was started with that
/// one ignored. For whoever holds nothing that would have to be put in order.
///
/// # Errors
///
/// What `sigaction(2)` says.
pub fn end_on(signals: &[Signal]) -> std::io::Result<()> {
    for signal in signals.iter().filter(|signal| !is_ignored(**signal)) {
        let always = std::sync::Arc::new(AtomicBool::new(true));
        let status = i32::from(signal.status());
        signal_hook::flag::register_conditional_shutdown(signal.number(), status, always)?;
    }
    Ok(())
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
    // SAFETY: between fork and exec it calls nothing but signal(2), and allocates nothing.
    unsafe { command.pre_exec(ignore) };
}
