//! runcast's own words on standard error: one line, `runcast: WHAT: WHY`.

use std::fmt::Display;
use std::io::{self, Write};

use crate::model::error::Error;

/// Says one line. Where even that cannot be written there is nobody left to tell; the exit status still does.
pub fn say(text: impl Display) {
    let _ = try_say(&text);
}

/// Says what failed; a usage error adds where to read on.
pub fn say_error(error: &Error) {
    say(error);
    if matches!(error, Error::Usage(_)) {
        // As above.
        let _ = writeln!(anstream::stderr(), "Try 'runcast --help' for more information.");
    }
}

fn try_say(text: &dyn Display) -> io::Result<()> {
    // One write, so that nothing of the command's comes between.
    let line = format!("runcast: {text}\n");
    anstream::stderr().write_all(line.as_bytes())
}
