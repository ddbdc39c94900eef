//! The backends: one table, which the program, its list and its checks all read. A new backend is one entry
//! and, where it runs modules, the bootstrap that calls them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use crate::model::error::Error;

/// How COMMAND becomes a program.
#[derive(Debug)]
pub struct Backend {
    /// What `--backend` calls it.
    pub name: &'static str,
    /// Whether it takes a JSON value and returns one. Where it does not by itself, `--callable` can say that
    /// the program at hand does.
    pub callable: bool,
    /// What is made of COMMAND and its arguments.
    pub(super) form: Form,
}

/// What COMMAND is.
#[derive(Debug)]
pub(super) enum Form {
    /// A program.
    Program,
    /// A string for a shell.
    Script { interpreter: &'static str },
    /// A module's source, or `@` and the file that it is in.
    Module { interpreter: &'static str, bootstrap: Bootstrap },
}

/// What the interpreter is given: it loads the module, calls it and leaves its value.
#[derive(Debug)]
pub(super) struct Bootstrap {
    /// Its file's name, whose ending may matter to the interpreter.
    pub(super) file: &'static str,
    pub(super) source: &'static str,
}

/// The backend where none is named.
pub const DEFAULT: &str = "exec";

/// The backend that `--shell` is short for.
pub const SHELL: &str = "shell";

/// All that there are.
pub const BACKENDS: [Backend; 4] = [
    Backend { name: DEFAULT, callable: false, form: Form::Program },
    Backend { name: SHELL, callable: false, form: Form::Script { interpreter: "sh" } },
    Backend {
        name: "node",
        callable: true,
        form: Form::Module {
            interpreter: "node",
            bootstrap: Bootstrap { file: "start.mjs", source: include_str!("node.mjs") },
        },
    },
    Backend {
        name: "python",
        callable: true,
        form: Form::Module {
            interpreter: "python3",
            bootstrap: Bootstrap { file: "start.py", source: include_str!("python.py") },
        },
    },
];

/// The backend of this name.
///
/// # Errors
///
/// [`Error::BackendUnknown`], which names those that there are.
pub fn named(name: &OsStr) -> Result<&'static Backend, Error> {
    static TABLE: &[Backend] = &BACKENDS;
    TABLE.iter().find(|backend| backend.name == name).ok_or_else(|| Error::BackendUnknown {
        name: name.to_owned(),
        known: TABLE.iter().map(|backend| backend.name).collect::<Vec<_>>().join(", "),
    })
}

impl Backend {
    /// The program that runs COMMAND; `None` where COMMAND is the program.
    #[must_use]
    pub fn interpreter(&self) -> Option<&'static str> {
        match self.form {
            Form::Program => None,
            Form::Script { interpreter } | Form::Module { interpreter, .. } => Some(interpreter),
        }
    }

    /// Whether what it needs is in one of the folders of this PATH.
    #[must_use]
    pub fn is_found(&self, path: &OsStr) -> bool {
        let is_there = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
        self.interpreter().is_none_or(|name| {
            std::env::split_paths(path).any(|folder| is_there(&folder.join(name)))
        })
    }

    /// What is executed for COMMAND and its arguments, but for modules, which take files.
    pub(super) fn argv(&self, command: &[OsString]) -> Vec<OsString> {
        match self.form {
            // The second `sh` is `$0`, what the shell calls itself in its messages.
            Form::Script { interpreter } => {
                let (string, arguments) = split_first(command);
                let mut argv: Vec<OsString> = vec![interpreter.into(), "-c".into()];
                if let Some(b'-' | b'+') = string.as_encoded_bytes().first() {
                    // Or it would be taken for an option, and standard input for the string.
                    argv.push("--".into());
                }
                argv.extend([string, interpreter.into()]);
                argv.extend(arguments.iter().cloned());
                argv
            }
            Form::Program | Form::Module { .. } => command.to_vec(),
        }
    }
}

/// COMMAND and its arguments. That it is there the command line has seen to.
pub(super) fn split_first(command: &[OsString]) -> (OsString, &[OsString]) {
    match command.split_first() {
        Some((first, rest)) => (first.clone(), rest),
        None => (OsString::new(), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::ErrorCode;

    #[test]
    fn each_name_is_there_once_and_finds_its_entry() {
        for backend in &BACKENDS {
            let found = named(OsStr::new(backend.name)).expect("it is in the table");
            assert_eq!((found.name, found.callable), (backend.name, backend.callable));
            assert_eq!(BACKENDS.iter().filter(|other| other.name == backend.name).count(), 1);
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        for name in ["", "perl6", "Exec", "exec "] {
            let error = named(OsStr::new(name)).expect_err("it is not in the table");
            assert_eq!(error.code(), ErrorCode::BackendUnknown);
            assert!(error.to_string().contains("exec, shell, node, python"), "{error}");
        }
    }

    #[test]
    fn a_shell_gets_the_string_and_the_other_words_as_its_arguments() {
        let shell = named(OsStr::new(SHELL)).expect("it is in the table");
        let argv = |words: &[&str]| {
            shell.argv(&words.iter().map(OsString::from).collect::<Vec<OsString>>())
        };
        assert_eq!(
            argv(&["echo $1 $2", "a b", "-c"]),
            ["sh", "-c", "echo $1 $2", "sh", "a b", "-c"]
        );
        assert_eq!(argv(&[""]), ["sh", "-c", "", "sh"]);
        assert_eq!(argv(&["-x", "a"]), ["sh", "-c", "--", "-x", "sh", "a"]);
        assert_eq!(argv(&["+x"]), ["sh", "-c", "--", "+x", "sh"]);
    }

    #[test]
    fn an_interpreter_is_found_where_it_may_be_executed() {
        let shell = named(OsStr::new(SHELL)).expect("it is in the table");
        assert!(shell.is_found(OsStr::new("/no/such/folder:/bin")));
        assert!(!shell.is_found(OsStr::new("/no/such/folder:/etc")));
        assert!(named(OsStr::new(DEFAULT)).expect("it is in the table").is_found(OsStr::new("")));
    }
}
