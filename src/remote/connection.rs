//! One connection: an ssh process, the lines that come through it, and how it ended.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::model::error::Error;
use crate::remote::host::Host;
use crate::remote::wire::{GREETING, MAGIC, most_line_bytes};

/// How much is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How much a login shell may print before the first line; more is no login shell.
const MOST_NOISE_BYTES: usize = 1 << 20;

/// How much of what ssh says is kept: its last words are what is told.
const MOST_SAID_BYTES: usize = 8 * 1024;

/// How long ssh may take to end once its output has. Shorter, and why it failed is not heard over a slow network;
/// longer, and one that never ends is waited for.
const LONGEST_END: Duration = Duration::from_secs(5);

/// How long it may take once all was done, and nothing more is wanted of it.
const LONGEST_LEAVE: Duration = Duration::from_secs(1);

/// How often to look whether it has ended: nothing tells of the end of one process without taking the signals of
/// all.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// An ssh process that several may end.
pub(super) type Ssh = Arc<Mutex<Child>>;

/// Ends an ssh process at once. One that was waited for already is left alone.
pub(super) fn kill(ssh: &Ssh) {
    // A thread that panicked has told so by itself; what cannot be killed has ended.
    let _ = ssh.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

/// A connection to the other end.
#[derive(Debug)]
pub(super) struct Connection {
    ssh: Ssh,
    lines: ChildStdout,
    /// What was read; everything before `at` was taken, and no line ends between there and `searched`.
    read: Vec<u8>,
    at: usize,
    searched: usize,
    stage: Stage,
    noise_bytes: usize,
    /// The last line before the other end's first.
    noise: Vec<u8>,
    /// Where ssh says what fails, until its end.
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
    most_line_bytes: u64,
}

/// How far a connection has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// What comes is what a login shell prints.
    Noise,
    /// The other end was heard of.
    Open,
    /// There is another end, of another version.
    Foreign(String),
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
    /// Another thread wants something to be looked at.
    Woken,
}

/// How a connection ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Whether the other end was heard of.
    pub(super) was_open: bool,
    /// ssh's exit status, where it ended by itself.
    pub(super) status: Option<i32>,
    /// What it said on standard error.
    pub(super) said: String,
    /// The last line that a login shell printed.
    pub(super) noise: String,
    /// Why there is no use in trying again, where the other end is none to speak to.
    pub(super) foreign: Option<String>,
}

impl Connection {
    /// Connects. The other end may be spoken to once it was heard of.
    pub(super) fn open(host: &Host) -> Result<(Self, ChildStdin), Error> {
        let mut ssh = host.connect()?;
        let missing = || Error::Internal("a stream of ssh is missing");
        let stdin = ssh.stdin.take().ok_or_else(missing)?;
        let lines = ssh.stdout.take().ok_or_else(missing)?;
        let stderr = ssh.stderr.take().ok_or_else(missing)?;
        // This end of the pipe is ours alone.
        fcntl(&stderr, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|errno| Error::Spawn { step: "fcntl", source: errno.into() })?;
        let connection = Self {
            ssh: Arc::new(Mutex::new(ssh)),
            lines,
            read: Vec::new(),
            at: 0,
            searched: 0,
            stage: Stage::Noise,
            noise_bytes: 0,
            noise: Vec::new(),
            stderr: Some(stderr),
            said: Vec::new(),
            most_line_bytes: most_line_bytes(),
        };
        Ok((connection, stdin))
    }

    /// The ssh process, for who has to end it from elsewhere.
    pub(super) fn ssh(&self) -> Ssh {
        Arc::clone(&self.ssh)
    }

    /// Whether the other end was heard of.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// The next whole line, with its end, as far as one has come.
    pub(super) fn line(&mut self) -> Option<&[u8]> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.read[self.searched..]) else {
                self.searched = self.read.len();
                return None;
            };
            let end = self.searched + found + 1;
            self.searched = end;
            let begin = std::mem::replace(&mut self.at, end);
            if self.stage == Stage::Open {
                return Some(&self.read[begin..end]);
            }
            self.noise_bytes += end - begin;
            let line = self.read[begin..end].trim_ascii_end();
            if line == MAGIC.as_bytes() {
                self.stage = Stage::Open;
            } else if let Some(version) = line.strip_prefix(GREETING.as_bytes()) {
                self.stage = Stage::Foreign(String::from_utf8_lossy(version).into_owned());
            } else if !line.is_empty() {
                self.noise = line[..line.len().min(MOST_SAID_BYTES)].to_vec();
            }
        }
    }

    /// Waits for more, at most so long: for what comes from there, for the end of a consumer, and for `wake`.
    pub(super) fn wait(
        &mut self,
        longest: Option<Duration>,
        consumers: &[BorrowedFd<'_>],
        wake: Option<BorrowedFd<'_>>,
    ) -> Waited {
        let deadline = longest.and_then(|longest| Instant::now().checked_add(longest));
        loop {
            if !self.is_plain() {
                return Waited::Ended;
            }
            let mut fds = vec![PollFd::new(self.lines.as_fd(), PollFlags::POLLIN)];
            fds.extend(wake.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let consumers_at = fds.len();
            fds.extend(consumers.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())));
            let stderr_at = fds.len();
            fds.extend(self.stderr.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
            let left = deadline.map(|deadline| {
                TimeSpec::from_duration(deadline.saturating_duration_since(Instant::now()))
            });
            let found = ppoll(&mut fds, left, None);
            let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
            let has_more = is_set(&fds[0]);
            let is_woken = wake.is_some() && is_set(&fds[1]);
            let is_consumer_gone = fds[consumers_at..stderr_at].iter().any(is_set);
            let has_words = fds[stderr_at..].iter().any(is_set);
            drop(fds);
            if has_words {
                self.listen();
            }
            match found {
                Ok(0) => return Waited::Silent,
                // Interrupted: whatever it was about is looked at.
                Err(_) => return Waited::Woken,
                Ok(_) if is_consumer_gone => return Waited::ConsumerGone,
                Ok(_) if is_woken => return Waited::Woken,
                Ok(_) if has_more => return self.fill(),
                // What ssh says is no sign of life from there.
                Ok(_) => {}
            }
        }
    }

    fn is_too_noisy(&self) -> bool {
        let unread = self.read.len() - self.at;
        self.stage == Stage::Noise && self.noise_bytes + unread > MOST_NOISE_BYTES
    }

    /// Whether more has come of one line than any has. Whole ones are taken before more is waited for.
    fn is_endless(&self) -> bool {
        (self.read.len() - self.at) as u64 > self.most_line_bytes
    }

    fn fill(&mut self) -> Waited {
        self.read.drain(..self.at);
        self.searched -= self.at;
        self.at = 0;
        let have = self.read.len();
        self.read.resize(have + READ_BYTES, 0);
        let count = self.lines.read(&mut self.read[have..]);
        self.read.truncate(have + count.as_ref().copied().unwrap_or(0));
        match count {
            Ok(0) => Waited::Ended,
            Err(error) if error.kind() != ErrorKind::Interrupted => Waited::Ended,
            _ => Waited::More,
        }
    }

    /// Takes what ssh has said so far.
    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(stderr) = &mut self.stderr {
            match stderr.read(&mut buffer) {
                Ok(count @ 1..) => {
                    self.said.extend_from_slice(&buffer[..count]);
                    let excess = self.said.len().saturating_sub(MOST_SAID_BYTES);
                    self.said.drain(..excess);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => self.stderr = None,
            }
        }
    }

    /// Ends it, `how` the last wait was answered.
    pub(super) fn end(mut self, how: Waited) -> Ended {
        // One whose output has ended is about to end itself; one that was silent may never.
        let longest =
            if how == Waited::Ended && self.is_plain() { LONGEST_END } else { Duration::ZERO };
        let status = match self.ends_within(longest) {
            Some(status) => status.code(),
            None => {
                let mut ssh = self.ssh.lock().unwrap_or_else(PoisonError::into_inner);
                // Whether it was just ending is no matter any more.
                let _ = ssh.kill();
                let _ = ssh.wait();
                None
            }
        };
        // All that an ssh said which has ended is in the pipe.
        self.listen();
        let foreign = match &self.stage {
            Stage::Foreign(version) => {
                Some(format!("the runcast there speaks another version,{version}"))
            }
            _ if self.is_too_noisy() => Some("the login shell there prints without end".to_owned()),
            _ if self.is_endless() => Some("a line that comes from there has no end".to_owned()),
            _ => None,
        };
        Ended {
            was_open: self.is_open(),
            status,
            said: String::from_utf8_lossy(&self.said).into_owned(),
            noise: String::from_utf8_lossy(&self.noise).into_owned(),
            foreign,
        }
    }

    fn is_plain(&self) -> bool {
        !matches!(self.stage, Stage::Foreign(_)) && !self.is_too_noisy() && !self.is_endless()
    }

    /// Lets ssh end, once it was told that nothing follows. One that goes on has its reasons: the connections of
    /// others may go through it.
    pub(super) fn leave(mut self) {
        // Whether it did is nothing to us any more.
        let _ = self.ends_within(LONGEST_LEAVE);
    }

    fn ends_within(&mut self, longest: Duration) -> Option<std::process::ExitStatus> {
        let begun = Instant::now();
        loop {
            let ended = self.ssh.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            // Where it cannot be waited for it has ended, and nobody knows how.
            let ended = ended.unwrap_or_default();
            if ended.is_some() || begun.elapsed() >= longest {
                return ended;
            }
            self.listen();
            thread::sleep(LOOK_AGAIN);
        }
    }
}
