//! Output with something before each line, or as records for viewers.

use std::io;

use crate::peer::{Peer, Peers};
use crate::play::{Content, Writes};
use crate::report::{Bound, Report, Table, Verdict, digits};
use crate::rounds::{median, median_ratio};
use crate::settings::Settings;
use crate::throughput::{Contestant, Lines, Target, measure};

const PREFIX: &str = "runcast -p";
const TIMES: &str = "runcast -T";
const LOG: &str = "runcast -f log";
const CAT: &str = "cat";
const TS: &str = "ts";
const LENGTH: usize = 100;

/// For mawk and sed, filters: the same as `runcast -p`.
const MAWK: &str = r#"{ print "stdout | " $0 }"#;
const SED: &str = "s/^/stdout | /";

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, a peer fails, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    for to in Target::ALL {
        report.show(&table(settings, to)?)?;
    }
    Ok(())
}

fn table(settings: &Settings, to: Target) -> io::Result<Table> {
    let own = |name, options: &[&str]| Peer::runcast(name, &settings.runcast, options);
    let peers = Peers::new()
        .with(own(PREFIX, &["-p"]))
        .with(own(TIMES, &["-T"]))
        .with(own(LOG, &["-f", "log"]))
        .with(own("runcast -f logfmt", &["-f", "logfmt"]))
        .with(own("runcast -f cri", &["-f", "cri"]))
        .with(own("runcast -f snapshot", &["-f", "snapshot"]))
        .filter(CAT, "cat", &[])
        .filter("mawk, a prefix", "mawk", &[MAWK])
        .filter("sed, a prefix", "sed", &[SED])
        .filter(TS, "ts", &[]);
    let title = format!("Decorated, {LENGTH}-byte lines, 64 KiB a write, {}", to.words());
    let lines = Lines { length: LENGTH, content: Content::Plain, writes: Writes::Blocks };
    let contestants: Vec<Contestant> =
        peers.present.into_iter().map(|peer| Contestant { peer, lines }).collect();
    let rates = measure(&contestants, to, settings)?;
    let place = |name: &str| contestants.iter().position(|who| who.peer.name == name);
    let mut table = Table::new(title, &["", "MB/s", "M lines/s", "x cat", "x ts"]);
    for (who, own) in contestants.iter().zip(&rates) {
        let against =
            |name: &str| place(name).map_or(f64::NAN, |index| median_ratio(own, &rates[index]));
        let [cat, ts] = [CAT, TS].map(against);
        let rate = median(own);
        let figures = [rate / 1e6, rate / 1e6 / LENGTH as f64, cat, ts];
        let cells = std::iter::once(who.peer.name.to_owned()).chain(figures.map(digits)).collect();
        table.row(cells, verdicts(who.peer.name, to, cat, ts));
    }
    table.note_missing(&peers.missing);
    Ok(table)
}

fn verdicts(name: &str, to: Target, cat: f64, ts: f64) -> Vec<Verdict> {
    let least = match to {
        Target::Null => 1.4,
        Target::Pipe => 1.8,
    };
    match name {
        PREFIX => {
            vec![Bound::AtLeast(least).judge(cat, "x cat"), Bound::AtLeast(10.0).judge(ts, "x ts")]
        }
        TIMES | LOG => vec![Bound::AtLeast(10.0).judge(ts, "x ts")],
        _ => Vec::new(),
    }
}
