//! Shows a run on another machine as if it were here, over as many connections as that takes.

mod taking;

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::engine::player::{Broken, LEAST_WAIT, Player};
use crate::engine::run::open_result;
use crate::engine::show;
use crate::model::error::{Error, ErrorCode};
use crate::model::event::{Event, Heartbeat, Seconds};
use crate::model::json::line;
use crate::model::recorded::{Recorded, parse};
use crate::model::spec::{Display, OnDisconnect, Streams};
use crate::remote::connection::{Connection, Ended, Waited};
use crate::remote::feed::Feed;
use crate::remote::host::{last_words, permanent};
use crate::remote::passing::{Interruption, pass_input, pass_signals};
use crate::remote::pauses::Pauses;
use crate::remote::result_line::{Here, ResultLine};
use crate::remote::task::{Hold, Input, Task};
use crate::remote::wire::{Ask, silence};
use crate::sink::destination::{Lost, Patience};
use crate::sink::message;

/// How long to try to leave nothing there once the result was shown. Shorter, and a run's folder stays when the
/// connection breaks just then; longer, and whoever waits for a run that is over waits for that.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long an attempt has at least, however little time is left.
const LEAST_ATTEMPT: Duration = Duration::from_secs(2);

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
        Err(broken) => {
            return broken.conclude(&mut player, mask, &mut result_file, display, &patience);
        }
    };
    player.say_missing(display, &patience);
    match result_file.take().map(|file| file.replace(&over.line, &patience)) {
        Some(Err(error)) => {
            message::say_error(&error, &patience);
            error.status()
        }
        _ => over.status,
    }
}

/// How it ends, while the other end may still have to be asked to keep nothing.
enum Conclusion {
    Over(ResultLine),
    Failed(Error),
}

struct Session<'a> {
    task: Task<'a>,
    display: &'a Display,
    player: &'a mut Player,
    patience: Arc<Patience>,
    feed: Feed,
    interruption: Arc<Interruption>,
    /// Whether standard input is sent.
    has_input: bool,
    consumers: Vec<BorrowedFd<'static>>,
    /// When a whole line last came from there that had not come before.
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
    /// When the last sign of life was.
    beat_at: Duration,
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
            patience: Arc::clone(patience),
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
            beat_at: Duration::ZERO,
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

    fn run(mut self) -> Result<ResultLine, Broken> {
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
    fn conclude(mut self) -> Result<ResultLine, Broken> {
        let over = match self.conclusion.take() {
            Some(Conclusion::Over(over)) => over,
            Some(Conclusion::Failed(error)) => return Err(error.into()),
            None => return Err(Error::Internal("a run has no end").into()),
        };
        let over = match self.complete(&over.line) {
            Some(complete) if complete.line != over.line => {
                // Who was to see the result was lost on it.
                if let Ok(Recorded::Event(result)) = parse(complete.line.trim_ascii_end()) {
                    let amended = self.player.sink().amend(&result);
                    self.note(amended)?;
                }
                complete
            }
            _ => over,
        };
        if let Some(Lost::Failed(error)) = &self.lost {
            message::say_error(error, &self.patience);
        }
        Ok(over)
    }

    /// The result with what is known here, if anything. Whoever only looks at a run is told the run's own.
    fn complete(&mut self, line: &[u8]) -> Option<ResultLine> {
        if self.task.hold == Hold::Watched {
            return None;
        }
        let here = Here {
            lost: self.lost.as_ref(),
            ended_by: self.patience.ended_by(),
            account: self.player.sink().account(),
            shows: !self.display.quiet,
        };
        here.complete(line)
    }

    /// Whether nobody sees what comes any more: one of two streams may be left, or a recording.
    fn is_unseen(&mut self) -> bool {
        self.lost.is_some() && self.player.sink().is_lost()
    }

    /// Nothing more can be done from here.
    fn give_up(self, error: Error) -> Result<ResultLine, Broken> {
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
        if self.is_unseen() || self.conclusion.is_some() {
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
        // What came since the last one may be older than that was.
        self.beat_at = self.beat_at.max(now);
        let t = Seconds(self.beat_at);
        let event = Event::Heartbeat(Heartbeat { t, idle, stdout_bytes, stderr_bytes });
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
}
