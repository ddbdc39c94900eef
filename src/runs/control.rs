//! The keeper's end of its socket: one thread that hears all who speak to the run.
//!
//! It waits for nobody: each connection is read and written as far as that goes, and the command's standard input
//! is filled as far as there is room. What a connection may hold here is bounded, and so is their number.

mod connection;
#[cfg(test)]
mod properties;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit};

use crate::engine::run::Handle;
use crate::model::error::RunFault;
use crate::model::signal::Signal;
use crate::runs::input::{Input, Refused};
use crate::runs::protocol::{Answer, MOST_LINE_BYTES, MOST_PART_BYTES, Request};
use connection::{Connection, Stage};

/// How many may be connected to one run at a time: each takes a descriptor of the keeper's. For one more, another
/// has to go.
const MOST_CONNECTIONS: usize = 800;

/// Which part of the descriptors that the keeper may have is for connections. The rest is for the run itself, which
/// could not even write its result without one.
const CONNECTIONS_PART: u64 = 2;

/// How often one connection is read before the others have their turn. Fewer, and a large input costs more
/// rounds; more, and who sends without end makes the others wait for longer.
const READS_A_TURN: usize = 16;

/// How long to wait where nobody can be taken in or let go.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

/// How many are taken in before the others have their turn.
const ACCEPTS_A_TURN: usize = 64;

/// What one read takes at most.
const READ_BYTES: usize = 16 * 1024;

/// How many requests are remembered that are to be done once. Fewer, and one that is made again after many others
/// is done twice; more only takes memory.
const MOST_DONE: usize = 1024;

/// Who hears all who speak to the run through this listener.
///
/// # Errors
///
/// Where the listener or the command's standard input cannot be made one that never blocks.
pub(super) fn server(listener: &UnixListener, mut handle: Handle) -> io::Result<Server> {
    listener.set_nonblocking(true)?;
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let most = usize::try_from(soft / CONNECTIONS_PART).unwrap_or(MOST_CONNECTIONS);
    let pipe = handle.stdin.take();
    Server::new(handle, pipe, most.clamp(1, MOST_CONNECTIONS))
}

/// Hears them, for as long as the process lives.
pub(super) fn serve(listener: &UnixListener, mut server: Server) -> ! {
    loop {
        server.turn(listener, PollTimeout::NONE);
    }
}

/// Who hears them.
pub struct Server {
    handle: Handle,
    input: Input,
    /// The command's standard input, until it is closed.
    pipe: Option<OwnedFd>,
    /// Whether it was ever open to others.
    has_input: bool,
    /// The longest there first.
    connections: Vec<Connection>,
    most_connections: usize,
    /// What was done that is to be done once.
    done: VecDeque<String>,
}

impl Server {
    /// Hears those who speak to a run, at most so many at a time. `pipe` is the command's standard input, where others
    /// may write into that.
    ///
    /// # Errors
    ///
    /// Where the pipe cannot be made one that never blocks.
    pub fn new(handle: Handle, pipe: Option<OwnedFd>, most_connections: usize) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            // It is the keeper's alone: the command has the other end.
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_WRONLY | OFlag::O_NONBLOCK))?;
        }
        let (input, connections) = (Input::default(), Vec::new());
        let has_input = pipe.is_some();
        let done = VecDeque::new();
        Ok(Self { handle, input, pipe, has_input, connections, most_connections, done })
    }

    /// Waits for whatever comes first, and does what has come.
    pub fn turn(&mut self, listener: &UnixListener, longest: PollTimeout) {
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
        let _ = poll(&mut fds, longest);
        let ready: Vec<PollFlags> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(fds);
        if ready.get(pipe_at).is_some_and(|events| !events.is_empty()) {
            self.fill_pipe();
        }
        let mut connections = std::mem::take(&mut self.connections);
        for (connection, events) in connections.iter_mut().zip(&ready[1..]) {
            if events.is_empty() {
                continue;
            }
            let is_gone = events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR);
            let has_room = self.input.room() >= MOST_PART_BYTES;
            if is_gone && !connection.wants(has_room).contains(PollFlags::POLLIN) {
                // What it sent last has no room, and nobody waits to hear that it was taken. Kept, it would
                // wake us again and again.
                connection.is_over = true;
            } else {
                self.hear(connection);
            }
        }
        self.fill_pipe();
        for connection in &mut connections {
            self.answer(connection);
        }
        connections.retain(|connection| !connection.is_over);
        self.connections = connections;
        if !ready[0].is_empty() {
            self.accept(listener);
        }
    }

    fn accept(&mut self, listener: &UnixListener) {
        for _ in 0..ACCEPTS_A_TURN {
            match listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    if self.connections.len() >= self.most_connections {
                        self.make_room();
                    }
                    self.connections.push(Connection::new(stream));
                }
                Ok(_) => {}
                Err(error) => {
                    // Without a descriptor to take it with, whoever waits would wake us again and again.
                    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
                        && !self.make_room()
                    {
                        thread::sleep(NO_DESCRIPTOR_PAUSE);
                    }
                    return;
                }
            }
        }
    }

    /// Ends the connection that is missed least: one that has had its answer or said nothing, the oldest first;
    /// else one that only watches, and can look for itself. `false`: there is none.
    fn make_room(&mut self) -> bool {
        let rank = |connection: &Connection| match connection.stage {
            Stage::New | Stage::Answered => 0,
            Stage::Watching => 1,
            Stage::Sending { .. } | Stage::Waiting { .. } => 2,
        };
        let ranked = self.connections.iter().enumerate();
        match ranked.min_by_key(|(_, connection)| rank(connection)) {
            Some((at, _)) => {
                self.connections.remove(at);
                true
            }
            None => false,
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
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_A_TURN {
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
                    offset: offset.map(|offset| offset.saturating_add(count as u64)),
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
                self.handle.stop();
                connection.conclude(&Answer::Done);
            }
            Request::Send if !is_sending => {
                if self.has_input {
                    connection.stage = Stage::Sending { missing: 0, offset: None };
                } else {
                    connection.conclude(&fault(RunFault::StdinClosed, None));
                }
            }
            Request::Part { bytes, offset } if is_sending && bytes <= MOST_PART_BYTES => {
                // One of no bytes asks whether any are missing before it.
                match self.accept_input(offset, &[]) {
                    Ok(()) => connection.stage = Stage::Sending { missing: bytes, offset },
                    Err(refused) => connection.conclude(&refused),
                }
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

fn fault(fault: RunFault, offset: Option<u64>) -> Answer {
    Answer::Failed {
        code: fault.code().as_str().to_owned(),
        message: fault.text().to_owned(),
        offset,
    }
}
