//! Speaks to the keeper of a run.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

use crate::model::error::{Error, ErrorCode, RunFault, STATUS_FAILED};
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::runs::folder::{Folder, State};
use crate::runs::home::socket_path;
use crate::runs::protocol::{Answer, MOST_PART_BYTES, Request, line};

/// The name of the socket in the folder of the run.
pub(super) const SOCKET: &str = "control";

/// The run of which this is said.
fn of(id: &RunId, fault: RunFault) -> Error {
    Error::Run { fault, id: id.to_string(), why: None }
}

/// A connection to the keeper that ends when the keeper does; `None` where it has ended.
pub(super) fn watch(folder: &Folder) -> Option<UnixStream> {
    let mut stream = connect(folder).ok()?;
    stream.write_all(&line(&Request::Watch)).ok()?;
    Some(stream)
}

fn connect(folder: &Folder) -> io::Result<UnixStream> {
    UnixStream::connect(socket_path(&folder.dir(), SOCKET))
}

/// Connects to a keeper that has to live.
fn speak(folder: &Folder, id: &RunId) -> Result<UnixStream, Error> {
    let told = |source| Error::Output { what: format!("the keeper of {id}"), source };
    match folder.state().map_err(told)? {
        State::Running | State::Starting => match connect(folder) {
            Ok(stream) => Ok(stream),
            // It ended just now, or has not opened its ears yet.
            Err(error) => match folder.state().map_err(told)? {
                State::Ended(_) => Err(of(id, RunFault::Ended)),
                State::Lost => Err(of(id, RunFault::Lost)),
                _ => Err(told(error)),
            },
        },
        State::Ended(_) => Err(of(id, RunFault::Ended)),
        State::Lost => Err(of(id, RunFault::Lost)),
        State::Elsewhere(host) => Err(elsewhere(id, &host)),
    }
}

/// The run is kept on another machine.
pub(super) fn elsewhere(id: &RunId, host: &str) -> Error {
    let why = Some(format!("it is kept on {host}"));
    Error::Run { fault: RunFault::Unknown, id: id.to_string(), why }
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
        return Err(of(id, RunFault::Ended));
    }
    hear(stream, id).map(drop)
}

/// Waits for the answer.
fn hear(stream: UnixStream, id: &RunId) -> Result<Option<u64>, Error> {
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
        Err(_) => Err(of(id, RunFault::Ended)),
    }
}

/// Sends everything that `source` gives to the standard input of the run, from `offset` on if that is said.
/// Returns how many bytes that input then has.
///
/// # Errors
///
/// Where it is not taken.
pub(super) fn send(
    folder: &Folder,
    id: &RunId,
    source: &mut impl Read,
    mut offset: Option<u64>,
    eof: bool,
) -> Result<u64, Error> {
    let mut stream = speak(folder, id)?;
    let mut buffer = vec![0; MOST_PART_BYTES];
    let mut part = line(&Request::Send);
    loop {
        if stream.write_all(&part).is_err() || is_answered(&stream) {
            break;
        }
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::Output { what: "standard input".to_owned(), source }),
        };
        if count == 0 {
            // Where this fails there is an answer already, or no keeper.
            let _ = stream.write_all(&line(&Request::End { eof }));
            break;
        }
        part = line(&Request::Part { bytes: count, offset });
        part.extend_from_slice(&buffer[..count]);
        offset = offset.map(|offset| offset + count as u64);
    }
    hear(stream, id)?.ok_or_else(|| of(id, RunFault::Ended))
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
    hear(stream, id)?.ok_or_else(|| of(id, RunFault::Ended))
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
    hear(stream, id)?.ok_or_else(|| of(id, RunFault::Ended))
}

/// Whether there is an answer, before all was said: then it is a refusal.
fn is_answered(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(count) if count > 0)
}
