//! From words to what they ask for: a command to run, or one of the subcommands.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{Command, FromArgMatches};

use crate::cli::args::{self, Args};
use crate::cli::replay::{self, ReplayArgs};
use crate::cli::usage::fault;
use crate::model::error::Error;
use crate::model::spec::Format;

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To run a command.
    Run(Box<Args>),
    /// To list the backends in this format and end with 0.
    ListBackends(Format),
    /// To play a recording.
    Replay(Box<ReplayArgs>),
    /// To show this text on standard output and end with 0: the help or the version.
    Show(String),
    /// Nothing that makes sense.
    Error(Error),
}

/// A subcommand: its name, the definition of its command line, and what becomes of what was typed.
struct Subcommand {
    name: &'static str,
    command: fn() -> Command,
    read: fn(&mut clap::ArgMatches) -> Result<Parsed, clap::Error>,
}

/// All subcommands.
const SUBCOMMANDS: [Subcommand; 1] = [Subcommand {
    name: "replay",
    command: replay::command,
    read: |matches| {
        ReplayArgs::from_arg_matches_mut(matches).map(|args| Parsed::Replay(Box::new(args)))
    },
}];

/// The definitions of all subcommands.
pub fn subcommands() -> impl Iterator<Item = Command> {
    SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)())
}

/// What `argv` asks for; its first word is the name that runcast was called by.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Parsed {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let parsed = args::command()
        .try_get_matches_from(&argv)
        .and_then(|mut matches| Args::from_arg_matches_mut(&mut matches));
    let parsed = parsed.and_then(|args| match subcommand(&argv, &args.command) {
        Some((subcommand, words)) => (subcommand.command)()
            .try_get_matches_from(words)
            .and_then(|mut matches| (subcommand.read)(&mut matches)),
        None if args.call.list_backends => Ok(Parsed::ListBackends(args.show.format)),
        None => Ok(Parsed::Run(Box::new(args))),
    });
    parsed.unwrap_or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::Show(error.to_string()),
        _ => Parsed::Error(Error::Usage(fault(&error))),
    })
}

/// The subcommand that the first word of a command names, if it stands behind no `--`, and the words that are
/// left for it.
fn subcommand<'a>(
    argv: &'a [OsString],
    command: &[OsString],
) -> Option<(&'static Subcommand, Vec<&'a OsStr>)> {
    let name = command.first()?;
    let at = argv.len().checked_sub(command.len())?;
    if argv[at - 1] == "--" {
        return None;
    }
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| name == subcommand.name)?;
    let words = argv[..at].iter().chain(&argv[at + 1..]).map(OsString::as_os_str);
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
    }
}
