//! The options about backends and what is handed to them, and the list of `--list-backends`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;

use clap::ValueHint;
use serde::Serialize;

use crate::backend::load::Input;
use crate::backend::table::{BACKENDS, Backend, DEFAULT, SHELL};
use crate::cli::values::{Names, SizeLimit, bytes, parse_input, text};
use crate::model::spec::Format;
use crate::model::units::parse_size_or_unlimited;
use crate::sys::child_setup::DEFAULT_PATH;

/// How the command becomes a program, and the value that it is handed.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Structured input and result")]
pub struct CallArgs {
    /// What COMMAND is: a program, a string for sh -c, or a module to call
    ///
    /// To node and python it is a module's source, or @FILE. node calls its default export, python its
    /// main, with the input; what that returns is the result's `result`.
    #[arg(long, value_name = "BACKEND", default_value = DEFAULT, overrides_with = "shell",
          value_parser = Names(BACKENDS.iter().map(|backend| backend.name).collect()))]
    pub backend: OsString,

    /// Hand in a JSON value: the value itself, @FILE or - (standard input)
    ///
    /// The command finds it in the file that RUNCAST_INPUT names.
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other,
          value_parser = bytes(parse_input))]
    pub input: Option<Input>,

    /// The program takes a value and returns one
    ///
    /// It may read the file that RUNCAST_INPUT names, and write one JSON value to the file that
    /// RUNCAST_RESULT names.
    #[arg(long)]
    pub callable: bool,

    /// The longest value that is taken back, or unlimited
    #[arg(long, value_name = "SIZE", default_value = "8MiB",
          value_parser = text(parse_size_or_unlimited))]
    pub max_result: SizeLimit,

    /// Show which backends there are, as text or with -f ndjson, and end
    #[arg(long)]
    pub list_backends: bool,
}

impl CallArgs {
    /// The backend's name, by whichever option it was given.
    #[must_use]
    pub fn backend_name(&self, shell: bool) -> &OsStr {
        if shell { OsStr::new(SHELL) } else { &self.backend }
    }
}

/// What is told of a backend.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    callable: bool,
    interpreter: Option<&'static str>,
    found: bool,
}

impl Listed {
    fn new(backend: &Backend) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        Self {
            name: backend.name,
            callable: backend.callable,
            interpreter: backend.interpreter(),
            found: backend.is_found(&path),
        }
    }
}

/// Returns which backends there are, whether they are callable, and whether what they need was found: a table,
/// or one JSON object a line.
#[must_use]
pub fn list(format: Format) -> String {
    let listed = BACKENDS.iter().map(Listed::new);
    match format {
        Format::Text => table(listed),
        // All other formats are read by programs.
        _ => listed.fold(String::new(), |lines, backend| {
            let line = serde_json::to_string(&backend).expect("texts and booleans are JSON");
            lines + &line + "\n"
        }),
    }
}

fn table(listed: impl Iterator<Item = Listed>) -> String {
    let yes_or_no = |is_so| if is_so { "yes" } else { "no" };
    let rows = listed.map(|Listed { name, callable, interpreter, found }| {
        [name, yes_or_no(callable), interpreter.unwrap_or("-"), yes_or_no(found)]
    });
    let head = ["NAME", "CALLABLE", "INTERPRETER", "FOUND"];
    [head].into_iter().chain(rows).fold(
        String::new(),
        |mut text, [name, callable, needs, found]| {
            writeln!(text, "{name:<8}{callable:<10}{needs:<13}{found}")
                .expect("a string takes all that is written");
            text
        },
    )
}
