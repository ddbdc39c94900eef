//! How fast output passes: sizes that take the same time for everybody, and bytes a second without the start.

use std::io;
use std::time::Duration;

use crate::peer::Peer;
use crate::pipeline::{Destination, Pipeline};
use crate::play::{Content, Play, Writes};
use crate::rounds::{median, rounds};
use crate::settings::Settings;

/// What the command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Bytes of each, its end included.
    pub(crate) length: usize,
    pub(crate) content: Content,
    pub(crate) writes: Writes,
}

impl Lines {
    /// About so many bytes of them, whole lines and whole mixtures.
    pub(crate) fn source(self, bytes: u64) -> Play {
        let mixture = 200 * self.length as u64;
        let bytes = bytes.max(1).next_multiple_of(mixture);
        Play::Generate { bytes, length: self.length, content: self.content, writes: self.writes }
    }
}

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Null,
    Pipe,
}

impl Target {
    pub(crate) const ALL: [Self; 2] = [Self::Null, Self::Pipe];

    /// As a title says it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Null => "to `/dev/null`",
            Self::Pipe => "to a pipe that is read",
        }
    }

    fn destination(self) -> Destination {
        match self {
            Self::Null => Destination::Null,
            Self::Pipe => Destination::Pipe(Play::Read),
        }
    }
}

/// Somebody with what they have to do.
#[derive(Debug, Clone)]
pub(crate) struct Contestant {
    pub(crate) peer: Peer,
    pub(crate) lines: Lines,
}

/// A contestant who knows how much to take and what a run takes in any case.
struct Sized<'a> {
    contestant: &'a Contestant,
    source: Play,
    bytes: u64,
    start: Duration,
}

/// No run writes more. It takes a while to write even for those who read nothing of it.
const MOST_BYTES: u64 = 8_000_000_000;

/// Bytes a second of each, by round.
///
/// # Errors
///
/// Where a process cannot be started or a peer fails.
pub(crate) fn measure(
    contestants: &[Contestant],
    to: Target,
    settings: &Settings,
) -> io::Result<Vec<Vec<f64>>> {
    let sized: Vec<Sized<'_>> = contestants
        .iter()
        .map(|contestant| sized(contestant, to, settings))
        .collect::<io::Result<_>>()?;
    rounds(&sized, settings.rounds, |sized| {
        let wall = run(&sized.contestant.peer, sized.source, to)?;
        // The start varies; what is left must stay a time.
        let took = wall.saturating_sub(sized.start).max(wall / 10);
        Ok(sized.bytes as f64 / took.as_secs_f64())
    })
}

fn sized<'a>(contestant: &'a Contestant, to: Target, settings: &Settings) -> io::Result<Sized<'a>> {
    let Contestant { peer, lines } = contestant;
    let mut starts = Vec::new();
    for _ in 0..5 {
        starts.push(run(peer, lines.source(1), to)?.as_secs_f64());
    }
    let start = Duration::from_secs_f64(median(&starts));
    let target = settings.run_time();
    let mut bytes = 1_000_000;
    let took = loop {
        let took = run(peer, lines.source(bytes), to)?.saturating_sub(start);
        if took > target / 4 || bytes > MOST_BYTES {
            break took;
        }
        bytes *= if took < target / 40 { 16 } else { 3 };
    };
    let wanted = bytes as f64 * target.as_secs_f64() / took.as_secs_f64();
    let source = lines.source((wanted as u64).min(MOST_BYTES));
    let Play::Generate { bytes, .. } = source else { unreachable!("lines are generated") };
    Ok(Sized { contestant, source, bytes, start })
}

fn run(peer: &Peer, source: Play, to: Target) -> io::Result<Duration> {
    Ok(Pipeline::start(peer, source, to.destination())?.finish()?.wall)
}
