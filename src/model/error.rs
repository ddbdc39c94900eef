//! runcast's own failures: what failed on what, the code that programs read, and the exit status.
//!
//! How the command ended is an [`Outcome`](crate::model::outcome::Outcome), never an error.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::model::mask::Mask;
use crate::model::run_id::RunId;
use crate::model::words::words;

/// The exit status of runcast when it failed itself.
pub const STATUS_FAILED: u8 = 125;
/// The exit status when the command was found but cannot be executed.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;
/// The exit status when the command was not found.
pub const STATUS_NOT_FOUND: u8 = 127;

words! {
    /// What of runcast's own failed.
    pub enum ErrorCode {
        /// The command was not found.
        NotFound = "not_found",
        /// The command was found but cannot be executed.
        NotExecutable = "not_executable",
        /// The process could not be made or prepared.
        SpawnFailed = "spawn_failed",
        /// The folder of `--chdir` cannot be entered.
        ChdirFailed = "chdir_failed",
        /// A file or folder cannot be used: one that an option, an argument or a variable names, or one of a
        /// detached run; or a file is no recording.
        FileFailed = "file_failed",
        /// A limit cannot be set.
        LimitNotSet = "limit_not_set",
        /// The output or the result cannot be written.
        OutputFailed = "output_failed",
        /// There is no such backend.
        BackendUnknown = "backend_unknown",
        /// A value was given to a backend that takes none.
        BackendNotCallable = "backend_not_callable",
        /// The value for the command is not JSON.
        InputInvalid = "input_invalid",
        /// What the command returned is not one JSON value.
        ResultInvalid = "result_invalid",
        /// What the command returned is larger than it may be.
        ResultTooLarge = "result_too_large",
        /// There is no such run.
        RunUnknown = "run_unknown",
        /// There is a run of this name, and it is another.
        RunExists = "run_exists",
        /// The run has not ended yet.
        RunRunning = "run_running",
        /// The run has ended.
        RunEnded = "run_ended",
        /// The run's keeper was killed; how the command ended is not known.
        RunLost = "run_lost",
        /// The command's standard input is closed.
        StdinClosed = "stdin_closed",
        /// What was sent begins after what the run has.
        OffsetGap = "offset_gap",
        /// The connection broke and did not come back.
        Disconnected = "disconnected",
        /// The other machine could not do it.
        RemoteFailed = "remote_failed",
        /// The command line makes no sense. Only in answers over a connection, never in a result.
        Usage = "usage",
    }
}

/// A failure of runcast's own. Its message is one line that fits after `runcast: `.
#[derive(Debug)]
pub enum Error {
    /// The command line makes no sense; the text says where.
    Usage(String),
    /// The command was not found.
    NotFound {
        /// What was looked for.
        command: OsString,
    },
    /// The command was found but cannot be executed.
    NotExecutable {
        /// What was found.
        command: OsString,
        /// Why it cannot.
        why: String,
    },
    /// The process could not be made or prepared.
    Spawn {
        /// Which step failed: the system call's name or what it was for.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The folder to start in cannot be entered.
    Chdir {
        /// The folder.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that an option names cannot be used.
    File {
        /// The option, as `--stdin`.
        option: &'static str,
        /// The file, or whatever the option was given.
        path: OsString,
        /// Why.
        why: String,
    },
    /// A recording is not whole, or is none.
    Recording {
        /// The file.
        path: PathBuf,
        /// The line at fault, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// There is no backend of this name.
    BackendUnknown {
        /// The name.
        name: OsString,
        /// Those that there are, for the message.
        known: String,
    },
    /// A value was to be handed to a backend that takes none.
    BackendNotCallable {
        /// The backend's name.
        backend: &'static str,
    },
    /// What `--input` gave is not one JSON value.
    InputInvalid {
        /// What stood for it on the command line: nothing, a file or `-`.
        given: OsString,
        /// What is wrong, and where.
        why: String,
    },
    /// What the command left as its result is not one JSON value.
    ResultInvalid {
        /// What is wrong, and where.
        why: String,
    },
    /// The command returned a larger value than it may.
    ResultTooLarge {
        /// The most that it may be.
        max_bytes: u64,
    },
    /// A limit cannot be set.
    Limit {
        /// The option, and of `--rlimit` the resource.
        option: String,
        /// Why.
        source: io::Error,
    },
    /// The output or the result cannot be written, or what is passed on cannot be read.
    Output {
        /// What it was written to, as `standard output`, or read from.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The folder of the detached runs cannot be used.
    Home {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// What is written of a detached run cannot be read, or no more be written.
    RunFolder {
        /// Its name.
        id: String,
        /// Why.
        why: String,
    },
    /// A detached run is not as it would have to be.
    Run {
        /// How it is.
        fault: RunFault,
        /// Its name.
        id: String,
        /// More about it.
        why: Option<String>,
    },
    /// Another machine cannot be reached, and trying again would not help.
    Remote {
        /// The machine.
        host: String,
        /// Why.
        why: String,
    },
    /// The connection to another machine broke, and did not come again in time. The run there goes on.
    Disconnected {
        /// The machine.
        host: String,
        /// The run, and what to do to see it again.
        why: String,
    },
    /// What another process of runcast's failed with.
    Reported {
        /// Its code.
        code: ErrorCode,
        /// Its exit status.
        status: u8,
        /// Its message.
        message: String,
    },
    /// A thread of runcast's own ended before its work was done: a defect.
    Internal(&'static str),
}

/// What is at fault about a detached run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFault {
    /// There is none of that name.
    Unknown,
    /// There is another of that name.
    Exists,
    /// It is not over.
    Running,
    /// It is over.
    Ended,
    /// Its keeper died before it was over.
    Lost,
    /// Its standard input is closed.
    StdinClosed,
    /// Input for it begins behind what it has.
    OffsetGap,
}

impl RunFault {
    /// The code that the error carries.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Unknown => ErrorCode::RunUnknown,
            Self::Exists => ErrorCode::RunExists,
            Self::Running => ErrorCode::RunRunning,
            Self::Ended => ErrorCode::RunEnded,
            Self::Lost => ErrorCode::RunLost,
            Self::StdinClosed => ErrorCode::StdinClosed,
            Self::OffsetGap => ErrorCode::OffsetGap,
        }
    }

    /// The words for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "there is no such run",
            Self::Exists => "there is a run of this name with another command or other options",
            Self::Running => "the run is not over",
            Self::Ended => "the run is over",
            Self::Lost => "the run was lost: its keeper died before the command had ended",
            Self::StdinClosed => "the standard input of the run is closed",
            Self::OffsetGap => "the input begins behind what the run has",
        }
    }
}

impl Error {
    /// What is at fault about a detached run, and more about it.
    #[must_use]
    pub fn run(fault: RunFault, id: &RunId, why: Option<String>) -> Self {
        Self::Run { fault, id: id.to_string(), why }
    }

    /// The folder of a detached run cannot be read or written.
    #[must_use]
    pub fn run_folder(id: &RunId, error: &io::Error) -> Self {
        Self::RunFolder { id: id.to_string(), why: reason(error) }
    }

    /// What another process failed with, as it was told: nothing that failed has the status of a success.
    #[must_use]
    pub fn reported(code: &str, otherwise: ErrorCode, status: u8, message: String) -> Self {
        let code = ErrorCode::from_word(code).unwrap_or(otherwise);
        let status = if status == 0 { STATUS_FAILED } else { status };
        Self::Reported { code, status, message }
    }

    /// The code that the result's `error` carries.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Usage(_) => ErrorCode::Usage,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::NotExecutable { .. } => ErrorCode::NotExecutable,
            Self::Spawn { .. } | Self::Internal(_) => ErrorCode::SpawnFailed,
            Self::Chdir { .. } => ErrorCode::ChdirFailed,
            Self::File { .. }
            | Self::Recording { .. }
            | Self::Home { .. }
            | Self::RunFolder { .. } => ErrorCode::FileFailed,
            Self::Run { fault, .. } => fault.code(),
            Self::Remote { .. } => ErrorCode::RemoteFailed,
            Self::Disconnected { .. } => ErrorCode::Disconnected,
            Self::Reported { code, .. } => *code,
            Self::BackendUnknown { .. } => ErrorCode::BackendUnknown,
            Self::BackendNotCallable { .. } => ErrorCode::BackendNotCallable,
            Self::InputInvalid { .. } => ErrorCode::InputInvalid,
            Self::ResultInvalid { .. } => ErrorCode::ResultInvalid,
            Self::ResultTooLarge { .. } => ErrorCode::ResultTooLarge,
            Self::Limit { .. } => ErrorCode::LimitNotSet,
            Self::Output { .. } => ErrorCode::OutputFailed,
        }
    }

    /// The same failure, with what the mask hides hidden in its message.
    #[must_use]
    pub fn hidden(self, mask: Option<&Mask>) -> Self {
        let Some(mask) = mask else { return self };
        let message = self.to_string();
        match mask.text(&message) {
            Cow::Borrowed(_) => self,
            Cow::Owned(message) => {
                Self::Reported { code: self.code(), status: self.status(), message }
            }
        }
    }

    /// The exit status of runcast.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => STATUS_NOT_FOUND,
            Self::NotExecutable { .. } => STATUS_NOT_EXECUTABLE,
            Self::Reported { status, .. } => *status,
            _ => STATUS_FAILED,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{}", OneLine(text)),
            Self::NotFound { command } => write!(f, "{}: command not found", Shown(command)),
            Self::NotExecutable { command, why } => {
                write!(f, "{}: cannot be executed: {}", Shown(command), OneLine(why))
            }
            Self::Spawn { step, source } => write!(f, "{step}: {}", Reason(source)),
            Self::Chdir { directory, source } => {
                write!(f, "--chdir {}: {}", Shown(directory.as_os_str()), Reason(source))
            }
            Self::File { option, path, why } => {
                write!(f, "{option} {}: {}", Shown(path), OneLine(why))
            }
            Self::Recording { path, line, why } => {
                write!(f, "{}: line {line}: {}", Shown(path.as_os_str()), OneLine(why))
            }
            Self::BackendUnknown { name, known } => {
                write!(f, "--backend {}: there is no such backend, only {known}", Shown(name))
            }
            Self::BackendNotCallable { backend } => write!(
                f,
                "--input: the backend {backend} takes no value; --callable says that a program does"
            ),
            Self::InputInvalid { given, why } if given.is_empty() => {
                write!(f, "--input: not one JSON value: {}", OneLine(why))
            }
            Self::InputInvalid { given, why } => {
                write!(f, "--input {}: not one JSON value: {}", Shown(given), OneLine(why))
            }
            Self::ResultInvalid { why } => {
                write!(f, "RUNCAST_RESULT: not one JSON value: {}", OneLine(why))
            }
            Self::ResultTooLarge { max_bytes } => {
                write!(f, "RUNCAST_RESULT: larger than --max-result {max_bytes} bytes")
            }
            Self::Limit { option, source } => write!(f, "{option}: {}", Reason(source)),
            Self::Output { what, source } => {
                write!(f, "{}: {}", OneLine(what), Reason(source))
            }
            Self::Home { path, why } => {
                write!(f, "runs in {}: {}", Shown(path.as_os_str()), OneLine(why))
            }
            Self::RunFolder { id, why } => {
                write!(f, "the folder of the run {id}: {}", OneLine(why))
            }
            Self::Run { fault, id, why: None } => write!(f, "{id}: {}", fault.text()),
            Self::Run { fault, id, why: Some(why) } => {
                write!(f, "{id}: {}: {}", fault.text(), OneLine(why))
            }
            Self::Remote { host, why } => {
                write!(f, "--host {}: {}", OneLine(host), OneLine(why))
            }
            Self::Disconnected { host, why } => {
                write!(f, "disconnected from {}: {}", OneLine(host), OneLine(why))
            }
            Self::Reported { message, .. } => write!(f, "{}", OneLine(message)),
            Self::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// What ends a line and is no control character.
const LINE_ENDS: [char; 2] = ['\u{2028}', '\u{2029}'];

/// What has a terminal show what follows, or what was before, in another order than it stands in.
const DIRECTIONS: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// A text on one line: control characters are written as escapes, so that a message stays one line and
/// cannot steer the terminal.
#[derive(Debug)]
pub struct OneLine<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() || LINE_ENDS.contains(&c) || DIRECTIONS.contains(&c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// A word of the user's, on one line; an empty one is shown as `''`.
struct Shown<'a>(&'a OsStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "''");
        }
        write!(f, "{}", OneLine(&self.0.to_string_lossy()))
    }
}

/// An operating system's reason without the `(os error N)` that [`io::Error`] adds.
struct Reason<'a>(&'a io::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(&reason(self.0)))
    }
}

/// The operating system's words for an error, as `No space left on device`.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_the_word_holds() {
        let error = Error::NotFound { command: OsString::from("a\nb\x1b[31m") };
        assert_eq!(error.to_string(), "a\\nb\\u{1b}[31m: command not found");
        let error = Error::NotFound { command: OsString::from("a\u{202e}b\u{2028}\u{9b}c") };
        assert_eq!(error.to_string(), "a\\u{202e}b\\u{2028}\\u{9b}c: command not found");
    }

    #[test]
    fn the_reason_is_the_operating_systems_alone() {
        let error = Error::Output {
            what: "standard output".to_owned(),
            source: io::Error::from_raw_os_error(libc::ENOSPC),
        };
        assert_eq!(error.to_string(), "standard output: No space left on device");
    }
}
