//! Terminals that are made for the command: pseudoterminals, `pty(7)`.
//!
//! The command has the slave side. The master side is ours: what the command writes is read from it, and what
//! is written to it is typed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{
    InputFlags, LocalFlags, OutputFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr,
    tcsetattr,
};
use nix::unistd::tcgetpgrp;

use crate::model::spec::WindowSize;
use crate::sys::descriptors;

/// The longest line, its end not counted, that a terminal takes while it collects whole lines (canonical mode);
/// of a longer one it loses the rest in silence. It is the kernel's, `termios(3)`.
pub const LONGEST_TYPED_LINE: usize = 4095;

/// What a new terminal is like.
#[derive(Debug)]
pub struct PtyModes {
    /// The modes of another terminal, to begin with; `None` is what Linux gives.
    pub like: Option<Termios>,
    /// Whether what is typed is shown.
    pub echo: bool,
    /// Whether LF is written as CR LF.
    pub crlf: bool,
}

/// Both sides of a terminal.
#[derive(Debug)]
pub struct Pty {
    /// Ours.
    pub master: OwnedFd,
    /// The command's.
    pub slave: OwnedFd,
}

/// Makes a terminal. It becomes nobody's controlling terminal by that, and is not passed on.
///
/// # Errors
///
/// What `openpty(3)` and `tcsetattr(3)` say.
pub fn open(size: WindowSize, modes: &PtyModes) -> io::Result<Pty> {
    let opened = openpty(&winsize(size), modes.like.as_ref())?;
    let pty = Pty { master: opened.master, slave: opened.slave };
    // No other process is made meanwhile.
    descriptors::set_close_on_exec(pty.master.as_fd())?;
    descriptors::set_close_on_exec(pty.slave.as_fd())?;
    let mut own = tcgetattr(&pty.slave)?;
    if modes.like.is_none() {
        own.input_flags.insert(InputFlags::IUTF8);
    }
    if !modes.echo {
        own.local_flags.remove(LocalFlags::ECHO);
    }
    own.output_flags.set(OutputFlags::ONLCR, modes.crlf);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &own)?;
    Ok(pty)
}

fn winsize(size: WindowSize) -> libc::winsize {
    libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Changes the size of a terminal; the processes in its foreground get WINCH if it differs.
///
/// # Errors
///
/// What `ioctl(2)` says.
pub fn resize(master: BorrowedFd<'_>, size: WindowSize) -> io::Result<()> {
    let size = winsize(size);
    // SAFETY: TIOCSWINSZ reads one winsize, a live one.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}

/// How what is typed reaches the command at the moment.
#[derive(Debug, Clone, Copy)]
pub struct InputModes {
    /// Line by line, and not key by key.
    pub is_canonical: bool,
    /// Whether CR ends a line too.
    pub is_cr_line_end: bool,
    /// The key that means the end of the input; `None` where none does.
    pub end_key: Option<u8>,
    /// The process group that is typed to.
    pub foreground: Option<i32>,
}

/// Asks a terminal how it takes what is typed.
///
/// # Errors
///
/// What `tcgetattr(3)` says.
pub fn input_modes(master: BorrowedFd<'_>) -> io::Result<InputModes> {
    let modes = tcgetattr(master)?;
    let end_key = modes.control_chars[SpecialCharacterIndices::VEOF as usize];
    Ok(InputModes {
        is_canonical: modes.local_flags.contains(LocalFlags::ICANON),
        is_cr_line_end: modes.input_flags.contains(InputFlags::ICRNL),
        end_key: (end_key != libc::_POSIX_VDISABLE).then_some(end_key),
        foreground: tcgetpgrp(master).ok().map(nix::unistd::Pid::as_raw),
    })
}

/// The slave side of a terminal, kept open until the command has ended: while nobody else has it open, a read
/// from the master would look like the end, and the command may open it again.
#[derive(Debug)]
pub struct Slave(Mutex<Option<OwnedFd>>);

impl Slave {
    /// Keeps it open.
    #[must_use]
    pub fn new(slave: OwnedFd) -> Self {
        Self(Mutex::new(Some(slave)))
    }

    /// The descriptor's number, unless it was let go.
    #[must_use]
    pub fn number(&self) -> Option<RawFd> {
        self.lock().as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Does not keep it open any longer.
    pub fn let_go(&self) {
        *self.lock() = None;
    }

    /// Whether something that was typed waits to be read: in canonical mode a whole line or an end. `None`
    /// when it was let go.
    #[must_use]
    pub fn has_unread_input(&self) -> Option<bool> {
        let slave = self.lock();
        let mut fds = [PollFd::new(slave.as_ref()?.as_fd(), PollFlags::POLLIN)];
        // Interrupted, it is asked again soon.
        let found = poll(&mut fds, PollTimeout::ZERO);
        Some(!matches!(found, Ok(0)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
