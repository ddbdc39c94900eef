//! Values that are attached to a short option, where the option may also stand without one: `-T%H:%M`.
//!
//! With getopt whatever is attached is the value. clap takes an attached value of such an option only behind `=`,
//! and what else follows as more options; without that rule it would take the next word, which may be COMMAND.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};

/// The same words, with `=` before such values. The first one is the name that runcast was called by.
pub(super) fn with_equals_signs(
    command: &Command,
    argv: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut argv = argv.into_iter();
    let mut words: Vec<OsString> = argv.by_ref().take(1).collect();
    while let Some(word) = argv.next() {
        let option = Word::of(command, word.as_bytes());
        words.push(match option {
            Word::Attached { at } => {
                let (options, value) = word.as_bytes().split_at(at);
                OsString::from_vec([options, b"=", value].concat())
            }
            _ => word,
        });
        match option {
            Word::None => break,
            Word::Apart => words.extend(argv.next()),
            Word::Attached { .. } | Word::Whole => {}
        }
    }
    words.extend(argv);
    words
}

/// The same for a command line whose options may stand behind other words too, up to `--`.
pub(super) fn with_equals_signs_anywhere(
    command: &Command,
    argv: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut rest: Vec<OsString> = argv.into_iter().collect();
    let mut words = Vec::new();
    while !rest.is_empty() {
        // What stands first is passed over: the name, or the word that was no option.
        rest = with_equals_signs(command, rest);
        let options = rest.iter().skip(1).take_while(|word| {
            word.len() > 1 && word.as_bytes().starts_with(b"-") && word.as_bytes() != b"--"
        });
        let taken = 1 + options.count();
        let is_over = rest.get(taken).is_some_and(|word| word == "--");
        words.extend(rest.drain(..taken));
        if is_over {
            words.append(&mut rest);
        }
    }
    words
}

/// What a word is as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// None; nothing that follows is one either.
    None,
    /// One, or several short ones, with all that belongs to it.
    Whole,
    /// One whose value is the next word.
    Apart,
    /// One whose value, which it need not have, begins there.
    Attached { at: usize },
}

impl Word {
    fn of(command: &Command, word: &[u8]) -> Self {
        let takes_value = |arg: &Arg| arg.get_action().takes_values() && !arg.is_positional();
        let takes_next = |arg: &Arg| takes_value(arg) && !arg.is_require_equals_set();
        match word {
            b"-" | b"--" => Self::None,
            [b'-', b'-', long @ ..] => {
                let is_it = |arg: &&Arg| arg.get_long().is_some_and(|name| name.as_bytes() == long);
                match command.get_arguments().find(is_it) {
                    Some(arg) if takes_next(arg) => Self::Apart,
                    _ => Self::Whole,
                }
            }
            [b'-', shorts @ ..] => {
                for (at, short) in shorts.iter().enumerate() {
                    let is_it = |arg: &&Arg| arg.get_short() == Some(char::from(*short));
                    let Some(arg) = command.get_arguments().find(is_it) else { break };
                    let value = &shorts[at + 1..];
                    return match value {
                        _ if !takes_value(arg) => continue,
                        [] if takes_next(arg) => Self::Apart,
                        [] | [b'=', ..] => Self::Whole,
                        _ if takes_next(arg) => Self::Whole,
                        // Behind the hyphen and the options up to this one.
                        _ => Self::Attached { at: at + 2 },
                    };
                }
                Self::Whole
            }
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::command;

    fn words(line: &[&str]) -> Vec<OsString> {
        let line = std::iter::once("runcast").chain(line.iter().copied()).map(OsString::from);
        with_equals_signs(&command(), line).split_off(1)
    }

    #[test]
    fn what_is_attached_to_an_option_that_may_stand_alone_is_its_value() {
        assert_eq!(words(&["-T%H:%M", "x"]), ["-T=%H:%M", "x"]);
        assert_eq!(words(&["-qp{seq} ", "x"]), ["-qp={seq} ", "x"]);
        assert_eq!(words(&["-p=x", "-T=%H", "x"]), ["-p=x", "-T=%H", "x"]);
        assert_eq!(words(&["-p", "-T", "x"]), ["-p", "-T", "x"]);
    }

    #[test]
    fn values_of_other_options_and_words_of_the_command_stay() {
        for line in [
            &["-t", "-Tx", "-f", "-px", "--signal", "-Tx", "x", "-Tx"][..],
            &["-t5", "-efoo-pT=x", "x"],
            &["--", "-Tx"],
            &["-", "-Tx"],
            &["--prefix=x", "--bogus", "x", "-Tx"],
        ] {
            assert_eq!(words(line), line);
        }
        let word = OsString::from_vec(b"-p\xff".to_vec());
        let made = with_equals_signs(&command(), ["runcast".into(), word]);
        assert_eq!(made[1].as_bytes(), b"-p=\xff");
    }
}
