//! A terminal that the test sits at: it sees what is shown, presses keys, changes the window, closes it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::ttyname;

use super::LIMIT;

/// A terminal that the test sits at.
pub(crate) struct Terminal {
    master: OwnedFd,
    /// Kept open, so that the terminal is there before and after those who use it.
    slave: OwnedFd,
    seen: Vec<u8>,
    shown: usize,
}

impl Terminal {
    /// One of this size, in columns and rows.
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let made = openpty(&size, None).expect("a terminal can be had");
        for side in [&made.master, &made.slave] {
            nix::fcntl::fcntl(side, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
                .expect("it is open");
        }
        Self { master: made.master, slave: made.slave, seen: Vec::new(), shown: 0 }
    }

    /// Where it is in the file system.
    pub(crate) fn path(&self) -> String {
        ttyname(&self.slave).expect("it is a terminal").display().to_string()
    }

    /// What the puppet does to lead a session on it.
    pub(super) fn steps(&self) -> String {
        format!("setsid open:{}:0 dup:0:1 dup:0:2", self.path())
    }

    /// Presses keys.
    pub(crate) fn press(&self, keys: &str) {
        let written = nix::unistd::write(&self.master, keys.as_bytes());
        assert_eq!(written, Ok(keys.len()), "a few keys fit");
    }

    /// What is shown up to and with this text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let limit = Instant::now() + LIMIT;
        loop {
            let rest = &self.seen[self.shown..];
            let found = rest.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = found {
                let part = String::from_utf8_lossy(&rest[..at + text.len()]).into_owned();
                self.shown += at + text.len();
                return part;
            }
            assert!(Instant::now() < limit, "{text:?} is not shown: {}", rest.escape_ascii());
            self.look();
        }
    }

    /// What is shown after what was looked at, now that all who could show something have ended.
    pub(crate) fn rest(&mut self) -> String {
        while self.look() {}
        let rest = String::from_utf8_lossy(&self.seen[self.shown..]).into_owned();
        self.shown = self.seen.len();
        rest
    }

    /// Reads what is there, or waits a moment for it. Returns whether there was something.
    fn look(&mut self) -> bool {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(50_u8)) != Ok(1) {
            return false;
        }
        let mut buffer = [0; 4096];
        match nix::unistd::read(&self.master, &mut buffer) {
            Ok(count) => self.seen.extend_from_slice(&buffer[..count]),
            Err(error) => panic!("the terminal cannot be looked at: {error}"),
        }
        true
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        set_size(&self.master, &size).expect("a window can be resized");
    }

    /// Its modes.
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.slave).expect("it is a terminal")
    }

    /// Closes the window.
    pub(crate) fn close(self) {
        drop(self.master);
    }
}

#[allow(unsafe_code, reason = "there is no safe call for it")]
fn set_size(master: &OwnedFd, size: &Winsize) -> nix::Result<()> {
    // SAFETY: reads one winsize, a live one.
    let set =
        unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, std::ptr::from_ref(size)) };
    Errno::result(set).map(drop)
}
