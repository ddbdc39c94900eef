//! Sees what becomes of a run: all that comes of it, until it is over.
//!
//! It neither shows nor changes anything.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::time::TimeSpec;

use crate::engine::player::LEAST_WAIT;
use crate::model::error::{Error, RunFault};
use crate::model::run_id::RunId;
use crate::runs::client;
use crate::runs::closing;
use crate::runs::folder::{Folder, State};
use crate::runs::follow::{Follower, Since};
use crate::runs::home::{Home, socket_path, unknown};
use crate::runs::segments::Before;

/// How often to look though nothing was heard: not all file systems tell of changes.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often to look where nothing tells of changes. Too seldom, and output is late; too often, and many who look
/// take the processor.
const LOOK_UNTOLD: Duration = Duration::from_millis(50);

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
    /// The result, while lines before it may still have to be read, and how much output there was in all.
    end: Option<(Vec<u8>, Option<Before>)>,
    /// Its keeper died, and what it wrote before may still have to be read.
    is_lost: bool,
    /// Whether `changes` was tried.
    is_watched: bool,
    changes: Option<Inotify>,
    keeper: KeeperWatch,
}

impl Observer {
    /// Finds the run.
    pub(crate) fn new(id: &RunId, since: Since) -> Result<Self, Error> {
        let folder = Arc::new(find(id)?);
        Ok(Self {
            id: id.clone(),
            follower: Follower::new(Arc::clone(&folder), since),
            keeper: KeeperWatch::default(),
            folder,
            is_told: false,
            end: None,
            is_lost: false,
            is_watched: false,
            changes: None,
        })
    }

    /// Puts what has come into `lines`, in place of what is there.
    pub(crate) fn next(&mut self, lines: &mut Vec<u8>) -> Result<News, Error> {
        let id = &self.id;
        let unreadable = |error: io::Error| Error::run_folder(id, &error);
        lines.clear();
        if !self.is_told
            && let Some((_, started)) = self.folder.about().map_err(unreadable)?
        {
            self.is_told = true;
            lines.extend_from_slice(&started);
            // Had before anything is shown, whoever forgets the run takes only what is not shown yet.
            self.end = self.find_end().map_err(unreadable)?;
            return Ok(News::Lines);
        }
        loop {
            if self.follower.next(lines).map_err(unreadable)? {
                return Ok(News::Lines);
            }
            if let Some((result, totals)) = self.end.take() {
                self.follower.finish(totals, lines).map_err(unreadable)?;
                lines.extend_from_slice(&result);
                return Ok(News::Over);
            }
            if self.is_lost {
                self.follower.finish(None, lines).map_err(unreadable)?;
                if !lines.is_empty() {
                    return Ok(News::Lines);
                }
                return Err(gone(id, &self.folder, self.is_told));
            }
            match self.folder.state().map_err(unreadable)? {
                // What is in the journal now is all there is.
                State::Ended(result) => {
                    let totals = closing::totals(&self.folder).map_err(unreadable)?;
                    self.end = Some((result, totals));
                }
                State::Lost => self.is_lost = true,
                State::Elsewhere(host) => {
                    return Err(client::elsewhere(RunFault::Unknown, id, &host));
                }
                State::Starting | State::Running => return Ok(News::Nothing),
            }
        }
    }

    fn find_end(&self) -> io::Result<Option<(Vec<u8>, Option<Before>)>> {
        let Some(result) = self.folder.result()? else { return Ok(None) };
        Ok(Some((result, closing::totals(&self.folder)?)))
    }

    /// Waits until something may have come, at most so long.
    pub(crate) fn wait(
        &mut self,
        longest: Duration,
        consumers: &[BorrowedFd<'_>],
    ) -> Result<(), ConsumerGone> {
        if !self.is_watched {
            // Not before: to end a watch takes longer than to show a run that is over. What came until now is found
            // by looking once more.
            self.is_watched = true;
            self.changes = watch(&self.folder);
            return Ok(());
        }
        let mut longest = longest.min(self.keeper.look(&self.folder));
        if self.changes.is_none() {
            longest = longest.min(LOOK_UNTOLD);
        }
        let mut fds: Vec<PollFd<'_>> =
            consumers.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())).collect();
        fds.extend(self.changes.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let keeper_at = fds.len();
        fds.extend(self.keeper.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        // Interrupted or not, all is looked at anew.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None);
        let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        if fds[..consumers.len()].iter().any(is_set) {
            return Err(ConsumerGone);
        }
        let is_keeper_gone = fds.get(keeper_at).is_some_and(is_set);
        drop(fds);
        if is_keeper_gone {
            self.keeper.hung_up();
        }
        if let Some(changes) = &self.changes {
            // What changed is found by looking.
            let _ = changes.read_events();
        }
        Ok(())
    }
}

/// Tells of changes in the folder; `None` where that cannot be had.
fn watch(folder: &Folder) -> Option<Inotify> {
    let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let what = AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_DELETE_SELF;
    changes.add_watch(&socket_path(&folder.dir(), "."), what).ok()?;
    Some(changes)
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
    let (mut keeper, mut was_there) = (KeeperWatch::default(), false);
    loop {
        let longest = keeper.look(&folder);
        match folder.state().map_err(|error| Error::run_folder(id, &error))? {
            State::Ended(result) => return Ok(Some(result)),
            State::Lost => return Err(gone(id, &folder, was_there)),
            State::Elsewhere(host) => return Err(client::elsewhere(RunFault::Unknown, id, &host)),
            State::Starting => {}
            State::Running => was_there = true,
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        let longest = left.map_or(longest, |left| left.min(longest));
        let mut fds: Vec<PollFd<'_>> =
            keeper.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).into_iter().collect();
        // Interrupted or not, all is looked at anew.
        let heard = ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None);
        drop(fds);
        if heard.is_ok_and(|count| count > 0) {
            keeper.hung_up();
        }
    }
}

/// A connection to the keeper that ends with it, made again where it was cut.
#[derive(Debug, Default)]
struct KeeperWatch {
    stream: Option<UnixStream>,
    /// How often in a row it was cut, or could not be made: the keeper starts, or ends, or has too many to hear.
    failures: u32,
    next_try: Option<Instant>,
}

impl KeeperWatch {
    /// Makes it if it is due, and returns how long not to look at the run at most.
    fn look(&mut self, folder: &Folder) -> Duration {
        let now = Instant::now();
        if self.stream.is_none() && self.next_try.is_none_or(|at| at <= now) {
            self.stream = client::watch(folder);
            if self.stream.is_none() {
                self.put_off(now);
            }
        }
        match self.next_try {
            Some(at) if self.stream.is_none() => at.saturating_duration_since(now).max(LEAST_WAIT),
            _ => LOOK_AGAIN,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(|stream| stream.as_fd())
    }

    /// The keeper ended it.
    fn hung_up(&mut self) {
        self.stream = None;
        self.put_off(Instant::now());
    }

    fn put_off(&mut self, now: Instant) {
        let pause = LEAST_WAIT.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        self.next_try = now.checked_add(pause.min(LOOK_AGAIN));
    }
}

/// Why there is no result and never will be.
fn gone(id: &RunId, folder: &Folder, was_there: bool) -> Error {
    match was_there && folder.is_forgotten().unwrap_or(false) {
        true => Error::run(RunFault::Unknown, id, Some("it was forgotten".to_owned())),
        false => lost(id),
    }
}

fn lost(id: &RunId) -> Error {
    Error::run(RunFault::Lost, id, None)
}
