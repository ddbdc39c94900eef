//! The other end of a connection: does on this machine what somebody asks for on another.
//!
//! It reads requests on standard input and answers on standard output. When the connection ends, so does it; the
//! runs that it started go on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::model::chunk_line::chunk_seq;
use crate::model::error::{Error, ErrorCode, RunFault, STATUS_FAILED};
use crate::model::json::line;
use crate::model::run_id::RunId;
use crate::remote::wire::{Ask, Bytes, MAGIC, MOST_PART_BYTES, Tell, alive_every, most_line_bytes};
use crate::runs::attach::{self, Signalling};
use crate::runs::follow::Since;
use crate::runs::list;
use crate::runs::observer::{ConsumerGone, News, Observer, find};
use crate::runs::start::Started;
use crate::sys::descriptors;

/// How often to look whether the other side has ended the connection, once all was said.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Answers, a line at a time, whoever gives them.
#[derive(Clone)]
struct Out(Arc<Shared>);

struct Shared {
    writer: Mutex<Writer>,
    /// Nobody is there any more, or what was said makes no sense.
    is_gone: AtomicBool,
    /// What does as the other side asked, in a process of its own.
    doing: Mutex<Option<Child>>,
    /// Held while a run is deleted: this process does not end in the middle of that.
    deleting: Mutex<()>,
}

struct Writer {
    stdout: io::Stdout,
    /// When something was last said.
    last: Instant,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Out {
    fn new() -> Self {
        let writer = Writer { stdout: io::stdout(), last: Instant::now() };
        Self(Arc::new(Shared {
            writer: Mutex::new(writer),
            is_gone: AtomicBool::new(false),
            doing: Mutex::new(None),
            deleting: Mutex::new(()),
        }))
    }

    /// Writes whole lines. `false`: nobody is there any more.
    fn say(&self, lines: &[u8]) -> bool {
        let mut writer = locked(&self.0.writer);
        writer.last = Instant::now();
        let said = writer.stdout.write_all(lines).and_then(|()| writer.stdout.flush());
        drop(writer);
        if said.is_err() {
            self.leave();
        }
        said.is_ok()
    }

    fn tell(&self, what: &Tell) -> bool {
        self.say(&line(what))
    }

    fn fail(&self, error: &Error) -> bool {
        self.tell(&failure(error))
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Acquire)
    }

    /// Nothing more is to be done.
    fn leave(&self) {
        self.0.is_gone.store(true, Ordering::Release);
        if let Some(child) = &mut *locked(&self.0.doing) {
            // Where it cannot be killed it has ended.
            let _ = child.kill();
        }
    }

    /// Says from time to time that somebody is here, on a thread of its own, and sees at once when nobody is there
    /// any more.
    fn stay_alive(&self) {
        let out = self.clone();
        let made = thread::Builder::new().name("alive".to_owned());
        // Without it the other side takes the connection for a broken one, and tries again.
        let _ = made.spawn(move || out.say_alive());
    }

    fn say_alive(&self) {
        let Ok(stdout) = descriptors::standard_stream(1) else { return };
        while !self.is_gone() {
            let mut fds = [PollFd::new(stdout, PollFlags::empty())];
            let left = alive_every().saturating_sub(locked(&self.0.writer).last.elapsed());
            let found = ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None);
            if found.is_ok_and(|count| count > 0) {
                self.leave();
            } else if locked(&self.0.writer).last.elapsed() >= alive_every() {
                self.tell(&Tell::Alive);
            }
        }
    }
}

fn failure(error: &Error) -> Tell {
    let (code, message) = (error.code().as_str().to_owned(), error.to_string());
    Tell::Failed { code, status: error.status(), message }
}

/// Starts a run as these words would, with these options that do not count for what the same run is, and with these
/// secrets masked.
pub type Start = fn(Vec<Bytes>, Vec<Bytes>, Vec<Bytes>) -> Result<Started, Error>;

/// Serves one connection, and returns the exit status.
#[must_use]
pub fn serve(start: Start) -> u8 {
    let out = Out::new();
    // What a login shell has printed may not have ended its line.
    if !out.say(format!("\n{MAGIC}\n").as_bytes()) {
        return STATUS_FAILED;
    }
    let Ok(stdin) = descriptors::standard_stream(0).and_then(|fd| fd.try_clone_to_owned()) else {
        return STATUS_FAILED;
    };
    let mut requests: Requests = BufReader::new(stdin.into());
    // A run is started by a process of one thread, so this comes first.
    let mut request = next(&mut requests);
    while let Some(Ask::Start { words, uncounted, secrets }) = request {
        match start(words, uncounted, secrets) {
            Ok(started) => out.tell(&Tell::Begun {
                id: started.id.to_string(),
                existing: started.existing,
                started: String::from_utf8_lossy(&started.line).into_owned(),
            }),
            Err(error) => {
                out.fail(&error);
                return STATUS_FAILED;
            }
        };
        request = next(&mut requests);
    }
    match request {
        Some(request) => {
            out.stay_alive();
            answer(request, requests, &out)
        }
        None => 0,
    }
}

/// Answers one request after another, and returns the exit status.
fn answer(request: Ask, mut requests: Requests, out: &Out) -> u8 {
    let mut feed: Option<Sender<Piece>> = None;
    let mut request = Some(request);
    while let Some(asked) = request {
        match asked {
            Ask::Do { words, again } => {
                let done = carry_out(words, again, out);
                out.tell(&done);
            }
            Ask::Signal { id, signal, once } => match signal_run(&id, signal, once) {
                Ok(()) => {
                    out.tell(&Tell::Received);
                }
                Err(error) => {
                    out.fail(&error);
                }
            },
            Ask::Feed { id, alone } => match RunId::parse(&id) {
                Ok(id) => feed = Some(start_feed(&id, alone, out)),
                Err(_) => return STATUS_FAILED,
            },
            Ask::Attach { id, after, lines } => {
                let Ok(id) = RunId::parse(&id) else { return STATUS_FAILED };
                let wanted = match lines {
                    None => Wanted { since: Since::Chunk(after), passed_over: 0 },
                    Some(lines) => Wanted { since: Since::Lines(lines), passed_over: after },
                };
                return attend(&id, wanted, requests, feed, out);
            }
            Ask::Part { bytes, offset } => {
                if !pass_part(&mut requests, feed.as_ref(), bytes, offset) {
                    return STATUS_FAILED;
                }
            }
            Ask::End { offset } => pass(feed.as_ref(), Piece::End { offset }),
            // There are threads by now; and the others are about a run that is being shown.
            Ask::Start { .. } | Ask::Receive { .. } | Ask::Stop | Ask::Forget => {
                return STATUS_FAILED;
            }
        }
        request = next(&mut requests);
    }
    0
}

/// Signals a run that is not shown, or stops it.
fn signal_run(id: &str, signal: Option<String>, once: String) -> Result<(), Error> {
    let id = RunId::parse(id).map_err(Error::Usage)?;
    let what = match signal {
        Some(name) => Signalling::Signal(name.parse().map_err(Error::Usage)?),
        None => Signalling::Stop,
    };
    attach::signal(&id, what, Some(once))
}

/// What the other side asks for, in its order.
type Requests = BufReader<File>;

/// The next request; `None` at the end of the connection, and where it makes no sense.
fn next(requests: &mut Requests) -> Option<Ask> {
    let mut said = Vec::new();
    requests.take(most_line_bytes()).read_until(b'\n', &mut said).ok()?;
    serde_json::from_slice(&said).ok()
}

/// Does what these words do, in a process of its own that ends with the connection.
fn carry_out(mut words: Vec<Bytes>, again: bool, out: &Out) -> Tell {
    if again && words.first().is_some_and(|Bytes(word)| word == b"forget") {
        let had = words.len();
        words.retain(|word| !is_forgotten(word));
        let is_all = words.last().is_some_and(|Bytes(word)| word == b"--");
        if words.len() < had && is_all {
            return Tell::Done { status: 0, stdout: Bytes(Vec::new()), stderr: Bytes(Vec::new()) };
        }
    }
    match told(words, out) {
        Ok(done) => done,
        Err(source) => failure(&Error::Spawn { step: "runcast", source }),
    }
}

/// Whether a word names a run that is there no more.
fn is_forgotten(Bytes(word): &Bytes) -> bool {
    let id = std::str::from_utf8(word).ok().and_then(|word| RunId::parse(word).ok());
    // The subcommand itself is a word that could be a name.
    id.filter(|id| id.as_str() != "forget")
        .is_some_and(|id| matches!(find(&id), Err(Error::Run { fault: RunFault::Unknown, .. })))
}

fn told(words: Vec<Bytes>, out: &Out) -> io::Result<Tell> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words.into_iter().map(Bytes::into_word)).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    *locked(&out.0.doing) = Some(child);
    if out.is_gone() {
        out.leave();
    }
    let words = thread::Builder::new().name("words".to_owned()).spawn(move || read_all(stderr))?;
    let stdout = read_all(stdout);
    let stderr = words.join().unwrap_or_default();
    let child = locked(&out.0.doing).take();
    let status = child.map(|mut child| child.wait()).transpose()?.and_then(|status| status.code());
    let status = status.and_then(|code| code.try_into().ok()).unwrap_or(STATUS_FAILED);
    Ok(Tell::Done { status, stdout: Bytes(stdout), stderr: Bytes(stderr) })
}

fn read_all(source: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    // What was read up to a failure is what there is. Of more than this, the other side would take nothing.
    let _ = source.map(|source| source.take(most_line_bytes()).read_to_end(&mut all));
    all
}

/// Standard input for a run.
enum Piece {
    Part { offset: u64, bytes: Vec<u8> },
    End { offset: u64 },
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
fn start_feed(id: &RunId, alone: bool, out: &Out) -> Sender<Piece> {
    let (feed, pieces) = channel();
    let (id, out) = (id.clone(), out.clone());
    let made = thread::Builder::new().name("feed".to_owned());
    // Without it the other side waits for an answer, and tries again.
    let _ = made.spawn(move || hand_on(&id, &pieces, alone, &out));
    feed
}

/// Hands on what comes, and tells after each piece what the run has.
fn hand_on(id: &RunId, pieces: &Receiver<Piece>, alone: bool, out: &Out) {
    let mut has = 0;
    let mut taken = attach::input_bytes(id);
    loop {
        match taken {
            Ok(offset) => {
                has = offset;
                out.tell(&Tell::Input { offset, closed: false });
            }
            Err(error) => {
                tell_untaken(&error, has, alone, out);
                return;
            }
        }
        taken = match pieces.recv() {
            Ok(Piece::Part { offset, bytes }) => attach::send_part(id, offset, &bytes, false),
            Ok(Piece::End { offset }) if offset <= has => {
                match attach::send_part(id, has, &[], true) {
                    Ok(has) => {
                        out.tell(&Tell::Input { offset: has, closed: true });
                    }
                    Err(error) => tell_untaken(&error, has, alone, out),
                }
                return;
            }
            // Something before the end is missing: over the next connection it is sent again.
            Ok(Piece::End { .. }) => return out.leave(),
            Err(_) => return,
        };
    }
}

/// Tells that input was not taken, of which the run has so much.
fn tell_untaken(error: &Error, has: u64, alone: bool, out: &Out) {
    match error.code() {
        _ if alone => {
            out.fail(error);
        }
        ErrorCode::StdinClosed | ErrorCode::RunEnded | ErrorCode::RunLost => {
            out.tell(&Tell::Input { offset: has, closed: true });
        }
        // Whoever shows it says so too, or its result has been seen.
        ErrorCode::RunUnknown => {}
        // Over the next connection it is sent again.
        _ => out.leave(),
    }
}

/// What of a run is wanted.
struct Wanted {
    since: Since,
    /// What comes up to this chunk is passed over.
    passed_over: u64,
}

impl Wanted {
    /// Takes lines out that are not wanted.
    fn select(&mut self, lines: &mut Vec<u8>) {
        if self.passed_over == 0 {
            return;
        }
        let mut kept = Vec::new();
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            match chunk_seq(line) {
                Some(seq) if seq >= self.passed_over && self.passed_over > 0 => {
                    if seq > self.passed_over {
                        kept.extend_from_slice(line);
                    }
                    self.passed_over = 0;
                }
                _ if self.passed_over == 0 || line.starts_with(br#"{"op":"result""#) => {
                    kept.extend_from_slice(line);
                }
                _ => {}
            }
        }
        *lines = kept;
    }
}

/// Shows a run until it is over, while the other side may go on asking.
fn attend(
    id: &RunId,
    mut wanted: Wanted,
    requests: Requests,
    feed: Option<Sender<Piece>>,
    out: &Out,
) -> u8 {
    let mut observer = match Observer::new(id, wanted.since) {
        Ok(observer) => observer,
        Err(error) => {
            // Perhaps it was being deleted when the connection before this one broke.
            list::tidy();
            out.fail(&error);
            return STATUS_FAILED;
        }
    };
    let listener = {
        let (id, out) = (id.clone(), out.clone());
        let made = thread::Builder::new().name("requests".to_owned());
        made.spawn(move || {
            listen(&id, requests, feed.as_ref(), &out);
            out.leave();
        })
    };
    let Ok(stdout) = descriptors::standard_stream(1) else { return STATUS_FAILED };
    if listener.is_err() {
        return STATUS_FAILED;
    }
    let mut lines = Vec::new();
    while !out.is_gone() {
        match observer.next(&mut lines) {
            Ok(News::Nothing) => {
                if let Err(ConsumerGone) = observer.wait(alive_every(), &[stdout]) {
                    out.leave();
                }
            }
            Ok(news) => {
                wanted.select(&mut lines);
                out.say(&lines);
                if news == News::Over {
                    break;
                }
            }
            Err(error) => {
                out.fail(&error);
                break;
            }
        }
    }
    // The other side ends the connection once it has seen all; what it still asks for is done before.
    while !out.is_gone() {
        thread::sleep(LOOK_AGAIN);
    }
    // Nothing is begun any more.
    std::mem::forget(locked(&out.0.deleting));
    0
}

/// Signals the run that is shown, and says so. `false`: that failed, and is to be asked again.
fn pass_signal(id: &RunId, what: Signalling, once: Option<String>, out: &Out) -> bool {
    match attach::signal(id, what, once) {
        // A run that is over says so by its result.
        Ok(()) => out.tell(&Tell::Received),
        Err(Error::Run { fault: RunFault::Ended | RunFault::Lost | RunFault::Unknown, .. }) => {
            out.tell(&Tell::Received)
        }
        Err(_) => false,
    }
}

/// Does what is asked for about the run that is shown, to the end of the connection.
fn listen(id: &RunId, mut requests: Requests, feed: Option<&Sender<Piece>>, out: &Out) {
    while let Some(request) = next(&mut requests) {
        let is_done = match request {
            Ask::Receive { signal, once } => match signal.parse() {
                Ok(signal) => pass_signal(id, Signalling::Received(signal), Some(once), out),
                Err(_) => false,
            },
            Ask::Stop => pass_signal(id, Signalling::Stop, None, out),
            Ask::Forget => {
                let _whole = locked(&out.0.deleting);
                // One that is not over stays, and whoever wants it gone finds it.
                let _ = list::forget(id);
                out.tell(&Tell::Received)
            }
            Ask::Part { bytes, offset } => pass_part(&mut requests, feed, bytes, offset),
            Ask::End { offset } => {
                pass(feed, Piece::End { offset });
                true
            }
            Ask::Start { .. }
            | Ask::Attach { .. }
            | Ask::Feed { .. }
            | Ask::Signal { .. }
            | Ask::Do { .. } => false,
        };
        if !is_done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(passed_over: u64, lines: &str) -> (String, u64) {
        let mut wanted = Wanted { since: Since::Chunk(0), passed_over };
        let mut lines = lines.as_bytes().to_vec();
        wanted.select(&mut lines);
        (String::from_utf8(lines).expect("it was text"), wanted.passed_over)
    }

    #[test]
    fn what_comes_up_to_a_chunk_is_passed_over_and_all_behind_it_is_kept() {
        let chunk =
            |seq: u64| format!("{{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":{seq},\"t\":1}}\n");
        let (stop, result) = ("{\"op\":\"stop\"}\n", "{\"op\":\"result\"}\n");
        let all = [&chunk(3), stop, &chunk(5), stop, &chunk(6), result].concat();
        assert_eq!(selected(0, &all), (all.clone(), 0));
        let rest = [stop, &chunk(6), result].concat();
        assert_eq!(selected(5, &all), (rest, 0));
        assert_eq!(selected(4, &all), ([&chunk(5), stop, &chunk(6), result].concat(), 0));
        assert_eq!(selected(9, &all), (result.to_owned(), 9));
    }
}
