//! Shows a run on another machine as if it were here, over as many connections as that takes.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::iterator::Signals;

use crate::engine::ending::Ending;
use crate::engine::player::Player;
use crate::engine::run::open_result;
use crate::engine::show;
use crate::model::error::{Error, ErrorCode};
use crate::model::event::Event;
use crate::model::outcome::STATUS_DISCONNECTED;
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::model::spec::{Capture, Display, Limits, OnDisconnect, Streams};
use crate::remote::connection::{Connection, Waited};
use crate::remote::feed::Feed;
use crate::remote::host::{Host, permanent};
use crate::remote::wire::{Ask, Bytes, SILENCE, Tell, line};
use crate::runs::segments::chunk_seq;
use crate::sink::destination::{Lost, Patience};
use crate::sink::message;
use crate::sys::signals;

/// The first pause before the next attempt; each is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long the other end has to say that it did the last that was asked of it.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
    /// The secrets.
    pub secrets: Vec<Bytes>,
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
    let shown = Session::new(task, display, &mut player).and_then(Session::run);
    match shown {
        Ok(over) => match result_file.take().map(|file| file.replace(&over.line, &patience)) {
            Some(Err(error)) => {
                message::say_error(&error, &patience);
                error.status()
            }
            _ => over.status,
        },
        Err(Broken::Lost(Lost::Gone | Lost::Abandoned)) => STATUS_DISCONNECTED,
        Err(Broken::Lost(Lost::Failed(error))) => {
            message::say_error(&error, &patience);
            error.status()
        }
        Err(Broken::Failed(error)) => {
            let ending = Ending::of_failure(error, mask);
            ending.conclude(player.sink(), &mut result_file, display, &patience).status()
        }
    }
}

/// The result, and what it says.
struct Over {
    status: u8,
    line: Vec<u8>,
}

struct Session<'a> {
    task: Task<'a>,
    display: &'a Display,
    player: &'a mut Player,
    feed: Feed,
    consumers: Vec<BorrowedFd<'static>>,
    /// When a whole line last came from there.
    last_contact: Instant,
    /// Whether the other end was ever heard of.
    was_reached: bool,
    is_begun: bool,
    is_started_shown: bool,
    last_seq: u64,
    /// Events that were shown since the last chunk: over the next connection they come again.
    since_chunk: Vec<Vec<u8>>,
    /// Whoever reads what is shown is lost, and nothing is shown any more.
    lost: Option<Lost>,
}

impl<'a> Session<'a> {
    fn new(
        mut task: Task<'a>,
        display: &'a Display,
        player: &'a mut Player,
    ) -> Result<Self, Broken> {
        let consumers = show::watched(Streams::Separate, display)?;
        let failed = |source| Error::Spawn { step: "thread", source };
        let feed = Feed::new().map_err(failed)?;
        if task.hold != Hold::Watched {
            pass_signals(&feed, &task).map_err(failed)?;
        }
        match std::mem::replace(&mut task.input, Input::None) {
            Input::None => {}
            Input::Ours => pass_input(&feed, std::io::stdin()).map_err(failed)?,
            Input::From(file) => pass_input(&feed, file).map_err(failed)?,
        }
        let last_seq = task.after;
        Ok(Self {
            task,
            display,
            player,
            feed,
            consumers,
            last_contact: Instant::now(),
            was_reached: false,
            is_begun: false,
            is_started_shown: false,
            last_seq,
            since_chunk: Vec::new(),
            lost: None,
        })
    }

    /// What is said first on a connection.
    fn opening(&self) -> Vec<u8> {
        let id = self.task.id.to_string();
        let mut said = Vec::new();
        if let (Some(Start { words, secrets }), false) = (&self.task.start, self.is_begun) {
            said.extend(line(&Ask::Start { words: words.clone(), secrets: secrets.clone() }));
        }
        if self.task.start.is_some() {
            said.extend(line(&Ask::Feed { id: id.clone() }));
        }
        // Where lines were asked for, the number of the first chunk is known only once one has come.
        let lines = self.task.lines.filter(|_| self.last_seq == 0);
        said.extend(line(&Ask::Attach { id, after: self.last_seq, lines }));
        said
    }

    fn run(mut self) -> Result<Over, Broken> {
        let mut pause = FIRST_PAUSE;
        loop {
            let (mut connection, link) = Connection::open(self.task.host)?;
            self.feed.connected(link, self.opening());
            let before = self.last_contact;
            let over = self.hear(&mut connection);
            if let Ok(Some(over)) = over {
                self.leave(&mut connection);
                return Ok(over);
            }
            let was_open = connection.is_open();
            // First ssh, then the way to it: whoever writes into it is woken by its end.
            let (status, said) = connection.end();
            self.feed.disconnected();
            over?;
            if let Some(lost) = self.lost.take() {
                return Err(lost.into());
            }
            if !was_open && let Some(why) = permanent(status, &said, self.was_reached) {
                return Err(Error::Remote { host: self.task.host.name.clone(), why }.into());
            }
            if self.last_contact != before {
                pause = FIRST_PAUSE;
            }
            let left = self.task.retry.saturating_sub(self.last_contact.elapsed());
            if left.is_zero() {
                return Err(self.disconnected().into());
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn disconnected(&self) -> Error {
        let (host, id) = (&self.task.host.name, self.task.id);
        let after =
            if self.last_seq > 0 { format!(" --after {}", self.last_seq) } else { String::new() };
        let why = if self.is_begun || self.task.start.is_none() {
            format!("the run {id} goes on there; runcast attach --host {host}{after} {id} shows it")
        } else {
            format!(
                "whether the run {id} was started is not known; runcast attach --host {host} {id} tells"
            )
        };
        Error::Disconnected { host: host.clone(), why }
    }

    /// Hears the other end until the result, or until the connection ends.
    fn hear(&mut self, connection: &mut Connection) -> Result<Option<Over>, Broken> {
        let begun = Instant::now();
        loop {
            while let Some(line) = connection.line() {
                self.last_contact = Instant::now();
                self.was_reached = true;
                if let Some(over) = self.take(line)? {
                    let flushed = self.player.flush();
                    self.note(flushed)?;
                    return Ok(Some(over));
                }
            }
            if connection.is_open() {
                self.was_reached = true;
            }
            if self.lost.is_none() {
                let flushed = self.player.flush();
                self.note(flushed)?;
            } else if self.feed.is_all_received() || begun.elapsed() > LAST_WORDS {
                return Ok(None);
            }
            let consumers: &[BorrowedFd<'_>] =
                if self.lost.is_some() { &[] } else { &self.consumers };
            // The first connection takes as long as its user takes to type a password.
            let longest = (self.was_reached || self.lost.is_some()).then_some(SILENCE);
            match connection.wait(longest, consumers) {
                Waited::More => {}
                Waited::Ended | Waited::Silent => return Ok(None),
                Waited::ConsumerGone => self.note(Err(Lost::Gone))?,
            }
        }
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
            self.lost = Some(lost);
            self.feed.ask(Ask::Stop);
        }
        Ok(())
    }

    /// Takes one line from there.
    fn take(&mut self, line: &[u8]) -> Result<Option<Over>, Broken> {
        if self.lost.is_some() {
            if let Ok(Tell::Received) = serde_json::from_slice(line) {
                self.feed.received();
            }
            return Ok(None);
        }
        if let Some(seq) = chunk_seq(line) {
            if seq > self.last_seq {
                self.last_seq = seq;
                self.since_chunk.clear();
                let shown = match self.player.show_as_written(line) {
                    Ok(true) => Ok(()),
                    Ok(false) => self.show(line),
                    Err(lost) => Err(lost),
                };
                self.note(shown)?;
            }
            return Ok(None);
        }
        if let Ok(told) = serde_json::from_slice::<Tell>(line) {
            self.be_told(told)?;
            return Ok(None);
        }
        let recorded = parse(line.trim_ascii_end());
        match &recorded {
            Ok(Recorded::Event(Event::Result(result))) => {
                let over = Over { status: result.status, line: line.to_vec() };
                let shown = self.show(line);
                self.note(shown)?;
                return Ok(Some(over));
            }
            Ok(Recorded::Event(Event::Started(_)))
                if std::mem::replace(&mut self.is_started_shown, true) =>
            {
                return Ok(None);
            }
            Ok(Recorded::Event(Event::Dropped(dropped))) => {
                self.last_seq = self.last_seq.max(dropped.after_seq + dropped.chunks);
            }
            // What makes no sense was never written whole.
            Err(_) => return Ok(None),
            Ok(_) => {}
        }
        if self.since_chunk.iter().any(|seen| seen == line) {
            return Ok(None);
        }
        self.since_chunk.push(line.to_vec());
        let shown = self.show(line);
        self.note(shown)?;
        Ok(None)
    }

    fn show(&mut self, line: &[u8]) -> Result<(), Lost> {
        match parse(line.trim_ascii_end()) {
            Ok(recorded) => self.player.show(&recorded, line),
            Err(_) => Ok(()),
        }
    }

    fn be_told(&mut self, told: Tell) -> Result<(), Broken> {
        match told {
            Tell::Begun { .. } => self.is_begun = true,
            Tell::Failed { code, status, message } => {
                let code = ErrorCode::from_word(&code).unwrap_or(ErrorCode::RemoteFailed);
                return Err(Error::Reported { code, status, message }.into());
            }
            Tell::Received => self.feed.received(),
            Tell::Input { offset, closed } => self.feed.answered(offset, closed),
            Tell::Alive | Tell::Done { .. } => {}
        }
        Ok(())
    }

    /// All was seen.
    fn leave(&mut self, connection: &mut Connection) {
        if self.task.hold == Hold::Ours {
            self.feed.ask(Ask::Forget);
            let begun = Instant::now();
            while !self.feed.is_all_received() && begun.elapsed() < LAST_WORDS {
                while let Some(line) = connection.line() {
                    if let Ok(Tell::Received) = serde_json::from_slice(line) {
                        self.feed.received();
                    }
                }
                if !self.feed.is_all_received()
                    && connection.wait(Some(LAST_WORDS), &[]) != Waited::More
                {
                    // It stays there until somebody forgets it.
                    break;
                }
            }
        }
        self.feed.disconnected();
    }
}

/// Passes signals on, as long as the process lives. A second INT, while the first is under way, ends it.
fn pass_signals(feed: &Feed, task: &Task<'_>) -> std::io::Result<()> {
    let passed = [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALRM,
    ];
    let passed = passed.into_iter().filter(|signal| !signals::is_ignored(*signal));
    let mut signals = Signals::new(passed.map(Signal::number))?;
    let (feed, host, id) = (feed.clone(), task.host.name.clone(), task.id.clone());
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut is_interrupted = false;
        for number in &mut signals {
            let Some(signal) = Signal::from_number(number) else { continue };
            if signal == Signal::INT && std::mem::replace(&mut is_interrupted, true) {
                let text = format!(
                    "left the run {id} on {host}; runcast attach --host {host} {id} shows it"
                );
                message::say(text, &Arc::default());
                // Whatever the other threads wait for may never come.
                std::process::exit(i32::from(Signal::INT.status()));
            }
            feed.ask(Ask::Receive { signal: signal.to_string() });
        }
    })?;
    Ok(())
}

/// Passes input on until it ends, or the run takes no more.
fn pass_input(feed: &Feed, mut source: impl Read + Send + 'static) -> std::io::Result<()> {
    let feed = feed.clone();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if feed.push(&buffer[..count]) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Nobody wants it, or it cannot be read: what was read is all there is.
                _ => break,
            }
        }
        feed.complete();
    })?;
    Ok(())
}
