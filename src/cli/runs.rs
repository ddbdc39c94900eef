//! The subcommands about detached runs: what is typed to look at one, speak to one, list and forget them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::{Command, ValueHint};
use jiff::Timestamp;
use serde::Serialize;

use crate::cli::args::{ShowArgs, SplitArg, finished};
use crate::cli::plan;
use crate::cli::remote::RemoteArgs;
use crate::cli::run_table::table;
use crate::cli::values::{TimeLimit, Words, text};
use crate::engine::run::{show_failure, show_failure_after};
use crate::model::error::{Error, ErrorCode};
use crate::model::event::{Event, Seconds};
use crate::model::outcome::STATUS_TIMED_OUT;
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::model::spec::{Format, Split};
use crate::model::units::{parse_digits, parse_duration, parse_limit_duration};
use crate::remote::session;
use crate::remote::task::{Hold, Input, Task};
use crate::remote::upkeep;
use crate::runs::attach::{self, SendsInput, Signalling};
use crate::runs::follow::Since;
use crate::runs::list::{self, Listed};
use crate::runs::observer;
use crate::runs::so_far::so_far;
use crate::sys::signals::end_on;
use crate::sys::terminal;

/// The run that it is about.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArg {
    /// The run's name
    #[arg(value_name = "RUN", value_hint = ValueHint::Other, required = true, help_heading = None,
          value_parser = text(RunId::parse))]
    pub run: RunId,
}

/// How the answer looks, and where it is asked for.
#[derive(Debug, Clone, clap::Args)]
pub struct AskArgs {
    /// text for people, ndjson for programs
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = Words(&[
        ("text", Format::Text), ("ndjson", Format::Ndjson),
    ]))]
    pub format: Format,

    /// Where it is done.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// What was typed behind `attach`.
#[derive(Debug, Clone, clap::Args)]
pub struct AttachArgs {
    /// Show only what comes after chunk number SEQ
    ///
    /// Each chunk after it comes exactly once, so that a reader goes on where it was. Where the journal no
    /// longer has some, a dropped event says which.
    #[arg(long, value_name = "SEQ", value_parser = text(parse_number))]
    pub after: Option<u64>,

    /// The same by the lines seen of each stream: stdout=N,stderr=M
    #[arg(long, value_name = "LINES", conflicts_with = "after", value_parser = text(parse_lines))]
    pub from: Option<Lines>,

    /// Also send standard input to the run, and close its own where that ends
    #[arg(long)]
    pub stdin: bool,

    /// How the output looks.
    #[command(flatten)]
    pub show: ShowArgs,
    /// What ended its lines.
    #[command(flatten)]
    pub split: SplitArg,
    /// The run.
    #[command(flatten)]
    pub run: RunArg,

    /// Where it is done.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Lines of standard output, and of standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines([u64; 2]);

/// What was typed behind `wait`.
#[derive(Debug, Clone, clap::Args)]
pub struct WaitArgs {
    /// Wait no longer than this, then end with 124: the run goes on [default: until it is over]
    #[arg(short, long, value_name = "DURATION", value_parser = text(parse_limit_duration))]
    pub timeout: Option<TimeLimit>,

    /// The run.
    #[command(flatten)]
    pub run: RunArg,

    /// How the answer looks, and where it is asked for.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What was typed behind `send`.
#[derive(Debug, Clone, clap::Args)]
pub struct SendArgs {
    /// Where in its input these bytes belong; what it already has is skipped
    #[arg(long, value_name = "BYTES", value_parser = text(parse_number))]
    pub offset: Option<u64>,

    /// Close the run's standard input after them
    #[arg(long)]
    pub eof: bool,

    /// The run.
    #[command(flatten)]
    pub run: RunArg,

    /// How the answer looks, and where it is asked for.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What was typed behind `signal`.
#[derive(Debug, Clone, clap::Args)]
pub struct SignalArgs {
    /// Stop the run as a timeout would, with its --signal and --kill-after
    #[arg(long, conflicts_with = "signal")]
    pub stop: bool,

    /// The run.
    #[command(flatten)]
    pub run: RunArg,

    /// What to send
    #[arg(value_name = "SIGNAL", default_value = "TERM", value_hint = ValueHint::Other,
          value_parser = text(<Signal as std::str::FromStr>::from_str))]
    pub signal: Signal,

    /// How the answer looks, and where it is asked for.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What was typed behind `runs`.
#[derive(Debug, Clone, clap::Args)]
pub struct RunsArgs {
    /// How the answer looks, and where it is asked for.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What was typed behind `forget`.
#[derive(Debug, Clone, clap::Args)]
pub struct ForgetArgs {
    /// Delete all that are over
    #[arg(long)]
    pub finished: bool,

    /// Delete those that are over and were started longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = text(parse_duration))]
    pub older_than: Option<Duration>,

    /// The runs' names
    #[arg(value_name = "RUN", value_hint = ValueHint::Other, value_parser = text(RunId::parse),
          required_unless_present_any = ["finished", "older_than"])]
    pub runs: Vec<RunId>,

    /// How the answer looks, and where it is asked for.
    #[command(flatten)]
    pub ask: AskArgs,
}

fn parse_number(typed: &str) -> Result<u64, String> {
    parse_digits(typed).ok_or_else(|| "not a whole number".to_owned())
}

fn parse_lines(typed: &str) -> Result<Lines, String> {
    let mut lines = [0; 2];
    for part in typed.split(',') {
        let (name, number) = part.split_once('=').ok_or("not of the form stdout=N,stderr=M")?;
        let stream = ["stdout", "stderr"].iter().position(|known| *known == name);
        lines[stream.ok_or_else(|| format!("no stream is called '{name}'"))?] =
            parse_number(number)?;
    }
    Ok(Lines(lines))
}

/// Defines a subcommand.
fn define<A: clap::Args>(name: &'static str, usage: &'static str, about: &'static str) -> Command {
    let base = Command::new(name).bin_name(format!("runcast {name}")).override_usage(usage);
    finished(A::augment_args(base).about(about))
}

/// The definition of `attach`.
#[must_use]
pub fn attach_command() -> Command {
    define::<AttachArgs>(
        "attach",
        "runcast attach [OPTIONS] RUN",
        "Show a detached run from its beginning, then live, and end with its status",
    )
}

/// The definition of `wait`.
#[must_use]
pub fn wait_command() -> Command {
    define::<WaitArgs>(
        "wait",
        "runcast wait [OPTIONS] RUN",
        "Wait until a detached run is over, print its result, and end with its status",
    )
}

/// The definition of `send`.
#[must_use]
pub fn send_command() -> Command {
    define::<SendArgs>(
        "send",
        "runcast send [OPTIONS] RUN",
        "Send standard input to a detached run that was started with --stdin open",
    )
}

/// The definition of `signal`.
#[must_use]
pub fn signal_command() -> Command {
    define::<SignalArgs>(
        "signal",
        "runcast signal [OPTIONS] RUN [SIGNAL]",
        "Signal the processes of a detached run, or stop it",
    )
}

/// The definition of `runs`.
#[must_use]
pub fn runs_command() -> Command {
    define::<RunsArgs>("runs", "runcast runs [OPTIONS]", "List the detached runs, newest first")
}

/// The definition of `forget`.
#[must_use]
pub fn forget_command() -> Command {
    define::<ForgetArgs>(
        "forget",
        "runcast forget [OPTIONS] RUN...",
        "Delete detached runs that are over",
    )
}

/// What a subcommand says and the status that it ends with.
pub type Said = (String, u8);

/// Shows a run and returns the exit status.
#[must_use]
pub fn attach(args: &AttachArgs) -> u8 {
    let since = match (args.from, args.after) {
        (Some(Lines(lines)), _) => Since::Lines(lines),
        (None, after) => Since::Chunk(after.unwrap_or(0)),
    };
    let capture = plan::capture_recorded(args.split);
    if let Err(source) = end_on(&[Signal::INT, Signal::TERM]) {
        return show_failure(Error::Spawn { step: "signals", source }, args.show.format);
    }
    if let Some(host) = args.remote.machine() {
        let (after, lines) = match since {
            Since::Chunk(after) => (after, None),
            Since::Lines(lines) => (0, Some(lines)),
        };
        let task = Task {
            host: &host,
            retry: args.remote.retry_timeout,
            id: &args.run.run,
            start: None,
            after,
            lines,
            input: if args.stdin { Input::Ours } else { Input::None },
            hold: Hold::Watched,
            capture: &capture,
            limits: None,
        };
        return session::show(task, &plan::display_recorded(&args.show));
    }
    let input = if args.stdin { SendsInput::Yes } else { SendsInput::No };
    attach::attach(&args.run.run, since, input, &plan::display_recorded(&args.show), &capture)
}

/// Waits for a run.
#[must_use]
pub fn wait(args: &WaitArgs) -> Said {
    match observer::wait(&args.run.run, args.timeout.flatten()) {
        Ok(Some(line)) => match parse(line.trim_ascii_end()) {
            Ok(Recorded::Event(Event::Result(result))) => {
                (String::from_utf8_lossy(&line).into_owned(), result.status)
            }
            _ => {
                let why = io::Error::other("its result makes no sense");
                failed(Error::run_folder(&args.run.run, &why), Format::Ndjson)
            }
        },
        Ok(None) => (String::new(), STATUS_TIMED_OUT),
        // Its output is a result whatever is asked for, so that a program always finds one.
        Err(error) => {
            let is_lost = error.code() == ErrorCode::RunLost;
            let capture = plan::capture_recorded(SplitArg { split: Split::Lf });
            let so_far = is_lost.then(|| so_far(&args.run.run, &capture)).flatten();
            (String::new(), show_failure_after(error, Format::Ndjson, so_far))
        }
    }
}

/// Sends standard input to a run.
#[must_use]
pub fn send(args: &SendArgs) -> Said {
    #[derive(Serialize)]
    struct Sent {
        op: &'static str,
        offset: u64,
    }
    let id = &args.run.run;
    let sent = match args.ask.remote.machine() {
        Some(host) => {
            let retry = args.ask.remote.retry_timeout;
            upkeep::send(&host, retry, id, &mut io::stdin().lock(), args.offset, args.eof)
        }
        None => attach::send_input(id, args.offset, args.eof),
    };
    match sent {
        Ok(offset) => (line_of(&Sent { op: "stdin", offset }), 0),
        Err(error) => failed(error, args.ask.format),
    }
}

/// Signals a run.
#[must_use]
pub fn signal(args: &SignalArgs) -> Said {
    let sent = match args.ask.remote.machine() {
        Some(host) => {
            let signal = (!args.stop).then_some(args.signal);
            upkeep::signal(&host, args.ask.remote.retry_timeout, &args.run.run, signal)
        }
        None => {
            let what = if args.stop { Signalling::Stop } else { Signalling::Signal(args.signal) };
            attach::signal(&args.run.run, what, None)
        }
    };
    match sent {
        Ok(()) => (String::new(), 0),
        Err(error) => failed(error, args.ask.format),
    }
}

/// Lists the runs.
#[must_use]
pub fn runs(args: &RunsArgs, mut tell: impl FnMut(Error)) -> Said {
    match list::list(&mut tell) {
        Ok(runs) if args.ask.format == Format::Ndjson => {
            (runs.iter().map(|run| line_of(&Entry::from(run))).collect(), 0)
        }
        Ok(runs) => (table(&runs, width()), 0),
        Err(error) => failed(error, args.ask.format),
    }
}

/// How wide the terminal is that the list is written to, if it is one.
fn width() -> Option<usize> {
    terminal::size_of(io::stdout().as_fd()).map(|size| size.columns.into())
}

/// Deletes runs that are over.
#[must_use]
pub fn forget(args: &ForgetArgs, mut tell: impl FnMut(Error)) -> Said {
    let mut runs = args.runs.clone();
    if args.finished || args.older_than.is_some() {
        match list::list(&mut tell) {
            Ok(listed) => {
                let is_old = |run: &Listed| match (args.older_than, run.at) {
                    (None, _) => true,
                    (Some(age), Some(at)) => {
                        Duration::try_from(Timestamp::now().duration_since(at))
                            .is_ok_and(|since| since > age)
                    }
                    (Some(_), None) => false,
                };
                runs.extend(
                    listed.into_iter().filter(|run| run.is_over && is_old(run)).map(|run| run.id),
                );
            }
            Err(error) => return failed(error, args.ask.format),
        }
    }
    let mut first = None;
    for run in &runs {
        if let Err(error) = list::forget(run) {
            // Each is told; the first is what is answered.
            match first {
                None => first = Some(error),
                Some(_) => tell(error),
            }
        }
    }
    first.map_or((String::new(), 0), |error| failed(error, args.ask.format))
}

fn failed(error: Error, format: Format) -> Said {
    (String::new(), show_failure(error, format))
}

fn line_of(entry: &impl Serialize) -> String {
    let mut line = serde_json::to_string(entry).expect("texts and numbers into memory cannot fail");
    line.push('\n');
    line
}

/// A run in a list for programs.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    state: &'a str,
    started: &'a str,
    duration: Option<Seconds>,
    stdout_bytes: u64,
    stderr_bytes: u64,
    argv: Option<&'a [String]>,
    host: &'a str,
}

impl<'a> From<&'a Listed> for Entry<'a> {
    fn from(run: &'a Listed) -> Self {
        Self {
            id: run.id.as_str(),
            state: &run.state,
            started: &run.started,
            duration: run.duration.map(Seconds),
            stdout_bytes: run.bytes[0],
            stderr_bytes: run.bytes[1],
            argv: run.argv.as_deref(),
            host: &run.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_streams_are_told_by_their_names() {
        assert_eq!(parse_lines("stdout=3,stderr=4"), Ok(Lines([3, 4])));
        assert_eq!(parse_lines("stderr=4"), Ok(Lines([0, 4])));
        for wrong in ["", "3", "stdout", "stdin=3", "stdout=x", "stdout=3,", "stdout=-1"] {
            assert!(parse_lines(wrong).is_err(), "{wrong}");
        }
    }
}
