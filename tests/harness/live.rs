//! A run that goes on: read it line by line, signal it, stall it, leave it, wait for its end.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{LIMIT, Mark, Ran, children, schema, send_signal, state, until_full, wait_for};

/// A run that goes on.
pub(crate) struct Live {
    child: Child,
    ended: Option<ExitStatus>,
    streams: [Stream; 2],
    mark: Mark,
    writes_events: bool,
}

/// One of runcast's output streams, as far as it was read.
#[derive(Default)]
struct Stream {
    pipe: Option<OwnedFd>,
    got: Vec<u8>,
    shown: usize,
}

impl Live {
    pub(super) fn new(
        mut child: Child,
        input: Option<Vec<u8>>,
        mark: Mark,
        writes_events: bool,
    ) -> Self {
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            thread::spawn(move || {
                // A command that does not read all of it is no fault.
                let _ = stdin.write_all(&input);
            });
        }
        let stdout = Stream { pipe: child.stdout.take().map(OwnedFd::from), ..Stream::default() };
        let stderr = Stream { pipe: child.stderr.take().map(OwnedFd::from), ..Stream::default() };
        Self { child, ended: None, streams: [stdout, stderr], mark, writes_events }
    }

    /// The process id of what was started: runcast, or what launched it.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id is an int")
    }

    /// The process id of the first child of what was started: the command, or runcast as a job or in a script.
    pub(crate) fn child_pid(&self) -> i32 {
        wait_for("a child", || children(self.pid()).first().copied())
    }

    /// Waits until nobody's reading has come to hold up the command: neither this descriptor of runcast's nor the
    /// command's takes any more.
    #[track_caller]
    pub(crate) fn until_held_up(&self, descriptor: i32) {
        until_full(self.pid(), descriptor);
        until_full(self.child_pid(), descriptor);
    }

    /// Sends it a signal.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal);
    }

    /// The next line of standard output, without its end.
    pub(crate) fn line(&mut self) -> String {
        self.line_of(0)
    }

    /// The next line of standard error, without its end.
    pub(crate) fn error_line(&mut self) -> String {
        self.line_of(1)
    }

    fn line_of(&mut self, stream: usize) -> String {
        self.read_until(stream, |rest| {
            rest.iter().position(|&byte| byte == b'\n').map(|end| end + 1)
        })
        .trim_end_matches('\n')
        .to_owned()
    }

    /// Standard output up to and with this text.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let text = text.as_bytes();
        self.read_until(0, |rest| {
            rest.windows(text.len()).position(|part| part == text).map(|at| at + text.len())
        })
    }

    /// Waits for a line of output with this text, be it a chunk or the line itself.
    pub(crate) fn shows(&mut self, text: &str) {
        loop {
            let line = self.line();
            if line.contains(text) && !line.starts_with("{\"op\":\"started\"") {
                return;
            }
        }
    }

    /// The next event.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Value {
        let line = self.line();
        let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        schema::check_event(&event);
        event
    }

    /// The next event of this kind, past others.
    pub(crate) fn event_of(&mut self, op: &str) -> Value {
        loop {
            let event = self.event();
            if event["op"] == op {
                return event;
            }
        }
    }

    fn read_until(&mut self, stream: usize, end: impl Fn(&[u8]) -> Option<usize>) -> String {
        let limit = Instant::now() + LIMIT;
        loop {
            let Stream { pipe, got, shown } = &mut self.streams[stream];
            if let Some(length) = end(&got[*shown..]) {
                let part = &got[*shown..*shown + length];
                *shown += length;
                return String::from_utf8_lossy(part).into_owned();
            }
            assert!(pipe.is_some(), "the stream ended after {}", got.escape_ascii());
            self.read_some(limit);
        }
    }

    /// Reads what is there, or waits a moment for it.
    fn read_some(&mut self, limit: Instant) {
        assert!(Instant::now() < limit, "hung: {}", self.describe());
        let mut waits: Vec<PollFd<'_>> = self
            .streams
            .iter()
            .filter_map(|stream| stream.pipe.as_ref())
            .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
            .collect();
        poll(&mut waits, PollTimeout::from(50_u8)).expect("pipes can be waited for");
        let ready: Vec<i32> = waits
            .iter()
            .filter(|wait| wait.any() == Some(true))
            .map(|wait| wait.as_fd().as_raw_fd())
            .collect();
        for Stream { pipe, got, .. } in &mut self.streams {
            let Some(open) = pipe.as_ref().filter(|open| ready.contains(&open.as_raw_fd())) else {
                continue;
            };
            let mut buffer = vec![0; 256 << 10];
            match nix::unistd::read(open, &mut buffer) {
                Ok(0) => *pipe = None,
                Ok(length) => got.extend_from_slice(&buffer[..length]),
                Err(error) => panic!("a pipe cannot be read: {error}"),
            }
        }
    }
}

impl Live {
    /// Closes the reader of standard output.
    pub(crate) fn close_stdout(&mut self) {
        self.streams[0].pipe = None;
    }

    /// Closes the reader of standard error.
    pub(crate) fn close_stderr(&mut self) {
        self.streams[1].pipe = None;
    }

    /// The living processes of the run, runcast among them.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.mark.processes()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child of ours can be waited for");
        }
        self.ended
    }

    /// Waits for the end without reading anything.
    pub(crate) fn ends_unread(&mut self) -> ExitStatus {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < limit, "hung while nobody reads: {}", self.describe());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads everything to its end, which comes only if no process holds runcast's streams, and waits.
    /// Every event that it wrote, on either stream, is checked.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        let limit = Instant::now() + LIMIT;
        while self.streams.iter().any(|stream| stream.pipe.is_some()) {
            self.read_some(limit);
        }
        let status = self.ends_unread();
        let [stdout, stderr] = self.streams.map(|stream| stream.got);
        if self.writes_events {
            schema::check_lines(&stdout);
            schema::check_lines(&stderr);
        }
        Ran::new(status, stdout, stderr, self.mark)
    }

    fn describe(&mut self) -> String {
        let states = self.processes().into_iter().map(|pid| (pid, state(pid))).collect::<Vec<_>>();
        let shown = |stream: &Stream| {
            stream.got[stream.got.len().saturating_sub(1000)..].escape_ascii().to_string()
        };
        let [stdout, stderr] = self.streams.each_ref().map(shown);
        format!("ended {:?}, living {states:?}\nstdout …{stdout}\nstderr …{stderr}", self.ended())
    }
}
