//! Shows a run on another machine as if it were here, over as many connections as that takes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};

use crate::engine::ending::Ending;
use crate::engine::player::Player;
use crate::engine::run::open_result;
use crate::engine::show;
use crate::model::error::{Error, ErrorCode, RunFault};
use crate::model::event::{Event, Heartbeat, Seconds, Stream};
use crate::model::outcome::{STATUS_DISCONNECTED, StopReason};
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::model::spec::{Capture, Display, Limits, OnDisconnect, Streams};
use crate::remote::connection::{Connection, Ended, Waited};
use crate::remote::feed::Feed;
use crate::remote::host::{Host, last_words, permanent};
use crate::remote::passing::{self, Interruption, pass_input, pass_signals};
use crate::remote::wire::{Ask, Bytes, Tell, line, silence};
use crate::runs::segments::chunk_seq;
use crate::sink::destination::{Lost, Patience};
use crate::sink::message;

/// The first pause before the next attempt; each is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long to try to leave nothing there once the result was shown. Shorter, and a run's folder stays when the
/// connection breaks just then; longer, and whoever waits for a run that is over waits for that.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long an attempt has at least, however little time is left.
const LEAST_ATTEMPT: Duration = Duration::from_secs(2);

/// The shortest wait: less is not worth a wake-up.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The pauses between attempts.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The next one, no longer than what is left.
    pub(super) fn next(&mut self, left: Duration) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause.min(left)
    }
}

/// A run on another machine that is to be shown.
#[derive(Debug)]
pub struct Task<'a> {
    /// Where.
    pub host: &'a Host,
    /// How long to try again, since the last line from there.
    pub retry: Duration,
    /// The run's name.
    pub id: &'a RunId,
    /// What starts it; `None`: it is there.
    pub start: Option<Start>,
    /// The last chunk that was seen before.
    pub after: u64,
    /// In place of that: lines of each stream that were seen.
    pub lines: Option<[u64; 2]>,
    /// What its standard input is to be.
    pub input: Input,
    /// Whether signals are passed on, and the run is deleted once its result was seen.
    pub hold: Hold,
    /// What is hidden in what is said here.
    pub capture: &'a Capture,
    /// What stops it, for messages.
    pub limits: Option<&'a Limits>,
}

/// What starts a run: words as behind `runcast`, and secrets that are masked.
#[derive(Debug, Clone)]
pub struct Start {
    /// The words.
    pub words: Vec<Bytes>,
    /// Options beside them, which another start of the same run may have not.
    pub uncounted: Vec<Bytes>,
    /// The secrets.
    pub secrets: Vec<Bytes>,
}

impl Start {
    pub(super) fn ask(&self) -> Ask {
        Ask::Start {
            words: self.words.clone(),
            uncounted: self.uncounted.clone(),
            secrets: self.secrets.clone(),
        }
    }
}

/// What is sent as the run's standard input.
#[derive(Debug)]
pub enum Input {
    /// Nothing.
    None,
    /// Our own standard input.
    Ours,
    /// A file.
    From(File),
}

/// Whether the run is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is as if it ran here, and leaves nothing there.
    Ours,
    /// It is as if it ran here, and stays there to be looked at.
    Named,
    /// It is only looked at.
    Watched,
}

/// Why it ended before the result was shown.
enum Broken {
    Lost(Lost),
    Failed(Error),
}

impl From<Lost> for Broken {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Shows the run to its end, and returns the exit status.
#[must_use]
pub fn show(task: Task<'_>, display: &Display) -> u8 {
    let patience = Arc::new(Patience::default());
    let sink = show::make_sink(display, task.capture, task.limits, &patience)
        .and_then(|sink| {
            show::recorded(sink, display, task.capture, &patience).map_err(|(error, _)| error)
        })
        .and_then(|sink| Ok((sink, open_result(display)?)));
    let (sink, mut result_file) = match sink {
        Ok(opened) => opened,
        Err(error) => {
            message::say_error(&error, &patience);
            return error.status();
        }
    };
    let mask = task.capture.mask.clone();
    let mut player = Player::new(sink, display.format, task.capture);
    let shown = Session::new(task, display, &mut player, &patience).and_then(Session::run);
    let over = match shown {
        Ok(over) => over,
        Err(Broken::Lost(Lost::Failed(error))) => {
            message::say_error(&error, &patience);
            return error.status();
        }
        Err(Broken::Lost(Lost::Gone | Lost::Abandoned)) => return STATUS_DISCONNECTED,
        Err(Broken::Failed(error)) => {
            let ending = Ending::of_failure(error, mask);
            return ending.conclude(player.sink(), &mut result_file, display, &patience).status();
        }
    };
    match result_file.take().map(|file| file.replace(&over.line, &patience)) {
        Some(Err(error)) => {
            message::say_error(&error, &patience);
            error.status()
        }
        _ => over.status,
    }
}

/// The result, and what it says.
struct Over {
    status: u8,
    line: Vec<u8>,
}

/// How it ends, while the other end may still have to be asked to keep nothing.
enum Conclusion {
    Over(Over),
    Failed(Error),
}

struct Session<'a> {
    task: Task<'a>,
    display: &'a Display,
    player: &'a mut Player,
    feed: Feed,
    interruption: Arc<Interruption>,
    /// Whether standard input is sent.
    has_input: bool,
    consumers: Vec<BorrowedFd<'static>>,
    /// When a whole line last came from there.
    last_contact: Instant,
    /// Attempts since then.
    tries: u32,
    /// Whether the other end was ever heard of.
    was_reached: bool,
    is_begun: bool,
    is_started_shown: bool,
    last_seq: u64,
    /// Where a chunk was missing, and the connection was given up for that once.
    missing_at: Option<u64>,
    /// Events that were shown since the last chunk: over the next connection they come again.
    since_chunk: Vec<Vec<u8>>,
    /// Those that come again over this one.
    repeated: Vec<Vec<u8>>,
    /// Where the run was when something of it last came, and when that was.
    last_at: (Duration, Instant),
    /// What is told by a sign of life: bytes of each stream, and when the last came.
    bytes: [u64; 2],
    last_output: Duration,
    last_shown: Instant,
    conclusion: Option<Conclusion>,
    /// Until when to go on once there is one.
    leave_by: Option<Instant>,
    /// Whoever reads what is shown is lost, and nothing is shown any more.
    lost: Option<Lost>,
}

/// What came of one connection.
enum Heard {
    /// All there is to do is done.
    All,
    /// It ended so.
    Broke(Waited),
}

impl<'a> Session<'a> {
    fn new(
        mut task: Task<'a>,
        display: &'a Display,
        player: &'a mut Player,
        patience: &Arc<Patience>,
    ) -> Result<Self, Broken> {
        let consumers = show::watched(Streams::Separate, display)?;
        let failed = |source| Error::Spawn { step: "thread", source };
        let feed = Feed::new(task.start.is_some());
        let has_input = !matches!(task.input, Input::None);
        let interruption = Interruption::new(patience).map_err(failed)?;
        let interruption = Arc::new(interruption);
        if task.hold != Hold::Watched {
            pass_signals(&feed, &interruption, &task).map_err(failed)?;
        }
        match std::mem::replace(&mut task.input, Input::None) {
            Input::None => {}
            Input::Ours => pass_input(&feed, std::io::stdin()).map_err(failed)?,
            Input::From(file) => pass_input(&feed, file).map_err(failed)?,
        }
        let (last_seq, now) = (task.after, Instant::now());
        Ok(Self {
            task,
            display,
            player,
            feed,
            interruption,
            has_input,
            consumers,
            last_contact: now,
            tries: 0,
            was_reached: false,
            is_begun: false,
            is_started_shown: false,
            last_seq,
            missing_at: None,
            since_chunk: Vec::new(),
            repeated: Vec::new(),
            last_at: (Duration::ZERO, now),
            bytes: [0; 2],
            last_output: Duration::ZERO,
            last_shown: now,
            conclusion: None,
            leave_by: None,
            lost: None,
        })
    }

    /// What is said first on a connection.
    fn opening(&self) -> Vec<u8> {
        let id = self.task.id.to_string();
        let mut said = Vec::new();
        if let (Some(start), false) = (&self.task.start, self.is_begun) {
            said.extend(line(&start.ask()));
        }
        if self.has_input && self.conclusion.is_none() {
            said.extend(line(&Ask::Feed { id: id.clone(), alone: false }));
        }
        said.extend(line(&Ask::Attach { id, after: self.last_seq, lines: self.task.lines }));
        said
    }

    fn run(mut self) -> Result<Over, Broken> {
        let mut pauses = Pauses::default();
        loop {
            let before = self.last_contact;
            let ended = self.attempt()?;
            let Some(ended) = ended else { return self.conclude() };
            if let Some(why) = permanent(&ended, self.was_reached) {
                let host = self.task.host.name.clone();
                let error = match self.is_begun || self.conclusion.is_some() {
                    false => Error::Remote { host, why },
                    // The run goes on all the same.
                    true => self.disconnected(&why),
                };
                return self.give_up(error);
            }
            if self.last_contact != before {
                pauses = Pauses::default();
            }
            let left = self.time_left();
            // Once more, however late it was noticed that the connection had broken.
            if left.is_zero() && (self.tries > 0 || self.task.retry.is_zero()) {
                let why = if self.was_reached { String::new() } else { last_words(&ended) };
                let error = self.disconnected(why.trim_start_matches(": "));
                return self.give_up(error);
            }
            self.tries += 1;
            self.sleep(pauses.next(left));
            self.look_for_interruption()?;
        }
    }

    /// How long to try again.
    fn time_left(&self) -> Duration {
        let left = self.task.retry.saturating_sub(self.last_contact.elapsed());
        match self.leave_by {
            Some(end) => left.min(end.saturating_duration_since(Instant::now())),
            None => left,
        }
    }

    fn sleep(&self, pause: Duration) {
        let mut fds = [PollFd::new(self.interruption.as_fd(), PollFlags::POLLIN)];
        // Interrupted or not, the next attempt may come.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(pause)), None);
    }

    /// Goes on over one more connection. Returns how it ended; `None`: all is done.
    fn attempt(&mut self) -> Result<Option<Ended>, Broken> {
        let (mut connection, link) = match Connection::open(self.task.host) {
            Ok(opened) => opened,
            // It could be started before: there is too much of something for now.
            Err(_) if self.was_reached => return Ok(Some(Ended::default())),
            Err(error) => return Err(error.into()),
        };
        self.feed.reached_by(connection.ssh());
        let heard = self.hear(&mut connection, link);
        self.feed.disconnected();
        match heard {
            Ok(Heard::Broke(how)) => Ok(Some(connection.end(how))),
            Ok(Heard::All) => {
                connection.leave();
                Ok(None)
            }
            Err(broken) => {
                // One that works may be shared with others; one that is still being made may never be.
                if connection.is_open() {
                    connection.leave();
                } else {
                    connection.end(Waited::Silent);
                }
                Err(broken)
            }
        }
    }

    /// Says what came of it, once that is all there is to do.
    fn conclude(mut self) -> Result<Over, Broken> {
        let over = match self.conclusion.take() {
            Some(Conclusion::Over(over)) => over,
            Some(Conclusion::Failed(error)) => return Err(error.into()),
            None => return Err(Error::Internal("a run has no end").into()),
        };
        match self.lost {
            None | Some(Lost::Abandoned) => Ok(over),
            Some(Lost::Gone) => Ok(disconnected(&over).unwrap_or(over)),
            Some(lost) => Err(lost.into()),
        }
    }

    /// Nothing more can be done from here.
    fn give_up(self, error: Error) -> Result<Over, Broken> {
        if self.conclusion.is_some() {
            // What stays there is deleted with the next `forget --finished`.
            return self.conclude();
        }
        match self.lost {
            None => Err(error.into()),
            Some(lost) => {
                message::say_error(
                    &error.hidden(self.task.capture.mask.as_deref()),
                    &Arc::default(),
                );
                Err(lost.into())
            }
        }
    }

    fn disconnected(&self, why: &str) -> Error {
        let Task { host, id, .. } = &self.task;
        let typed = |options: &str| host.typed("attach", options, &[id.as_str()]);
        let before = if why.is_empty() { String::new() } else { format!("{why}; ") };
        let why = if self.is_begun || self.task.start.is_none() {
            let after = match (self.last_seq, self.task.lines) {
                (0, None) => String::new(),
                (0, Some([out, err])) => format!(" --from stdout={out},stderr={err}"),
                (seq, _) => format!(" --after {seq}"),
            };
            format!("{before}the run {id} goes on there; {} shows it", typed(&after))
        } else if self.was_reached {
            format!("{before}whether the run {id} was started is not known; {} tells", typed(""))
        } else {
            let why = if why.is_empty() { "the connection broke" } else { why };
            format!("{why}; the run {id} was not started there")
        };
        Error::Disconnected { host: host.name.clone(), why }
    }

    /// An end that was asked for before there was anything to be ended.
    fn look_for_interruption(&mut self) -> Result<(), Broken> {
        let Some(signal) = self.interruption.signal().filter(|_| !self.was_reached) else {
            return Ok(());
        };
        let host = &self.task.host.name;
        let message = format!("{host}: {signal} came before anything was started there");
        Err(Error::Reported { code: ErrorCode::RemoteFailed, status: signal.status(), message }
            .into())
    }

    /// Hears the other end until all is done, or until the connection ends.
    fn hear(&mut self, connection: &mut Connection, link: ChildStdin) -> Result<Heard, Broken> {
        let mut link = Some(link);
        let mut heard_at = Instant::now();
        self.repeated.clone_from(&self.since_chunk);
        loop {
            while let Some(line) = connection.line() {
                self.last_contact = Instant::now();
                self.tries = 0;
                if !self.take(line)? {
                    return Ok(Heard::Broke(Waited::Silent));
                }
                if self.is_done() {
                    return Ok(Heard::All);
                }
            }
            if connection.is_open()
                && let Some(link) = link.take()
            {
                // From here on a run may have been started.
                self.interruption.defer();
                self.look_for_interruption()?;
                self.was_reached = true;
                let opened = self.feed.connected(link, self.opening());
                opened.map_err(|source| Error::Spawn { step: "thread", source })?;
            }
            let due = self.refresh()?;
            let silent = self.longest_silence(connection.is_open(), heard_at);
            let consumers: &[BorrowedFd<'_>] =
                if self.lost.is_some() { &[] } else { &self.consumers };
            let interruption = Arc::clone(&self.interruption);
            let wake = (!self.was_reached).then_some(interruption.as_fd());
            let longest = [silent, due].into_iter().flatten().min();
            match connection.wait(longest, consumers, wake) {
                Waited::More => heard_at = Instant::now(),
                Waited::Woken => self.look_for_interruption()?,
                Waited::ConsumerGone => self.note(Err(Lost::Gone))?,
                Waited::Silent
                    if silent.is_none_or(|silent| due.is_some_and(|due| due < silent)) => {}
                how => return Ok(Heard::Broke(how)),
            }
        }
    }

    /// How long nothing more may come. The first connection takes as long as its user takes to type a password.
    fn longest_silence(&self, is_open: bool, heard_at: Instant) -> Option<Duration> {
        let mut longest = silence();
        if !is_open {
            longest = longest.min(self.time_left().max(LEAST_ATTEMPT));
        }
        let mut left = longest.saturating_sub(heard_at.elapsed());
        if let Some(end) = self.leave_by {
            left = left.min(end.saturating_duration_since(Instant::now()));
        }
        self.was_reached.then_some(left)
    }

    /// Shows what is due, and what was held back. Returns how long until something is due again.
    fn refresh(&mut self) -> Result<Option<Duration>, Broken> {
        if self.interruption.is_over() {
            // Whoever did not read in the time that there was gets no more; nothing of ours may wait for that.
            self.interruption.see();
        }
        if self.lost.is_some() || self.conclusion.is_some() {
            return Ok(None);
        }
        let now = self.last_at.0.saturating_add(self.last_at.1.elapsed());
        let refreshed = self.player.refresh(now);
        let due = match refreshed {
            Ok(due) => due.map(|due| due.saturating_sub(now).max(LEAST_WAIT)),
            Err(lost) => {
                self.note(Err(lost))?;
                None
            }
        };
        let heartbeat = self.beat(now)?;
        let flushed = self.player.flush();
        self.note(flushed)?;
        Ok([due, heartbeat].into_iter().flatten().min())
    }

    /// How long until a sign of life is due. One that is due now is shown here.
    fn beat(&mut self, now: Duration) -> Result<Option<Duration>, Broken> {
        let Some(every) = self.display.heartbeat.filter(|_| self.is_started_shown) else {
            return Ok(None);
        };
        let silent = self.last_shown.elapsed();
        if silent < every {
            return Ok(Some(every - silent));
        }
        self.last_shown = Instant::now();
        let [stdout_bytes, stderr_bytes] = self.bytes;
        let idle = Seconds(now.saturating_sub(self.last_output));
        let event =
            Event::Heartbeat(Heartbeat { t: Seconds(now), idle, stdout_bytes, stderr_bytes });
        let shown = self.player.sink().event(&event);
        self.note(shown)?;
        Ok(Some(every))
    }

    /// Whether there is nothing left to do.
    fn is_done(&self) -> bool {
        self.conclusion.is_some() && (self.leave_by.is_none() || self.feed.is_all_received())
    }

    /// Takes note of what became of something shown. A run that was to be as if it ran here is stopped with its
    /// reader.
    fn note(&mut self, shown: Result<(), Lost>) -> Result<(), Broken> {
        let Err(lost) = shown else { return Ok(()) };
        if self.task.hold == Hold::Watched {
            return Err(lost.into());
        }
        if self.display.on_disconnect == OnDisconnect::Continue && matches!(lost, Lost::Gone) {
            self.consumers.clear();
            return Ok(());
        }
        if self.lost.is_none() {
            // One that was abandoned did not read when the run had been stopped.
            if self.conclusion.is_none() && !matches!(lost, Lost::Abandoned) {
                self.feed.ask(Ask::Stop);
            }
            self.lost = Some(lost);
        }
        Ok(())
    }

    /// Takes one line from there. `false`: there is something missing before it.
    fn take(&mut self, line: &[u8]) -> Result<bool, Broken> {
        if let Some(seq) = chunk_seq(line) {
            return self.take_chunk(seq, line);
        }
        if let Ok(told) = serde_json::from_slice::<Tell>(line) {
            self.be_told(told)?;
            return Ok(true);
        }
        // What makes no sense was never written whole.
        let Ok(recorded) = parse(line.trim_ascii_end()) else { return Ok(true) };
        if self.conclusion.is_some() {
            return Ok(true);
        }
        match &recorded {
            Recorded::Event(Event::Result(result)) => {
                let over = Over { status: result.status, line: line.to_vec() };
                let shown = self.show(&recorded, line);
                self.conclude_with(Conclusion::Over(over));
                self.note(shown)?;
                let flushed = if self.lost.is_none() { self.player.flush() } else { Ok(()) };
                self.note(flushed)?;
                return Ok(true);
            }
            Recorded::Event(Event::Started(_)) => {
                if std::mem::replace(&mut self.is_started_shown, true) {
                    return Ok(true);
                }
                self.last_at = (Duration::ZERO, Instant::now());
            }
            Recorded::Event(Event::Dropped(dropped)) => {
                let up_to = dropped.after_seq.saturating_add(dropped.chunks);
                self.last_seq = self.last_seq.max(up_to);
            }
            _ => {}
        }
        if let Some(at) = self.repeated.iter().position(|seen| seen == line) {
            self.repeated.remove(at);
            return Ok(true);
        }
        self.since_chunk.push(line.to_vec());
        let shown = self.show(&recorded, line);
        self.note(shown)?;
        Ok(true)
    }

    /// Takes a chunk, each once and in order. `false`: there is one missing, which something broke on the way.
    fn take_chunk(&mut self, seq: u64, line: &[u8]) -> Result<bool, Broken> {
        if seq <= self.last_seq {
            return Ok(true);
        }
        let is_missing = self.task.lines.is_none() && seq > self.last_seq.saturating_add(1);
        // Where it is missing again there is none.
        if is_missing && self.missing_at.replace(self.last_seq) != Some(self.last_seq) {
            return Ok(false);
        }
        self.last_seq = seq;
        self.since_chunk.clear();
        self.repeated.clear();
        if self.lost.is_some() || self.conclusion.is_some() {
            return Ok(true);
        }
        self.last_shown = Instant::now();
        let is_looked_into = self.display.heartbeat.is_some();
        let shown = match self.player.show_as_written(line) {
            Ok(true) if !is_looked_into => Ok(()),
            Ok(is_shown) => match parse(line.trim_ascii_end()) {
                Ok(recorded) => {
                    if let Recorded::Chunk(chunk) = &recorded {
                        self.bytes[Stream::index(chunk.stream)] += chunk.bytes.len() as u64;
                        self.last_output = chunk.at;
                    }
                    self.note_time(&recorded);
                    if is_shown { Ok(()) } else { self.show(&recorded, line) }
                }
                Err(_) => Ok(()),
            },
            Err(lost) => Err(lost),
        };
        self.note(shown)?;
        Ok(true)
    }

    fn show(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        self.note_time(recorded);
        if self.lost.is_some() {
            return Ok(());
        }
        self.last_shown = Instant::now();
        self.player.show(recorded, line)
    }

    fn note_time(&mut self, recorded: &Recorded<'_>) {
        if let Some(at) = recorded.at() {
            self.last_at = (at, Instant::now());
        }
    }

    fn be_told(&mut self, told: Tell) -> Result<(), Broken> {
        match told {
            Tell::Begun { .. } => {
                self.is_begun = true;
                if let Some(limits) = self.task.limits
                    && let Some(timeout) = limits.timeout
                {
                    let longest = passing::longest(timeout, limits.kill_after);
                    self.interruption.end_at(Instant::now().checked_add(longest), None);
                }
            }
            // It was deleted, and only that was not heard.
            Tell::Failed { .. } if self.conclusion.is_some() => self.leave_by = None,
            Tell::Failed { code, status, message } => {
                let code = ErrorCode::from_word(&code).unwrap_or(ErrorCode::RemoteFailed);
                let error = Error::Reported { code, status, message };
                if code != ErrorCode::RunLost {
                    return Err(error.into());
                }
                self.conclude_with(Conclusion::Failed(error));
            }
            Tell::Received => self.feed.received(),
            Tell::Input { offset, closed } => {
                if self.feed.answered(offset, closed) {
                    let (fault, id) = (RunFault::StdinClosed, self.task.id.to_string());
                    message::say_error(&Error::Run { fault, id, why: None }, &Arc::default());
                }
            }
            Tell::Alive | Tell::Done { .. } => {}
        }
        Ok(())
    }

    /// All was seen. A run that is ours leaves nothing there.
    fn conclude_with(&mut self, conclusion: Conclusion) {
        self.conclusion = Some(conclusion);
        if self.task.hold == Hold::Ours {
            self.leave_by = Instant::now().checked_add(LAST_WORDS);
            self.feed.ask(Ask::Forget);
        }
    }
}

/// What a result begins with, before what is kept of the output.
#[derive(Serialize, Deserialize)]
struct Head {
    op: String,
    exit_code: Option<u8>,
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_dumped: Option<bool>,
    status: u8,
    timed_out: bool,
    stopped_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<String>,
}

/// The result of a run that was stopped since its reader had gone; `None` where it makes no sense.
fn disconnected(over: &Over) -> Option<Over> {
    const STDOUT: &[u8] = b",\"stdout\":";
    let at = memchr::memmem::find(&over.line, STDOUT)?;
    let mut head: Head = serde_json::from_slice(&[&over.line[..at], b"}"].concat()).ok()?;
    if head.stopped_by.is_none() || head.stopped_by.as_deref() == Some(StopReason::Signal.as_str())
    {
        head.stopped_by = Some(StopReason::Disconnect.as_str().to_owned());
        head.received = None;
    }
    if !head.timed_out {
        head.status = STATUS_DISCONNECTED;
    }
    let mut line = serde_json::to_vec(&head).ok()?;
    line.pop();
    line.extend_from_slice(&over.line[at..]);
    Some(Over { status: head.status, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stopped_since_its_reader_had_gone_says_so_and_keeps_all_else() {
        let result = |status: u8, stopped_by: &str, received: &str| {
            let rest = r#""stdout":"\u00e9\",\"stdout\":","stderr":"","stdout_base64":"//4=""#;
            let line = format!(
                "{{\"op\":\"result\",\"exit_code\":null,\"signal\":\"SIGTERM\",\"status\":{status},\
                 \"timed_out\":{},\"stopped_by\":{stopped_by}{received},{rest}}}\n",
                status == 124
            );
            Over { status, line: line.into_bytes() }
        };
        let said = |over: &Over| {
            let over = disconnected(over).expect("it makes sense");
            (over.status, String::from_utf8(over.line).expect("it is text"))
        };
        let expected =
            String::from_utf8(result(141, "\"disconnect\"", "").line).expect("it is text");
        let received = ",\"received\":\"SIGTERM\"";
        assert_eq!(said(&result(143, "\"signal\"", received)), (141, expected.clone()));
        assert_eq!(said(&result(143, "null", "")), (141, expected));
        let late = result(124, "\"timeout\"", "");
        assert_eq!(said(&late), (124, String::from_utf8(late.line.clone()).expect("it is text")));
    }
}
