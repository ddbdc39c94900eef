//! What it costs to start a command that ends at once.

use std::io;
use std::process::Stdio;
use std::time::Instant;

use crate::peer::{Peer, Peers};
use crate::pipeline::Guarded;
use crate::report::{Bound, Report, Table, digits};
use crate::rounds::{median, percentile, rounds};
use crate::scripts;
use crate::settings::Settings;

const TIMEOUT: &str = "timeout 10";
const TEXT: &str = "runcast -t 10";
const NDJSON: &str = "runcast -t 10 -f ndjson --result FILE";

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started, ends badly, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let result = folder.path().join("result.json");
    let result = result.to_str().ok_or_else(|| io::Error::other("its path is no text"))?;
    let options = ["-t", "10", "-f", "ndjson", "--result", result];
    let peers = Peers::new()
        .with(Peer::nobody("direct"))
        .wrapper(TIMEOUT, "timeout", &["10"])
        .wrapper("tini -s", "tini", &["-s", "--"])
        .with(Peer::runcast(TEXT, &settings.runcast, &["-t", "10"]))
        .with(Peer::runcast(NDJSON, &settings.runcast, &options))
        .python("Python subprocess", scripts::PYTHON_ONCE, &[])
        .wrapper("node child_process", "node", &["-e", scripts::NODE_ONCE, "--"]);

    let count = settings.either(40, 10) * settings.rounds;
    // The first runs fill caches.
    rounds(&peers.present, 2, run)?;
    let times = rounds(&peers.present, count, run)?;
    report.show(&table(&peers, &times, count))
}

/// Milliseconds of one run of `/bin/true`. std starts processes with `posix_spawn(3)`, so what this process
/// has in memory is not copied.
fn run(peer: &Peer) -> io::Result<f64> {
    let mut command = peer.command(&["/bin/true".to_owned()]);
    command.stdout(Stdio::null());
    let begin = Instant::now();
    let ended = Guarded::start(command)?.end()?;
    let took = begin.elapsed();
    if !ended.status.success() {
        return Err(io::Error::other(format!("{}: {}", peer.name, ended.status)));
    }
    Ok(took.as_secs_f64() * 1e3)
}

fn table(peers: &Peers, times: &[Vec<f64>], count: usize) -> Table {
    let title = format!("Start-up, `/bin/true`, {count} runs each in turn");
    let mut table = Table::new(title, &["", "ms", "p10", "p90", "x timeout"]);
    let timeout = peers.present.iter().position(|peer| peer.name == TIMEOUT);
    let timeout = timeout.map_or(f64::NAN, |index| median(&times[index]));
    for (peer, times) in peers.present.iter().zip(times) {
        let ratio = median(times) / timeout;
        let verdicts = match peer.name {
            TEXT => vec![Bound::AtMost(1.0).judge(ratio, "x timeout")],
            NDJSON => vec![Bound::AtMost(1.15).judge(ratio, "x timeout")],
            _ => vec![],
        };
        let cells = [median(times), percentile(times, 10), percentile(times, 90), ratio];
        let cells = std::iter::once(peer.name.to_owned()).chain(cells.map(digits)).collect();
        table.row(cells, verdicts);
    }
    table.note_missing(&peers.missing);
    table
}
