//! From words to what they ask for: a command to run, or one of the subcommands.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::cli::args::{self, Args};
use crate::cli::attached_values::{with_equals_signs, with_equals_signs_anywhere};
use crate::cli::detach;
use crate::cli::replay::{self, ReplayArgs};
use crate::cli::runs::{self, AttachArgs, ForgetArgs, RunsArgs, SendArgs, SignalArgs, WaitArgs};
use crate::cli::usage::fault;
use crate::model::error::Error;
use crate::model::spec::Format;
use crate::remote::host::Host;
use crate::remote::wire::REMOTE_END;

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To run a command.
    Run(Box<Args>),
    /// To do either on another machine. The words are what was typed.
    Remote(Box<Args>, Box<ArgMatches>, Host),
    /// To have another machine do what a subcommand does.
    Ask {
        /// The machine.
        host: Host,
        /// How long to try again.
        retry: Duration,
        /// The definition of the subcommand.
        definition: Box<Command>,
        /// What was typed behind it.
        request: Box<ArgMatches>,
    },
    /// To be the other end of such a connection.
    RemoteEnd,
    /// To start one and leave it running. The bytes are what the same request has the same of.
    Detach(Box<Args>, Vec<u8>),
    /// To list the backends in this format and end with 0.
    ListBackends(Format),
    /// To play a recording.
    Replay(Box<ReplayArgs>),
    /// To show a detached run.
    Attach(Box<AttachArgs>),
    /// To wait for one.
    Wait(WaitArgs),
    /// To send it standard input.
    Send(SendArgs),
    /// To signal it.
    Signal(SignalArgs),
    /// To list all.
    Runs(RunsArgs),
    /// To delete some.
    Forget(ForgetArgs),
    /// To show this text on standard output and end with 0: the help or the version.
    Show(String),
    /// Nothing that makes sense.
    Error(Error),
}

/// A subcommand: its name, the definition of its command line, and what becomes of what was typed.
struct Subcommand {
    name: &'static str,
    command: fn() -> Command,
    read: fn(&mut ArgMatches) -> Result<Parsed, clap::Error>,
}

/// Reads what was typed behind a subcommand.
fn read<A: FromArgMatches>(
    matches: &mut ArgMatches,
    parsed: impl FnOnce(A) -> Parsed,
) -> Result<Parsed, clap::Error> {
    A::from_arg_matches_mut(matches).map(parsed)
}

/// All subcommands.
const SUBCOMMANDS: [Subcommand; 7] = [
    Subcommand {
        name: "attach",
        command: runs::attach_command,
        read: |matches| read(matches, |args| Parsed::Attach(Box::new(args))),
    },
    Subcommand {
        name: "wait",
        command: runs::wait_command,
        read: |matches| read(matches, Parsed::Wait),
    },
    Subcommand {
        name: "send",
        command: runs::send_command,
        read: |matches| read(matches, Parsed::Send),
    },
    Subcommand {
        name: "signal",
        command: runs::signal_command,
        read: |matches| read(matches, Parsed::Signal),
    },
    Subcommand {
        name: "runs",
        command: runs::runs_command,
        read: |matches| read(matches, Parsed::Runs),
    },
    Subcommand {
        name: "forget",
        command: runs::forget_command,
        read: |matches| read(matches, Parsed::Forget),
    },
    Subcommand {
        name: "replay",
        command: replay::command,
        read: |matches| read(matches, |args| Parsed::Replay(Box::new(args))),
    },
];

/// The definitions of all subcommands.
pub fn subcommands() -> impl Iterator<Item = Command> {
    SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)())
}

/// What `argv` asks for; its first word is the name that runcast was called by.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Parsed {
    let mut command = args::command();
    let argv = with_equals_signs(&command, argv);
    if argv.len() == 2 && argv[1] == REMOTE_END {
        return Parsed::RemoteEnd;
    }
    let parsed = command.try_get_matches_from_mut(&argv).and_then(|matches| {
        let words: Vec<&OsStr> = matches.get_raw("command").into_iter().flatten().collect();
        match subcommand(&argv, &words) {
            Some((subcommand, words)) => (subcommand.command)()
                .try_get_matches_from(with_equals_signs_anywhere(&(subcommand.command)(), words))
                .and_then(|matches| behind(subcommand, matches)),
            None => run(matches),
        }
    });
    leave(command);
    parsed.unwrap_or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::Show(error.to_string()),
        _ => Parsed::Error(Error::Usage(fault(&error))),
    })
}

/// Does not free what is hundreds of small things: whatever comes now ends with the process. With a fuzzer it goes on.
fn leave<T>(things: T) {
    if !cfg!(fuzzing) {
        std::mem::forget(things);
    }
}

/// What is asked for behind a subcommand.
fn behind(subcommand: &Subcommand, mut matches: ArgMatches) -> Result<Parsed, clap::Error> {
    let request = matches.clone();
    let parsed = (subcommand.read)(&mut matches)?;
    let remote = match &parsed {
        Parsed::Wait(args) => &args.ask.remote,
        Parsed::Runs(args) => &args.ask.remote,
        Parsed::Forget(args) => &args.ask.remote,
        // What these show or send does not fit into one answer, and signals are sent once.
        _ => return Ok(parsed),
    };
    match remote.machine() {
        None => Ok(parsed),
        Some(host) => Ok(Parsed::Ask {
            host,
            retry: remote.retry_timeout,
            definition: Box::new((subcommand.command)()),
            request: Box::new(request),
        }),
    }
}

/// What arguments that name no subcommand ask for.
fn run(mut matches: ArgMatches) -> Result<Parsed, clap::Error> {
    let fault = detach::fault(&matches);
    // What was typed is of use elsewhere only.
    let request =
        (matches.get_flag("detach") || matches.contains_id("host")).then(|| matches.clone());
    let args = Args::from_arg_matches_mut(&mut matches)?;
    leave(matches);
    if args.call.list_backends {
        return Ok(Parsed::ListBackends(args.show.format));
    }
    if let Err(error) = fault {
        return Ok(Parsed::Error(error));
    }
    if let Some(fault) = args.contradiction() {
        return Ok(Parsed::Error(Error::Usage(fault)));
    }
    Ok(match (request, args.remote.machine()) {
        (Some(request), Some(host)) => Parsed::Remote(Box::new(args), Box::new(request), host),
        (Some(request), None) => Parsed::Detach(Box::new(args), detach::identity(&request)),
        (None, _) => Parsed::Run(Box::new(args)),
    })
}

/// The subcommand that the first word of a command names, if it stands behind no `--`, and the words that are
/// left for it.
fn subcommand(
    argv: &[OsString],
    command: &[&OsStr],
) -> Option<(&'static Subcommand, Vec<OsString>)> {
    let name = *command.first()?;
    let at = argv.len().checked_sub(command.len())?;
    if argv[at - 1] == "--" {
        return None;
    }
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| name == subcommand.name)?;
    let words = argv[..at].iter().chain(&argv[at + 1..]).cloned();
    Some((subcommand, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Parsed {
        parse(std::iter::once("runcast").chain(line.iter().copied()).map(OsString::from))
    }

    #[test]
    fn a_subcommand_is_the_first_word_that_is_no_option_unless_it_stands_behind_two_hyphens() {
        for line in [
            &["replay", "f"][..],
            &["replay", "-fndjson", "f"],
            &["replay", "f", "-f", "ndjson"],
            &["-q", "replay", "f"],
            &["-f", "ndjson", "replay", "--", "f"],
        ] {
            assert!(matches!(parsed(line), Parsed::Replay(_)), "{line:?}");
        }
        for line in [&["--", "replay", "f"][..], &["-q", "--", "replay"], &["echo", "replay"]] {
            assert!(matches!(parsed(line), Parsed::Run(_)), "{line:?}");
        }
    }

    #[test]
    fn what_a_subcommand_does_not_know_is_refused_in_its_name() {
        for line in [&["replay"][..], &["replay", "--drain=1", "f"], &["replay", "f", "g"]] {
            assert!(matches!(parsed(line), Parsed::Error(Error::Usage(_))), "{line:?}");
        }
        assert!(matches!(parsed(&["replay", "--help"]), Parsed::Show(_)));
        for (line, named) in [("replay", "no FILE given"), ("wait", "no RUN given")] {
            assert!(
                matches!(parsed(&[line]), Parsed::Error(Error::Usage(fault)) if fault == named)
            );
        }
    }
}
