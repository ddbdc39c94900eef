//! The keeper's end of its socket: one thread that hears all who speak to the run.
//!
//! It waits for nobody: each connection is read and written as far as that goes, and the command's standard input
//! is filled as far as there is room. What a connection may hold here is bounded, and so is their number.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::engine::run::Handle;
use crate::model::error::RunFault;
use crate::model::signal::Signal;
use crate::runs::input::{Input, Refused};
use crate::runs::protocol::{Answer, MOST_LINE_BYTES, MOST_PART_BYTES, Request, line};

/// How many may speak to one run at a time. More are turned away: each takes a descriptor of the keeper's.
const MOST_CONNECTIONS: usize = 800;

/// How many requests are remembered that are to be done once. Fewer, and one that is made again after many others
/// is done twice; more only takes memory.
const MOST_DONE: usize = 1024;

/// Hears all who speak to the run, for as long as the process lives.
pub(super) fn serve(listener: UnixListener, mut handle: Handle) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let pipe = handle.stdin.take();
    if let Some(pipe) = &pipe {
        // It is the keeper's alone: the command has the other end.
        fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_WRONLY | OFlag::O_NONBLOCK))?;
    }
    let mut server = Server {
        handle,
        input: Input::default(),
        has_input: pipe.is_some(),
        pipe,
        connections: Vec::new(),
        done: VecDeque::new(),
    };
    loop {
        server.turn(&listener);
    }
}

struct Server {
    handle: Handle,
    input: Input,
    /// The command's standard input, until it is closed.
    pipe: Option<OwnedFd>,
    /// Whether it was ever open to others.
    has_input: bool,
    connections: Vec<Connection>,
    /// What was done that is to be done once.
    done: VecDeque<String>,
}

/// Somebody who speaks to the run.
struct Connection {
    stream: UnixStream,
    stage: Stage,
    /// What was read and not taken yet.
    unread: Vec<u8>,
    /// What is to be written.
    answer: Vec<u8>,
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said yet.
    New,
    /// The end of the connection is all that is wanted.
    Watching,
    /// Standard input is sent; of the current part so many bytes are missing, which belong at `offset`.
    Sending { missing: usize, offset: Option<u64> },
    /// All was sent; the answer comes once the pipe has everything up to here.
    Waiting { until: u64 },
    /// The answer is all that is left.
    Answered,
}

impl Server {
    /// Waits for whatever comes first, and does what has come.
    fn turn(&mut self, listener: &UnixListener) {
        let mut fds = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let has_room = self.input.room() >= MOST_PART_BYTES;
        for connection in &self.connections {
            fds.push(PollFd::new(connection.stream.as_fd(), connection.wants(has_room)));
        }
        let pipe_at = fds.len();
        if let Some(pipe) = &self.pipe {
            let wants =
                if self.input.next().is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            fds.push(PollFd::new(pipe.as_fd(), wants));
        }
        // Interrupted or not, all are looked at.
        let _ = poll(&mut fds, PollTimeout::NONE);
        let ready: Vec<bool> =
            fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
        drop(fds);
        if ready.get(pipe_at).copied().unwrap_or(false) {
            self.fill_pipe();
        }
        let mut connections = std::mem::take(&mut self.connections);
        for (connection, is_ready) in connections.iter_mut().zip(&ready[1..]) {
            if *is_ready {
                self.hear(connection);
            }
        }
        self.fill_pipe();
        for connection in &mut connections {
            self.answer(connection);
        }
        connections.retain(|connection| !connection.is_over);
        self.connections = connections;
        if ready[0] {
            self.accept(listener);
        }
    }

    fn accept(&mut self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.connections.len() >= MOST_CONNECTIONS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (unread, answer) = (Vec::new(), Vec::new());
            self.connections.push(Connection {
                stream,
                stage: Stage::New,
                unread,
                answer,
                is_over: false,
            });
        }
    }

    /// Fills the command's standard input as far as it takes something now.
    fn fill_pipe(&mut self) {
        while let Some(pipe) = &self.pipe
            && !self.input.next().is_empty()
        {
            match nix::unistd::write(pipe, self.input.next()) {
                Ok(count) => self.input.pass(count),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => self.input.give_up(),
            }
        }
        let is_unread = self.pipe.as_ref().is_some_and(|pipe| {
            let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
            poll(&mut fds, PollTimeout::ZERO).is_ok()
                && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
        });
        if is_unread {
            self.input.give_up();
        }
        if self.input.is_over() {
            self.pipe = None;
        }
    }

    /// Reads what a connection has to say, and does it.
    fn hear(&mut self, connection: &mut Connection) {
        let mut buffer = [0; 16 * 1024];
        loop {
            self.take(connection);
            let has_room = self.input.room() >= MOST_PART_BYTES;
            if connection.is_over || !connection.wants(has_room).contains(PollFlags::POLLIN) {
                return;
            }
            match connection.stream.read(&mut buffer) {
                Ok(0) => {
                    // Whoever has left waits for nothing, and what was said by half is not done.
                    connection.is_over = true;
                    return;
                }
                Ok(count) => connection.unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    connection.is_over = true;
                    return;
                }
            }
        }
    }

    /// Takes what was read as far as it is whole.
    fn take(&mut self, connection: &mut Connection) {
        loop {
            if let Stage::Sending { missing, offset } = connection.stage
                && missing > 0
            {
                let count = missing.min(connection.unread.len()).min(self.input.room());
                if count == 0 {
                    return;
                }
                let taken: Vec<u8> = connection.unread.drain(..count).collect();
                connection.stage = Stage::Sending {
                    missing: missing - count,
                    offset: offset.map(|offset| offset + count as u64),
                };
                if let Err(refused) = self.accept_input(offset, &taken) {
                    connection.conclude(&refused);
                    return;
                }
                continue;
            }
            if matches!(connection.stage, Stage::Watching | Stage::Waiting { .. } | Stage::Answered)
            {
                // Nothing more is to be said.
                connection.unread.clear();
                return;
            }
            let Some(end) = memchr::memchr(b'\n', &connection.unread) else {
                if connection.unread.len() > MOST_LINE_BYTES {
                    connection.is_over = true;
                }
                return;
            };
            let request: Vec<u8> = connection.unread.drain(..=end).collect();
            match serde_json::from_slice(&request) {
                Ok(request) => self.carry_out(connection, request),
                Err(_) => connection.is_over = true,
            }
            if connection.is_over {
                return;
            }
        }
    }

    fn carry_out(&mut self, connection: &mut Connection, request: Request) {
        let is_sending = matches!(connection.stage, Stage::Sending { .. });
        match request {
            Request::Watch if !is_sending => connection.stage = Stage::Watching,
            Request::Signal { signal, once } if !is_sending => {
                connection.conclude(&self.with_signal(&signal, once, Handle::signal));
            }
            Request::Receive { signal, once } if !is_sending => {
                connection.conclude(&self.with_signal(&signal, once, Handle::receive));
            }
            Request::Stop if !is_sending => {
                let answer = if self.handle.has_command_ended() {
                    fault(RunFault::Ended, None)
                } else {
                    self.handle.stop();
                    Answer::Done
                };
                connection.conclude(&answer);
            }
            Request::Send if !is_sending => {
                if self.has_input {
                    connection.stage = Stage::Sending { missing: 0, offset: None };
                } else {
                    connection.conclude(&fault(RunFault::StdinClosed, None));
                }
            }
            Request::Part { bytes, offset } if is_sending && bytes <= MOST_PART_BYTES => {
                connection.stage = Stage::Sending { missing: bytes, offset };
            }
            Request::End { eof } if is_sending => {
                if eof {
                    self.input.complete();
                }
                connection.stage = Stage::Waiting { until: self.input.accepted() };
            }
            _ => connection.is_over = true,
        }
    }

    /// Does something with a signal, by its name, unless that was done.
    fn with_signal(
        &mut self,
        name: &str,
        once: Option<String>,
        what: fn(&Handle, Signal),
    ) -> Answer {
        if let Some(once) = once {
            if self.done.contains(&once) {
                return Answer::Done;
            }
            self.done.push_back(once);
            let excess = self.done.len().saturating_sub(MOST_DONE);
            self.done.drain(..excess);
        }
        match Signal::from_str(name) {
            _ if self.handle.has_command_ended() => fault(RunFault::Ended, None),
            Ok(signal) => {
                what(&self.handle, signal);
                Answer::Done
            }
            Err(message) => Answer::Failed { code: "usage".to_owned(), message, offset: None },
        }
    }

    fn accept_input(&mut self, offset: Option<u64>, bytes: &[u8]) -> Result<(), Answer> {
        self.input.accept(offset, bytes).map_err(|refused| match refused {
            Refused::Gap(offset) => fault(RunFault::OffsetGap, Some(offset)),
            Refused::Closed => fault(RunFault::StdinClosed, None),
        })
    }

    /// Gives an answer that has become due, and writes it as far as it goes.
    fn answer(&mut self, connection: &mut Connection) {
        // Bytes that wait for room are taken once there is some.
        self.take(connection);
        if let Stage::Waiting { until } = connection.stage {
            if self.input.passed() >= until {
                connection.conclude(&Answer::Stdin { offset: self.input.accepted() });
            } else if self.input.is_unread() {
                connection.conclude(&fault(RunFault::StdinClosed, None));
            }
        }
        while !connection.answer.is_empty() && !connection.is_over {
            match connection.stream.write(&connection.answer) {
                Ok(count) => {
                    connection.answer.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => connection.is_over = true,
            }
        }
        if connection.stage == Stage::Answered {
            // The connection is kept until the other side ends it: closed with something unread in it, it would
            // take the answer with it.
            let _ = connection.stream.shutdown(Shutdown::Write);
        }
    }
}

impl Connection {
    /// What to wait for.
    fn wants(&self, has_room: bool) -> PollFlags {
        let mut wants = PollFlags::empty();
        let reads = match self.stage {
            Stage::New | Stage::Watching | Stage::Waiting { .. } | Stage::Answered => true,
            Stage::Sending { .. } => has_room && self.unread.len() < MOST_PART_BYTES,
        };
        if reads {
            wants |= PollFlags::POLLIN;
        }
        if !self.answer.is_empty() {
            wants |= PollFlags::POLLOUT;
        }
        wants
    }

    fn conclude(&mut self, answer: &Answer) {
        self.answer = line(answer);
        self.stage = Stage::Answered;
    }
}

fn fault(fault: RunFault, offset: Option<u64>) -> Answer {
    Answer::Failed {
        code: fault.code().as_str().to_owned(),
        message: fault.text().to_owned(),
        offset,
    }
}
