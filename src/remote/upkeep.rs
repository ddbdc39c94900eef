//! One question to the other end, and its answer; and standard input for a run there.

use std::io::{Read, Write};
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use crate::model::error::{Error, ErrorCode, RunFault};
use crate::model::run_id::RunId;
use crate::remote::connection::{Connection, Waited};
use crate::remote::host::{Host, permanent};
use crate::remote::wire::{Ask, Bytes, MOST_PART_BYTES, SILENCE, Tell, line};

/// How long to wait before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// What the other end said to a command.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status.
    pub status: u8,
    /// What it printed on standard output.
    pub stdout: Vec<u8>,
    /// And on standard error.
    pub stderr: Vec<u8>,
}

/// Has the other end do what these words do behind `runcast`. When the connection breaks it is asked again, as long
/// as `retry` lasts: all that is asked so may be done twice.
///
/// # Errors
///
/// Where it cannot be reached.
pub fn ask(host: &Host, retry: Duration, words: Vec<Bytes>) -> Result<Answer, Error> {
    let said = line(&Ask::Do { words });
    let answered = attempt(host, retry, |connection, mut link| {
        if link.write_all(&said).and_then(|()| link.flush()).is_err() {
            return Ok(None);
        }
        hear(connection, |told| match told {
            Tell::Done { status, stdout, stderr } => {
                Some(Ok(Answer { status, stdout: stdout.0, stderr: stderr.0 }))
            }
            Tell::Failed { code, status, message } => Some(Err(reported(&code, status, message))),
            _ => None,
        })
    })?;
    answered.ok_or_else(|| broken(host, "the connection broke before it had answered"))
}

/// Has the run start, and returns its name, its `started` event, and whether it was there before.
///
/// # Errors
///
/// Where it cannot be started, or the other end not be reached.
pub fn start(
    host: &Host,
    retry: Duration,
    start: &crate::remote::session::Start,
    id: &RunId,
) -> Result<(String, bool), Error> {
    let said = line(&Ask::Start { words: start.words.clone(), secrets: start.secrets.clone() });
    let started = attempt(host, retry, |connection, mut link| {
        if link.write_all(&said).and_then(|()| link.flush()).is_err() {
            return Ok(None);
        }
        hear(connection, |told| match told {
            Tell::Begun { existing, started, .. } => Some(Ok((started, existing))),
            Tell::Failed { code, status, message } => Some(Err(reported(&code, status, message))),
            _ => None,
        })
    })?;
    started.ok_or_else(|| {
        let host = &host.name;
        broken_with(
            host,
            format!("whether the run {id} was started is not known; runcast attach --host {host} {id} tells"),
        )
    })
}

/// Sends all that `source` gives to the standard input of a run, from `offset` on if that is said, and returns how
/// many bytes that has then. A part that was on its way when the connection broke is sent again, to its place.
///
/// # Errors
///
/// Where it is not taken, or the other end cannot be reached.
pub fn send(
    host: &Host,
    retry: Duration,
    id: &RunId,
    source: &mut impl Read,
    offset: Option<u64>,
    eof: bool,
) -> Result<u64, Error> {
    let mut at = offset;
    let mut part = Vec::new();
    let mut is_read = false;
    let mut buffer = vec![0; MOST_PART_BYTES];
    let sent = attempt(host, retry, |connection, mut link| {
        // Over each connection it is asked first what the run has.
        let has = match say(connection, &mut link, &line(&Ask::Feed { id: id.to_string() }))? {
            Some((has, _)) => has,
            None => return Ok(None),
        };
        let mut place = *at.get_or_insert(has);
        loop {
            if part.is_empty() && !is_read {
                let count = source.read(&mut buffer).map_err(|source| Error::Output {
                    what: "standard input".to_owned(),
                    source,
                })?;
                part.extend_from_slice(&buffer[..count]);
                is_read = count == 0;
            }
            if part.is_empty() {
                if !eof {
                    return Ok(Some(has.max(place)));
                }
                return Ok(say(connection, &mut link, &line(&Ask::End))?.map(|(has, _)| has));
            }
            let mut said = line(&Ask::Part { bytes: part.len(), offset: place });
            said.extend_from_slice(&part);
            let Some((now, is_closed)) = say(connection, &mut link, &said)? else {
                return Ok(None);
            };
            let end = place + part.len() as u64;
            if now < end {
                let fault = if is_closed { RunFault::StdinClosed } else { RunFault::OffsetGap };
                let why = Some(format!("it has {now} bytes"));
                return Err(Error::Run { fault, id: id.to_string(), why });
            }
            part.clear();
            place = end;
            at = Some(place);
        }
    })?;
    sent.ok_or_else(|| broken(host, "the connection broke while input was sent"))
}

/// Says something about input, and hears how much the run has then, and whether it is closed.
fn say(
    connection: &mut Connection,
    link: &mut ChildStdin,
    said: &[u8],
) -> Result<Option<(u64, bool)>, Error> {
    if link.write_all(said).and_then(|()| link.flush()).is_err() {
        return Ok(None);
    }
    hear(connection, |told| match told {
        Tell::Input { offset, closed } => Some(Ok((offset, closed))),
        Tell::Failed { code, status, message } => Some(Err(reported(&code, status, message))),
        _ => None,
    })
}

fn reported(code: &str, status: u8, message: String) -> Error {
    let code = ErrorCode::from_word(code).unwrap_or(ErrorCode::RemoteFailed);
    Error::Reported { code, status, message }
}

fn broken(host: &Host, why: &str) -> Error {
    broken_with(&host.name, why.to_owned())
}

fn broken_with(host: &str, why: String) -> Error {
    Error::Disconnected { host: host.to_owned(), why }
}

/// Hears the other end until something is taken; `None`: the connection broke before.
fn hear<T>(
    connection: &mut Connection,
    mut take: impl FnMut(Tell) -> Option<Result<T, Error>>,
) -> Result<Option<T>, Error> {
    loop {
        while let Some(line) = connection.line() {
            if let Ok(told) = serde_json::from_slice(line)
                && let Some(taken) = take(told)
            {
                return taken.map(Some);
            }
        }
        let longest = connection.is_open().then_some(SILENCE);
        if connection.wait(longest, &[]) != Waited::More {
            return Ok(None);
        }
    }
}

/// Tries over one connection after another, until one was enough or the time is over.
fn attempt<T>(
    host: &Host,
    retry: Duration,
    mut over: impl FnMut(&mut Connection, ChildStdin) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut last_contact = Instant::now();
    let mut was_reached = false;
    loop {
        let (mut connection, link) = Connection::open(host)?;
        let done = over(&mut connection, link)?;
        if done.is_some() {
            return Ok(done);
        }
        let was_open = connection.is_open();
        let (status, said) = connection.end();
        if was_open {
            (last_contact, was_reached) = (Instant::now(), true);
        } else if let Some(why) = permanent(status, &said, was_reached) {
            return Err(Error::Remote { host: host.name.clone(), why });
        }
        if last_contact.elapsed() >= retry {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}
