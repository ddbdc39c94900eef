//! What the tests are written with: start runcast in any surroundings, watch it, look at how it ended.
//!
//! `runcast("-t 1").puppet("say:up sleep").run()` is a finished run, `.start()` a live one. Every wait is for a
//! fact; [`LIMIT`] is only the safety net that turns a hang into a failure. What a test started and what
//! its children left is killed when the test ends, however it ends.

mod builder;
mod event;
mod gate;
mod job_shell;
mod live;
mod process;
mod program;
mod prompt;
mod ran;
pub(crate) mod schema;
mod sources;
mod terminal;
mod tmux;
mod tool;

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use builder::{Runcast, copies_for_everyone, launch, ndjson, runcast, script};
pub(crate) use event::{Event, check_result};
pub(crate) use gate::Gate;
pub(crate) use job_shell::JobShell;
pub(crate) use live::Live;
pub(crate) use process::{
    Mark, alive, children, parent, peak_rss_bytes, pid_in, read_bytes, send_signal, state,
    until_connected, until_continued, until_full, until_stopped, until_taken,
};
pub(crate) use program::program;
pub(crate) use prompt::{BASH, FISH, Prompt, Shell, ZSH};
pub(crate) use ran::{Ran, events_in, result_in};
pub(crate) use sources::{code, files, sources};
pub(crate) use terminal::{CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, Terminal};
pub(crate) use tmux::Tmux;
pub(crate) use tool::{missing, root, skip, strace, tool};

/// The longest wait for a fact. Too small and a busy machine fails good tests; too big and a hang takes long
/// to be seen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// How long each of the puppet's `lines` is.
pub(crate) const LINE_BYTES: usize = "0000000 some text on the line\n".len();

/// The program that plays the children.
pub(crate) const PUPPET: &str = env!("CARGO_BIN_EXE_puppet");

/// The program under test.
pub(crate) const RUNCAST: &str = env!("CARGO_BIN_EXE_runcast");

/// Waits until there is something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come in {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until it is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Lets time pass where that itself is what a test is about: a stall, a pause, a signal at some moment.
pub(crate) fn let_pass(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// A folder of the test's own, removed with it.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("runcast-test-")
        .tempdir()
        .expect("a temporary folder can be made")
}

/// A new folder in this one that all may write in, as `/tmp` is.
pub(crate) fn shared_folder(parent: &Path) -> PathBuf {
    let shared = parent.join("shared");
    fs::create_dir(&shared).expect("the folder around it is ours");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("it is ours");
    shared
}

/// Checks that nothing in a text steers a terminal, and that no line ends but by LF.
#[track_caller]
pub(crate) fn is_plain(text: &str) {
    let steers = |c: char| c != '\n' && (c.is_control() || "\u{2028}\u{202e}".contains(c));
    assert!(!text.contains(steers), "{}", text.escape_debug());
}

/// Bytes as the puppet's TEXT.
pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(*byte));
        } else {
            write!(text, "\\x{byte:02x}").expect("a string takes all that is written");
        }
        text
    })
}
