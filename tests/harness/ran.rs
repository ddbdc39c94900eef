//! A run that is over, and what can be asked of it.

use std::cell::OnceCell;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use super::event::check;
use super::{Event, Mark, check_result, schema};

/// A run that is over. What it left running lives until this is dropped.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    mark: Mark,
    events: OnceCell<Vec<Event>>,
}

impl Ran {
    pub(super) fn new(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>, mark: Mark) -> Self {
        Self { status, stdout, stderr, mark, events: OnceCell::new() }
    }

    /// The exit status; none if a signal ended runcast itself.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Itself, if that was the exit status.
    #[track_caller]
    pub(crate) fn exited(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self}");
        self
    }

    /// Standard output as text.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// All events, after checking that together they are a whole and true account.
    #[track_caller]
    pub(crate) fn events(&self) -> &[Event] {
        self.events.get_or_init(|| {
            let events = Event::lines(&self.stdout);
            check(&events, self.code());
            events
        })
    }

    /// The events of one kind.
    #[track_caller]
    pub(crate) fn of(&self, op: &str) -> Vec<&Event> {
        self.events().iter().filter(|event| event["op"] == op).collect()
    }

    /// The result.
    #[track_caller]
    pub(crate) fn result(&self) -> &Event {
        self.events().last().unwrap_or_else(|| panic!("there is no event: {self}"))
    }

    /// The chunks of a stream: content, and whether it is partial.
    #[track_caller]
    pub(crate) fn pieces(&self, kind: &str) -> Vec<(&str, bool)> {
        let chunks = self.of("chunk").into_iter().filter(|chunk| chunk["kind"] == kind);
        chunks.map(|chunk| (chunk.text("content"), chunk["partial"] == true)).collect()
    }

    /// The contents of a stream's chunks, which all end a line or the stream.
    #[track_caller]
    pub(crate) fn contents(&self, kind: &str) -> Vec<&str> {
        let whole = |(content, partial): (_, bool)| {
            assert!(!partial, "{content:?} is partial");
            content
        };
        self.pieces(kind).into_iter().map(whole).collect()
    }

    /// A stream byte for byte, as its chunks carry it.
    #[track_caller]
    pub(crate) fn bytes(&self, kind: &str) -> Vec<u8> {
        self.of("chunk")
            .into_iter()
            .filter(|chunk| chunk["kind"] == kind)
            .flat_map(Event::bytes)
            .collect()
    }

    /// Checks that runcast failed before the command started, with one clear line that names something.
    #[track_caller]
    pub(crate) fn refused(&self, named: &str) {
        assert_eq!(self.code(), Some(125), "{self}");
        assert_eq!(self.out(), "", "{self}");
        self.said_one_line(named);
    }

    /// Checks that the command line was refused, with one clear line that names something and where to read on.
    #[track_caller]
    pub(crate) fn refused_usage(&self, named: &str) {
        assert_eq!((self.code(), self.out()), (Some(125), String::new()), "{self}");
        let err = self.err();
        let first = err.lines().next().unwrap_or_default();
        assert!(first.starts_with("runcast: ") && first.contains(named), "{self}");
    }

    /// Checks that it failed with this status and error code, in the result and in one line that names something.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, error: &str, named: &str) {
        assert_eq!(self.code(), Some(code), "{self}");
        assert_eq!(self.result()["error"]["code"], error, "{self}");
        let message = self.result()["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(self.err(), format!("runcast: {message}\n"), "{self}");
        self.said_one_line(named);
    }

    /// Checks that standard error is one line of runcast's that names something.
    #[track_caller]
    pub(crate) fn said_one_line(&self, named: &str) {
        let err = self.err();
        assert!(
            err.starts_with("runcast: ") && err.ends_with('\n') && err.contains(named),
            "{self}"
        );
        assert!(err.lines().count() == 1 && !err.contains("panicked"), "{self}");
    }

    /// The living processes that the run left.
    pub(crate) fn left(&self) -> Vec<i32> {
        self.mark.processes()
    }

    /// Itself, if nothing of the run lives.
    #[track_caller]
    pub(crate) fn left_nothing(self) -> Self {
        let left = self.left();
        assert!(left.is_empty(), "{left:?} live on: {self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end =
            |bytes: &[u8]| bytes[bytes.len().saturating_sub(2000)..].escape_ascii().to_string();
        write!(f, "{}\nstdout {}\nstderr {}", self.status, end(&self.stdout), end(&self.stderr))
    }
}

/// The events in a file, each by the schema, and after the same checks as those on standard output.
#[track_caller]
pub(crate) fn events_in(path: &Path) -> Vec<Event> {
    let content = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    schema::check_lines(&content);
    let events = Event::lines(&content);
    let status = events.last().and_then(|result| result["status"].as_i64());
    check(&events, status.and_then(|status| status.try_into().ok()));
    events
}

/// The result in a file, after the same checks as those of a result on standard output.
#[track_caller]
pub(crate) fn result_in(path: &Path) -> Event {
    let mut events = events_in(path);
    assert_eq!(events.len(), 1, "{}", path.display());
    let result = events.remove(0);
    check_result(&result);
    result
}
