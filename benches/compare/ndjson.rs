//! Lines into JSON objects.

use std::io;

use serde_json::Value;

use crate::peer::{CLASSIC_PYTHON, Peer, Peers};
use crate::pipeline::{Destination, Pipeline};
use crate::play::{Content, Play, Writes};
use crate::report::{Bound, Report, Table, Verdict, digits};
use crate::rounds::{median, median_ratio};
use crate::scripts;
use crate::settings::Settings;
use crate::throughput::{Contestant, Lines, Target, measure};

const RUNCAST: &str = "runcast -f ndjson";
const RUNCAST_PLAIN: &str = "runcast -f ndjson, plain lines";
const MAWK: &str = "mawk";

/// The lengths and contents that are compared.
const LINES: [(usize, Content); 4] =
    [(8, Content::Plain), (100, Content::Plain), (1000, Content::Plain), (100, Content::Mixed)];

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, a peer fails, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    for (length, content) in LINES {
        let lines = Lines { length, content, writes: Writes::Blocks };
        for to in Target::ALL {
            report.show(&table(settings, lines, to)?)?;
        }
    }
    Ok(())
}

fn table(settings: &Settings, lines: Lines, to: Target) -> io::Result<Table> {
    let peers = Peers::new()
        .with(Peer::runcast(RUNCAST, &settings.runcast, &["-t", "600", "-f", "ndjson"]))
        .filter(MAWK, "mawk", &[scripts::MAWK])
        .filter("jq -Rc", "jq", &["-Rc", scripts::JQ])
        .classic_python("json");
    let (length, content) = (lines.length, lines.content);
    let title = format!("NDJSON, {length}-byte lines, {}, {}", content.word(), to.words());
    let references = match content {
        Content::Mixed => &[MAWK, CLASSIC_PYTHON, RUNCAST_PLAIN][..],
        _ => &[MAWK, CLASSIC_PYTHON],
    };
    let columns = ["", "MB/s", "M lines/s", "x mawk", "x Python", "x plain lines"];
    let mut table = Table::new(title, &columns[..3 + references.len()]);
    let mut contestants = Vec::new();
    for peer in peers.present {
        let broken = broken_lines(&peer, lines)?;
        if broken > 0 {
            table.note(format!("Of 200 objects of {} {broken} is no JSON.", peer.name));
        }
        contestants.push(Contestant { peer, lines });
    }
    if content == Content::Mixed {
        let mut peer = contestants[0].peer.clone();
        peer.name = RUNCAST_PLAIN;
        let lines = Lines { content: Content::Plain, ..lines };
        contestants.push(Contestant { peer, lines });
    }
    let rates = measure(&contestants, to, settings)?;
    let reference = |name: &str| contestants.iter().position(|who| who.peer.name == name);
    for (who, own) in contestants.iter().zip(&rates) {
        let against =
            |name: &str| reference(name).map_or(f64::NAN, |index| median_ratio(own, &rates[index]));
        let ratios: Vec<f64> = references.iter().map(|name| against(name)).collect();
        let rate = median(own);
        let figures = [rate / 1e6, rate / 1e6 / length as f64].into_iter().chain(ratios.clone());
        let cells = std::iter::once(who.peer.name.to_owned()).chain(figures.map(digits));
        let verdicts =
            if who.peer.name == RUNCAST { verdicts(lines, to, &ratios) } else { Vec::new() };
        table.row(cells.collect(), verdicts);
    }
    table.note_missing(&peers.missing);
    Ok(table)
}

/// The targets for these lines, with the ratios to mawk, to Python and, if they are mixed, to plain lines.
fn verdicts(lines: Lines, to: Target, ratios: &[f64]) -> Vec<Verdict> {
    let least = match (lines.length, lines.content, to) {
        (_, Content::Mixed, _) => return vec![Bound::AtLeast(0.85).judge(ratios[2], "x plain")],
        (8, _, Target::Null) => [25.0, 500.0],
        (100, _, Target::Null) => [10.0, 150.0],
        (100, _, Target::Pipe) => [6.0, 90.0],
        (1000, _, Target::Null) => [4.0, 30.0],
        _ => return Vec::new(),
    };
    vec![
        Bound::AtLeast(least[0]).judge(ratios[0], "x mawk"),
        Bound::AtLeast(least[1]).judge(ratios[1], "x Python"),
    ]
}

/// Has a peer turn 200 lines into objects, and returns how many of them are no JSON. So nobody is fast by
/// doing something else.
fn broken_lines(peer: &Peer, lines: Lines) -> io::Result<usize> {
    let run = Pipeline::start(peer, lines.source(1), Destination::Pipe(Play::Copy))?;
    let told = run.finish()?.told;
    let (mut chunks, mut broken) = (0, 0);
    for line in told.split_inclusive(|&byte| byte == b'\n') {
        match serde_json::from_slice::<Value>(line) {
            Ok(object) if object["op"] == "chunk" && object["content"].is_string() => chunks += 1,
            Ok(_) => {}
            Err(_) => broken += 1,
        }
    }
    if chunks + broken != 200 {
        let why = format!("{}: {chunks} objects for 200 lines", peer.name);
        return Err(io::Error::other(why));
    }
    Ok(broken)
}
