//! What a run has to do with terminals: ours, which the command shares, or those that are made for it.
//!
//! It is told when the run stops, goes on and ends, and what has to be done then with terminals; processes are
//! not its affair.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::engine::typing::{Input, Typist};
use crate::model::error::Error;
use crate::model::spec::{
    DEFAULT_WINDOW_SIZE, Display, Format, Pty, Spec, Stdin, Streams, WindowSize,
};
use crate::sys::child_setup::{Session, StandardStreams};
use crate::sys::descriptors;
use crate::sys::pty::{self, PtyModes, Slave};
use crate::sys::terminal::{self, Keyboard, KeyboardGuard, RawOutput, SharedModes, SharedTerminal};

/// The terminals of one run.
#[derive(Debug)]
pub(super) enum Console {
    /// None.
    Nothing,
    /// Ours, which the command uses as we do.
    Shared(Arc<SharedTerminal>),
    /// Those that were made for the command.
    Ptys(Box<Ptys>),
}

/// The terminals that were made for the command.
#[derive(Debug)]
pub(super) struct Ptys {
    session: Session,
    masters: Vec<Arc<OwnedFd>>,
    slaves: Vec<Arc<Slave>>,
    /// Ours, where its keys are the command's.
    keyboard: Option<Arc<Keyboard>>,
    /// Ours, where its size is the command's.
    followed: Option<OwnedFd>,
    size: WindowSize,
    /// Rung when nobody is there any more to type to.
    end_of_typing: Arc<EventFd>,
    /// What the command reads in place of a terminal that is not ours to read from: in a session of its own, the
    /// kernel would not keep it from taking keys that are typed for others.
    no_input: Option<File>,
}

/// Puts back what the run has changed of our terminal, when it goes.
#[derive(Debug)]
pub(super) enum Restore {
    Nothing,
    Shared(SharedModes),
    Keyboard { _guard: KeyboardGuard },
}

impl Restore {
    /// Takes note that the command ended as it wanted to: what it has changed is to stay.
    pub(super) fn command_ended_by_itself(&mut self) {
        if let Self::Shared(modes) = self {
            modes.keep_changes();
        }
    }
}

impl Console {
    /// Finds out which terminal the command shares, or makes those that it is to have.
    pub(super) fn open(spec: &Spec, display: &Display) -> Result<Self, Error> {
        if spec.pty != Pty::No {
            return Ptys::open(spec, display)
                .map(|ptys| Self::Ptys(Box::new(ptys)))
                .map_err(failed);
        }
        match terminal::controlling_stream() {
            None => Ok(Self::Nothing),
            Some(stream) => SharedTerminal::new(stream)
                .map(|terminal| Self::Shared(Arc::new(terminal)))
                .map_err(failed),
        }
    }

    /// The session that the command is to run in.
    pub(super) fn session(&self) -> Session {
        match self {
            Self::Nothing => Session::Own,
            Self::Shared(_) => Session::Shared,
            Self::Ptys(ptys) => ptys.session,
        }
    }

    /// The command's terminals.
    pub(super) fn ptys(&self) -> Option<&Ptys> {
        match self {
            Self::Ptys(ptys) => Some(ptys),
            _ => None,
        }
    }

    /// Takes our terminal for the command, as far as it is ours to use now.
    pub(super) fn take_terminal(&self) -> Restore {
        match self {
            Self::Shared(terminal) => Restore::Shared(SharedModes::note(terminal)),
            Self::Ptys(_) | Self::Nothing => match self.keyboard() {
                Some(keyboard) => {
                    keyboard.take();
                    Restore::Keyboard { _guard: KeyboardGuard(Arc::clone(keyboard)) }
                }
                None => Restore::Nothing,
            },
        }
    }

    /// The run is about to be stopped by job control. Returns the group to hand our terminal to when it goes on:
    /// the command's, if it has the terminal and that is not our own group.
    pub(super) fn suspend(&self, command_group: i32) -> Option<i32> {
        if let Some(keyboard) = self.keyboard() {
            keyboard.give_back();
        }
        let Self::Shared(terminal) = self else { return None };
        let has_it = !terminal.is_ours() && terminal.foreground() == Some(command_group);
        has_it.then_some(command_group)
    }

    /// The run goes on, in the foreground or not.
    pub(super) fn go_on(&self, foreground: Option<i32>) {
        if let Some(keyboard) = self.keyboard() {
            keyboard.take();
        }
        if let (Self::Shared(terminal), Some(group)) = (self, foreground)
            && terminal.is_ours()
        {
            terminal.hand_to(group);
        }
    }

    fn keyboard(&self) -> Option<&Arc<Keyboard>> {
        self.ptys()?.keyboard.as_ref()
    }

    /// The command has ended. Whoever else has its terminals open keeps them so, and nobody types any more.
    pub(super) fn command_ended(&self) {
        if let Self::Ptys(ptys) = self {
            // A counter that is full has rung already.
            let _ = ptys.end_of_typing.write(1);
            ptys.slaves.iter().for_each(|slave| slave.let_go());
        }
    }

    /// The size of our terminal, where the command's terminals are to have it and have another one.
    pub(super) fn other_size(&self) -> Option<WindowSize> {
        let ptys = self.ptys()?;
        let size = terminal::size_of(ptys.followed.as_ref()?.as_fd())?;
        (size != ptys.size).then_some(size)
    }

    /// Gives the command's terminals this size.
    pub(super) fn resize(&mut self, size: WindowSize) {
        let Self::Ptys(ptys) = self else { return };
        ptys.size = size;
        for master in &ptys.masters {
            // It is as before then, which the command can live with.
            let _ = pty::resize(master.as_fd(), size);
        }
    }
}

impl Ptys {
    fn open(spec: &Spec, display: &Display) -> io::Result<Self> {
        let is_full = spec.pty == Pty::Full;
        let stdin = descriptors::standard_stream(0).ok().filter(IsTerminal::is_terminal);
        let typed_by_hand = stdin.filter(|_| is_full && spec.stdin == Stdin::Inherit);
        let is_text_on_terminal = display.format == Format::Text
            && descriptors::standard_stream(1).is_ok_and(|stdout| stdout.is_terminal());
        let output = if is_text_on_terminal { RawOutput::Yes } else { RawOutput::No };
        let keyboard =
            typed_by_hand.map(|stdin| Keyboard::new(stdin, output)).transpose()?.map(Arc::new);
        let own = match spec.pty_size {
            Some(_) => None,
            None => terminal::shown_on(),
        };
        let followed = own.map(|stream| stream.try_clone_to_owned()).transpose()?;
        let size = size(spec.pty_size);
        let modes = PtyModes {
            like: keyboard.as_ref().and_then(|keyboard| keyboard.modes()),
            echo: keyboard.is_some(),
            crlf: writes_crlf(display),
        };
        let count = if spec.streams == Streams::Merged { 1 } else { 2 };
        let (mut masters, mut slaves) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let made = pty::open(size, &modes)?;
            masters.push(Arc::new(made.master));
            slaves.push(Arc::new(Slave::new(made.slave)));
        }
        Ok(Self {
            session: if is_full { Session::OnPty } else { Session::Own },
            masters,
            slaves,
            keyboard,
            followed,
            size,
            end_of_typing: Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?),
            no_input: stdin
                .filter(|stdin| !is_full && is_in_background(*stdin))
                .map(|_| nothing())
                .transpose()?,
        })
    }

    /// Our sides, in the order of the streams.
    pub(super) fn masters(&self) -> &[Arc<OwnedFd>] {
        &self.masters
    }

    /// The command's sides, as its standard streams; `stdin` where that is not one of them.
    pub(super) fn streams(&self, stdin: Option<&File>) -> Option<StandardStreams> {
        let stdout = self.slaves.first()?.number()?;
        Some(StandardStreams {
            stdin: match self.session {
                Session::OnPty => Some(stdout),
                Session::Own | Session::Shared => {
                    stdin.or(self.no_input.as_ref()).map(AsRawFd::as_raw_fd)
                }
            },
            stdout,
            stderr: self.slaves.last()?.number()?,
        })
    }

    /// Whether what is read here is typed to the command.
    pub(super) fn is_typed_to(&self) -> bool {
        self.session == Session::OnPty
    }

    /// Who types to the command what comes from our terminal, else from this file, else from standard input.
    pub(super) fn typist(&self, file: Option<File>) -> Option<Typist> {
        if !self.is_typed_to() {
            return None;
        }
        let input = match (&self.keyboard, file) {
            (Some(keyboard), _) => Input::Keyboard(Arc::clone(keyboard)),
            (None, Some(file)) => Input::File(file),
            (None, None) => Input::Standard(descriptors::standard_stream(0).ok()?),
        };
        Some(Typist::new(
            input,
            Arc::clone(self.masters.first()?),
            Arc::clone(self.slaves.first()?),
            Arc::clone(&self.end_of_typing),
        ))
    }
}

/// The size of a terminal for which this one was asked.
pub(super) fn size(asked: Option<WindowSize>) -> WindowSize {
    asked.or_else(terminal::own_size).unwrap_or(DEFAULT_WINDOW_SIZE)
}

/// Whether the command's terminal makes CR LF of LF: where what is shown goes to our own terminal, which is raw and
/// does not do it any more.
pub(super) fn writes_crlf(display: &Display) -> bool {
    let is_terminal =
        |number| descriptors::standard_stream(number).is_ok_and(|fd| fd.is_terminal());
    display.pty == Pty::Full && display.format == Format::Text && is_terminal(0) && is_terminal(1)
}

/// Whether this terminal is ours, and others have it now.
fn is_in_background(terminal: BorrowedFd<'_>) -> bool {
    terminal::is_controlling(terminal)
        && nix::unistd::tcgetpgrp(terminal).is_ok_and(|group| group != nix::unistd::getpgrp())
}

fn nothing() -> io::Result<File> {
    File::open("/dev/null")
}

fn failed(source: io::Error) -> Error {
    Error::Spawn { step: "terminal", source }
}
