//! What to run and how: the command, its limits, its surroundings, and what is kept of its output.
//!
//! Everything here is already understood and checked as far as text can be; opening files and asking the
//! operating system is left to the layers above.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::model::mask::Mask;
use crate::model::rlimits::Rlimit;
use crate::model::signal::Signal;
use crate::model::template::{Template, TimeFormat};

/// One run, as asked for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// COMMAND and its arguments, as they were given; never empty. What is executed is made of them by the
    /// backend.
    pub argv: Vec<OsString>,
    /// How they become a program, and the value that is handed to it.
    pub call: Call,
    /// Where the command starts; `None` is where runcast was started.
    pub directory: Option<PathBuf>,
    /// The command's whole environment; `None` is runcast's own, unchanged.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// What the command reads.
    pub stdin: Stdin,
    /// Whether its two output streams share a pipe.
    pub streams: Streams,
    /// Whether it runs on a terminal that is made for it.
    pub pty: Pty,
    /// The size of that terminal; `None` is that of runcast's own.
    pub pty_size: Option<WindowSize>,
    /// The file mode creation mask, `umask(2)`.
    pub umask: Option<u32>,
    /// An increment of the nice value, `nice(2)`.
    pub nice: Option<i32>,
    /// Whether `PR_SET_NO_NEW_PRIVS` is set, `prctl(2)`.
    pub no_new_privs: bool,
    /// Resource limits of the command, in the order given; a later one wins.
    pub rlimits: Vec<Rlimit>,
    /// What stops the run, and how.
    pub limits: Limits,
    /// How output is cut into lines and what of it is kept.
    pub capture: Capture,
    /// How long to wait for streams that are still held after the command ended.
    pub drain: Duration,
    /// What becomes of processes that are alive after that.
    pub leftover: Leftover,
    /// What is forwarded in place of a received signal; `None` is nothing.
    pub signal_map: Vec<(Signal, Option<Signal>)>,
}

/// How COMMAND becomes a program, and the value that is handed to it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The backend's name, as in the table of `backend`.
    pub backend: &'static str,
    /// Whether it takes a value and returns one.
    pub callable: bool,
    /// The value.
    pub input: Option<Box<RawValue>>,
    /// What COMMAND is to a backend that runs modules.
    pub module: Option<Module>,
    /// The longest value that is taken back, in bytes; `None` is any.
    pub max_result_bytes: Option<u64>,
}

/// A module for a backend that runs such.
#[derive(Debug, Clone)]
pub struct Module {
    /// Its source.
    pub source: Vec<u8>,
    /// The file that it was read from, as an absolute path: what the module imports is relative to it.
    /// `None` where it came otherwise, and is taken for one in the folder that it is started in.
    pub file: Option<PathBuf>,
}

/// What is executed.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments; never empty.
    pub argv: Vec<OsString>,
    /// Its whole environment; `None` is runcast's own, unchanged.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

/// What stops a run, and how.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest time from the command's start; `None` is for ever.
    pub timeout: Option<Duration>,
    /// Longest time without a byte from either stream; `None` is for ever.
    pub idle_timeout: Option<Duration>,
    /// What stopping sends first.
    pub stop_signal: Signal,
    /// Time from the first signal to KILL, if it was given. See [`Limits::kill_after`].
    pub kill_after: Option<Duration>,
    /// Most resident memory of all processes together, in bytes.
    pub max_memory_bytes: Option<u64>,
    /// Most output of both streams together, in bytes.
    pub output_limit_bytes: Option<u64>,
}

/// `--kill-after` where it is not given, for a stop of runcast's own.
pub const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);

/// Time to end after a TERM that runcast received, where `--kill-after` is not given: whoever sent it,
/// a service manager or a container runtime, usually grants about as much before its own KILL.
pub const TERM_KILL_AFTER: Duration = Duration::from_secs(10);

impl Limits {
    /// Time from the first signal of a stop to KILL.
    #[must_use]
    pub fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(DEFAULT_KILL_AFTER)
    }
}

/// What the command reads as its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// runcast's own standard input, untouched.
    Inherit,
    /// Nothing: `/dev/null`.
    Null,
    /// A file, its path relative to where runcast was started.
    File(PathBuf),
    /// What others send, for as long as the run takes it.
    Open,
}

/// How the command's output streams reach runcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// A pipe each; their order is the order of arrival.
    Separate,
    /// One pipe for both; their order is exact, and all of it counts as standard output.
    Merged,
}

/// The terminal that is made for the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pty {
    /// None.
    No,
    /// One that controls it, for all its standard streams.
    Full,
    /// One for each output stream, which control nothing; its standard input is what it is without.
    Split,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// How many fit in a line.
    pub columns: u16,
    /// How many lines there are.
    pub rows: u16,
}

/// The size of a terminal where none is known.
pub const DEFAULT_WINDOW_SIZE: WindowSize = WindowSize { columns: 80, rows: 24 };

/// How output is cut into lines, and what the result keeps of it.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Bytes of each stream that the result keeps.
    pub max_output_bytes: u64,
    /// Which part is kept past that.
    pub keep: Keep,
    /// The longest piece handled as one line, without its end; at least [`MIN_LINE_BYTES`].
    pub max_line_bytes: usize,
    /// What ends a line.
    pub split: Split,
    /// How long after the last of it was read an unfinished line goes out; `None` is never.
    pub partial_after: Option<Duration>,
    /// Whether terminal escape sequences are removed.
    pub strip_ansi: bool,
    /// What is hidden; `None` is nothing.
    pub mask: Option<Arc<Mask>>,
}

impl Default for Capture {
    /// Nothing is kept, and lines are cut as they are by default.
    fn default() -> Self {
        Self {
            max_output_bytes: 0,
            keep: Keep::Head,
            max_line_bytes: DEFAULT_LINE_BYTES,
            split: Split::Lf,
            partial_after: None,
            strip_ansi: false,
            mask: None,
        }
    }
}

/// `--max-line` where it is not given.
const DEFAULT_LINE_BYTES: usize = 1 << 20;

/// The smallest `--max-line`: a piece never ends inside a character, and one takes up to four bytes.
pub const MIN_LINE_BYTES: usize = 4;

/// Which part of a stream the result keeps when there is more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// Half of it from the beginning, half from the end.
    Both,
}

/// What ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// LF; everything else is content.
    Lf,
    /// LF, CR or CR LF.
    Cr,
    /// NUL.
    Nul,
}

impl Split {
    /// The byte that ends a line; `None` where several may.
    #[must_use]
    pub fn line_end(self) -> Option<u8> {
        match self {
            Self::Lf => Some(b'\n'),
            Self::Nul => Some(0),
            Self::Cr => None,
        }
    }
}

/// What becomes of processes that are still alive when the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// They are left alone, and the pipes that they hold are emptied by a helper.
    Leave,
    /// They are stopped as a timeout would.
    Kill,
    /// They are waited for.
    Wait,
}

/// How a run is shown, and where else it goes.
#[derive(Debug, Clone)]
pub struct Display {
    /// What standard output carries.
    pub format: Format,
    /// Whether the output itself is left out of what is shown.
    pub quiet: bool,
    /// The terminal that is made for the command.
    pub pty: Pty,
    /// Its size, as [`Spec::pty_size`].
    pub pty_size: Option<WindowSize>,
    /// Whether events carry the command line.
    pub show_argv: bool,
    /// What each line of text begins with.
    pub prefix: Option<Template>,
    /// How the time is written that each line of text begins with; chunks then have one too.
    pub timestamps: Option<TimeFormat>,
    /// Whether what is runcast's own is in colour.
    pub color: When,
    /// Whether text has a status line under it.
    pub progress: When,
    /// What every chunk carries as `metadata`, in the order given.
    pub metadata: Vec<(String, String)>,
    /// Whether unfinished lines go out in a format that shows whole lines to people.
    pub shows_unfinished: bool,
    /// The least time from one snapshot to the next.
    pub snapshot_every: Duration,
    /// After how long without anything else an event says that the run goes on; `None` is never.
    pub heartbeat: Option<Duration>,
    /// What a record of a log calls a line of standard error.
    pub stderr_level: Level,
    /// What happens when the output is read too slowly.
    pub on_lag: OnLag,
    /// What a consumer that went away means for the run.
    pub on_disconnect: OnDisconnect,
    /// Where the result object goes beside standard output.
    pub result: Option<ResultDestination>,
    /// The file that the events are recorded in.
    pub record: Option<PathBuf>,
}

impl Default for Display {
    /// The command's own bytes, all of them, and nothing else.
    fn default() -> Self {
        Self {
            format: Format::Text,
            quiet: false,
            pty: Pty::No,
            pty_size: None,
            show_argv: true,
            prefix: None,
            timestamps: None,
            color: When::Auto,
            progress: When::Never,
            metadata: Vec::new(),
            shows_unfinished: true,
            snapshot_every: DEFAULT_SNAPSHOT_EVERY,
            heartbeat: None,
            stderr_level: Level::Info,
            on_lag: OnLag::Block,
            on_disconnect: OnDisconnect::Stop,
            result: None,
            record: None,
        }
    }
}

/// `--snapshot-every` where it is not given.
const DEFAULT_SNAPSHOT_EVERY: Duration = Duration::from_millis(100);

impl Display {
    /// Hides what the mask hides in what is added to the output.
    pub fn hide(&mut self, mask: Option<&Mask>) {
        let Some(mask) = mask else { return };
        let texts = self.prefix.iter_mut().flat_map(Template::texts);
        let added = self.metadata.iter_mut().flat_map(|(name, value)| [name, value]);
        for text in added.chain(texts) {
            *text = mask.text(text).into_owned();
        }
    }

    /// Whether anybody is told what was started, when, and as what.
    #[must_use]
    pub fn needs_started(&self) -> bool {
        self.is_told_events() || self.line_prefix().is_some_and(|prefix| prefix.needs_started())
    }

    /// Whether anybody sees what was counted and kept of the output.
    #[must_use]
    pub fn needs_totals(&self) -> bool {
        self.is_told_events() || self.result.is_some() || self.progress != When::Never
    }

    fn is_told_events(&self) -> bool {
        self.format != Format::Text || self.record.is_some()
    }

    /// What stands before each line of text, the time first; `None` where nothing does.
    #[must_use]
    pub fn line_prefix(&self) -> Option<Template> {
        if self.format != Format::Text || self.quiet {
            return None;
        }
        let time = self.timestamps.clone().map(Template::of_time);
        let templates = time.into_iter().chain(self.prefix.clone());
        let parts: Vec<_> = templates.flat_map(|template| template.parts).collect();
        (!parts.is_empty()).then_some(Template { parts })
    }
}

/// What standard output carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The command's own bytes.
    Text,
    /// One JSON object per line.
    Ndjson,
    /// The growing output as whole snapshots, one JSON object per line.
    Snapshot,
    /// Container log lines.
    Cri,
    /// One JSON object per line, for log viewers.
    Log,
    /// The same records as `key=value` pairs.
    Logfmt,
}

/// Whether something is shown that not everybody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Where it looks as if it were wanted.
    Auto,
    /// As far as it can be shown at all.
    Always,
    /// Nowhere.
    Never,
}

/// How grave a record of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `warn`
    Warn,
    /// `error`
    Error,
}

impl Level {
    /// The word that records carry.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// What happens when the output is read too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLag {
    /// The command waits.
    Block,
    /// At most so many bytes wait; the oldest lines go.
    Drop {
        /// Bytes of output that may wait.
        bytes: u64,
    },
}

/// How much output may wait for its reader before the oldest is dropped, where that is not said.
pub const DEFAULT_LAG_BYTES: u64 = 8 << 20;

/// What a consumer that went away means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The run is stopped as a timeout would.
    Stop,
    /// It goes on unseen.
    Continue,
}

/// Where the result object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultDestination {
    /// A file, whole or not at all; or something there that is no regular file, opened and written.
    File(PathBuf),
    /// An inherited descriptor.
    Descriptor(i32),
    /// Standard output, last.
    Stdout,
}
