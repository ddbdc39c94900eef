//! One question to the other end, and its answer; and standard input for a run there.

use std::io::{Read, Write};
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use crate::model::error::{Error, ErrorCode};
use crate::model::event::Event;
use crate::model::json::line;
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::remote::connection::{Connection, Waited};
use crate::remote::host::{Host, last_words, permanent};
use crate::remote::pauses::Pauses;
use crate::remote::task::Start;
use crate::remote::wire::{Ask, Bytes, MOST_PART_BYTES, Tell, silence};

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

/// Has the other end do what these words do behind `runcast`; they are asked for each time. When the connection
/// breaks it is asked again, as long as `retry` lasts: all that is asked so may be done twice.
///
/// # Errors
///
/// Where it cannot be reached.
pub fn ask(
    host: &Host,
    retry: Duration,
    mut words: impl FnMut() -> Vec<Bytes>,
) -> Result<Answer, Error> {
    let mut again = false;
    attempt(host, retry, &Broken::Unanswered, |link| {
        let said = line(&Ask::Do { words: words(), again: std::mem::replace(&mut again, true) });
        link.ask(&said, |told| match told {
            Tell::Done { status, stdout, stderr } => {
                Some(Ok(Answer { status, stdout: stdout.0, stderr: stderr.0 }))
            }
            other => refused(other),
        })
    })
}

/// Has a run signalled, once, or stopped as a timeout would.
///
/// # Errors
///
/// Where it is over, or the other end cannot be reached.
pub fn signal(
    host: &Host,
    retry: Duration,
    id: &RunId,
    signal: Option<Signal>,
) -> Result<(), Error> {
    let (signal, once) = (signal.map(|signal| signal.to_string()), RunId::fresh().to_string());
    let said = line(&Ask::Signal { id: id.to_string(), signal, once });
    attempt(host, retry, &Broken::Unanswered, |link| {
        link.ask(&said, |told| match told {
            Tell::Received => Some(Ok(())),
            other => refused(other),
        })
    })
}

/// Has the run start, and returns its `started` event, a line, and whether it was there before.
///
/// # Errors
///
/// Where it cannot be started, or the other end not be reached.
pub fn start(
    host: &Host,
    retry: Duration,
    start: &Start,
    id: &RunId,
) -> Result<(String, bool), Error> {
    let said = line(&start.ask());
    let mut was_asked = false;
    attempt(host, retry, &Broken::Unstarted(id), |link| {
        let answer = link.ask(&said, |told| match told {
            Tell::Begun { existing, started, .. } => Some(Ok((started, existing))),
            other => refused(other),
        });
        // What another attempt finds there is what this one started, as far as anybody can tell.
        let was_asked = std::mem::replace(&mut was_asked, true);
        answer.map(|answer| answer.map(|(line, existing)| (line, existing && !was_asked)))
    })
    .and_then(|(line, existing)| match is_started(&line, id) {
        true => Ok((line, existing)),
        false => {
            let why = "what it says of the run that it started makes no sense".to_owned();
            Err(Error::Remote { host: host.name.clone(), why })
        }
    })
}

/// Whether this is the `started` event of this run, one line.
fn is_started(line: &str, id: &RunId) -> bool {
    let text = line.strip_suffix('\n').unwrap_or_default();
    match parse(text.as_bytes()) {
        Ok(Recorded::Event(Event::Started(started))) => {
            started.id == id.as_str() && !text.contains('\n')
        }
        _ => false,
    }
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
    attempt(host, retry, &Broken::Unsent, |link| {
        // Over each connection it is asked first what the run has.
        let feed = line(&Ask::Feed { id: id.to_string(), alone: true });
        let has = match (link.say(&feed), at) {
            // It ended with all that there was, of which the answer was lost.
            (Err(error), Some(at)) if is_read && part.is_empty() && is_over(&error) => {
                return Ok(Some(at));
            }
            (said, _) => said?,
        };
        let Some(has) = has else { return Ok(None) };
        let mut place = *at.get_or_insert(has);
        loop {
            if part.is_empty() && !is_read {
                let count = read(source, &mut buffer)?;
                part.extend_from_slice(&buffer[..count]);
                is_read = count == 0;
            }
            if part.is_empty() {
                // A part without bytes is refused where any are missing before it.
                let Some(has) = link.say(&line(&Ask::Part { bytes: 0, offset: place }))? else {
                    return Ok(None);
                };
                let end = line(&Ask::End { offset: place });
                return if eof { link.say(&end) } else { Ok(Some(has)) };
            }
            let mut said = line(&Ask::Part { bytes: part.len(), offset: place });
            said.extend_from_slice(&part);
            if link.say(&said)?.is_none() {
                return Ok(None);
            }
            place = place.saturating_add(part.len() as u64);
            part.clear();
            at = Some(place);
        }
    })
}

fn is_over(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::RunEnded | ErrorCode::StdinClosed)
}

fn read(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Error> {
    loop {
        match source.read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Output { what: "standard input".to_owned(), source }),
        }
    }
}

/// What the other end refuses is an answer too.
fn refused<T>(told: Tell) -> Option<Result<T, Error>> {
    match told {
        Tell::Failed { code, status, message } => {
            Some(Err(Error::reported(&code, ErrorCode::RemoteFailed, status, message)))
        }
        _ => None,
    }
}

/// What is not known when the connection is not to be had any more.
enum Broken<'a> {
    Unanswered,
    Unstarted(&'a RunId),
    Unsent,
}

/// A connection whose other end was heard of.
struct Link {
    connection: Connection,
    stdin: ChildStdin,
    /// How the last wait was answered.
    how: Waited,
}

impl Link {
    /// Says something, and hears the other end until something is taken; `None`: the connection broke before.
    fn ask<T>(
        &mut self,
        said: &[u8],
        mut take: impl FnMut(Tell) -> Option<Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        if self.stdin.write_all(said).and_then(|()| self.stdin.flush()).is_err() {
            self.how = Waited::Ended;
            return Ok(None);
        }
        loop {
            while let Some(line) = self.connection.line() {
                if let Ok(told) = serde_json::from_slice(line)
                    && let Some(taken) = take(told)
                {
                    return taken.map(Some);
                }
            }
            if !self.hears() {
                return Ok(None);
            }
        }
    }

    /// Says something about input, and hears how much of it the run has then.
    fn say(&mut self, said: &[u8]) -> Result<Option<u64>, Error> {
        self.ask(said, |told| match told {
            Tell::Input { offset, .. } => Some(Ok(offset)),
            other => refused(other),
        })
    }

    fn hears(&mut self) -> bool {
        loop {
            self.how = self.connection.wait(Some(silence()), &[], None);
            match self.how {
                Waited::More => return true,
                Waited::Woken => {}
                _ => return false,
            }
        }
    }
}

/// Waits until the other end was heard of: the first time for as long as its user takes to type a password.
fn opens(connection: &mut Connection, longest: Option<Duration>) -> Waited {
    loop {
        // What stands before its first line is taken too.
        if connection.line().is_some() || connection.is_open() {
            return Waited::More;
        }
        match connection.wait(longest, &[], None) {
            Waited::More | Waited::Woken => {}
            how => return how,
        }
    }
}

/// Tries over one connection after another, until one was enough or the time is over.
fn attempt<T>(
    host: &Host,
    retry: Duration,
    broken: &Broken<'_>,
    mut over: impl FnMut(&mut Link) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut last_contact = Instant::now();
    let mut was_reached = false;
    let mut pauses = Pauses::default();
    loop {
        let (mut connection, stdin) = Connection::open(host)?;
        let how = opens(&mut connection, was_reached.then(silence));
        let ended = if how == Waited::More {
            let mut link = Link { connection, stdin, how };
            let done = over(&mut link);
            if let Ok(None) = &done {
                drop(link.stdin);
                link.connection.end(link.how)
            } else {
                // What is said behind the answer is of no matter.
                drop(link.stdin);
                link.connection.leave();
                return done.and_then(|done| done.ok_or(Error::Internal("an answer is missing")));
            }
        } else {
            drop(stdin);
            connection.end(how)
        };
        if let Some(why) = permanent(&ended, was_reached) {
            return Err(Error::Remote { host: host.name.clone(), why });
        }
        if ended.was_open {
            (last_contact, was_reached) = (Instant::now(), true);
            pauses = Pauses::default();
        }
        let left = retry.saturating_sub(last_contact.elapsed());
        if left.is_zero() {
            let why = match broken {
                Broken::Unanswered => "the connection broke before it had answered".to_owned(),
                Broken::Unsent => "the connection broke while input was sent".to_owned(),
                Broken::Unstarted(_) if !was_reached => {
                    format!("it was not reached{}", last_words(&ended))
                }
                Broken::Unstarted(id) => format!(
                    "whether the run {id} was started is not known; {} tells",
                    host.typed("attach", "", &[id.as_str()])
                ),
            };
            return Err(Error::Disconnected { host: host.name.clone(), why });
        }
        thread::sleep(pauses.next(left));
    }
}
