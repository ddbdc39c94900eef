//! The same on another machine: the options for it, and what of a command line goes there.
//!
//! What is looked at, kept and shown here stays here: how the output looks, `--result`, `--record`, and every file
//! that an option names. What the run is goes there, in the same words.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::time::{Duration, Instant};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::cli::args::{self, Args};
use crate::cli::detach;
use crate::cli::plan;
use crate::cli::runs::Said;
use crate::cli::values::{Variable, text};
use crate::engine::run::show_failure;
use crate::model::error::{Error, reason};
use crate::model::json::is_object;
use crate::model::run_id::RunId;
use crate::model::spec::{Format, Spec, Stdin, WindowSize};
use crate::model::units::{parse_duration, parse_limit_duration};
use crate::remote::host::Host;
use crate::remote::session::show;
use crate::remote::task::{Hold, Input, Start, Task};
use crate::remote::upkeep;
use crate::remote::wire::Bytes;
use crate::sink::message;
use crate::sys::terminal;

/// Where it is done.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Another machine")]
pub struct RemoteArgs {
    /// Do it on DEST, through ssh
    ///
    /// As if it ran here, with your own ssh configuration, keys and host checks. runcast has to be on the PATH
    /// there. When the connection breaks it connects again, and nothing is lost or comes twice. RUNCAST_SSH names
    /// another command in place of ssh.
    #[arg(long, value_name = "DEST", value_parser = text(Host::parse_name))]
    pub host: Option<String>,

    /// How long to try again when the connection breaks
    ///
    /// Since the last line that came from there. 0 is not at all.
    #[arg(long, value_name = "DURATION", default_value = "30s",
          value_parser = text(parse_duration))]
    pub retry_timeout: Duration,

    /// The runcast on DEST, where it is not on the PATH there
    ///
    /// A relative path begins in the home folder there.
    #[arg(long, value_name = "PATH", value_parser = text(Host::parse_program))]
    pub remote_runcast: Option<String>,
}

impl RemoteArgs {
    /// The machine, if it is another one.
    #[must_use]
    pub fn machine(&self) -> Option<Host> {
        let name = self.host.clone()?;
        Some(Host { name, program: self.remote_runcast.clone() })
    }
}

/// The shortest time to wait: none at all would be for ever.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// What stays here of the options of a run.
const STAYS: [&str; 23] = [
    "format",
    "quiet",
    "meta",
    "prefix",
    "timestamps",
    "color",
    "progress",
    "snapshot_every",
    "stderr_level",
    "heartbeat",
    "on_lag",
    "on_disconnect",
    "result",
    "record",
    "host",
    "retry_timeout",
    "remote_runcast",
    "detach",
    "id",
    "stdin",
    "env",
    "env_file",
    "command",
];

/// What is read here, and goes there by what it holds.
const READ_HERE: [&str; 3] = ["mask_env", "mask_file", "input"];

/// Starts or runs what the arguments ask for on another machine, and returns what is to be said of it and the exit
/// status. `request` is what was typed.
#[must_use]
pub fn run(args: Args, request: &ArgMatches, host: &Host) -> Said {
    let (format, is_detached, retry) =
        (args.show.format, args.detached.detach, args.remote.retry_timeout);
    let mut display = plan::display(&args);
    let id = args.detached.id.clone().unwrap_or_else(RunId::fresh);
    let stays = is_detached || args.detached.id.is_some();
    let hold = if stays { Hold::Named } else { Hold::Ours };
    let variables = args.surroundings.env.clone();
    let files = args.surroundings.env_file.clone();
    let uncounted = uncounted(&args, hold, request);
    let planned = plan::secrets(&args.output).and_then(|secrets| {
        let spec = plan::plan(args)?;
        let words = start_words(&spec, &variables, &files, request, &id, is_detached)?;
        let secrets = secrets.into_iter().map(Bytes).collect();
        Ok((spec, Start { words, uncounted, secrets }))
    });
    let (spec, start) = match planned {
        Ok(planned) => planned,
        Err(error) => return (String::new(), show_failure(error, format)),
    };
    let mask = spec.capture.mask.clone();
    display.hide(mask.as_deref());
    if is_detached {
        return match upkeep::start(host, retry, &start, &id) {
            Ok((line, existing)) => (detach::said(&id, line.as_bytes(), existing, format), 0),
            Err(error) => (String::new(), show_failure(error.hidden(mask.as_deref()), format)),
        };
    }
    let input = match input(&spec) {
        Ok(input) => input,
        Err(error) => return (String::new(), show_failure(error, format)),
    };
    let task = Task {
        host,
        retry,
        id: &id,
        start: Some(start),
        after: 0,
        lines: None,
        input,
        hold,
        capture: &spec.capture,
        limits: Some(&spec.limits),
    };
    (String::new(), show(task, &display))
}

/// What the run has to be told so that it looks as if it ran here, as far as it was not said: that nothing goes
/// before it was shown, the size of our terminal, and when unfinished lines come. How a run that stays looks is for whoever looks at it to say.
fn uncounted(args: &Args, hold: Hold, request: &ArgMatches) -> Vec<Bytes> {
    let mut words = Vec::new();
    if !args.detached.detach && request.value_source("journal") != Some(ValueSource::CommandLine) {
        // Whoever shows it here may be slower than the command, and is to lose nothing of it.
        words.push(format!("--journal={}", u64::MAX));
    }
    if args.output.pty.is_some()
        && args.output.size.is_none()
        && let Some(WindowSize { columns, rows }) = terminal::own_size()
    {
        words.push(format!("--size={columns}x{rows}"));
    }
    if let Some(partial_after) = partial_after(args, hold) {
        words.push(format!("--partial-after={partial_after}"));
    }
    words.into_iter().map(|word| Bytes(word.into_bytes())).collect()
}

/// When unfinished lines come so that it looks as if it ran here; `None`: as it was said.
fn partial_after(args: &Args, hold: Hold) -> Option<&'static str> {
    match args.show.format {
        _ if hold == Hold::Named || args.result.record.is_some() => None,
        Format::Text | Format::Snapshot => Some("0"),
        Format::Cri | Format::Log | Format::Logfmt if args.output.partial_after.is_none() => {
            Some("never")
        }
        _ => None,
    }
}

/// What is sent as the run's standard input.
fn input(spec: &Spec) -> Result<Input, Error> {
    match &spec.stdin {
        Stdin::Inherit => Ok(Input::Ours),
        Stdin::Null | Stdin::Open => Ok(Input::None),
        Stdin::File(path) => File::open(path).map(Input::From).map_err(|error| Error::File {
            option: "--stdin",
            path: path.clone().into(),
            why: reason(&error),
        }),
    }
}

/// The words that start the run there.
fn start_words(
    spec: &Spec,
    variables: &[Variable],
    files: &[std::path::PathBuf],
    request: &ArgMatches,
    id: &RunId,
    is_detached: bool,
) -> Result<Vec<Bytes>, Error> {
    let mut words: Vec<OsString> = vec!["--detach".into(), format!("--id={id}").into()];
    let stays = |name: &str| STAYS.contains(&name) || READ_HERE.contains(&name);
    for name in given(&args::command(), request).iter().filter(|name| !stays(name)) {
        words.extend(words_of(request, name));
    }
    words.push(match &spec.stdin {
        Stdin::Null => "--stdin=null".into(),
        Stdin::Inherit if is_detached => "--stdin=null".into(),
        Stdin::File(_) if is_detached => {
            return Err(Error::Usage(
                "'--stdin FILE' cannot go with '--detach' and '--host'; runcast send sends it"
                    .to_owned(),
            ));
        }
        Stdin::Inherit | Stdin::Open | Stdin::File(_) => "--stdin=open".into(),
    });
    for (name, value) in
        files.iter().map(plan::read_env_file).collect::<Result<Vec<_>, _>>()?.concat()
    {
        words.push(assignment(&name, &value));
    }
    for variable in variables {
        match variable {
            Variable::Set(name, value) => words.push(assignment(name, value)),
            Variable::Inherit(name) => {
                if let Some(value) = std::env::var_os(name) {
                    words.push(assignment(name, &value));
                }
            }
        }
    }
    if let Some(input) = &spec.call.input {
        words.push(format!("--input={}", input.get()).into());
    }
    words.push("--".into());
    let mut command = spec.argv.clone();
    if let (Some(module), Some(first)) = (&spec.call.module, command.first_mut()) {
        use std::os::unix::ffi::OsStringExt;
        *first = OsString::from_vec(module.source.clone());
    }
    words.extend(command);
    Ok(words.into_iter().map(|word| Bytes(word.into_encoded_bytes())).collect())
}

fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    let mut word = OsString::from("--env=");
    word.push(name);
    word.push("=");
    word.push(value);
    word
}

/// The names of what was typed, in their order. clap has names of its own among them.
pub(super) fn given(definition: &Command, request: &ArgMatches) -> Vec<String> {
    let names = definition.get_arguments().map(|arg| arg.get_id().as_str());
    let mut given: Vec<String> = names
        .filter(|name| {
            request.try_contains_id(name).unwrap_or(false)
                && request.value_source(name) == Some(ValueSource::CommandLine)
        })
        .map(str::to_owned)
        .collect();
    given.sort_unstable();
    given
}

/// An option as it was typed, in as many words as it was given times.
pub(super) fn words_of(request: &ArgMatches, name: &str) -> Vec<OsString> {
    let option = format!("--{}", name.replace('_', "-"));
    if request.try_get_one::<bool>(name).is_ok_and(|flag| flag.is_some()) {
        return vec![option.into()];
    }
    request
        .get_raw(name)
        .into_iter()
        .flatten()
        .map(|value| {
            let mut word = OsString::from(format!("{option}="));
            word.push(value);
            word
        })
        .collect()
}

/// Has the other machine do what was typed behind a subcommand, and returns what it said.
#[must_use]
pub fn ask(host: &Host, retry: Duration, definition: &Command, request: &ArgMatches) -> Said {
    let name = definition.get_name();
    let mut options: Vec<OsString> = vec![name.into()];
    let mut operands: Vec<OsString> = vec!["--".into()];
    let here = ["host", "retry_timeout", "remote_runcast", "timeout"];
    for name in given(definition, request).iter().filter(|name| !here.contains(&name.as_str())) {
        match name.as_str() {
            "run" | "runs" => {
                operands.extend(request.get_raw(name).into_iter().flatten().map(OsStr::to_owned));
            }
            _ => options.extend(words_of(request, name)),
        }
    }
    let timeout = timeout(request);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let words = || {
        // Asked again, it waits for as long as is left.
        let left =
            deadline.map(|end| end.saturating_duration_since(Instant::now()).max(LEAST_WAIT));
        let left = left.map(|left| format!("--timeout={}ms", left.as_millis()).into());
        let words = options.iter().cloned().chain(left).chain(operands.iter().cloned());
        words.map(|word| Bytes(word.into_encoded_bytes())).collect()
    };
    // What waits for a run prints a result whatever is asked for, so that a program always finds one.
    let asked = request.get_one::<Format>("format");
    let wants_events = name == "wait" || asked == Some(&Format::Ndjson);
    match upkeep::ask(host, retry, words) {
        Ok(answer) => {
            message::pass_on(&answer.stderr);
            let stdout = String::from_utf8_lossy(&answer.stdout);
            if wants_events && !stdout.lines().all(|line| is_object(line.as_bytes())) {
                let why = "its answer makes no sense".to_owned();
                let error = Error::Remote { host: host.name.clone(), why };
                return (String::new(), show_failure(error, Format::Ndjson));
            }
            let shown = if wants_events { stdout.into_owned() } else { message::plain(&stdout) };
            (shown, answer.status)
        }
        Err(error) => {
            let format = if wants_events { Format::Ndjson } else { Format::Text };
            (String::new(), show_failure(error, format))
        }
    }
}

/// The time limit that was typed behind `wait`.
fn timeout(request: &ArgMatches) -> Option<Duration> {
    let typed = request.try_get_raw("timeout").ok().flatten()?.next()?;
    parse_limit_duration(typed.to_str()?).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes to the other machine as it was typed.
    const GOES: [&str; 31] = [
        "timeout",
        "idle_timeout",
        "signal",
        "kill_after",
        "rlimit",
        "max_memory",
        "output_limit",
        "shell",
        "map_signal",
        "drain",
        "leftover",
        "nice",
        "umask",
        "no_new_privs",
        "chdir",
        "clear_env",
        "unset",
        "merge",
        "pty",
        "size",
        "split",
        "max_line",
        "partial_after",
        "strip_ansi",
        "no_argv",
        "max_output",
        "keep",
        "journal",
        "backend",
        "callable",
        "max_result",
    ];

    /// What no run has.
    const OTHERS: [&str; 3] = ["list_backends", "help", "version"];

    #[test]
    fn of_each_option_it_is_known_whether_it_goes_there() {
        let mut known = [&STAYS[..], &READ_HERE, &GOES, &OTHERS].concat();
        let command = args::command();
        let mut ids: Vec<&str> =
            command.get_arguments().map(|option| option.get_id().as_str()).collect();
        known.sort_unstable();
        ids.sort_unstable();
        assert_eq!(ids, known);
    }
}
