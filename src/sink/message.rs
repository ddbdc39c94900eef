//! runcast's own words on standard error: one line, `runcast: WHAT: WHY`.

use std::fmt::Display;

use crate::model::error::Error;
use crate::sink::destination::{Destination, Patience};
use crate::sys::descriptors;

/// Says one line. Where even that cannot be written there is nobody left to tell; the exit status still does.
pub fn say(text: impl Display, patience: &Patience) {
    write(&format!("runcast: {text}\n"), patience);
}

/// Says what failed; a usage error adds where to read on.
pub fn say_error(error: &Error, patience: &Patience) {
    say(error, patience);
    if matches!(error, Error::Usage(_)) {
        write("Try 'runcast --help' for more information.\n", patience);
    }
}

fn write(line: &str, patience: &Patience) {
    if let Ok(stderr) = descriptors::open_descriptor(2) {
        // In one piece, so that nothing of the command's comes between. See `say` for what is lost.
        let _ = Destination::new(stderr, "standard error", patience).write(line.as_bytes());
    }
}
