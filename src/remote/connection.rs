//! One connection: an ssh process, the lines that come through it, and how it ended.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::model::error::Error;
use crate::remote::host::Host;
use crate::remote::wire::MAGIC;

/// How much is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How much a login shell may print before the first line; more is no login shell.
const MOST_NOISE_BYTES: usize = 1 << 20;

/// How much of what ssh says is kept: its last words are what is told.
const MOST_SAID_BYTES: usize = 8 * 1024;

/// A connection to the other end.
#[derive(Debug)]
pub(super) struct Connection {
    ssh: Child,
    lines: ChildStdout,
    /// What was read; everything before `at` was taken.
    read: Vec<u8>,
    at: usize,
    /// Whether the first line was seen.
    is_open: bool,
    noise_bytes: usize,
    /// What ssh said on standard error.
    said: Arc<Mutex<Vec<u8>>>,
}

/// What came of waiting for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// Something was read.
    More,
    /// The connection ended.
    Ended,
    /// Nothing came for as long.
    Silent,
    /// Whoever reads what is shown has gone.
    ConsumerGone,
}

impl Connection {
    /// Connects. The other end may be spoken to at once.
    pub(super) fn open(host: &Host) -> Result<(Self, ChildStdin), Error> {
        let mut ssh = host.connect()?;
        let missing = || Error::Internal("a stream of ssh is missing");
        let stdin = ssh.stdin.take().ok_or_else(missing)?;
        let lines = ssh.stdout.take().ok_or_else(missing)?;
        let mut stderr = ssh.stderr.take().ok_or_else(missing)?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        let listener = thread::Builder::new().name("ssh's words".to_owned()).spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
                let excess = kept.len().saturating_sub(MOST_SAID_BYTES);
                kept.drain(..excess);
            }
        });
        listener.map_err(|source| Error::Spawn { step: "thread", source })?;
        let connection =
            Self { ssh, lines, read: Vec::new(), at: 0, is_open: false, noise_bytes: 0, said };
        Ok((connection, stdin))
    }

    /// Whether the other end was heard of.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The next whole line, with its end, as far as one has come.
    pub(super) fn line(&mut self) -> Option<&[u8]> {
        loop {
            let rest = &self.read[self.at..];
            let end = self.at + memchr::memchr(b'\n', rest)? + 1;
            let begin = std::mem::replace(&mut self.at, end);
            if self.is_open {
                return Some(&self.read[begin..end]);
            }
            self.is_open = self.read[begin..end].trim_ascii_end() == MAGIC.as_bytes();
            self.noise_bytes += end - begin;
        }
    }

    /// Waits for more, at most so long.
    pub(super) fn wait(
        &mut self,
        longest: Option<Duration>,
        consumers: &[BorrowedFd<'_>],
    ) -> Waited {
        let mut fds = vec![PollFd::new(self.lines.as_fd(), PollFlags::POLLIN)];
        fds.extend(consumers.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())));
        let found = ppoll(&mut fds, longest.map(TimeSpec::from_duration), None);
        let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let is_consumer_gone = fds[1..].iter().any(is_set);
        let has_more = is_set(&fds[0]);
        drop(fds);
        match found {
            Ok(0) => Waited::Silent,
            _ if is_consumer_gone => Waited::ConsumerGone,
            Ok(_) if has_more => self.fill(),
            _ => Waited::More,
        }
    }

    fn fill(&mut self) -> Waited {
        self.read.drain(..self.at);
        self.at = 0;
        let have = self.read.len();
        if !self.is_open && self.noise_bytes + have > MOST_NOISE_BYTES {
            return Waited::Ended;
        }
        self.read.resize(have + READ_BYTES, 0);
        let count = self.lines.read(&mut self.read[have..]);
        self.read.truncate(have + count.as_ref().copied().unwrap_or(0));
        match count {
            Ok(0) => Waited::Ended,
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Waited::Ended,
            _ => Waited::More,
        }
    }

    /// Ends it, and returns ssh's exit status, where it ended by itself, and what it said.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        // One that has ended its output is about to end; one that was silent may never.
        let status = match self.ssh.try_wait() {
            Ok(Some(status)) => status.code(),
            _ => self.wait_a_little(),
        };
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        (status, String::from_utf8_lossy(&said).into_owned())
    }

    fn wait_a_little(&mut self) -> Option<i32> {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.ssh.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        // Whether it was just ending then is no matter any more.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
        None
    }
}
