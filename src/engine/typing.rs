//! The typist: types what comes from our standard input into the command's terminal.
//!
//! It is a thread of its own, since typing has to wait for a command that reads nothing. Nobody waits for it,
//! and it reads nothing more once the command has ended: what is typed then is for whoever comes next.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::engine::channel::{Message, ToPump};
use crate::model::error::{Error, reason};
use crate::sys::pty::{self, LONGEST_TYPED_LINE, Slave};
use crate::sys::terminal::{self, Keyboard};

/// Bytes that are typed at once: fewer than a terminal takes without waiting when it has room at all.
const CHUNK_BYTES: usize = 1024;

/// How often to look whether our terminal is ours to read from again. Too small costs processor time all the
/// while that the run is in the background, too big is how late the first key is taken when it is brought back.
const FOREGROUND_CHECK: Duration = Duration::from_millis(200);

/// How often to look whether the command has read everything, at first and at the most. Too small costs processor
/// time for as long as it runs, too big is how long it waits for the end of its input.
const FIRST_END_CHECK: Duration = Duration::from_millis(1);
const LAST_END_CHECK: Duration = Duration::from_millis(500);

/// How long a line that is too long waits for a command that takes it after all, and how often that is looked at.
/// Too small refuses what would go well on a busy machine, too big is how late the refusal comes.
const MODE_WAIT: Duration = Duration::from_millis(500);
const MODE_CHECK: Duration = Duration::from_millis(10);

/// Where what is typed comes from.
#[derive(Debug)]
pub(super) enum Input {
    /// The keys of our terminal.
    Keyboard(Arc<Keyboard>),
    /// Our standard input, which is no terminal.
    Standard(BorrowedFd<'static>),
    /// A file.
    File(File),
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Keyboard(keyboard) => (**keyboard).as_fd(),
            Self::Standard(stdin) => stdin.as_fd(),
            Self::File(file) => file.as_fd(),
        }
    }
}

/// Types to one command.
#[derive(Debug)]
pub(super) struct Typist {
    input: Input,
    master: Arc<OwnedFd>,
    slave: Arc<Slave>,
    /// Readable once nobody is there any more to type to.
    end: Arc<EventFd>,
    /// Bytes of the line that is being typed.
    line_bytes: usize,
    lines: u64,
}

/// Why typing ends.
#[derive(Debug)]
enum Done {
    /// Nobody is there to type to, or to type.
    Over,
    /// What comes next cannot be typed.
    Refused(Error),
}

impl Typist {
    pub(super) fn new(
        input: Input,
        master: Arc<OwnedFd>,
        slave: Arc<Slave>,
        end: Arc<EventFd>,
    ) -> Self {
        Self { input, master, slave, end, line_bytes: 0, lines: 0 }
    }

    /// Types all there is, and then the end of the input.
    pub(super) fn run(mut self, pump: &ToPump) {
        match self.type_all() {
            Ok(()) if matches!(self.input, Input::Keyboard(_)) => {}
            Ok(()) => self.type_end(),
            Err(Done::Over) => {}
            Err(Done::Refused(error)) => pump.send(Message::Broken(error)),
        }
    }

    fn type_all(&mut self) -> Result<(), Done> {
        let mut buffer = [0; CHUNK_BYTES];
        loop {
            self.wait_for_input()?;
            match nix::unistd::read(&self.input, &mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.type_bytes(&buffer[..count])?,
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                // Our terminal is somebody else's by now, which is seen next time, or gone.
                Err(Errno::EIO) if matches!(self.input, Input::Keyboard(_)) => {
                    self.pause(FOREGROUND_CHECK)?;
                }
                Err(errno) => return Err(refusal(reason(&errno.into()))),
            }
        }
    }

    /// Waits until there is something to read, and until it is ours to read.
    fn wait_for_input(&self) -> Result<(), Done> {
        loop {
            if let Input::Keyboard(keyboard) = &self.input {
                let mut was_away = false;
                while !keyboard.take() {
                    was_away = true;
                    self.pause(FOREGROUND_CHECK)?;
                }
                if was_away {
                    // The window's changes are told to whoever is in the foreground.
                    terminal::look_at_window_again();
                }
            }
            self.wait_for(self.input.as_fd(), PollFlags::POLLIN)?;
            match &self.input {
                // While it was waited for the terminal may have become somebody else's.
                Input::Keyboard(keyboard) if !keyboard.take() => {}
                _ => return Ok(()),
            }
        }
    }

    fn type_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Done> {
        while !bytes.is_empty() {
            let count = match self.input {
                Input::Keyboard(_) => bytes.len(),
                Input::Standard(_) | Input::File(_) => self.typeable(bytes),
            };
            self.write(&bytes[..count])?;
            bytes = &bytes[count..];
            if !bytes.is_empty() {
                self.wait_for_key_by_key()?;
            }
        }
        Ok(())
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), Done> {
        while !bytes.is_empty() {
            self.wait_for(self.master.as_fd(), PollFlags::POLLOUT)?;
            match nix::unistd::write(&*self.master, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                // Nobody has the terminal open any more.
                Err(_) => return Err(Done::Over),
            }
        }
        Ok(())
    }

    /// How many of the bytes can be typed: all, or those before what the terminal would lose in silence.
    fn typeable(&mut self, bytes: &[u8]) -> usize {
        let mut modes = None;
        for (index, &byte) in bytes.iter().enumerate() {
            let is_line_end = match byte {
                b'\n' => true,
                b'\r' => self.modes(&mut modes).is_some_and(|modes| modes.is_cr_line_end),
                _ => false,
            };
            if is_line_end {
                self.line_bytes = 0;
                self.lines += 1;
                continue;
            }
            if self.line_bytes >= LONGEST_TYPED_LINE
                && self.modes(&mut modes).is_some_and(|modes| modes.is_canonical)
            {
                return index;
            }
            self.line_bytes += 1;
        }
        bytes.len()
    }

    /// The line is too long to be typed to somebody who reads line by line. A command that has just been started
    /// may yet turn to reading key by key. What was typed of the line has not reached it, or is not lost then.
    fn wait_for_key_by_key(&self) -> Result<(), Done> {
        let begin = Instant::now();
        while begin.elapsed() < MODE_WAIT {
            let modes = pty::input_modes(self.master.as_fd());
            if modes.is_ok_and(|modes| !modes.is_canonical) {
                return Ok(());
            }
            self.pause(MODE_CHECK)?;
        }
        Err(refusal(format!(
            "line {} is longer than the {LONGEST_TYPED_LINE} bytes that a terminal takes",
            self.lines + 1
        )))
    }

    /// The modes of the command's terminal, asked for once.
    fn modes(&self, known: &mut Option<pty::InputModes>) -> Option<pty::InputModes> {
        if known.is_none() {
            *known = pty::input_modes(self.master.as_fd()).ok();
        }
        *known
    }

    /// Has the command find the end of its input whenever it has read all that was typed.
    ///
    /// On a terminal the end is a key, which is gone once it was read, and which means nothing, or something
    /// else, where keys are read one by one. So it is typed when all else was read, again each time it was, and
    /// to whoever reads key by key once.
    fn type_end(&self) {
        let mut told = None;
        let mut check = FIRST_END_CHECK;
        loop {
            match self.slave.has_unread_input() {
                None => return,
                Some(true) => {}
                Some(false) => {
                    let Ok(modes) = pty::input_modes(self.master.as_fd()) else { return };
                    let is_told = !modes.is_canonical && told == Some(modes.foreground);
                    if let (Some(key), false) = (modes.end_key, is_told) {
                        told = (!modes.is_canonical).then_some(modes.foreground);
                        if nix::unistd::write(&*self.master, &[key]).is_err() {
                            return;
                        }
                        check = FIRST_END_CHECK;
                    }
                }
            }
            if self.pause(check).is_err() {
                return;
            }
            check = (2 * check).min(LAST_END_CHECK);
        }
    }

    /// Waits for so long, unless typing is over.
    fn pause(&self, time: Duration) -> Result<(), Done> {
        let mut fds = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        // Interrupted, it has waited for less, which is no matter.
        match poll(&mut fds, time) {
            Ok(count) if count > 0 => Err(Done::Over),
            _ => Ok(()),
        }
    }

    /// Waits until a descriptor is ready, unless typing is over.
    fn wait_for(&self, fd: BorrowedFd<'_>, events: PollFlags) -> Result<(), Done> {
        loop {
            let mut fds =
                [PollFd::new(self.end.as_fd(), PollFlags::POLLIN), PollFd::new(fd, events)];
            if poll(&mut fds, PollTimeout::NONE).is_ok() {
                if fds[0].any() == Some(true) {
                    return Err(Done::Over);
                }
                return Ok(());
            }
        }
    }
}

fn refusal(why: String) -> Done {
    Done::Refused(Error::File { option: "--pty", path: "standard input".into(), why })
}
