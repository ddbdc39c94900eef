//! Speaks to the keeper of a run.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::model::error::{Error, ErrorCode, RunFault, STATUS_FAILED};
use crate::model::json::line;
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::runs::folder::{Folder, State};
use crate::runs::home::socket_path;
use crate::runs::protocol::{Answer, MOST_PART_BYTES, Request};

/// The name of the socket in the folder of the run.
pub(super) const SOCKET: &str = "control";

/// A connection to the keeper that ends when the keeper does; `None` where it has ended.
pub(super) fn watch(folder: &Folder) -> Option<UnixStream> {
    let mut stream = connect(folder).ok()?;
    stream.write_all(&line(&Request::Watch)).ok()?;
    Some(stream)
}

fn connect(folder: &Folder) -> io::Result<UnixStream> {
    UnixStream::connect(socket_path(&folder.dir(), SOCKET))
}

/// How long to wait for a keeper that lives and cannot be connected to: it has just begun, or just ends. Too short,
/// and a busy machine makes it fail; longer is only waiting for nothing.
const LONGEST_CONNECT: Duration = Duration::from_secs(5);

/// How often to try.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Connects to a keeper that has to live.
fn speak(folder: &Folder, id: &RunId) -> Result<UnixStream, Error> {
    let begun = Instant::now();
    loop {
        lives(folder, id)?;
        match connect(folder) {
            Ok(stream) => return Ok(stream),
            Err(_) if begun.elapsed() < LONGEST_CONNECT => thread::sleep(TRY_AGAIN),
            Err(error) => return Err(silent(id, error)),
        }
    }
}

/// Says why there is nobody to speak to, if there is nobody.
fn lives(folder: &Folder, id: &RunId) -> Result<(), Error> {
    match folder.state().map_err(|error| silent(id, error))? {
        State::Running | State::Starting => Ok(()),
        State::Ended(_) => Err(Error::run(RunFault::Ended, id, None)),
        State::Lost => Err(Error::run(RunFault::Lost, id, None)),
        State::Elsewhere(host) => Err(elsewhere(RunFault::Unknown, id, &host)),
    }
}

/// The keeper lives and cannot be spoken to.
fn silent(id: &RunId, source: io::Error) -> Error {
    Error::Output { what: format!("the keeper of {id}"), source }
}

/// The keeper ended the connection without an answer: why?
fn unanswered(folder: &Folder, id: &RunId) -> Error {
    let begun = Instant::now();
    loop {
        match lives(folder, id) {
            Err(error) => return error,
            // It may be about to end, which cuts its connections first.
            Ok(()) if begun.elapsed() < LONGEST_END => thread::sleep(TRY_AGAIN),
            Ok(()) => return silent(id, io::Error::other("it has too many connections")),
        }
    }
}

/// How long a keeper that cuts a connection may take to end. Longer, and one that only has too many is told late.
const LONGEST_END: Duration = Duration::from_millis(200);

/// The run is kept on another machine, and what that is a fault of.
pub(super) fn elsewhere(fault: RunFault, id: &RunId, host: &str) -> Error {
    Error::run(fault, id, Some(format!("it is kept on {host}")))
}

/// Has a signal sent to the processes of the run.
///
/// # Errors
///
/// Where it is over.
pub(super) fn signal(
    folder: &Folder,
    id: &RunId,
    signal: Signal,
    once: Option<String>,
) -> Result<(), Error> {
    ask(folder, id, &Request::Signal { signal: signal.to_string(), once })
}

/// Has the keeper do as if it had received a signal.
///
/// # Errors
///
/// Where the run is over.
pub(super) fn receive(
    folder: &Folder,
    id: &RunId,
    signal: Signal,
    once: Option<String>,
) -> Result<(), Error> {
    ask(folder, id, &Request::Receive { signal: signal.to_string(), once })
}

/// Has the run stopped as a timeout would.
///
/// # Errors
///
/// Where it is over.
pub(super) fn stop(folder: &Folder, id: &RunId) -> Result<(), Error> {
    ask(folder, id, &Request::Stop)
}

fn ask(folder: &Folder, id: &RunId, request: &Request) -> Result<(), Error> {
    let mut stream = speak(folder, id)?;
    if stream.write_all(&line(request)).is_err() {
        return Err(unanswered(folder, id));
    }
    hear(stream, folder, id).map(drop)
}

/// Waits for the answer.
fn hear(stream: UnixStream, folder: &Folder, id: &RunId) -> Result<Option<u64>, Error> {
    let mut answer = Vec::new();
    // However it fails, the keeper is no more.
    let _ = BufReader::new(stream).read_until(b'\n', &mut answer);
    match serde_json::from_slice(&answer) {
        Ok(Answer::Done) => Ok(None),
        Ok(Answer::Stdin { offset }) => Ok(Some(offset)),
        Ok(Answer::Failed { code, message, offset }) => {
            let from = offset.map(|offset| format!(": it has {offset} bytes"));
            Err(Error::Reported {
                code: ErrorCode::from_word(&code).unwrap_or(ErrorCode::RunEnded),
                status: STATUS_FAILED,
                message: format!("{id}: {message}{}", from.unwrap_or_default()),
            })
        }
        Err(_) => Err(unanswered(folder, id)),
    }
}

/// Sends everything that `source`, which reads from `fd`, gives to the standard input of the run, from `offset` on if
/// that is said. Returns how many bytes that input then has.
///
/// # Errors
///
/// Where it is not taken.
pub(super) fn send(
    folder: &Folder,
    id: &RunId,
    source: &mut impl Read,
    fd: BorrowedFd<'_>,
    mut offset: Option<u64>,
    eof: bool,
) -> Result<u64, Error> {
    let mut stream = speak(folder, id)?;
    let mut buffer = vec![0; MOST_PART_BYTES];
    let mut part = line(&Request::Send);
    loop {
        if stream.write_all(&part).is_err() || is_answered_first(&stream, fd) {
            break;
        }
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::Output { what: "standard input".to_owned(), source }),
        };
        if count == 0 {
            // Where nothing was sent before, something may be missing there too.
            let mut last = offset.map_or_else(Vec::new, nothing_at);
            last.extend(line(&Request::End { eof }));
            // Where this fails there is an answer already, or no keeper.
            let _ = stream.write_all(&last);
            break;
        }
        part = line(&Request::Part { bytes: count, offset });
        part.extend_from_slice(&buffer[..count]);
        offset = offset.map(|offset| offset.saturating_add(count as u64));
    }
    hear(stream, folder, id)?.ok_or_else(|| unanswered(folder, id))
}

/// A part without bytes: it is refused where any are missing before it.
fn nothing_at(offset: u64) -> Vec<u8> {
    line(&Request::Part { bytes: 0, offset: Some(offset) })
}

/// Sends one part of standard input, which belongs at `offset`, and returns how many bytes that input then has.
/// `eof`: nothing follows it.
///
/// # Errors
///
/// Where it is not taken.
pub(super) fn send_part(
    folder: &Folder,
    id: &RunId,
    offset: u64,
    part: &[u8],
    eof: bool,
) -> Result<u64, Error> {
    let mut stream = speak(folder, id)?;
    let mut said = line(&Request::Send);
    said.extend(line(&Request::Part { bytes: part.len(), offset: Some(offset) }));
    said.extend_from_slice(part);
    said.extend(line(&Request::End { eof }));
    // Where this fails there is an answer already, or no keeper.
    let _ = stream.write_all(&said);
    hear(stream, folder, id)?.ok_or_else(|| unanswered(folder, id))
}

/// How many bytes the standard input of the run has, once they are in the command's pipe.
///
/// # Errors
///
/// Where it is closed.
pub(super) fn input_bytes(folder: &Folder, id: &RunId) -> Result<u64, Error> {
    let mut stream = speak(folder, id)?;
    let mut said = line(&Request::Send);
    said.extend(line(&Request::End { eof: false }));
    // Where this fails there is an answer already, or no keeper.
    let _ = stream.write_all(&said);
    hear(stream, folder, id)?.ok_or_else(|| unanswered(folder, id))
}

/// Waits until there is something to send, or an answer before all was said, which then is a refusal: the source may
/// be a terminal at which nobody types.
fn is_answered_first(stream: &UnixStream, source: BorrowedFd<'_>) -> bool {
    let mut fds = [stream.as_fd(), source].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    while poll(&mut fds, PollTimeout::NONE).is_err_and(|errno| errno == Errno::EINTR) {}
    fds[0].revents().is_some_and(|events| !events.is_empty())
}
