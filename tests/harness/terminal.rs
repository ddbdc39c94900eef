//! A terminal that the test sits at: it sees what is shown, presses keys, changes the window, closes it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};

use super::LIMIT;

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";
pub(crate) const CTRL_BACKSLASH: &str = "\x1c";

/// A terminal that the test sits at.
pub(crate) struct Terminal {
    master: PtyMaster,
    /// While this is held, what is shown has no end, whoever comes and goes. It is let go when all is to be read.
    slave: Option<File>,
    path: String,
    got: Vec<u8>,
    seen: usize,
}

impl Terminal {
    /// One of the usual size.
    pub(crate) fn new() -> Self {
        Self::of_size(80, 24)
    }

    /// One of this size, in columns and rows.
    pub(crate) fn of_size(columns: u16, rows: u16) -> Self {
        // Not by openpty: what another test starts meanwhile would have it too, and it would not come to its end.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).expect("a terminal can be had");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let path = ptsname_r(&master).expect("it has a name");
        let slave = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path);
        let slave = Some(slave.expect("it is unlocked"));
        let terminal = Self { master, slave, path, got: Vec::new(), seen: 0 };
        terminal.resize(columns, rows);
        terminal
    }

    /// Where it is in the file system.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// What the puppet does to lead a session on it.
    pub(super) fn steps(&self) -> String {
        format!("setsid open:{}:0 dup:0:1 dup:0:2", self.path)
    }

    /// It as one of the standard streams of what is started, before anything is read to its end.
    pub(crate) fn stream(&self) -> Stdio {
        let slave = self.slave.as_ref().expect("it was not read to its end");
        slave.try_clone().expect("a descriptor is free").into()
    }

    /// Presses keys.
    pub(crate) fn press(&self, keys: &str) {
        let written = nix::unistd::write(&self.master, keys.as_bytes());
        assert_eq!(written, Ok(keys.len()), "a few keys fit");
    }

    /// What is shown up to and with this text, after what was waited for before.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let limit = Instant::now() + LIMIT;
        loop {
            let new = &self.got[self.seen..];
            if let Some(at) = new.windows(text.len()).position(|part| part == text.as_bytes()) {
                let part = &new[..at + text.len()];
                self.seen += part.len();
                return String::from_utf8_lossy(part).into_owned();
            }
            let what = format!("{text:?}");
            assert!(self.read(&what, limit), "it ended before {what}: {}", self.got.escape_ascii());
        }
    }

    /// What is shown after what was waited for, once nobody has it open any more.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> String {
        self.read_out();
        let rest = String::from_utf8_lossy(&self.got[self.seen..]).into_owned();
        self.seen = self.got.len();
        rest
    }

    /// All that was ever shown, once nobody has it open any more.
    #[track_caller]
    pub(crate) fn all(&mut self) -> String {
        self.read_out();
        String::from_utf8_lossy(&self.got).into_owned()
    }

    /// The lines that can be seen on it then, without colours and spaces at their ends.
    #[track_caller]
    pub(crate) fn lines(&mut self) -> Vec<String> {
        lines(&self.all())
    }

    #[track_caller]
    fn read_out(&mut self) {
        self.slave = None;
        let limit = Instant::now() + LIMIT;
        while self.read("its end", limit) {}
    }

    /// Reads what comes next, where something is waited for. Returns whether anything came before its end.
    #[track_caller]
    fn read(&mut self, what: &str, limit: Instant) -> bool {
        loop {
            assert!(Instant::now() < limit, "{what} did not come: {}", self.got.escape_ascii());
            let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(50_u8)).expect("a terminal can be waited for") == 0
            {
                continue;
            }
            let mut buffer = [0; 4096];
            match nix::unistd::read(&self.master, &mut buffer) {
                Ok(length) => self.got.extend_from_slice(&buffer[..length]),
                Err(Errno::EIO) => return false,
                Err(error) => panic!("a terminal cannot be read: {error}"),
            }
            return true;
        }
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        set_size(&self.master, &size).expect("a window can be resized");
    }

    /// Its modes.
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.master).expect("it is a terminal")
    }

    /// Closes the window.
    pub(crate) fn close(self) {
        drop(self);
    }
}

#[allow(unsafe_code, reason = "there is no safe call for it")]
fn set_size(master: &PtyMaster, size: &Winsize) -> nix::Result<()> {
    // SAFETY: reads one winsize, a live one.
    let set =
        unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, std::ptr::from_ref(size)) };
    Errno::result(set).map(drop)
}

/// What a terminal shows that was written this: it knows line ends, erasing a line, and colours.
fn lines(written: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let mut column = 0;
    let mut rest = written.chars();
    while let Some(char) = rest.next() {
        let line = lines.last_mut().expect("there is one from the beginning");
        match char {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            '\x1b' => {
                let mut sequence = String::new();
                while !sequence.ends_with(|last: char| last.is_ascii_alphabetic()) {
                    sequence.push(rest.next().expect("an escape sequence has an end"));
                }
                match sequence.as_str() {
                    "[2K" => line.clear(),
                    _ => assert!(sequence.ends_with('m'), "{sequence:?}"),
                }
            }
            char => {
                line.resize(line.len().max(column + 1), ' ');
                line[column] = char;
                column += 1;
            }
        }
    }
    let text = |line: Vec<char>| line.into_iter().collect::<String>().trim_end().to_owned();
    lines.into_iter().map(text).collect()
}
