//! The other end of a connection: does on this machine what somebody asks for on another.
//!
//! It reads requests on standard input and answers on standard output. When the connection ends, so does it; the
//! runs that it started go on.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::detach;
use crate::cli::parse::{Parsed, parse};
use crate::model::error::{Error, RunFault, STATUS_FAILED};
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::remote::wire::{ALIVE_EVERY, Ask, Bytes, MAGIC, MOST_PART_BYTES, Tell, line};
use crate::runs::attach::{self, Send};
use crate::runs::follow::From;
use crate::runs::list;
use crate::runs::observer::{ConsumerGone, News, Observer};
use crate::sys::descriptors;

/// How long the other side may take to say that it has seen the result.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Answers, a line at a time, whoever gives them.
#[derive(Clone)]
struct Out(Arc<Mutex<io::Stdout>>);

impl Out {
    /// Writes whole lines. `false`: nobody is there any more.
    fn say(&self, lines: &[u8]) -> bool {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(lines).and_then(|()| out.flush()).is_ok()
    }

    fn tell(&self, what: &Tell) -> bool {
        self.say(&line(what))
    }

    fn fail(&self, error: &Error) -> bool {
        let (code, message) = (error.code().as_str().to_owned(), error.to_string());
        self.tell(&Tell::Failed { code, status: error.status(), message })
    }
}

/// Serves one connection, and returns the exit status.
#[must_use]
pub fn serve() -> u8 {
    let out = Out(Arc::new(Mutex::new(io::stdout())));
    if !out.say(format!("{MAGIC}\n").as_bytes()) {
        return STATUS_FAILED;
    }
    let Ok(stdin) = descriptors::open_descriptor(0).and_then(|fd| fd.try_clone_to_owned()) else {
        return STATUS_FAILED;
    };
    let mut requests: Requests = BufReader::new(stdin.into());
    let mut feed: Option<Sender<Piece>> = None;
    while let Some(request) = next(&mut requests) {
        match request {
            Ask::Start { words, secrets } => match start(words, secrets) {
                Ok(begun) => {
                    out.tell(&begun);
                }
                Err(error) => {
                    out.fail(&error);
                    return STATUS_FAILED;
                }
            },
            Ask::Do { words } => {
                out.tell(&carry_out(words));
            }
            Ask::Feed { id } => match RunId::parse(&id) {
                Ok(id) => feed = Some(start_feed(&id, &out)),
                Err(_) => return STATUS_FAILED,
            },
            Ask::Attach { id, after, lines } => {
                let Ok(id) = RunId::parse(&id) else { return STATUS_FAILED };
                let from = lines.map_or(From::After(after), From::Lines);
                return attend(&id, from, requests, feed, &out);
            }
            Ask::Part { bytes, offset } => {
                if !pass_part(&mut requests, feed.as_ref(), bytes, offset) {
                    return STATUS_FAILED;
                }
            }
            Ask::End => pass(feed.as_ref(), Piece::End),
            // They are about a run that is being shown.
            Ask::Receive { .. } | Ask::Stop | Ask::Forget => return STATUS_FAILED,
        }
    }
    0
}

/// What the other side asks for, in its order.
type Requests = BufReader<File>;

/// The next request; `None` at the end of the connection, and where it makes no sense.
fn next(requests: &mut Requests) -> Option<Ask> {
    let mut said = Vec::new();
    requests.read_until(b'\n', &mut said).ok()?;
    serde_json::from_slice(&said).ok()
}

fn words_of(words: Vec<Bytes>) -> impl Iterator<Item = OsString> {
    let words = words.into_iter().map(|Bytes(word)| OsString::from_vec(word));
    std::iter::once(OsString::from("runcast")).chain(words)
}

/// Starts a run.
fn start(words: Vec<Bytes>, secrets: Vec<Bytes>) -> Result<Tell, Error> {
    let secrets = secrets.into_iter().map(|Bytes(secret)| secret).collect();
    match parse(words_of(words)) {
        Parsed::Detach(args, identity) => {
            let started = detach::begin(*args, &identity, secrets)?;
            Ok(Tell::Begun {
                id: started.id.to_string(),
                existing: started.existing,
                started: String::from_utf8_lossy(&started.line).into_owned(),
            })
        }
        Parsed::Error(error) => Err(error),
        _ => Err(Error::Usage("these words start no run".to_owned())),
    }
}

/// Does what these words do, in a process of its own.
fn carry_out(words: Vec<Bytes>) -> Tell {
    let mut command = Command::new("/proc/self/exe");
    command.args(words_of(words).skip(1)).stdin(Stdio::null());
    match command.output() {
        Ok(output) => Tell::Done {
            status: output
                .status
                .code()
                .and_then(|code| code.try_into().ok())
                .unwrap_or(STATUS_FAILED),
            stdout: Bytes(output.stdout),
            stderr: Bytes(output.stderr),
        },
        Err(source) => {
            let error = Error::Spawn { step: "runcast", source };
            Tell::Failed {
                code: error.code().as_str().to_owned(),
                status: error.status(),
                message: error.to_string(),
            }
        }
    }
}

/// Standard input for a run.
enum Piece {
    Part { offset: u64, bytes: Vec<u8> },
    End,
}

/// Takes a part of input off the connection. `false`: it is none, or cut off.
fn pass_part(
    requests: &mut Requests,
    feed: Option<&Sender<Piece>>,
    length: usize,
    offset: u64,
) -> bool {
    if length > MOST_PART_BYTES {
        return false;
    }
    let mut bytes = vec![0; length];
    if requests.read_exact(&mut bytes).is_err() {
        return false;
    }
    pass(feed, Piece::Part { offset, bytes });
    true
}

fn pass(feed: Option<&Sender<Piece>>, piece: Piece) {
    if let Some(feed) = feed {
        // It is gone only when the process ends. What waits in it the other side bounds by what is answered.
        let _ = feed.send(piece);
    }
}

/// Hands input on to the run, on a thread of its own: a command that does not read holds up nothing else.
fn start_feed(id: &RunId, out: &Out) -> Sender<Piece> {
    let (feed, pieces) = channel();
    let (id, out) = (id.clone(), out.clone());
    let made = thread::Builder::new().name("feed".to_owned());
    // Without it the other side waits for an answer, and tries again.
    let _ = made.spawn(move || hand_on(&id, &pieces, &out));
    feed
}

fn hand_on(id: &RunId, pieces: &Receiver<Piece>, out: &Out) {
    let mut closed = match attach::send(id, &mut io::empty(), None, false) {
        Ok(offset) => !out.tell(&Tell::Input { offset, closed: false }),
        Err(error @ Error::Run { fault: RunFault::Unknown, .. }) => {
            out.fail(&error);
            return;
        }
        Err(_) => {
            out.tell(&Tell::Input { offset: 0, closed: true });
            true
        }
    };
    for piece in pieces {
        if closed {
            continue;
        }
        let (offset, bytes, eof) = match piece {
            Piece::Part { offset, bytes } => (Some(offset), bytes, false),
            Piece::End => (None, Vec::new(), true),
        };
        let taken = attach::send(id, &mut &bytes[..], offset, eof);
        let has = match taken {
            Ok(has) => Some(has),
            // Behind a gap it says where it ends.
            Err(_) => attach::send(id, &mut io::empty(), None, false).ok(),
        };
        closed = has.is_none() || eof;
        out.tell(&Tell::Input { offset: has.unwrap_or(0), closed });
    }
}

/// Shows a run until it is over, while the other side may go on asking.
fn attend(
    id: &RunId,
    from: From,
    requests: Requests,
    feed: Option<Sender<Piece>>,
    out: &Out,
) -> u8 {
    let mut observer = match Observer::new(id, from) {
        Ok(observer) => observer,
        Err(error) => {
            out.fail(&error);
            return STATUS_FAILED;
        }
    };
    let is_gone = Arc::new(AtomicBool::new(false));
    let listener = {
        let (id, out, is_gone) = (id.clone(), out.clone(), Arc::clone(&is_gone));
        let made = thread::Builder::new().name("requests".to_owned());
        made.spawn(move || {
            listen(&id, requests, feed.as_ref(), &out);
            is_gone.store(true, Ordering::Release);
        })
    };
    if listener.is_err() {
        return STATUS_FAILED;
    }
    let consumers = match descriptors::open_descriptor(1) {
        Ok(stdout) => vec![stdout],
        Err(_) => return STATUS_FAILED,
    };
    let mut lines = Vec::new();
    let mut said = Instant::now();
    while !is_gone.load(Ordering::Acquire) {
        let is_there = match observer.next(&mut lines) {
            Ok(News::Lines) => {
                said = Instant::now();
                out.say(&lines)
            }
            Ok(News::Over) => {
                out.say(&lines);
                return wait_for_last_words(&is_gone);
            }
            Ok(News::Nothing) if said.elapsed() >= ALIVE_EVERY => {
                said = Instant::now();
                out.tell(&Tell::Alive)
            }
            Ok(News::Nothing) => {
                let left = ALIVE_EVERY.saturating_sub(said.elapsed());
                !matches!(observer.wait(left, &consumers), Err(ConsumerGone))
            }
            Err(error) => {
                out.fail(&error);
                return STATUS_FAILED;
            }
        };
        if !is_there {
            return STATUS_FAILED;
        }
    }
    0
}

/// The other side ends the connection once it has seen all; what it still asks for is done before.
fn wait_for_last_words(is_gone: &AtomicBool) -> u8 {
    let begun = Instant::now();
    while !is_gone.load(Ordering::Acquire) && begun.elapsed() < LAST_WORDS {
        thread::sleep(Duration::from_millis(5));
    }
    0
}

/// Does what is asked for about the run that is shown, to the end of the connection.
fn listen(id: &RunId, mut requests: Requests, feed: Option<&Sender<Piece>>, out: &Out) {
    while let Some(request) = next(&mut requests) {
        let is_done = match request {
            Ask::Receive { signal } => {
                if let Ok(signal) = signal.parse::<Signal>() {
                    // A run that is over says so by its result.
                    let _ = attach::signal(id, Send::Received(signal));
                }
                out.tell(&Tell::Received)
            }
            Ask::Stop => {
                let _ = attach::signal(id, Send::Stop);
                out.tell(&Tell::Received)
            }
            Ask::Forget => {
                // One that is not over stays, and whoever wants it gone finds it.
                let _ = list::forget(id);
                out.tell(&Tell::Received)
            }
            Ask::Part { bytes, offset } => pass_part(&mut requests, feed, bytes, offset),
            Ask::End => {
                pass(feed, Piece::End);
                true
            }
            Ask::Start { .. } | Ask::Attach { .. } | Ask::Feed { .. } | Ask::Do { .. } => false,
        };
        if !is_done {
            return;
        }
    }
}
