//! `--list-backends`: the table of backends as text or as JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::backend::table::{BACKENDS, Backend};
use crate::model::spec::Format;

/// Where programs are looked for without a PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

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
