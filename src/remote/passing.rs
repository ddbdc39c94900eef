//! What is passed on to a run on another machine as it comes here: signals, and standard input.

use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Number};
use signal_hook::iterator::Signals;

use crate::model::signal::{FORWARDED, Signal};
use crate::model::spec::{DEFAULT_KILL_AFTER, TERM_KILL_AFTER};
use crate::remote::feed::Feed;
use crate::remote::task::Task;
use crate::remote::wire::Ask;
use crate::sink::destination::Patience;
use crate::sink::message;
use crate::sys::interrupt::{self, Interruptible};
use crate::sys::signals;

/// How long a Ctrl-C is under way, so that a second one is not for the run but for us. Shorter, and a run that does
/// not end cannot be left; longer, and a program that is told something by Ctrl-C is left by the next.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// How often to look whether a terminal may be read again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What does not pass on though it would to a run here: it is about our own terminal and our shell's jobs.
const KEPT: [Signal; 5] = [Signal::WINCH, Signal::CONT, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// What ends us while there is no run that it could be passed on to.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// What signals do here: they end what has not begun, and the wait for a reader of a run that was ended.
#[derive(Debug)]
pub(super) struct Interruption {
    /// There is, or may be, a run for which signals are.
    is_deferred: AtomicBool,
    /// The signal that ends what has not begun, or 0.
    signal: AtomicI32,
    /// Can be read once that came.
    wakes: (UnixStream, UnixStream),
    patience: Arc<Patience>,
    main: Interruptible,
    /// That the reader's time is up was seen.
    is_seen: AtomicBool,
    /// When the reader's time is up, and because of which signal.
    end: Mutex<Option<(Instant, Option<Signal>)>>,
    ends_sooner: Condvar,
}

impl Interruption {
    /// Made by the thread that writes to the reader.
    pub(super) fn new(patience: &Arc<Patience>) -> io::Result<Self> {
        interrupt::prepare()?;
        let wakes = UnixStream::pair()?;
        let main = Interruptible::default();
        main.register();
        Ok(Self {
            is_deferred: AtomicBool::new(false),
            signal: AtomicI32::new(0),
            wakes,
            patience: Arc::clone(patience),
            main,
            is_seen: AtomicBool::new(false),
            end: Mutex::new(None),
            ends_sooner: Condvar::new(),
        })
    }

    /// From here on signals are for a run. One that came before ends what has not begun.
    pub(super) fn defer(&self) {
        self.is_deferred.store(true, Ordering::SeqCst);
    }

    /// What ends what has not begun.
    pub(super) fn signal(&self) -> Option<Signal> {
        Signal::from_number(self.signal.load(Ordering::SeqCst))
    }

    /// Takes a signal that may end what has not begun. `false`: it is for a run. Either whoever defers sees it, or
    /// this sees that it was deferred.
    fn takes(&self, signal: Signal) -> bool {
        if !ENDING.contains(&signal) {
            return false;
        }
        self.signal.store(signal.number(), Ordering::SeqCst);
        if self.is_deferred.load(Ordering::SeqCst) {
            return false;
        }
        // One byte finds room; whoever waits for it has seen one before otherwise.
        let _ = (&self.wakes.0).write(&[0]);
        true
    }

    /// The run is over by then, and so is the time of whoever reads what is shown.
    pub(super) fn end_at(&self, end: Option<Instant>, signal: Option<Signal>) {
        let Some(end) = end else { return };
        let mut planned = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if planned.is_none_or(|(planned, _)| end < planned) {
            *planned = Some((end, signal));
            self.ends_sooner.notify_all();
        }
    }

    /// Whether the reader's time is up.
    pub(super) fn is_over(&self) -> bool {
        self.patience.is_over()
    }

    /// The reader's time is up, and that was seen.
    pub(super) fn see(&self) {
        self.is_seen.store(true, Ordering::Release);
    }

    fn keep_time(&self) {
        let mut planned = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match *planned {
                Some((end, signal)) if end <= now => {
                    drop(planned);
                    self.patience.end(signal);
                    while !self.is_seen.load(Ordering::Acquire) {
                        self.main.interrupt();
                        thread::sleep(interrupt::REPEAT);
                    }
                    return;
                }
                Some((end, _)) => {
                    let waited = self.ends_sooner.wait_timeout(planned, end - now);
                    planned = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    let waited = self.ends_sooner.wait(planned);
                    planned = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl AsFd for Interruption {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.1.as_fd()
    }
}

/// Passes signals on, as long as the process lives. A second INT, while the first is under way, ends it.
pub(super) fn pass_signals(
    feed: &Feed,
    interruption: &Arc<Interruption>,
    task: &Task<'_>,
) -> io::Result<()> {
    let timer = Arc::clone(interruption);
    thread::Builder::new().name("patience".to_owned()).spawn(move || timer.keep_time())?;
    let passed = FORWARDED.into_iter();
    let passed = passed.filter(|signal| !KEPT.contains(signal) && !signals::is_ignored(*signal));
    let mut signals = Signals::new(passed.map(Signal::number))?;
    let (feed, interruption) = (feed.clone(), Arc::clone(interruption));
    let kill_after = task.limits.and_then(|limits| limits.kill_after);
    let left = format!(
        "left the run {} on {}; {} shows it",
        task.id,
        task.host.name,
        task.host.typed("attach", "", &[task.id.as_str()])
    );
    let token = crate::model::run_id::RunId::fresh().to_string();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut interrupted: Option<Instant> = None;
        for (count, number) in signals.forever().enumerate() {
            let Some(signal) = Signal::from_number(number) else { continue };
            if interruption.takes(signal) {
                continue;
            }
            if signal == Signal::INT {
                if interrupted.is_some_and(|first| first.elapsed() < UNDER_WAY) {
                    message::say(&left, &Arc::default());
                    feed.kill();
                    // Whatever the other threads wait for may never come.
                    std::process::exit(i32::from(Signal::INT.status()));
                }
                interrupted = Some(Instant::now());
            }
            if signal == Signal::TERM {
                let grace = kill_after.unwrap_or(TERM_KILL_AFTER);
                let rest = kill_after.unwrap_or(DEFAULT_KILL_AFTER);
                let end = Instant::now().checked_add(grace.saturating_add(rest));
                interruption.end_at(end, Some(signal));
            }
            // What is asked twice, since the answer was lost, is done once.
            let once = format!("{token}-{count}");
            feed.ask(Ask::Receive { signal: signal.to_string(), once });
        }
    })?;
    Ok(())
}

/// How long after its beginning a run that has this time limit is over, and its reader's time too.
pub(super) fn longest(timeout: Duration, kill_after: Option<Duration>) -> Duration {
    let rest = kill_after.unwrap_or(DEFAULT_KILL_AFTER);
    timeout.saturating_add(rest).saturating_add(rest)
}

/// Passes input on until it ends, or the run takes no more.
pub(super) fn pass_input(
    feed: &Feed,
    mut source: impl Read + AsFd + Send + 'static,
) -> io::Result<()> {
    let feed = feed.clone();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let is_terminal = source.as_fd().is_terminal();
        let mut ours = SigSet::empty();
        ours.add(Number::SIGTTIN);
        // Else a job in the background would be stopped, though its command may never read. Blocked, the read
        // fails, as long as it is in the background. What cannot be blocked stops it.
        let _ = ours.thread_block();
        let mut buffer = vec![0; READ_BYTES];
        // What is to be started nowhere takes nothing from whoever comes after us.
        feed.wait_for_connection();
        loop {
            if is_terminal && !is_typed_for_us(&feed, &source) {
                continue;
            }
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if feed.push(&buffer[..count]) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
                    // Whatever it says, the next read tells more.
                    let _ = poll(&mut fds, PollTimeout::NONE);
                }
                Err(error) if is_terminal && error.raw_os_error() == Some(libc::EIO) => {
                    thread::sleep(LOOK_AGAIN);
                }
                // Nobody wants it, or it cannot be read: what was read is all there is.
                _ => break,
            }
        }
        feed.complete();
    })?;
    Ok(())
}

/// Waits a moment until something was typed while there is a connection: what is typed while one is made is an answer
/// to ssh, which may ask for a password.
fn is_typed_for_us(feed: &Feed, terminal: &impl AsFd) -> bool {
    feed.wait_for_connection();
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    let longest = PollTimeout::try_from(LOOK_AGAIN).unwrap_or(PollTimeout::ZERO);
    matches!(poll(&mut fds, longest), Ok(count) if count > 0) && feed.is_connected()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_run_ends_us_only_while_there_is_none() {
        let patience = Arc::default();
        let interruption = Interruption::new(&patience).expect("a pair of sockets can be made");
        assert!(!interruption.takes(Signal::USR1));
        assert!(interruption.takes(Signal::TERM));
        assert_eq!(interruption.signal(), Some(Signal::TERM));
        interruption.defer();
        assert!(!interruption.takes(Signal::INT));
    }

    #[test]
    fn the_readers_time_ends_at_the_soonest_end() {
        let patience = Arc::default();
        let interruption = Interruption::new(&patience).expect("a pair of sockets can be made");
        interruption.see();
        let now = Instant::now();
        interruption.end_at(now.checked_add(Duration::from_secs(3600)), None);
        interruption.end_at(Some(now), Some(Signal::TERM));
        interruption.end_at(None, None);
        interruption.keep_time();
        assert!(patience.is_over());
        assert_eq!(patience.ended_by(), Some(Signal::TERM));
    }
}
