//! Our own terminal: whether there is one that controls us, its size, its modes and its foreground group. What
//! is changed here is put back by Drop.
//!
//! It must not know why: which process may have the terminal, and when, is the engine's to say.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal, pthread_sigmask};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcgetsid, tcsetattr};
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp};

use crate::model::spec::WindowSize;
use crate::sys::descriptors::standard_stream;
use crate::sys::emergency;

/// See [`is_output_raw`].
static IS_OUTPUT_RAW: AtomicBool = AtomicBool::new(false);

/// Whether our terminal shows what is written as it is written: it moves to the next line at LF, and to the
/// beginning of a line at CR.
#[must_use]
pub fn is_output_raw() -> bool {
    IS_OUTPUT_RAW.load(Ordering::Relaxed)
}

/// What ends a line of runcast's own on standard error.
#[must_use]
pub fn line_end() -> &'static str {
    if is_output_raw() { "\r\n" } else { "\n" }
}

/// The first of our standard streams that is the terminal which controls us, if one is.
#[must_use]
pub fn controlling_stream() -> Option<BorrowedFd<'static>> {
    standard_streams().find(|&stream| is_controlling(stream))
}

/// Whether this descriptor is the terminal that controls us.
#[must_use]
pub fn is_controlling(fd: BorrowedFd<'_>) -> bool {
    // Only of its own terminal may a process ask this.
    tcgetsid(fd).is_ok_and(|session| getsid(None) == Ok(session))
}

/// Has this process look at the size of its terminal, as if that had been changed.
pub fn look_at_window_again() {
    // It fails for no process that is there.
    let _ = nix::sys::signal::kill(nix::unistd::getpid(), NixSignal::SIGWINCH);
}

/// Whether it is a terminal that was hung up.
#[must_use]
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    // Whatever else is no terminal says so.
    tcgetattr(fd) == Err(Errno::EIO)
}

fn standard_streams() -> impl Iterator<Item = BorrowedFd<'static>> {
    (0..=2).filter_map(|number| standard_stream(number).ok())
}

/// The size of a terminal; `None` where it is not one, or does not know.
#[must_use]
pub fn size_of(fd: BorrowedFd<'_>) -> Option<WindowSize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, to a live one.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    (size.ws_col > 0 && size.ws_row > 0)
        .then_some(WindowSize { columns: size.ws_col, rows: size.ws_row })
}

/// The first of our standard streams that is a terminal, of those with a size if there are any; the output first.
#[must_use]
pub fn shown_on() -> Option<BorrowedFd<'static>> {
    let streams = || standard_streams().skip(1).chain(standard_streams().take(1));
    let mut sized = streams().filter(|&stream| size_of(stream).is_some());
    sized.next().or_else(|| streams().find(|stream| stream.is_terminal()))
}

/// The size of our terminal, where one of our standard streams is one that knows it.
#[must_use]
pub fn own_size() -> Option<WindowSize> {
    shown_on().and_then(size_of)
}

/// Does something to the terminal that a process in the background is stopped for, without being stopped.
fn undisturbed<T>(change: impl FnOnce() -> T) -> T {
    let mut before = SigSet::empty();
    let blocked = SigSet::from(NixSignal::SIGTTOU);
    // It fails for no set of signals.
    let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), Some(&mut before));
    let done = change();
    // It fails for no set of signals.
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    done
}

/// Sets modes at once: to wait until all output was taken could take for ever.
fn set_modes(fd: BorrowedFd<'_>, modes: &Termios) -> nix::Result<()> {
    undisturbed(|| tcsetattr(fd, SetArg::TCSANOW, modes))
}

/// Whether these are the same modes. What nix keeps beside them may differ.
fn are_same(one: &Termios, other: &Termios) -> bool {
    let flags = |modes: &Termios| {
        (modes.input_flags, modes.output_flags, modes.control_flags, modes.local_flags)
    };
    flags(one) == flags(other) && one.control_chars == other.control_chars
}

/// The terminal that controls us, which the command uses as we do.
#[derive(Debug)]
pub struct SharedTerminal {
    fd: OwnedFd,
    own_group: Pid,
}

impl SharedTerminal {
    /// The terminal on this standard stream.
    ///
    /// # Errors
    ///
    /// Where the descriptor cannot be duplicated.
    pub fn new(stream: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { fd: stream.try_clone_to_owned()?, own_group: getpgrp() })
    }

    /// The group that has the terminal.
    #[must_use]
    pub fn foreground(&self) -> Option<i32> {
        tcgetpgrp(&self.fd).ok().map(Pid::as_raw)
    }

    /// Whether we have it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.foreground() == Some(self.own_group.as_raw())
    }

    /// Hands it to another group of our session.
    pub fn hand_to(&self, group: i32) {
        // A group that is gone needs no terminal.
        let _ = undisturbed(|| tcsetpgrp(&self.fd, Pid::from_raw(group)));
    }
}

/// What a shared terminal was like before the command. It is put back when this goes, unless it is told that
/// the command's changes are to stay.
#[derive(Debug)]
pub struct SharedModes {
    terminal: Arc<SharedTerminal>,
    /// `None` where there is nothing to put back.
    before: Option<Termios>,
}

impl SharedModes {
    /// Notes the modes, if the terminal is ours to use now.
    #[must_use]
    pub fn note(terminal: &Arc<SharedTerminal>) -> Self {
        let before = terminal.is_ours().then(|| tcgetattr(&terminal.fd).ok()).flatten();
        Self { terminal: Arc::clone(terminal), before }
    }

    /// Leaves the terminal as the command has left it: it ended as it wanted to.
    pub fn keep_changes(&mut self) {
        self.before = None;
    }
}

impl Drop for SharedModes {
    fn drop(&mut self) {
        let (Some(before), terminal) = (&self.before, &self.terminal) else { return };
        let Some(foreground) = terminal.foreground() else { return };
        let own_group = terminal.own_group.as_raw();
        if foreground != own_group {
            if is_group_there(foreground) {
                // Somebody else's by now, a shell's most likely, and so are its modes.
                return;
            }
            terminal.hand_to(own_group);
        }
        if tcgetattr(&terminal.fd).is_ok_and(|now| !are_same(&now, before)) {
            // A terminal that is gone needs no modes.
            let _ = set_modes(terminal.fd.as_fd(), before);
        }
    }
}

/// Whether a process group has any member.
fn is_group_there(group: i32) -> bool {
    nix::sys::signal::killpg(Pid::from_raw(group), None) != Err(Errno::ESRCH)
}

#[derive(Debug)]
struct RawModes {
    before: Termios,
    raw: Termios,
}

/// What a raw terminal shows as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawOutput {
    /// Every byte as it comes: the command's own terminal has done what there is to be done.
    Yes,
    /// LF still begins a new line.
    No,
}

/// The keyboard of our terminal, on standard input, while its keys are another terminal's: none of them means
/// anything here.
#[derive(Debug)]
pub struct Keyboard {
    fd: OwnedFd,
    is_controlling: bool,
    output: RawOutput,
    state: Mutex<KeyboardState>,
}

#[derive(Debug)]
enum KeyboardState {
    /// It is as it was.
    Untouched,
    /// Its keys are passed on.
    Raw(Box<RawModes>),
    /// It was put back for good.
    Over,
}

impl Keyboard {
    /// The keyboard on this descriptor, which is a terminal.
    ///
    /// # Errors
    ///
    /// Where the descriptor cannot be duplicated.
    pub fn new(stream: BorrowedFd<'_>, output: RawOutput) -> io::Result<Self> {
        Ok(Self {
            fd: stream.try_clone_to_owned()?,
            is_controlling: is_controlling(stream),
            output,
            state: Mutex::new(KeyboardState::Untouched),
        })
    }

    /// Takes its keys, if it is ours to use now. Returns whether they are taken.
    pub fn take(&self) -> bool {
        let mut state = self.state();
        if !self.is_ours() {
            return false;
        }
        if matches!(*state, KeyboardState::Untouched)
            && let Ok(before) = tcgetattr(&self.fd)
        {
            let raw = self.raw_modes(&before);
            emergency::prepare(self.fd.as_raw_fd(), before.clone().into());
            emergency::set_changed(true);
            if set_modes(self.fd.as_fd(), &raw).is_ok() {
                IS_OUTPUT_RAW.store(self.output == RawOutput::Yes, Ordering::Relaxed);
                *state = KeyboardState::Raw(Box::new(RawModes { before, raw }));
            }
        }
        matches!(*state, KeyboardState::Raw(_))
    }

    /// Gives its keys back, until they are taken again.
    pub fn give_back(&self) {
        self.restore(KeyboardState::Untouched);
    }

    /// Gives its keys back for good.
    pub fn end(&self) {
        self.restore(KeyboardState::Over);
    }

    /// Its modes, as they were before anything was changed.
    #[must_use]
    pub fn modes(&self) -> Option<Termios> {
        match &*self.state() {
            KeyboardState::Raw(modes) => Some(modes.before.clone()),
            // In the background they are those of whoever has it.
            _ => self.is_ours().then(|| tcgetattr(&self.fd).ok()).flatten(),
        }
    }

    fn restore(&self, next: KeyboardState) {
        let mut state = self.state();
        if let KeyboardState::Raw(modes) = &*state
            // Where somebody else has set it as they need it by now, a pager that shows our output among them, it
            // stays so.
            && tcgetattr(&self.fd).is_ok_and(|now| are_same(&now, &modes.raw))
        {
            // A terminal that is gone needs no modes.
            let _ = set_modes(self.fd.as_fd(), &modes.before);
        }
        emergency::set_changed(false);
        IS_OUTPUT_RAW.store(false, Ordering::Relaxed);
        if !matches!(*state, KeyboardState::Over) {
            *state = next;
        }
    }

    fn raw_modes(&self, before: &Termios) -> Termios {
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        if self.output == RawOutput::No {
            raw.output_flags = before.output_flags;
        }
        raw
    }

    /// Whether we are in the foreground. A terminal that does not control us has none.
    fn is_ours(&self) -> bool {
        !self.is_controlling || tcgetpgrp(&self.fd) == Ok(getpgrp())
    }

    fn state(&self) -> MutexGuard<'_, KeyboardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Keyboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Gives a keyboard's keys back for good when it goes.
#[derive(Debug)]
pub struct KeyboardGuard(pub Arc<Keyboard>);

impl Drop for KeyboardGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}
