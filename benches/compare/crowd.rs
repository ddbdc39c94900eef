//! Many runs at once.

use std::io;
use std::process::Stdio;
use std::time::Instant;

use crate::peer::{Peer, Peers};
use crate::pipeline::Guarded;
use crate::report::{Report, Table, digits};
use crate::rounds::{median, median_ratio, rounds};
use crate::settings::Settings;

const TIMEOUT: &str = "timeout 60";

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, one ends badly, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    let count = settings.either(200, 50);
    let peers = Peers::new()
        .with(Peer::nobody("direct"))
        .wrapper(TIMEOUT, "timeout", &["60"])
        .wrapper("tini -s", "tini", &["-s", "--"])
        .with(Peer::runcast("runcast -t 60", &settings.runcast, &["-t", "60"]))
        .with(Peer::runcast(
            "runcast -t 60 -f ndjson",
            &settings.runcast,
            &["-t", "60", "-f", "ndjson"],
        ));
    let times = rounds(&peers.present, settings.rounds, |peer| run(peer, count))?;
    let timeout = peers.present.iter().position(|peer| peer.name == TIMEOUT);
    let title = format!("{count} runs at once, from the first start to the last end");
    let mut table = Table::new(title, &["", "ms", "x timeout"]);
    for (peer, own) in peers.present.iter().zip(&times) {
        let ratio = timeout.map_or(f64::NAN, |index| median_ratio(own, &times[index]));
        table.row(vec![peer.name.to_owned(), digits(median(own)), digits(ratio)], Vec::new());
    }
    table.note("Each runs `cat` on one common pipe, which is closed once all are started.");
    table.note_missing(&peers.missing);
    report.show(&table)
}

/// Milliseconds for all.
fn run(peer: &Peer, count: usize) -> io::Result<f64> {
    let (read, write) = io::pipe()?;
    let begin = Instant::now();
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let mut command = peer.command(&["/bin/cat".to_owned()]);
        command.stdin(read.try_clone()?).stdout(Stdio::null());
        runs.push(Guarded::start(command)?);
    }
    drop(write);
    for run in runs {
        let ended = run.end()?;
        if !ended.status.success() {
            return Err(io::Error::other(format!("{}: {}", peer.name, ended.status)));
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}
