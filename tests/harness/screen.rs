//! A terminal that the test holds the other end of, and what is seen on it.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};

use super::LIMIT;

/// A terminal, 80 columns wide unless it is made otherwise.
pub(crate) struct Screen {
    master: OwnedFd,
    /// Until all that are to have it have it.
    slave: Option<OwnedFd>,
    got: Vec<u8>,
    seen: usize,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self::of_width(80)
    }

    pub(crate) fn of_width(columns: u16) -> Self {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } =
            openpty(Some(&size), None).expect("a terminal can be made");
        Self { master, slave: Some(slave), got: Vec::new(), seen: 0 }
    }

    /// The terminal, for one of the standard streams of what is started.
    pub(crate) fn terminal(&self) -> Stdio {
        let slave = self.slave.as_ref().expect("nothing is read yet");
        slave.try_clone().expect("a descriptor is free").into()
    }

    /// Types this on it.
    pub(crate) fn types(&self, text: &str) {
        let typed = nix::unistd::write(&self.master, text.as_bytes());
        assert_eq!(typed, Ok(text.len()), "a terminal takes a short line");
    }

    /// Waits until this was written to it, behind what was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let text = text.as_bytes();
        loop {
            let new = &self.got[self.seen..];
            if let Some(at) = new.windows(text.len()).position(|part| part == text) {
                self.seen += at + text.len();
                return;
            }
            assert!(self.read(), "it ended after {}", self.got.escape_ascii());
        }
    }

    /// All that was written to it, once nobody has it open any more.
    pub(crate) fn read_out(&mut self) -> String {
        while self.read() {}
        String::from_utf8_lossy(&self.got).into_owned()
    }

    /// The lines that can be seen on it then, without colours and spaces at their ends.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        lines(&self.read_out())
    }

    /// Reads what comes next. Returns whether there was something.
    fn read(&mut self) -> bool {
        self.slave = None;
        let end = Instant::now() + LIMIT;
        loop {
            let mut wait = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            poll(&mut wait, PollTimeout::from(50_u8)).expect("a terminal can be waited for");
            assert!(Instant::now() < end, "hung: {}", self.got.escape_ascii());
            if wait[0].any() == Some(false) {
                continue;
            }
            let mut buffer = [0; 4096];
            match nix::unistd::read(&self.master, &mut buffer) {
                Ok(length) => {
                    self.got.extend_from_slice(&buffer[..length]);
                    return length > 0;
                }
                Err(Errno::EIO) => return false,
                Err(error) => panic!("a terminal cannot be read: {error}"),
            }
        }
    }
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
