//! Looks at a run: shows all that came and comes of it, and speaks to it.
//!
//! Whoever looks changes nothing about the run, however slow or suddenly gone.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::player::{self, Broken, LEAST_WAIT, Player};
use crate::engine::show;
use crate::model::error::{Error, RunFault};
use crate::model::recorded::parse;
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::model::spec::{Capture, Display, Streams};
use crate::runs::client;
use crate::runs::follow::Since;
use crate::runs::observer::{ConsumerGone, LOOK_AGAIN, News, Observer, find};
use crate::runs::so_far::so_far;
use crate::sink::destination::Lost;
use crate::sink::message;

/// Whether our standard input goes to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendsInput {
    /// It does, and where it ends the run's own is closed.
    Yes,
    /// It does not.
    No,
}

/// Shows a run behind what was seen of it, until it is over, and returns its exit status.
#[must_use]
pub fn attach(
    id: &RunId,
    since: Since,
    input: SendsInput,
    display: &Display,
    capture: &Capture,
) -> u8 {
    player::play_out(display, capture, |player| {
        if input == SendsInput::Yes {
            send_ours(id);
        }
        let followed = follow(id, since, display, player);
        // Some of it may have been shown as it was written, and not been looked into, or never been asked for.
        if let Err(Broken::Failed(_)) = &followed
            && let Some(so_far) = so_far(id, capture)
        {
            player.know(so_far);
        }
        followed
    })
}

/// Sends our standard input to the run, on a thread of its own, for as long as that takes any.
fn send_ours(id: &RunId) {
    let id = id.clone();
    let made = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        match send_input(&id, None, true) {
            // That it is over is told by its result.
            Ok(_) | Err(Error::Run { fault: RunFault::Ended, .. }) => {}
            Err(error) => message::say_error(&error, &Arc::default()),
        }
    });
    if let Err(source) = made {
        message::say_error(&Error::Spawn { step: "thread", source }, &Arc::default());
    }
}

fn follow(id: &RunId, since: Since, display: &Display, player: &mut Player) -> Result<u8, Broken> {
    let mut observer = Observer::new(id, since)?;
    let consumers = show::watched(Streams::Separate, display)?;
    // Where the run was when something of it was last shown, and when that was.
    let mut shown = (Duration::ZERO, Instant::now());
    let mut lines = Vec::new();
    loop {
        match observer.next(&mut lines)? {
            News::Lines => show_lines(player, &lines)?,
            News::Over => {
                show_lines(player, &lines)?;
                player.flush()?;
                let unreadable = || io::Error::other("its result makes no sense");
                return player.status().ok_or_else(|| Error::run_folder(id, &unreadable()).into());
            }
            News::Nothing => {
                player.flush()?;
                if player.last_at() != shown.0 {
                    shown = (player.last_at(), Instant::now());
                }
                let now = shown.0.saturating_add(shown.1.elapsed());
                let due = player.refresh(now)?.map(|due| due.saturating_sub(now).max(LEAST_WAIT));
                observer
                    .wait(due.unwrap_or(LOOK_AGAIN), &consumers)
                    .map_err(|ConsumerGone| Lost::Gone)?;
            }
        }
    }
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

/// What a signal is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalling {
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
pub fn signal(id: &RunId, what: Signalling, once: Option<String>) -> Result<(), Error> {
    let folder = find(id)?;
    match what {
        Signalling::Signal(signal) => client::signal(&folder, id, signal, once),
        Signalling::Received(signal) => client::receive(&folder, id, signal, once),
        Signalling::Stop => client::stop(&folder, id),
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

/// Sends all of our own standard input to that of a run, from `offset` on if that is said, and returns how many bytes
/// that has then.
///
/// # Errors
///
/// Where it is not taken.
pub fn send_input(id: &RunId, offset: Option<u64>, eof: bool) -> Result<u64, Error> {
    let stdin = io::stdin();
    client::send(&find(id)?, id, &mut stdin.lock(), stdin.as_fd(), offset, eof)
}
