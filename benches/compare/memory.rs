//! The most resident memory that a peer alone had, without the command's and the reader's.

use std::fs;
use std::io;
use std::time::Duration;

use crate::peer::{Peer, Peers};
use crate::pipeline::{Destination, Pipeline};
use crate::play::{Content, Play, Writes};
use crate::report::{Bound, Report, Table, Verdict, digits};
use crate::scripts;
use crate::settings::Settings;

const TEXT: &str = "runcast";
const NDJSON: &str = "runcast -f ndjson";

/// Past that, or past this many bytes, a run is stopped: it shows what was to be seen, and the machine may
/// have no more.
const LONGEST: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 2_000_000_000;

/// How often to look. What counts is the kernel's own high-water mark, so only growth in a process's last
/// moment can be missed.
const LOOK: Duration = Duration::from_millis(5);

/// What runcast may take beside what its options have it hold.
const OWN_MB: f64 = 6.0;

/// What the result keeps by default of the one stream that is written to, `--max-output`, and the longest
/// line that is held, `--max-line`.
const KEPT_MB: f64 = 0.262;
const LINE_MB: f64 = 1.049;

/// One situation that memory is looked at in.
struct Situation {
    title: String,
    source: Play,
    to: Destination,
}

/// The most that was seen, in bytes, and whether the run was stopped at it.
struct Peak {
    bytes: u64,
    is_stopped: bool,
}

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    let peers = Peers::new()
        .with(Peer::runcast(TEXT, &settings.runcast, &["-t", "600"]))
        .with(Peer::runcast(NDJSON, &settings.runcast, &["-t", "600", "-f", "ndjson"]))
        .filter("cat", "cat", &[])
        .filter("jq -Rc", "jq", &["-Rc", scripts::JQ])
        .classic_python("json");
    let situations = situations(settings);
    let mut table = Table::new(
        format!("Peak memory, MB: {}", situations.each_ref().map(|s| s.title.as_str()).join("; ")),
        &["", "lines", "one line", "slow reader"],
    );
    for peer in &peers.present {
        let mut cells = vec![peer.name.to_owned()];
        let mut most: f64 = 0.0;
        for situation in &situations {
            let peak = highest(peer, situation)?;
            let megabytes = peak.bytes as f64 / 1e6;
            let mark = if peak.is_stopped { "> " } else { "" };
            cells.push(format!("{mark}{}", digits(megabytes)));
            most = most.max(megabytes);
        }
        table.row(cells, verdicts(peer.name, most));
    }
    table.note(
        "The peer's own process alone. runcast with its defaults: text holds nothing beside its own \
         buffers, ndjson the kept 256 KiB of the stream (`--max-output`) and a line up to 1 MiB \
         (`--max-line`). `>`: stopped at 2 GB or after 20 s while it still grew or worked.",
    );
    table.note_missing(&peers.missing);
    report.show(&table)
}

fn situations(settings: &Settings) -> [Situation; 3] {
    let generate =
        |bytes, content| Play::Generate { bytes, length: 100, content, writes: Writes::Blocks };
    let all = settings.either(1_000_000_000, 100_000_000);
    let one = settings.either(300_000_000, 30_000_000);
    let seconds = settings.either(8, 2);
    [
        Situation {
            title: format!("{} MB of 100-byte lines", all / 1_000_000),
            source: generate(all, Content::Plain),
            to: Destination::Null,
        },
        Situation {
            title: format!("one line of {} MB without an end", one / 1_000_000),
            source: generate(one, Content::Endless),
            to: Destination::Null,
        },
        Situation {
            title: format!("a reader of 1 MB/s for {seconds} s"),
            source: generate(u64::MAX, Content::Plain),
            to: Destination::Pipe(Play::ReadSlowly { bytes_per_second: 1_000_000, seconds }),
        },
    ]
}

fn verdicts(name: &str, most: f64) -> Vec<Verdict> {
    let held = match name {
        TEXT => 0.0,
        NDJSON => KEPT_MB + LINE_MB,
        _ => return Vec::new(),
    };
    vec![Bound::AtMost(OWN_MB + held).judge(most, "MB")]
}

/// The highest of three runs, or of fewer where they take long.
fn highest(peer: &Peer, situation: &Situation) -> io::Result<Peak> {
    let mut highest = Peak { bytes: 0, is_stopped: false };
    let mut took = Duration::ZERO;
    for _ in 0..3 {
        let mut run = Pipeline::start(peer, situation.source, situation.to)?;
        let peak = watch(&mut run)?;
        took += run.age();
        highest.bytes = highest.bytes.max(peak.bytes);
        highest.is_stopped |= peak.is_stopped;
        if took > LONGEST / 4 {
            break;
        }
    }
    Ok(highest)
}

/// Looks at the peer until it or the reader has ended, or it is time to stop. Whoever is still there is killed
/// when the pipeline is dropped.
fn watch(run: &mut Pipeline) -> io::Result<Peak> {
    let mut bytes = 0;
    loop {
        let seen = run.peer_id().and_then(high_water_bytes);
        bytes = bytes.max(seen.unwrap_or(0));
        if run.is_over()? {
            return Ok(Peak { bytes, is_stopped: false });
        }
        if bytes > MOST_BYTES || run.age() > LONGEST {
            return Ok(Peak { bytes, is_stopped: true });
        }
        std::thread::sleep(LOOK);
    }
}

/// `VmHWM` of a process; `None` once it has ended.
fn high_water_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
