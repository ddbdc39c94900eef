//! What the command line means: from what was typed to the run and how it is shown.
//!
//! Reads what that takes, the environment and the files of `--env-file`, `--input` and `@FILE`, and nothing
//! else; whether the run can be done as planned is for the engine to find out.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::load::{Asked, Input, load};
use crate::cli::args::{Args, OutputArgs, ShowArgs, SplitArg, SurroundingArgs};
use crate::cli::values::Variable;
use crate::model::error::{Error, reason};
use crate::model::mask::{LEAST_SECRET_BYTES, Mask};
use crate::model::rlimits::Rlimit;
use crate::model::spec::{
    Capture, Display, Format, Limits, Pty, ResultDestination, Spec, Stdin, Streams,
};
use crate::model::text_files::{parse_env_file, secrets_of_file};
use crate::sink::result_file::own_descriptor;
use crate::sys::whole::{MOST_SETTINGS_BYTES, read_path};

/// Variables of the command, in order, each name once as far as runcast sets it.
type Environment = Vec<(OsString, OsString)>;

/// What `--clear-env` keeps of runcast's own environment: enough to find programs, the home folder and
/// the user's language, and to write on a terminal.
const KEPT_BY_CLEAR_ENV: [&str; 6] = ["PATH", "HOME", "LANG", "USER", "TERM", "LC_ALL"];

/// `--partial-after` where it is not given. Longer, and a prompt looks like a hang; shorter, and a line
/// that a program writes in several steps goes out in as many pieces.
const DEFAULT_PARTIAL_AFTER: Duration = Duration::from_millis(200);

/// `--max-output` where it is not given; also what a snapshot of a recorded run shows.
const DEFAULT_OUTPUT_BYTES: u64 = 256 << 10;

/// Returns how the run that the arguments ask for is shown: what is known even where it cannot be
/// planned, so that this too can be told in the format that was asked for.
#[must_use]
pub fn display(args: &Args) -> Display {
    Display {
        show_argv: !args.output.no_argv,
        progress: args.output.progress,
        shows_unfinished: args.output.partial_after.is_some(),
        heartbeat: args.output.heartbeat.flatten().filter(|_| args.show.format == Format::Ndjson),
        on_lag: args.output.on_lag,
        on_disconnect: args.output.on_disconnect,
        result: args.result.result.clone().map(as_descriptor),
        pty: args.output.pty.unwrap_or(Pty::No),
        pty_size: args.output.size,
        record: args.result.record.clone(),
        ..display_recorded(&args.show)
    }
}

/// A file that is one of our own descriptors is that: opened anew, it would be written over from its beginning.
fn as_descriptor(destination: ResultDestination) -> ResultDestination {
    match &destination {
        ResultDestination::File(path) => match own_descriptor(path) {
            Some(1) => ResultDestination::Stdout,
            Some(number) => ResultDestination::Descriptor(number),
            None => destination,
        },
        _ => destination,
    }
}

/// Returns how the lines of a run that was written down are told apart, and what a snapshot of it keeps.
#[must_use]
pub fn capture_recorded(split: SplitArg) -> Capture {
    Capture {
        max_output_bytes: DEFAULT_OUTPUT_BYTES,
        split: split.split,
        partial_after: Some(DEFAULT_PARTIAL_AFTER),
        ..Capture::default()
    }
}

/// Returns how a run that was written down is shown.
#[must_use]
pub fn display_recorded(args: &ShowArgs) -> Display {
    Display {
        format: args.format,
        quiet: args.quiet,
        metadata: last_of_each_name(&args.meta),
        prefix: args.prefix.clone(),
        timestamps: args.timestamps.clone(),
        color: args.color,
        snapshot_every: args.snapshot_every,
        stderr_level: args.stderr_level,
        ..Display::default()
    }
}

/// Returns the run that the arguments ask for.
///
/// # Errors
///
/// [`Error::File`] when a file cannot be read, or one of `--env-file` has a line that is no `NAME=VALUE`; and
/// what a backend has against what it is asked for.
pub fn plan(args: Args) -> Result<Spec, Error> {
    plan_with(args, Vec::new())
}

/// The same, with these secrets masked too.
pub(super) fn plan_with(args: Args, mut hidden: Vec<Vec<u8>>) -> Result<Spec, Error> {
    hidden.extend(secrets(&args.output)?);
    let mask = mask(&hidden)?;
    planned(args, mask.clone()).map_err(|error| error.hidden(mask.as_deref()))
}

/// The run, with what hides the secrets.
fn planned(args: Args, mask: Option<Arc<Mask>>) -> Result<Spec, Error> {
    let Args { limits, processes, surroundings, output, result, call: asked, command, .. } = args;
    let environment = environment(&surroundings)?;
    let call = load(&Asked {
        backend: asked.backend_name(processes.shell),
        callable: asked.callable,
        input: asked.input.as_ref(),
        max_result_bytes: asked.max_result,
        command: command.first().map_or(OsStr::new(""), OsString::as_os_str),
    })?;
    Ok(Spec {
        argv: command,
        call,
        environment,
        directory: surroundings.chdir,
        stdin: match surroundings.stdin {
            // The value came from there, and all of it is read.
            Stdin::Inherit if asked.input == Some(Input::Stdin) => Stdin::Null,
            stdin => stdin,
        },
        streams: streams(&output),
        pty: output.pty.unwrap_or(Pty::No),
        pty_size: output.size,
        umask: processes.umask,
        nice: processes.nice,
        no_new_privs: processes.no_new_privs,
        rlimits: last_of_each_resource(limits.rlimit.into_iter().flatten()),
        limits: Limits {
            timeout: limits.timeout.flatten(),
            idle_timeout: limits.idle_timeout.flatten(),
            stop_signal: limits.signal,
            kill_after: limits.kill_after,
            max_memory_bytes: limits.max_memory.flatten(),
            output_limit_bytes: limits.output_limit.flatten(),
        },
        capture: Capture {
            max_output_bytes: result.max_output.unwrap_or(u64::MAX),
            keep: result.keep,
            max_line_bytes: output.max_line,
            split: output.split,
            partial_after: output.partial_after.unwrap_or(Some(DEFAULT_PARTIAL_AFTER)),
            strip_ansi: output.strip_ansi,
            mask,
        },
        drain: processes.drain,
        leftover: processes.leftover,
        signal_map: processes.map_signal,
    })
}

/// Of two limits of one resource the later one counts. The earlier one is not set at all: it could not be raised again.
fn last_of_each_resource(limits: impl Iterator<Item = Rlimit>) -> Vec<Rlimit> {
    limits.fold(Vec::new(), |mut kept, limit| {
        kept.retain(|known: &Rlimit| known.resource != limit.resource);
        kept.push(limit);
        kept
    })
}

/// What hides them; `None` where there are none.
fn mask(secrets: &[Vec<u8>]) -> Result<Option<Arc<Mask>>, Error> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let mask = Mask::new(secrets).map_err(|why| Error::File {
        option: "--mask-env",
        path: "and --mask-file".into(),
        why: why.to_string(),
    })?;
    Ok(Some(Arc::new(mask)))
}

/// A terminal has one stream for all that is written to it.
fn streams(output: &OutputArgs) -> Streams {
    if output.merge || output.pty == Some(Pty::Full) { Streams::Merged } else { Streams::Separate }
}

/// What is to be hidden.
pub(super) fn secrets(asked: &OutputArgs) -> Result<Vec<Vec<u8>>, Error> {
    let failed = |option, path: &OsStr, why: String| Error::File { option, path: path.into(), why };
    let too_short = "a secret has at least 4 bytes";
    let mut secrets = Vec::new();
    for name in &asked.mask_env {
        let value = std::env::var_os(name)
            .ok_or_else(|| failed("--mask-env", name, "the variable is not set".to_owned()))?;
        if value.len() < LEAST_SECRET_BYTES {
            return Err(failed("--mask-env", name, too_short.to_owned()));
        }
        secrets.push(value.into_encoded_bytes());
    }
    for path in &asked.mask_file {
        let content = read_path(path, MOST_SETTINGS_BYTES)
            .map_err(|error| failed("--mask-file", path.as_os_str(), reason(&error)))?;
        for (line, secret) in secrets_of_file(&content) {
            if secret.len() < LEAST_SECRET_BYTES {
                let why = format!("line {line}: {too_short}");
                return Err(failed("--mask-file", path.as_os_str(), why));
            }
            secrets.push(secret);
        }
    }
    Ok(secrets)
}

/// A JSON object has each name once; the last value given is the one that counts.
fn last_of_each_name(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for (name, value) in pairs {
        match kept.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => old.clone_from(value),
            None => kept.push((name.clone(), value.clone())),
        }
    }
    kept
}

/// The command's environment; `None` where nothing about it was asked for.
fn environment(asked: &SurroundingArgs) -> Result<Option<Environment>, Error> {
    let SurroundingArgs { clear_env, unset, env_file, env, .. } = asked;
    if !clear_env && unset.is_empty() && env_file.is_empty() && env.is_empty() {
        return Ok(None);
    }
    let files = env_file.iter().map(read_env_file).collect::<Result<Vec<_>, _>>()?.concat();
    let own: Environment = std::env::vars_os().collect();
    Ok(Some(composed(&own, *clear_env, unset, files, env)))
}

pub(super) fn read_env_file(path: &PathBuf) -> Result<Environment, Error> {
    read_path(path, MOST_SETTINGS_BYTES)
        .map_err(|error| reason(&error))
        .and_then(|content| parse_env_file(&content))
        .map_err(|why| Error::File { option: "--env-file", path: path.into(), why })
}

/// Clear, unset, the files, the single variables: always in this order, whatever it was on the line.
fn composed(
    own: &Environment,
    clear: bool,
    unset: &[OsString],
    files: Environment,
    single: &[Variable],
) -> Environment {
    let kept = |name: &OsStr| !clear || KEPT_BY_CLEAR_ENV.iter().any(|kept| name == *kept);
    let mut environment: Environment =
        own.iter().filter(|(name, _)| kept(name) && !unset.contains(name)).cloned().collect();
    for (name, value) in files {
        set(&mut environment, name, value);
    }
    for variable in single {
        match variable {
            Variable::Set(name, value) => set(&mut environment, name.clone(), value.clone()),
            Variable::Inherit(name) => {
                if let Some((_, value)) = own.iter().find(|(known, _)| known == name) {
                    set(&mut environment, name.clone(), value.clone());
                }
            }
        }
    }
    environment
}

/// Sets a variable, so that its name is there once: with two, which one counts depends on who reads.
fn set(environment: &mut Environment, name: OsString, value: OsString) {
    environment.retain(|(known, _)| *known != name);
    environment.push((name, value));
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::cli::parse::{Parsed, parse};
    use crate::model::error::ErrorCode;
    use crate::model::signal::Signal;
    use crate::model::spec::{OnDisconnect, ResultDestination, Split};

    fn typed(line: &[&str]) -> Args {
        match parse(std::iter::once("runcast").chain(line.iter().copied()).map(OsString::from)) {
            Parsed::Run(args) => *args,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn planned(line: &[&str]) -> (Spec, Display) {
        let args = typed(line);
        let display = display(&args);
        (plan(args).expect("nothing is read here that could fail"), display)
    }

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// What `line` makes of an environment `own` and files that say `files`.
    fn composed_from(own: &[(&str, &str)], files: &[(&str, &str)], line: &[&str]) -> Environment {
        let SurroundingArgs { clear_env, unset, env, .. } = typed(line).surroundings;
        composed(&variables(own), clear_env, &unset, variables(files), &env)
    }

    #[test]
    fn a_command_alone_gets_the_defaults() {
        let (spec, display) = planned(&["make", "test"]);
        assert_eq!(spec.argv, ["make", "test"]);
        assert_eq!(spec.directory, None);
        assert_eq!(spec.environment, None);
        assert_eq!(spec.stdin, Stdin::Inherit);
        assert_eq!(spec.streams, Streams::Separate);
        assert_eq!((spec.umask, spec.nice, spec.no_new_privs), (None, None, false));
        assert!(spec.rlimits.is_empty() && spec.signal_map.is_empty());
        assert_eq!(spec.limits.timeout, None);
        assert_eq!(spec.limits.idle_timeout, None);
        assert_eq!(spec.limits.stop_signal, Signal::TERM);
        assert_eq!(spec.limits.kill_after, None);
        assert_eq!(spec.limits.max_memory_bytes, None);
        assert_eq!(spec.limits.output_limit_bytes, None);
        assert_eq!(spec.capture.max_output_bytes, 256 << 10);
        assert_eq!(spec.capture.max_line_bytes, 1 << 20);
        assert_eq!(spec.capture.split, Split::Lf);
        assert_eq!(spec.capture.partial_after, Some(DEFAULT_PARTIAL_AFTER));
        assert_eq!(spec.drain, Duration::from_millis(250));
        assert_eq!(display.format, Format::Text);
        assert!(display.show_argv && !display.quiet);
        assert_eq!(display.on_disconnect, OnDisconnect::Stop);
        assert_eq!(display.result, None);
    }

    #[test]
    fn nothing_and_unlimited_are_no_limit() {
        let (spec, _) = planned(&[
            "--timeout=0",
            "--idle-timeout=0s",
            "--kill-after=0",
            "--max-memory=unlimited",
            "--output-limit=unlimited",
            "--max-output=unlimited",
            "x",
        ]);
        assert_eq!((spec.limits.timeout, spec.limits.idle_timeout), (None, None));
        assert_eq!(spec.limits.kill_after, Some(Duration::ZERO));
        assert_eq!((spec.limits.max_memory_bytes, spec.limits.output_limit_bytes), (None, None));
        assert_eq!(spec.capture.max_output_bytes, u64::MAX);
    }

    #[test]
    fn of_two_limits_of_a_resource_the_later_one_alone_is_set() {
        let (spec, _) = planned(&["-r", "nofile=8,core=0", "--rlimit=nofile=9", "x"]);
        let (last, _) = planned(&["-r", "core=0", "-r", "nofile=9", "x"]);
        assert_eq!(spec.rlimits.len(), 2);
        assert_eq!(format!("{:?}", spec.rlimits), format!("{:?}", last.rlimits));
    }

    #[test]
    fn shell_is_short_for_the_backend_and_the_last_of_both_counts() {
        for (line, backend) in [
            (&["x"][..], "exec"),
            (&["--shell", "x"], "shell"),
            (&["--backend=shell", "x"], "shell"),
            (&["--shell", "--backend", "exec", "x"], "exec"),
            (&["--backend=exec", "--shell", "x"], "shell"),
        ] {
            let (spec, _) = planned(line);
            assert_eq!((spec.call.backend, spec.argv.len()), (backend, 1), "{line:?}");
            assert!(!spec.call.callable && spec.call.module.is_none());
        }
    }

    #[test]
    fn a_value_is_read_before_anything_starts_and_kept_as_it_was_written() {
        let (spec, _) = planned(&["--callable", "--input", "{ \"b\": 1e400 }", "x"]);
        assert_eq!(spec.call.input.expect("it was given").get(), "{\"b\":1e400}");
        assert_eq!(spec.call.max_result_bytes, Some(8 << 20));
        let refused =
            |line: &[&str]| plan(typed(line)).expect_err("it makes no sense").code().as_str();
        assert_eq!(refused(&["--input", "1", "x"]), "backend_not_callable");
        assert_eq!(refused(&["--callable", "--input", "", "x"]), "input_invalid");
        assert_eq!(refused(&["--callable", "--input=@/no/such/file", "x"]), "file_failed");
        assert_eq!(refused(&["--backend=node", "@/no/such/file"]), "file_failed");
        assert_eq!(refused(&["--backend", "", "x"]), "backend_unknown");
    }

    #[test]
    fn an_unfinished_line_waits_unless_told_otherwise() {
        let partial_after = |line: &[&str]| planned(line).0.capture.partial_after;
        assert_eq!(partial_after(&["-fndjson", "x"]), Some(DEFAULT_PARTIAL_AFTER));
        assert_eq!(partial_after(&["-fndjson", "--partial-after=never", "x"]), None);
        assert_eq!(partial_after(&["-fcri", "--partial-after=0", "x"]), Some(Duration::ZERO));
        let shows_unfinished = |line: &[&str]| planned(line).1.shows_unfinished;
        assert!(shows_unfinished(&["-fcri", "--partial-after=0", "x"]));
        assert!(!shows_unfinished(&["-fcri", "x"]));
    }

    #[test]
    fn metadata_has_each_name_once_with_the_last_value() {
        let (_, display) = planned(&["--meta=a=1", "--meta", "b=2", "--meta=a=3", "x"]);
        assert_eq!(display.metadata, [("a".into(), "3".into()), ("b".into(), "2".into())]);
    }

    #[test]
    fn how_it_is_shown_comes_through() {
        let (spec, display) = planned(&[
            "-qfndjson",
            "--no-argv",
            "--merge",
            "--on-disconnect=continue",
            "--result=fd:3",
            "x",
        ]);
        assert_eq!(spec.streams, Streams::Merged);
        assert_eq!(display.format, Format::Ndjson);
        assert!(display.quiet && !display.show_argv);
        assert_eq!(display.on_disconnect, OnDisconnect::Continue);
        assert_eq!(display.result, Some(ResultDestination::Descriptor(3)));
    }

    #[test]
    fn an_environment_is_made_only_when_asked_for() {
        let asked = |line: &[&str]| planned(line).0.environment.is_some();
        assert!(!asked(&["-C", "/", "x"]));
        for line in [["--clear-env"], ["--unset=A"], ["--env=A"], ["--env-file=/dev/null"]] {
            assert!(asked(&[line[0], "x"]), "{line:?}");
        }
    }

    #[test]
    fn clear_keeps_a_few_and_takes_nothing_else_over() {
        let own = [("PATH", "/bin"), ("SECRET", "s"), ("LC_ALL", "C"), ("LC_TIME", "C")];
        let made = composed_from(&own, &[], &["--clear-env", "x"]);
        assert_eq!(made, variables(&[("PATH", "/bin"), ("LC_ALL", "C")]));
    }

    #[test]
    fn the_order_is_clear_unset_file_env_whatever_it_was_on_the_line() {
        let own = [("PATH", "/bin"), ("A", "own"), ("B", "own"), ("C", "own")];
        let files = [("A", "file"), ("PATH", "file")];
        let made = composed_from(
            &own,
            &files,
            &[
                "-e",
                "A=env",
                "--env",
                "B",
                "-eGONE",
                "--unset=A",
                "--unset=PATH",
                "--clear-env",
                "x",
            ],
        );
        assert_eq!(made, variables(&[("PATH", "file"), ("A", "env"), ("B", "own")]));
    }

    #[test]
    fn a_name_that_is_set_is_there_once() {
        let own = [("A", "1"), ("A", "2"), ("B", "3")];
        let made = composed_from(&own, &[], &["-e", "A=4", "-e", "A=5", "x"]);
        assert_eq!(made, variables(&[("B", "3"), ("A", "5")]));
    }

    #[test]
    fn files_of_variables_are_read_in_turn() {
        let mut first = tempfile::NamedTempFile::new().expect("a file can be made");
        let mut second = tempfile::NamedTempFile::new().expect("a file can be made");
        first.write_all(b"# one\nA=1\nB=$A b\n").expect("it can be written");
        second.write_all(b"A=2\n").expect("it can be written");
        let mut args = typed(&["--clear-env", "--unset=PATH", "x"]);
        args.surroundings.env_file = vec![first.path().into(), second.path().into()];
        let spec = plan(args).expect("both files are there");
        let made = spec.environment.expect("it was asked for");
        let value = |name: &str| made.iter().find(|(known, _)| known == name).map(|pair| &pair.1);
        assert_eq!(value("A"), Some(&"2".into()));
        assert_eq!(value("B"), Some(&"$A b".into()));
    }

    #[test]
    fn a_file_of_variables_that_cannot_be_used_is_named() {
        let error = plan(typed(&["--env-file", "/no/such/file", "x"])).expect_err("it is missing");
        assert_eq!(error.to_string(), "--env-file /no/such/file: No such file or directory");
        assert_eq!(error.code(), ErrorCode::FileFailed);
        let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.write_all(b"A=1\nnonsense\n").expect("it can be written");
        let path = file.path().to_str().expect("a temporary path is text").to_owned();
        let error = plan(typed(&["--env-file", &path, "x"])).expect_err("line 2 is no assignment");
        let message = error.to_string();
        assert!(message.starts_with(&format!("--env-file {path}: line 2")), "{message}");
    }
}
