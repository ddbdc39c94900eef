//! runcast's own words on standard error: one line, `runcast: WHAT: WHY`.

use std::fmt::Display;
use std::sync::Arc;

use crate::model::error::{Error, OneLine};
use crate::sink::destination::{Destination, Outlet, Patience};
use crate::sink::status_line;
use crate::sys::{descriptors, terminal};

/// Says one line. Where even that cannot be written there is nobody left to tell; the exit status still does.
pub fn say(text: impl Display, patience: &Arc<Patience>) {
    write(&format!("runcast: {text}{}", terminal::line_end()), patience);
}

/// Says what failed; a usage error adds where to read on.
pub fn say_error(error: &Error, patience: &Arc<Patience>) {
    say(error, patience);
    if matches!(error, Error::Usage(_)) {
        write("Try 'runcast --help' for more information.\n", patience);
    }
}

fn write(line: &str, patience: &Arc<Patience>) {
    if let Ok(stderr) = descriptors::standard_stream(2) {
        // In one piece, so that nothing of the command's comes between. See `say` for what is lost.
        let line = format!("{}{line}", status_line::clearing());
        let _ = Destination::new(Outlet::Standard(stderr), "standard error", patience)
            .write(line.as_bytes());
    }
}

/// Writes on standard error what another process of runcast's has said there.
pub fn pass_on(said: &[u8]) {
    write(&plain(&String::from_utf8_lossy(said)), &Arc::default());
}

/// A text of several lines that cannot steer the terminal: another machine may send anything.
#[must_use]
pub fn plain(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => format!("{}\n", OneLine(line)),
            None => OneLine(line).to_string(),
        })
        .collect()
}
