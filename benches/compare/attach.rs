//! A detached run that is over, shown again: all of it, and what comes after a place far behind.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::peer::Peers;
use crate::pipeline::Guarded;
use crate::report::{Bound, Report, Table, digits};
use crate::rounds::{median, median_ratio, rounds};
use crate::settings::Settings;

/// Lines of about a hundred bytes, as many as the number says.
const LINES: &str = "yes 'some text on a line that is as long as those of logs usually are, which is a hundred \
                     bytes or so' | head -n \"$1\"";

/// Who is timed, each with its words.
struct Contestant {
    name: &'static str,
    command: Box<dyn Fn() -> io::Result<Command>>,
}

/// Compares it.
///
/// # Errors
///
/// Where a process cannot be started or ends badly, or the table cannot be printed.
pub(crate) fn compare(settings: &Settings, report: &mut Report) -> io::Result<()> {
    let home = tempfile::tempdir()?;
    let lines = settings.either(1_000_000_u64, 100_000);
    // All of the one is kept; of the other as much as a journal keeps by default.
    start(settings, &home, "whole", &["--journal", "1G"], lines)?;
    start(settings, &home, "full", &[], lines)?;
    let file = home.path().join("whole.ndjson");
    let mut copy = runcast(settings, &home, &["attach", "-f", "ndjson", "whole"]);
    copy.stdout(File::create(&file)?);
    succeed(copy)?;

    let mut contestants = vec![
        shown(settings, &home, "runcast attach -f ndjson", &["attach", "-f", "ndjson", "whole"]),
        shown(settings, &home, "runcast attach -f text", &["attach", "whole"]),
    ];
    let jq = Peers::new().wrapper("jq -c .", "jq", &["-c", "."]);
    if let Some(peer) = jq.present.first().cloned() {
        let file = file.clone();
        contestants.push(Contestant {
            name: peer.name,
            command: Box::new(move || {
                let mut command = peer.command(&[]);
                command.stdin(File::open(&file)?).stdout(Stdio::null());
                Ok(command)
            }),
        });
    }
    let times = rounds(&contestants, settings.rounds, run)?;
    let of_jq = contestants.iter().position(|contestant| contestant.name == "jq -c .");
    let title = format!("A detached run of {lines} lines, shown to /dev/null");
    let mut table = Table::new(title, &["", "ms", "times as fast as jq"]);
    for (contestant, own) in contestants.iter().zip(&times) {
        let ratio = of_jq.map_or(f64::NAN, |index| median_ratio(&times[index], own));
        let verdicts = match contestant.name {
            "runcast attach -f ndjson" => vec![Bound::AtLeast(10.0).judge(ratio, "x jq")],
            _ => vec![],
        };
        let cells = vec![contestant.name.to_owned(), digits(median(own)), digits(ratio)];
        table.row(cells, verdicts);
    }
    table.note_missing(&jq.missing);
    report.show(&table)?;

    let place = (lines - 10).to_string();
    let by_lines = format!("stdout={place}");
    let words = |option: &str, value: &str| -> Vec<String> {
        ["attach", "-f", "ndjson", option, value, "full"].map(str::to_owned).to_vec()
    };
    let finders = [
        ("--after, ten lines before the end", words("--after", &place)),
        ("--from, ten lines before the end", words("--from", &by_lines)),
    ];
    let finders = finders.map(|(name, words)| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shown(settings, &home, name, &words)
    });
    let times = rounds(&finders, settings.rounds * 4, run)?;
    let mut table =
        Table::new("Finding a place in a full journal of 64 MiB".to_owned(), &["", "ms"]);
    for (finder, own) in finders.iter().zip(&times) {
        let verdicts = match finder.name.starts_with("--after") {
            true => vec![Bound::AtMost(10.0).judge(median(own), "ms")],
            false => vec![],
        };
        table.row(vec![finder.name.to_owned(), digits(median(own))], verdicts);
    }
    report.show(&table)
}

fn runcast(settings: &Settings, home: &TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(&settings.runcast);
    let (stdin, stdout) = (Stdio::null(), Stdio::null());
    command.args(words).env("RUNCAST_DIR", home.path().join("runs")).stdin(stdin).stdout(stdout);
    command
}

fn start(
    settings: &Settings,
    home: &TempDir,
    id: &str,
    options: &[&str],
    lines: u64,
) -> io::Result<()> {
    let mut command = runcast(settings, home, &["-d", "--id", id, "--partial-after", "never"]);
    command.args(options).args(["--shell", "--", LINES]).arg(lines.to_string());
    succeed(command)?;
    succeed(runcast(settings, home, &["wait", id]))
}

fn shown(settings: &Settings, home: &TempDir, name: &'static str, words: &[&str]) -> Contestant {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let (program, home) = (settings.runcast.clone(), home.path().join("runs"));
    Contestant { name, command: Box::new(move || Ok(attach(&program, &home, &words))) }
}

fn attach(program: &Path, runs: &Path, words: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("RUNCAST_DIR", runs).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Milliseconds of one.
fn run(contestant: &Contestant) -> io::Result<f64> {
    let command = (contestant.command)()?;
    let begin = Instant::now();
    succeed(command)?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Runs it to its end.
fn succeed(command: Command) -> io::Result<()> {
    let name = command.get_program().display().to_string();
    let ended = Guarded::start(command)?.end()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{name}: {}", ended.status))),
    }
}
