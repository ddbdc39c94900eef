//! Output passed on as it is.

use std::io;

use crate::peer::{Peer, Peers};
use crate::play::{Content, Writes};
use crate::report::{Bound, Report, Table, Verdict, digits};
use crate::rounds::{median, median_ratio};
use crate::settings::Settings;
use crate::throughput::{Contestant, Lines, Target, measure};

const RUNCAST: &str = "runcast";
const CAT: &str = "cat";
const LENGTH: usize = 100;

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, a peer fails, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    for writes in [Writes::Blocks, Writes::Lines] {
        for to in Target::ALL {
            report.show(&table(settings, writes, to)?)?;
        }
    }
    Ok(())
}

fn table(settings: &Settings, writes: Writes, to: Target) -> io::Result<Table> {
    let peers = Peers::new()
        .with(Peer::runcast(RUNCAST, &settings.runcast, &["-t", "600"]))
        .filter(CAT, "cat", &[])
        .filter("pv -q", "pv", &["-q"])
        .filter("ts", "ts", &[]);
    let how = match writes {
        Writes::Blocks => "64 KiB a write",
        Writes::Lines => "a write for each line",
    };
    let title = format!("Text, {LENGTH}-byte lines, {how}, {}", to.words());
    let lines = Lines { length: LENGTH, content: Content::Plain, writes };
    let contestants: Vec<Contestant> =
        peers.present.into_iter().map(|peer| Contestant { peer, lines }).collect();
    let rates = measure(&contestants, to, settings)?;
    let cat = contestants.iter().position(|who| who.peer.name == CAT);
    let mut table = Table::new(title, &["", "MB/s", "M lines/s", "x cat"]);
    for (who, own) in contestants.iter().zip(&rates) {
        let ratio = cat.map_or(f64::NAN, |index| median_ratio(own, &rates[index]));
        let rate = median(own);
        let figures = [rate / 1e6, rate / 1e6 / LENGTH as f64, ratio];
        let cells = std::iter::once(who.peer.name.to_owned()).chain(figures.map(digits)).collect();
        let verdicts =
            if who.peer.name == RUNCAST { vec![verdict(writes, to, ratio)] } else { Vec::new() };
        table.row(cells, verdicts);
    }
    table.note_missing(&peers.missing);
    Ok(table)
}

fn verdict(writes: Writes, to: Target, ratio: f64) -> Verdict {
    let least = match (writes, to) {
        (Writes::Blocks, Target::Null) => 1.5,
        (Writes::Blocks, Target::Pipe) => 2.5,
        (Writes::Lines, _) => 1.0,
    };
    Bound::AtLeast(least).judge(ratio, "x cat")
}
