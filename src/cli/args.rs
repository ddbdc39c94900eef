//! What was typed: every option, its help and its checks, defined once.
//!
//! The help, the completions and the tests of the manual are made from [`command`]. What the options mean
//! together is decided by [`plan`](crate::cli::plan), not here; no file is opened here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, ArgAction, Command, ValueHint};

use crate::cli::backends::CallArgs;
use crate::cli::remote::RemoteArgs;
use crate::cli::values::{
    Rlimits, SignalMapping, SizeLimit, TimeLimit, Variable, Words, bytes, parse_destination,
    parse_line_size, parse_name, parse_nice, parse_on_lag, parse_partial_after, parse_path,
    parse_stdin, parse_variable, parse_window_size, text,
};
use crate::model::rlimits::parse_rlimits;
use crate::model::run_id::RunId;
use crate::model::signal::{Signal, parse_signal_map};
use crate::model::spec::{
    Format, Keep, Leftover, Level, OnDisconnect, OnLag, Pty, ResultDestination, Split, Stdin, When,
    WindowSize,
};
use crate::model::template::{DEFAULT_TEMPLATE, Template, TimeFormat};
use crate::model::units::{
    parse_duration, parse_limit_duration, parse_meta, parse_size, parse_size_or_unlimited,
    parse_umask,
};

const WHEN: Words<When> =
    Words(&[("auto", When::Auto), ("always", When::Always), ("never", When::Never)]);

/// What was typed.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What stops the run.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// How the processes of the run are treated.
    #[command(flatten)]
    pub processes: ProcessArgs,
    /// What the command finds when it starts.
    #[command(flatten)]
    pub surroundings: SurroundingArgs,
    /// How the output looks.
    #[command(flatten)]
    pub show: ShowArgs,
    /// How it is taken in and passed on.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Where the result goes and what it holds.
    #[command(flatten)]
    pub result: ResultArgs,
    /// Whether it outlives whoever started it.
    #[command(flatten)]
    pub detached: DetachedArgs,
    /// Where it runs.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// How the command becomes a program, and the value that it is handed.
    #[command(flatten)]
    pub call: CallArgs,

    /// The command to run and its arguments
    #[arg(
        value_names = ["COMMAND", "ARG"],
        value_hint = ValueHint::CommandWithArguments,
        required_unless_present = "list_backends",
        num_args = 1..,
        trailing_var_arg = true,
        hide = true
    )]
    pub command: Vec<OsString>,
}

impl Args {
    /// What was asked for and does not go together.
    pub(super) fn contradiction(&self) -> Option<String> {
        let OutputArgs { progress, on_lag, .. } = &self.output;
        let is_lagging = matches!(on_lag, OnLag::Drop { .. });
        // With drop, nobody knows what of the output is on the terminal already.
        (self.show.format == Format::Text && *progress != When::Never && is_lagging)
            .then(|| "'--progress' cannot be shown with '--on-lag drop'".to_owned())
    }
}

/// What stops the run, and how.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop the command this long after it started; 0 is never [default: never]
    #[arg(short, long, value_name = "DURATION", value_parser = text(parse_limit_duration))]
    pub timeout: Option<TimeLimit>,

    /// Stop it when it has written nothing for this long; 0 is never [default: never]
    ///
    /// The clock rests while runcast does not read because nobody takes what it has.
    #[arg(long, value_name = "DURATION", value_parser = text(parse_limit_duration))]
    pub idle_timeout: Option<TimeLimit>,

    /// What stopping sends first, to every process of the run
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM",
          value_parser = text(Signal::from_str))]
    pub signal: Signal,

    /// How long after that KILL follows; 0 is KILL at once [default: 2s]
    ///
    /// Given, it is also the time that the run has to end after a TERM that runcast received (else 10s).
    #[arg(short, long, value_name = "DURATION", value_parser = text(parse_duration))]
    pub kill_after: Option<Duration>,

    /// Set a resource limit of the command; repeatable, or several joined by commas
    ///
    /// NAME is as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio,
    /// rttime, sigpending or stack. LIMIT is SOFT:HARD, or SOFT for both (cpu's hard limit is then one
    /// second above): a SIZE for limits in bytes, a DURATION for cpu (whole seconds) and rttime, else a
    /// number; or unlimited.
    #[arg(short, long, value_name = "NAME=LIMIT", value_parser = text(parse_rlimits))]
    pub rlimit: Vec<Rlimits>,

    /// Kill the run when all its processes use more memory than this [default: none]
    ///
    /// Resident memory of all processes together, sampled every 50 ms: a spike between two samples is not
    /// seen.
    #[arg(long, value_name = "SIZE", value_parser = text(parse_size_or_unlimited))]
    pub max_memory: Option<SizeLimit>,

    /// Stop the run when it has written more than this [default: none]
    ///
    /// Both streams count together.
    #[arg(long, value_name = "SIZE", value_parser = text(parse_size_or_unlimited))]
    pub output_limit: Option<SizeLimit>,
}

/// How the processes of the run are treated.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Processes")]
pub struct ProcessArgs {
    /// Take COMMAND as one string for sh -c: --backend shell
    ///
    /// More ARGs are its $1, $2 and so on.
    #[arg(long, overrides_with = "backend")]
    pub shell: bool,

    /// Forward TO, or none, in place of a received FROM; repeatable
    #[arg(long, value_name = "FROM=TO", value_parser = text(parse_signal_map))]
    pub map_signal: Vec<SignalMapping>,

    /// How long to wait for streams still held after the command ended
    ///
    /// A background process that the command started may hold them. The time is counted once, not anew
    /// with each output. What the pipes hold already is always read.
    #[arg(long, value_name = "DURATION", default_value = "250ms",
          value_parser = text(parse_duration))]
    pub drain: Duration,

    /// What becomes of processes still alive after that
    ///
    /// leave lets them be, kill stops them as a timeout would, wait waits for all of them.
    #[arg(long, value_name = "WHAT", default_value = "leave", value_parser = Words(&[
        ("leave", Leftover::Leave), ("kill", Leftover::Kill), ("wait", Leftover::Wait),
    ]))]
    pub leftover: Leftover,

    /// Add N to the command's nice value
    ///
    /// A negative N needs privileges.
    #[arg(long, value_name = "N", value_parser = text(parse_nice))]
    pub nice: Option<i32>,

    /// Set the command's file mode creation mask
    #[arg(long, value_name = "OCTAL", value_parser = text(parse_umask))]
    pub umask: Option<u32>,

    /// Let no program that the command executes gain privileges
    #[arg(long)]
    pub no_new_privs: bool,
}

/// What the command finds when it starts.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Environment")]
pub struct SurroundingArgs {
    /// Start the command in DIR
    ///
    /// COMMAND is looked for from there; files that runcast's own options name are not.
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chdir: Option<PathBuf>,

    /// Set a variable, or take it over from runcast's own environment; repeatable
    ///
    /// A NAME that is to be taken over and is not set there is skipped. Whatever the order on the line,
    /// --clear-env comes first, then --unset, then --env-file, then --env.
    #[arg(short, long, value_name = "NAME[=VALUE]", value_parser = bytes(parse_variable))]
    pub env: Vec<Variable>,

    /// Set the variables of FILE, a NAME=VALUE line each; repeatable
    ///
    /// Lines that begin with # are comments. Nothing is expanded.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,

    /// Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone
    #[arg(long)]
    pub clear_env: bool,

    /// Remove a variable; repeatable
    #[arg(long, value_name = "NAME", value_parser = bytes(parse_name))]
    pub unset: Vec<OsString>,

    /// What the command reads: inherit, null, open or a file
    ///
    /// inherit is runcast's own standard input, null is nothing. With --detach null is the default, and open is
    /// what runcast send sends.
    #[arg(long, value_name = "FILE", default_value = "inherit", value_hint = ValueHint::FilePath,
          value_parser = bytes(parse_stdin))]
    pub stdin: Stdin,
}

/// How the output looks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct ShowArgs {
    /// What standard output carries
    ///
    /// text is the command's own bytes, each stream to its own. In all others both go to standard output:
    /// ndjson is one JSON object per line: started, a chunk per line of output, result; snapshot is the same
    /// with all output so far in place of the chunks; cri is container log lines; log is a JSON record per
    /// line for log viewers, logfmt the same as key=value pairs.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = Words(&[
        ("text", Format::Text), ("ndjson", Format::Ndjson), ("snapshot", Format::Snapshot),
        ("cri", Format::Cri), ("log", Format::Log), ("logfmt", Format::Logfmt),
    ]))]
    pub format: Format,

    /// Show nothing of the output; the result still has it
    #[arg(short, long)]
    pub quiet: bool,

    /// Begin each line with TEMPLATE (text) [default template: '{stream} | ']
    ///
    /// {stream}, {time}, {elapsed}, {delta}, {seq} and {pid} stand for what they name, {{ and }} for braces.
    /// TEMPLATE is attached: --prefix=TEMPLATE, -pTEMPLATE or -p=TEMPLATE.
    #[arg(short, long, value_name = "TEMPLATE", num_args = 0..=1, require_equals = true,
          default_missing_value = DEFAULT_TEMPLATE, value_parser = text(Template::parse))]
    pub prefix: Option<Template>,

    /// Begin each line with its time (text); add time to every chunk (ndjson)
    ///
    /// FORMAT is iso (default: UTC, microseconds), local, elapsed, delta (since the line before), or a pattern
    /// of strftime, in local time. It is attached: --timestamps=FORMAT, -TFORMAT or -T=FORMAT. With --prefix
    /// the time comes first.
    #[arg(short = 'T', long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "iso", value_parser = text(TimeFormat::parse))]
    pub timestamps: Option<TimeFormat>,

    /// Whether prefixes and the status line are in colour
    ///
    /// auto: on a terminal, as NO_COLOR, CLICOLOR and CLICOLOR_FORCE say. The command's own colours stay.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = WHEN)]
    pub color: When,

    /// The least time from one snapshot to the next (snapshot)
    #[arg(long, value_name = "DURATION", default_value = "100ms",
          value_parser = text(parse_duration))]
    pub snapshot_every: Duration,

    /// What log and logfmt call a line of standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = Words(&[
        ("debug", Level::Debug), ("info", Level::Info), ("warn", Level::Warn),
        ("error", Level::Error),
    ]))]
    pub stderr_level: Level,

    /// Add to the metadata of every chunk (ndjson); repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = text(parse_meta))]
    pub meta: Vec<(String, String)>,
}

/// What ended the lines of a run that was written down.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct SplitArg {
    /// What ended a line when it was run with --split
    #[arg(long, value_name = "END", default_value = "lf", value_parser = Words(&[
        ("lf", Split::Lf), ("cr", Split::Cr), ("nul", Split::Nul),
    ]))]
    pub split: Split,
}

/// How the output is taken in and passed on.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Whether a status line stands under the output (text on a terminal)
    ///
    /// It tells how long the run has lasted, how many lines and bytes it has written, and when last. Standard
    /// error has to be a terminal; auto leaves out those that call themselves dumb.
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = WHEN)]
    pub progress: When,

    /// Give both streams one pipe, as 2>&1: their order is then exact
    #[arg(long)]
    pub merge: bool,

    /// Run the command on a terminal of its own, so that it shows every line at once
    ///
    /// full (the default): a terminal that controls it, for all its streams; both output streams are one, keys
    /// and Ctrl-C are passed on from runcast's own terminal, and other standard input is typed. split: a terminal
    /// for each output stream, which stay apart; standard input stays as it is.
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true,
          default_missing_value = "full", value_parser = Words(&[
        ("full", Pty::Full), ("split", Pty::Split),
    ]))]
    pub pty: Option<Pty>,

    /// The size of that terminal [default: that of runcast's own, else 80x24]
    #[arg(long, value_name = "COLSxROWS", value_parser = text(parse_window_size))]
    pub size: Option<WindowSize>,

    /// What ends a line: LF; LF, CR or CR LF; NUL
    #[arg(long, value_name = "END", default_value = "lf", value_parser = Words(&[
        ("lf", Split::Lf), ("cr", Split::Cr), ("nul", Split::Nul),
    ]))]
    pub split: Split,

    /// The longest piece handled as one line
    ///
    /// A longer line goes out in pieces marked partial. At least 4 bytes; the line end is not counted.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = text(parse_line_size))]
    pub max_line: usize,

    /// When an unfinished line goes out, or never
    ///
    /// 0 is at once. Default 200ms for ndjson and --record, never for cri, log and logfmt. text and snapshot
    /// never hold anything back.
    #[arg(long, value_name = "DURATION|never", value_parser = text(parse_partial_after))]
    pub partial_after: Option<TimeLimit>,

    /// Remove terminal escape sequences from what is shown, kept and recorded
    #[arg(long)]
    pub strip_ansi: bool,

    /// Replace the value of a variable by *** wherever it shows; repeatable
    ///
    /// In what is shown, kept and recorded, the command line and messages; also where it is written as in
    /// JSON, in base64, in hexadecimal or percent-encoded. It must have at least 4 bytes.
    #[arg(long, value_name = "NAME", value_parser = bytes(parse_name))]
    pub mask_env: Vec<OsString>,

    /// The same for each line of FILE; repeatable
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          value_parser = bytes(parse_path))]
    pub mask_file: Vec<PathBuf>,

    /// Leave the command line out of the events
    #[arg(long)]
    pub no_argv: bool,

    /// Say that the run goes on when nothing else was written for this long (ndjson)
    #[arg(long, value_name = "DURATION", value_parser = text(parse_limit_duration))]
    pub heartbeat: Option<TimeLimit>,

    /// What happens when the output is read too slowly: block, drop or drop:SIZE
    ///
    /// block: the command waits, as on any pipe. drop: it does not; at most SIZE (8MiB) of output waits, the
    /// oldest whole lines go, and what went is told.
    #[arg(long, value_name = "WHAT", default_value = "block", value_parser = text(parse_on_lag))]
    pub on_lag: OnLag,

    /// What happens when the reader of the output goes away
    ///
    /// stop stops the run as a timeout would; continue runs on without a reader.
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = Words(&[
        ("stop", OnDisconnect::Stop), ("continue", OnDisconnect::Continue),
    ]))]
    pub on_disconnect: OnDisconnect,
}

/// Where the result goes and what it holds.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Result and recording")]
pub struct ResultArgs {
    /// Also write every event to FILE, as ndjson does, to be played again
    ///
    /// runcast replay FILE does that. A name that ends in .cast gets an asciicast (version 2).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          value_parser = bytes(parse_path))]
    pub record: Option<PathBuf>,

    /// Write the result, a JSON object, to a file, fd:N or - (standard output)
    ///
    /// A file is written whole or not at all. On standard output the result comes last.
    #[arg(long, value_name = "DEST", value_hint = ValueHint::FilePath,
          value_parser = bytes(parse_destination))]
    pub result: Option<ResultDestination>,

    /// How much of each stream the result keeps, or unlimited
    #[arg(long, value_name = "SIZE", default_value = "256KiB",
          value_parser = text(parse_size_or_unlimited))]
    pub max_output: SizeLimit,

    /// Which part it keeps past that; both is half and half
    #[arg(long, value_name = "PART", default_value = "head", value_parser = Words(&[
        ("head", Keep::Head), ("tail", Keep::Tail), ("both", Keep::Both),
    ]))]
    pub keep: Keep,
}

/// Whether the run outlives whoever started it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Detached runs")]
pub struct DetachedArgs {
    /// Start the command, print the run's name and leave it running
    ///
    /// It then runs on whatever becomes of this terminal or connection. runcast attach shows its output, wait
    /// its result, send writes to it, signal signals it, runs lists all, and forget deletes those that are over.
    #[arg(short, long)]
    pub detach: bool,

    /// The run's name; one that is there already is not started again [default: a fresh one]
    ///
    /// 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with . or -. Where a run of this name has another command or
    /// other options, that is an error.
    #[arg(long, value_name = "ID", value_parser = text(RunId::parse))]
    pub id: Option<RunId>,

    /// How much of its output is kept on disk; past that the oldest goes
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = text(parse_size))]
    pub journal: u64,
}

const USAGE: &str = "\
runcast [OPTIONS] [--] COMMAND [ARG]...
       runcast attach [OPTIONS] RUN
       runcast wait [OPTIONS] RUN
       runcast send [OPTIONS] RUN
       runcast signal [OPTIONS] RUN [SIGNAL]
       runcast runs [OPTIONS]
       runcast forget [OPTIONS] RUN...
       runcast replay [OPTIONS] FILE";

const AFTER_HELP: &str = "\
Options end at the first word that is not one; after -- none is looked for.
DURATION: a number with ms, s, m, h or d (none: seconds), or several: 1h30m.
SIZE: a number with K, M, G, T or KiB, MiB, ... (1024) or kB, MB, ... (1000).
SIGNAL: a name with or without SIG, in any case, or a number.

Examples:
  runcast -t 10m -- make test
  runcast -f ndjson --idle-timeout 30s -- ./build.sh | my-viewer
  runcast -r cpu=60,as=4G --result result.json -- ./solve input
  runcast --shell -t 5 'sort big | head'
  runcast -d --id nightly -- make all; runcast attach nightly

Exit status:
  the command's own, or 128+N when signal N ended it
  124  a timeout stopped it
  125  runcast itself failed
  126  COMMAND was found but cannot be executed
  127  COMMAND was not found
  141  the reader of the output went away";

/// The definition of the command line that runs a command.
#[must_use]
pub fn command() -> Command {
    let base =
        Command::new("runcast").bin_name("runcast").override_usage(USAGE).after_help(AFTER_HELP);
    // After the options: they would put the description of their type in its place.
    let command = <Args as clap::Args>::augment_args(base).about(env!("CARGO_PKG_DESCRIPTION"));
    finished(command).version(env!("CARGO_PKG_VERSION")).arg(
        Arg::new("version")
            .short('V')
            .long("version")
            .action(ArgAction::Version)
            .help_heading("Help")
            .help("Show the version"),
    )
}

/// Adds what every command line has.
pub(super) fn finished(command: Command) -> Command {
    command
        .term_width(80)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .action(ArgAction::Help)
                .help_heading("Help")
                .help("Show this help; --help tells more than -h"),
        )
        .mut_args(|arg| {
            if arg.is_positional() || !arg.get_action().takes_values() {
                return arg;
            }
            // As with getopt, an option that takes a value takes the next word, whatever it looks like:
            // `--nice -5` is a value and `--timeout -1` a wrong one, not an option nobody knows.
            arg.allow_hyphen_values(true)
        })
}

/// A definition as completions are made from it: durations, sizes and names are no files, and completing them as
/// such only misleads.
#[must_use]
pub fn to_be_completed(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_value_hint() {
        ValueHint::Unknown if !arg.is_positional() && arg.get_action().takes_values() => {
            arg.value_hint(ValueHint::Other)
        }
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::cli::parse::{Parsed, parse};
    use crate::model::error::Error;

    fn words(line: &[&str]) -> Vec<OsString> {
        std::iter::once("runcast").chain(line.iter().copied()).map(OsString::from).collect()
    }

    fn run(line: &[&str]) -> Args {
        match parse(words(line)) {
            Parsed::Run(args) => *args,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn fault_of(line: Vec<OsString>) -> String {
        match parse(line) {
            Parsed::Error(Error::Usage(fault)) => fault,
            other => panic!("not a usage error: {other:?}"),
        }
    }

    #[test]
    fn the_definition_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn options_end_at_the_first_word_that_is_not_one() {
        let args = run(&["-t", "5", "ls", "-l", "--color", "--timeout=x", "--", "-q"]);
        assert_eq!(args.command, ["ls", "-l", "--color", "--timeout=x", "--", "-q"]);
        assert_eq!(args.limits.timeout, Some(Some(Duration::from_secs(5))));
        assert!(!args.show.quiet);
    }

    #[test]
    fn after_two_hyphens_the_next_word_is_the_command() {
        assert_eq!(run(&["--", "-q", "--help", "--"]).command, ["-q", "--help", "--"]);
        assert_eq!(run(&["--", "--"]).command, ["--"]);
        assert_eq!(run(&["-", "-h"]).command, ["-", "-h"]);
    }

    #[test]
    fn words_of_the_command_may_hold_any_bytes_or_none() {
        let bytes = OsString::from_vec(vec![0xff, b'\n', 0xfe]);
        let mut line = words(&["--", ""]);
        line.push(bytes.clone());
        match parse(line) {
            Parsed::Run(args) => assert_eq!(args.command, [OsString::new(), bytes]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_an_option_given_twice_the_last_wins_and_repeatable_ones_add_up() {
        let args = run(&["-q", "-t1", "--timeout=2", "-q", "--keep", "tail", "--keep=both", "x"]);
        assert_eq!(args.limits.timeout, Some(Some(Duration::from_secs(2))));
        assert_eq!(args.result.keep, Keep::Both);
        let args = run(&["-e", "A=1", "-eB", "--env=C=", "--unset", "D", "--unset=E", "x"]);
        assert_eq!(
            args.surroundings.env,
            [
                Variable::Set("A".into(), "1".into()),
                Variable::Inherit("B".into()),
                Variable::Set("C".into(), "".into()),
            ]
        );
        assert_eq!(args.surroundings.unset, ["D", "E"]);
    }

    #[test]
    fn short_options_join() {
        let args = run(&["-qf", "ndjson", "-qt5", "x"]);
        assert!(args.show.quiet);
        assert_eq!(args.show.format, Format::Ndjson);
        assert_eq!(args.limits.timeout, Some(Some(Duration::from_secs(5))));
    }

    #[test]
    fn a_value_may_look_like_an_option() {
        let args = run(&["--nice", "-5", "-C", "-q", "--env-file", "--quiet", "x"]);
        assert_eq!(args.processes.nice, Some(-5));
        assert_eq!(args.surroundings.chdir, Some("-q".into()));
        assert_eq!(args.surroundings.env_file, [PathBuf::from("--quiet")]);
        assert!(!args.show.quiet);
    }

    #[test]
    fn a_value_that_may_be_left_out_is_attached() {
        let prefix = |line: &[&str]| run(line).show.prefix;
        let template = |typed| Template::parse(typed).ok();
        for line in [&["-p", "make"][..], &["--prefix", "make"], &["-qp", "make"]] {
            assert_eq!(prefix(line), template(DEFAULT_TEMPLATE), "{line:?}");
            assert_eq!(run(line).command, ["make"], "{line:?}");
        }
        for line in [&["--prefix=> ", "x"][..], &["-p> ", "x"], &["-p=> ", "x"], &["-qp> ", "x"]] {
            assert_eq!(prefix(line), template("> "), "{line:?}");
        }
        assert_eq!(prefix(&["-pa", "-p=b", "x"]), template("b"));
        assert_eq!(prefix(&["x", "-p"]), None);
        let timestamps = |line: &[&str]| run(line).show.timestamps;
        assert_eq!(timestamps(&["-T", "iso"]), Some(TimeFormat::Iso));
        assert_eq!(timestamps(&["-Telapsed", "x"]), Some(TimeFormat::Elapsed));
        assert_eq!(timestamps(&["-T%H:%M", "x"]), TimeFormat::parse("%H:%M").ok());
        assert_eq!(timestamps(&["--timestamps=%H:%M", "x"]), TimeFormat::parse("%H:%M").ok());
    }

    #[test]
    fn what_does_not_go_together_is_a_usage_error() {
        let dropping = ["--progress=auto", "--on-lag=drop", "x"];
        assert_eq!(fault_of(words(&dropping)), "'--progress' cannot be shown with '--on-lag drop'");
        // Other formats have no status line anyhow.
        run(&["--format=ndjson", "--progress=auto", "--on-lag=drop", "x"]);
        run(&["--progress=never", "--on-lag=drop", "x"]);
    }

    #[test]
    fn a_result_goes_to_a_file_a_descriptor_or_standard_output() {
        let result = |dest| run(&["--result", dest, "x"]).result.result;
        assert_eq!(result("-"), Some(ResultDestination::Stdout));
        assert_eq!(result("fd:7"), Some(ResultDestination::Descriptor(7)));
        assert_eq!(result("fd"), Some(ResultDestination::File("fd".into())));
        assert_eq!(result("./fd:7"), Some(ResultDestination::File("./fd:7".into())));
    }

    #[test]
    fn standard_input_is_a_word_or_a_file() {
        let stdin = |typed| run(&["--stdin", typed, "x"]).surroundings.stdin;
        assert_eq!(stdin("inherit"), Stdin::Inherit);
        assert_eq!(stdin("null"), Stdin::Null);
        assert_eq!(stdin("./null"), Stdin::File("./null".into()));
        assert_eq!(stdin("-"), Stdin::File("-".into()));
    }

    #[test]
    fn the_help_names_the_default_that_a_stop_has() {
        let default = format!("{}s", crate::model::spec::DEFAULT_KILL_AFTER.as_secs());
        let help = command().render_help().to_string();
        assert!(help.contains(&format!("KILL at once [default: {default}]")), "{help}");
    }

    #[test]
    fn help_and_version_are_shown_whatever_else_is_missing() {
        for (line, beginning) in [
            (["-h"], "Run one command"),
            (["--help"], "Run one command"),
            (["-V"], "runcast "),
            (["--version"], "runcast "),
        ] {
            match parse(words(&line)) {
                Parsed::Show(text) => assert!(text.starts_with(beginning), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_usage_error_names_the_word_at_fault() {
        let unnamed = "--result <DEST>': fd: wants the number of a descriptor";
        let cases: &[(&[&str], &str)] = &[
            (&[], "no command given"),
            (&["--"], "no command given"),
            (&["-t", "5"], "no command given"),
            (&["-t"], "a value is required for '--timeout <DURATION>'"),
            (&["--chdir=", "x"], "a value is required for '--chdir <DIR>'"),
            (&["--bogus", "x"], "unknown option '--bogus'"),
            (&["-qx", "x"], "unknown option '-x'"),
            (&["--timout", "5"], "unknown option '--timout', did you mean '--timeout'?"),
            (&["--quiet=yes", "x"], "'--quiet' takes no value, but was given 'yes'"),
            (
                &["--keep", "middle", "x"],
                "invalid value 'middle' for '--keep <PART>' (possible values: head, tail, both)",
            ),
            (
                &["--keep", "", "x"],
                "a value is required for '--keep <PART>' (possible values: head, tail, both)",
            ),
            (
                &["-p{name}", "x"],
                "invalid value '{name}' for '--prefix[=<TEMPLATE>]': unknown placeholder {name} (there are stream, time, elapsed, delta, seq, pid)",
            ),
            (
                &["-Tp", "x"],
                "invalid value 'p' for '--timestamps[=<FORMAT>]': neither iso, local, elapsed, delta nor a pattern with %",
            ),
            (
                &["--prefix=", "x"],
                "invalid value '' for '--prefix[=<TEMPLATE>]': the template is empty",
            ),
            (&["--nice", "x", "x"], "invalid value 'x' for '--nice <N>': not a whole number"),
            (
                &["--max-line=3", "x"],
                "invalid value '3' for '--max-line <SIZE>': less than 4 bytes",
            ),
            (
                &["--unset", "a=b", "x"],
                "invalid value 'a=b' for '--unset <NAME>': a name holds no '='",
            ),
            (&["-e", "", "x"], "invalid value '' for '--env <NAME[=VALUE]>': the name is empty"),
            (&["--stdin", "", "x"], "invalid value '' for '--stdin <FILE>': the path is empty"),
            (&["--result", "", "x"], "invalid value '' for '--result <DEST>': the path is empty"),
            (&["--result", "fd:x", "x"], &format!("invalid value 'fd:x' for '{unnamed}")),
            (&["--result", "fd:", "x"], &format!("invalid value 'fd:' for '{unnamed}")),
            (&["--result", "fd:+1", "x"], &format!("invalid value 'fd:+1' for '{unnamed}")),
        ];
        for (line, fault) in cases {
            assert_eq!(fault_of(words(line)), *fault, "{line:?}");
        }
    }

    #[test]
    fn a_value_that_an_option_refuses_is_refused_in_its_name() {
        let definition = command();
        let takes_value = |arg: &&Arg| !arg.is_positional() && arg.get_action().takes_values();
        for option in definition.get_arguments().filter(takes_value) {
            let name = option.get_long().expect("every option has a long name");
            let any_text = [
                "chdir",
                "env-file",
                "stdin",
                "result",
                "record",
                "env",
                "unset",
                "mask-env",
                "mask-file",
                "prefix",
                "id",
                "host",
                "remote-runcast",
            ];
            let is_free = any_text.contains(&name);
            // Whether these make sense is for the backend to say, in a result.
            if ["backend", "input"].contains(&name) {
                continue;
            }
            for value in [&b""[..], b"-1x", b"nan", b"x\xff", b"\n\x1b[2J"] {
                let mut typed = OsString::from(format!("--{name}="));
                typed.push(OsString::from_vec(value.to_vec()));
                // Some make sense only with another.
                let with = match name {
                    "id" | "journal" => "--detach",
                    "remote-runcast" | "retry-timeout" => "--host=box",
                    _ => "--quiet",
                };
                let line = [OsString::from("runcast"), with.into(), typed, "x".into()];
                match parse(line) {
                    Parsed::Error(error) => {
                        let line = error.to_string();
                        let named = [format!("'--{name} <"), format!("'--{name}[=<")];
                        assert!(named.iter().any(|named| line.contains(named)), "{line}");
                        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
                    }
                    _ => assert!(is_free && !value.is_empty(), "{name} {value:?}"),
                }
            }
        }
    }
}
