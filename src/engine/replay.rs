//! Plays a recording, in its own time or faster.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::engine::player::{self, Broken, LEAST_WAIT, Player};
use crate::engine::recording::{Recording, Step};
use crate::engine::show;
use crate::model::event::Stream;
use crate::model::spec::{Capture, Display, Streams};
use crate::sink::destination::Lost;

/// The longest wait in one piece: what a file says may be further off than the system's clock goes.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// In whose time a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How many times as fast as it was; `None` is without waiting.
    pub speed: Option<f64>,
    /// The longest pause between two events, before it is played faster.
    pub idle_limit: Option<Duration>,
}

impl Pace {
    /// How long a pause is that was so long.
    fn pause(self, pause: Duration) -> Duration {
        let pause = self.idle_limit.map_or(pause, |limit| pause.min(limit));
        match self.speed {
            None => Duration::ZERO,
            Some(speed) => {
                Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(Duration::MAX)
            }
        }
    }
}

/// Plays a recording, and returns the exit status that it has recorded.
///
/// What is whole of a recording that is cut off is shown before that is told.
#[must_use]
pub fn replay(path: &Path, pace: Pace, display: &Display, capture: &Capture) -> u8 {
    player::play_out(display, capture, |player| play(path, pace, display, capture, player))
}

fn play(
    path: &Path,
    pace: Pace,
    display: &Display,
    capture: &Capture,
    player: &mut Player,
) -> Result<u8, Broken> {
    let mut recording = Recording::open(path)?;
    // When the last event happened, and when it was shown.
    let (mut then, mut shown) = (Duration::ZERO, Instant::now());
    loop {
        let step = match recording.next() {
            Ok(Some(step)) => step,
            // What was unfinished at the end stays so.
            ended => {
                player.end_output(Stream::Stdout)?;
                ended?;
                break;
            }
        };
        let at = match &step {
            Step::Shown(recorded, _) => recorded.at(),
            Step::Output(_, at) => Some(*at),
            Step::Nothing => continue,
        };
        let at = at.unwrap_or(then).max(then);
        let partial_at = capture.partial_after.and_then(|time| then.checked_add(time));
        if let (Step::Output(..), Some(partial_at)) = (&step, partial_at.filter(|time| *time <= at))
        {
            player.flush_partial(Stream::Stdout, partial_at)?;
        }
        let pause = pace.pause(at - then);
        if !pause.is_zero() {
            player.flush()?;
            wait(player, display, then, shown, pause, pace)?;
            shown += pause;
        }
        then = at;
        match step {
            Step::Shown(recorded, line) => player.show(&recorded, line)?,
            Step::Output(text, _) => player.show_output(Stream::Stdout, text.as_bytes(), at)?,
            Step::Nothing => {}
        }
    }
    player.flush()?;
    Ok(player.status().or(recording.cast_status()).unwrap_or(0))
}

/// Waits until `pause` after `since`, lets the sink show where the run was meanwhile, and looks whether anybody
/// still reads.
fn wait(
    player: &mut Player,
    display: &Display,
    then: Duration,
    since: Instant,
    pause: Duration,
    pace: Pace,
) -> Result<(), Broken> {
    let watched = show::watched(Streams::Separate, display)?;
    loop {
        let waited = since.elapsed();
        let Some(left) = pause.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        let played = waited.as_secs_f64() * pace.speed.unwrap_or(1.0);
        let played = Duration::try_from_secs_f64(played).unwrap_or(Duration::MAX);
        let now = then.saturating_add(played);
        let due = player.refresh(now)?.map(|due| pace.pause(due.saturating_sub(now)));
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().map(|&fd| PollFd::new(fd, PollFlags::empty())).collect();
        let left = left.min(LONGEST_WAIT);
        let longest = due.map_or(left, |due| left.min(due.max(LEAST_WAIT)));
        // Interrupted or not, the loop looks anew.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None);
        if fds
            .iter()
            .filter_map(PollFd::revents)
            .any(|events| events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP))
        {
            return Err(Lost::Gone.into());
        }
    }
}
