//! Looks at a run: shows all that came and comes of it, waits for it, speaks to it.
//!
//! Whoever looks changes nothing about the run, however slow or suddenly gone.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::time::TimeSpec;

use crate::engine::ending::Ending;
use crate::engine::player::Player;
use crate::engine::show;
use crate::model::error::{Error, RunFault};
use crate::model::outcome::STATUS_DISCONNECTED;
use crate::model::recorded::parse;
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::model::spec::{Capture, Display, Streams};
use crate::runs::client;
use crate::runs::folder::{Folder, State};
use crate::runs::follow::{Follower, From};
use crate::runs::home::{Home, socket_path, unknown};
use crate::sink::destination::{Lost, Patience};
use crate::sink::message;

/// How often to look though nothing was heard: not all file systems tell of changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How soon to look again while there is no keeper to be heard of.
const LOOK_SOON: Duration = Duration::from_millis(10);

/// The shortest wait: less is not worth a wake-up.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Finds a run.
///
/// # Errors
///
/// Where there is none of that name.
pub fn find(id: &RunId) -> Result<Folder, Error> {
    match Home::open()? {
        Some(home) => home.run(id),
        None => Err(unknown(id)),
    }
}

/// Why looking ended before the run did.
enum Broken {
    Lost(Lost),
    Failed(Error),
}

impl std::convert::From<Lost> for Broken {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl std::convert::From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Whether our standard input goes to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendsInput {
    /// It does, and where it ends the run's own is closed.
    Yes,
    /// It does not.
    No,
}

/// Shows a run from `from` on until it is over, and returns its exit status.
#[must_use]
pub fn attach(
    id: &RunId,
    from: From,
    input: SendsInput,
    display: &Display,
    capture: &Capture,
) -> u8 {
    let patience = Arc::new(Patience::default());
    let sink = match show::make_sink(display, capture, None, &patience) {
        Ok(sink) => sink,
        Err(error) => {
            message::say_error(&error, &patience);
            return error.status();
        }
    };
    let mut player = Player::new(sink, display.format, capture);
    if input == SendsInput::Yes {
        send_ours(id, &patience);
    }
    match follow(id, from, display, &mut player) {
        Ok(status) => status,
        Err(Broken::Lost(Lost::Gone | Lost::Abandoned)) => STATUS_DISCONNECTED,
        Err(Broken::Lost(Lost::Failed(error))) => {
            message::say_error(&error, &patience);
            error.status()
        }
        Err(Broken::Failed(error)) => {
            let ending = Ending::of_failure(error, None);
            ending.conclude(player.sink(), &mut None, display, &patience).status()
        }
    }
}

/// Sends our standard input to the run, on a thread of its own, for as long as that takes any.
fn send_ours(id: &RunId, patience: &Arc<Patience>) {
    let (id, patience) = (id.clone(), Arc::clone(patience));
    let told = Arc::clone(&patience);
    let made = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        match send(&id, &mut io::stdin().lock(), None, true) {
            // That it is over is told by its result.
            Ok(_) | Err(Error::Run { fault: RunFault::Ended, .. }) => {}
            Err(error) => message::say_error(&error, &told),
        }
    });
    if let Err(source) = made {
        message::say_error(&Error::Spawn { step: "thread", source }, &patience);
    }
}

fn follow(id: &RunId, from: From, display: &Display, player: &mut Player) -> Result<u8, Broken> {
    let mut observer = Observer::new(id, from)?;
    let consumers = show::watched(Streams::Separate, display)?;
    let begun = Instant::now();
    let mut lines = Vec::new();
    loop {
        match observer.next(&mut lines)? {
            News::Lines => show_lines(player, &lines)?,
            News::Over => {
                show_lines(player, &lines)?;
                player.flush()?;
                return player.status().ok_or_else(|| lost(id).into());
            }
            News::Nothing => {
                player.flush()?;
                let now = begun.elapsed();
                let due = player.refresh(now)?.map(|due| due.saturating_sub(now).max(LEAST_WAIT));
                observer
                    .wait(due.unwrap_or(LOOK_AGAIN), &consumers)
                    .map_err(|ConsumerGone| Lost::Gone)?;
            }
        }
    }
}

fn lost(id: &RunId) -> Error {
    Error::Run { fault: RunFault::Lost, id: id.to_string(), why: None }
}

fn show_lines(player: &mut Player, lines: &[u8]) -> Result<(), Lost> {
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        if player.show_as_written(line)? {
            continue;
        }
        // What makes no sense was never seen whole by anybody.
        if let Ok(recorded) = parse(line.trim_ascii_end()) {
            player.show(&recorded, line)?;
        }
    }
    Ok(())
}

/// What an [`Observer`] has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Lines have come.
    Lines,
    /// The last line has come: the result.
    Over,
    /// Nothing has come yet.
    Nothing,
}

/// Whoever reads what is shown has gone.
#[derive(Debug)]
pub(crate) struct ConsumerGone;

/// Sees all that comes of a run.
pub(crate) struct Observer {
    id: RunId,
    folder: Arc<Folder>,
    follower: Follower,
    is_told: bool,
    /// The result, while lines before it may still have to be read.
    result: Option<Vec<u8>>,
    changes: Option<Inotify>,
    keeper: Option<UnixStream>,
}

impl Observer {
    /// Finds the run.
    pub(crate) fn new(id: &RunId, from: From) -> Result<Self, Error> {
        let folder = Arc::new(find(id)?);
        // Without it, it is looked at from time to time.
        let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let changes = changes.filter(|changes| {
            let what = AddWatchFlags::IN_MODIFY
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_DELETE_SELF;
            changes.add_watch(&socket_path(&folder.dir(), "."), what).is_ok()
        });
        Ok(Self {
            id: id.clone(),
            follower: Follower::new(Arc::clone(&folder), from),
            keeper: client::watch(&folder),
            folder,
            is_told: false,
            result: None,
            changes,
        })
    }

    /// Puts what has come into `lines`, in place of what is there.
    pub(crate) fn next(&mut self, lines: &mut Vec<u8>) -> Result<News, Error> {
        let id = &self.id;
        let unreadable = |error: io::Error| unreadable(id, &error);
        lines.clear();
        if !self.is_told
            && let Some((_, started)) = self.folder.about().map_err(unreadable)?
        {
            self.is_told = true;
            lines.extend_from_slice(&started);
            return Ok(News::Lines);
        }
        loop {
            if self.follower.next(lines).map_err(unreadable)? {
                return Ok(News::Lines);
            }
            if let Some(result) = self.result.take() {
                self.follower.finish(lines).map_err(unreadable)?;
                lines.extend_from_slice(&result);
                return Ok(News::Over);
            }
            match self.folder.state().map_err(unreadable)? {
                // What is in the journal now is all there is.
                State::Ended(result) => self.result = Some(result),
                State::Lost => {
                    if self.follower.next(lines).map_err(unreadable)? {
                        return Ok(News::Lines);
                    }
                    return Err(lost(id));
                }
                State::Elsewhere(host) => return Err(client::elsewhere(id, &host)),
                State::Starting | State::Running => return Ok(News::Nothing),
            }
        }
    }

    /// Waits until something may have come, at most so long.
    pub(crate) fn wait(
        &mut self,
        longest: Duration,
        consumers: &[BorrowedFd<'_>],
    ) -> Result<(), ConsumerGone> {
        if self.keeper.is_none() {
            self.keeper = client::watch(&self.folder);
        }
        // Without its keeper it starts, or is about to be seen as ended.
        let longest = longest.min(if self.keeper.is_some() { LOOK_AGAIN } else { LOOK_SOON });
        let mut fds: Vec<PollFd<'_>> =
            consumers.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())).collect();
        fds.extend(self.changes.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let keeper_at = fds.len();
        fds.extend(self.keeper.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        // Interrupted or not, all is looked at anew.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None);
        let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        if fds[..consumers.len()].iter().any(is_set) {
            return Err(ConsumerGone);
        }
        let is_keeper_gone = fds.get(keeper_at).is_some_and(is_set);
        drop(fds);
        if is_keeper_gone {
            self.keeper = None;
        }
        if let Some(changes) = &self.changes {
            // What changed is found by looking.
            let _ = changes.read_events();
        }
        Ok(())
    }
}

/// Waits until a run is over, at most for `timeout`, and returns its result, a line with its end; `None`: it is
/// not over.
///
/// # Errors
///
/// Where it is lost or cannot be looked at.
pub fn wait(id: &RunId, timeout: Option<Duration>) -> Result<Option<Vec<u8>>, Error> {
    let folder = find(id)?;
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let keeper = client::watch(&folder);
        match folder.state().map_err(|error| unreadable(id, &error))? {
            State::Ended(result) => return Ok(Some(result)),
            State::Lost => return Err(lost(id)),
            State::Elsewhere(host) => return Err(client::elsewhere(id, &host)),
            State::Starting | State::Running => {}
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        // Without a connection the keeper is just starting or ending.
        let longest = if keeper.is_some() { LOOK_AGAIN } else { Duration::from_millis(10) };
        let longest = left.map_or(longest, |left| left.min(longest));
        let mut fds: Vec<PollFd<'_>> =
            keeper.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        // Interrupted or not, all is looked at anew.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None);
    }
}

fn unreadable(id: &RunId, error: &io::Error) -> Error {
    Error::Home { path: id.as_str().into(), why: crate::model::error::reason(error) }
}

/// What a signal is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Send {
    /// For what it does by itself.
    Signal(Signal),
    /// As if the keeper had received it.
    Received(Signal),
    /// To stop the run as a timeout would.
    Stop,
}

/// Signals the processes of a run. `once` is what the same request has the same when it is made again.
///
/// # Errors
///
/// Where it is over or cannot be spoken to.
pub fn signal(id: &RunId, what: Send, once: Option<String>) -> Result<(), Error> {
    let folder = find(id)?;
    match what {
        Send::Signal(signal) => client::signal(&folder, id, signal, once),
        Send::Received(signal) => client::receive(&folder, id, signal, once),
        Send::Stop => client::stop(&folder, id),
    }
}

/// Sends one part of a run's standard input, which belongs at `offset`, and returns how many bytes that has then.
/// `eof`: nothing follows it.
///
/// # Errors
///
/// Where it is not taken.
pub fn send_part(id: &RunId, offset: u64, part: &[u8], eof: bool) -> Result<u64, Error> {
    client::send_part(&find(id)?, id, offset, part, eof)
}

/// How many bytes the standard input of a run has.
///
/// # Errors
///
/// Where it is over, or its input closed.
pub fn input_bytes(id: &RunId) -> Result<u64, Error> {
    client::input_bytes(&find(id)?, id)
}

/// Sends all that `source` gives to the standard input of a run, from `offset` on if that is said, and returns how
/// many bytes that has then.
///
/// # Errors
///
/// Where it is not taken.
pub fn send(
    id: &RunId,
    source: &mut impl Read,
    offset: Option<u64>,
    eof: bool,
) -> Result<u64, Error> {
    client::send(&find(id)?, id, source, offset, eof)
}
