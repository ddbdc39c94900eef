//! How long a line is under way, from the command's write to the reader.

use std::io;
use std::process::Stdio;

use crate::peer::{Peer, Peers};
use crate::pipeline::{Destination, Guarded, Pipeline};
use crate::play::Play;
use crate::report::{Bound, Report, Table, Verdict, digits};
use crate::rounds::{median, median_ratio, percentile, rounds};
use crate::settings::Settings;

const TEXT: &str = "runcast";
const NDJSON: &str = "runcast -f ndjson";
const CAT: &str = "cat";

/// The percentiles that are told.
const PERCENTILES: [usize; 3] = [50, 90, 99];

/// A line each so many microseconds.
const INTERVAL_US: u64 = 1000;

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, a peer fails, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    let direct = Peer::nobody("direct pipe");
    let text = Peer::runcast(TEXT, &settings.runcast, &["-t", "600"]);
    let ndjson = Peer::runcast(NDJSON, &settings.runcast, &["-t", "600", "-f", "ndjson"]);
    let alone = Peers::new()
        .with(direct.clone())
        .filter(CAT, "cat", &[])
        .with(text.clone())
        .with(ndjson)
        .classic_python("text");
    let lines = settings.either(2000, 300);
    let how = format!("a line each ms, {lines} lines, microseconds");
    let title = format!("Delay from write to reader, {how}");
    report.show(&table(settings, title, &alone, lines, against_cat)?)?;

    let busy = Peers::new().with(direct).filter(CAT, "cat", &[]).with(text);
    let title = format!("Delay beside two busy processes, {how}");
    let _neighbours = [neighbour(settings)?, neighbour(settings)?];
    report.show(&table(settings, title, &busy, lines, beside_neighbours)?)
}

/// Keeps a processor busy until it is dropped, or for longer than all of this takes.
fn neighbour(settings: &Settings) -> io::Result<Guarded> {
    let seconds = 60 + 20 * settings.rounds as u64;
    let mut command = Play::Spin { seconds }.command()?;
    command.stdin(Stdio::null());
    Guarded::start(command)
}

/// Percentiles of one peer, and their ratios to those of cat.
struct Delays {
    percentiles: [f64; 3],
    ratios: [f64; 3],
}

fn table(
    settings: &Settings,
    title: String,
    peers: &Peers,
    lines: usize,
    verdicts: fn(&Delays) -> Vec<Verdict>,
) -> io::Result<Table> {
    let runs = rounds(&peers.present, settings.rounds, |peer| run(peer, lines))?;
    // For each peer and percentile, by round.
    let told: Vec<[Vec<f64>; 3]> = runs
        .iter()
        .map(|runs| PERCENTILES.map(|p| runs.iter().map(|run| percentile(run, p)).collect()))
        .collect();
    let cat = peers.present.iter().position(|peer| peer.name == CAT);
    let mut table = Table::new(title, &["", "p50", "p90", "p99", "p50 x cat", "p99 x cat"]);
    for (peer, own) in peers.present.iter().zip(&told) {
        let ratio =
            |at: usize| cat.map_or(f64::NAN, |index| median_ratio(&own[at], &told[index][at]));
        let delays = Delays {
            percentiles: [0, 1, 2].map(|at| median(&own[at])),
            ratios: [0, 1, 2].map(ratio),
        };
        let figures = delays.percentiles.into_iter().chain([delays.ratios[0], delays.ratios[2]]);
        let cells = std::iter::once(peer.name.to_owned()).chain(figures.map(digits)).collect();
        let is_runcast = [TEXT, NDJSON].contains(&peer.name);
        table.row(cells, if is_runcast { verdicts(&delays) } else { Vec::new() });
    }
    table.note_missing(&peers.missing);
    Ok(table)
}

fn against_cat(delays: &Delays) -> Vec<Verdict> {
    vec![
        Bound::AtMost(1.6).judge(delays.ratios[0], "x cat at p50"),
        Bound::AtMost(2.2).judge(delays.ratios[2], "x cat at p99"),
    ]
}

fn beside_neighbours(delays: &Delays) -> Vec<Verdict> {
    vec![
        Bound::AtMost(60.0).judge(delays.percentiles[0], "us at p50"),
        Bound::AtMost(300.0).judge(delays.percentiles[1], "us at p90"),
    ]
}

/// The delay of each line, in microseconds.
fn run(peer: &Peer, lines: usize) -> io::Result<Vec<f64>> {
    let source = Play::Stamp { lines, interval_us: INTERVAL_US };
    let told = Pipeline::start(peer, source, Destination::Pipe(Play::Delays))?.finish()?.told;
    let told = String::from_utf8_lossy(&told);
    let delays: Vec<f64> =
        told.lines().filter_map(|delay| delay.parse().ok()).map(|ns: f64| ns / 1e3).collect();
    if delays.len() != lines {
        let why = format!("{}: {} of {lines} lines arrived", peer.name, delays.len());
        return Err(io::Error::other(why));
    }
    Ok(delays)
}
