//! Detached runs: started, left, looked at from elsewhere, and what they survive.

mod attach;
mod control;
mod damage;
mod disk;
mod forget;
mod home;
mod input;
mod keeper;
mod later;
mod list;
mod others;
mod resume;
mod signal;
mod start;
mod versions;
mod wait;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{
    Live, Mark, Ran, Runcast, alive, parent, runcast, scratch, send_signal, wait_for, wait_until,
};

/// A folder of runs of its own. Whatever still runs in it is ended with it.
struct Home {
    folder: TempDir,
    runs: PathBuf,
    mark: Mark,
}

impl Home {
    fn new() -> Self {
        let folder = scratch();
        let runs = folder.path().join("runs");
        Self { folder, runs, mark: Mark::new() }
    }

    /// One that keeps its runs in this folder below its own.
    fn at(below: &str) -> Self {
        let home = Self::new();
        let runs = home.folder.path().join(below);
        Self { runs, ..home }
    }

    /// runcast with these options, which finds its runs here.
    fn runcast(&self, options: &str) -> Runcast {
        runcast(options).env("RUNCAST_DIR", &self.runs).marked(&self.mark)
    }

    /// Starts a run of this name whose command is the puppet with these steps.
    #[track_caller]
    fn start(&self, id: &str, steps: &str) {
        self.start_with(id, "", steps);
    }

    /// The same with more options.
    #[track_caller]
    fn start_with(&self, id: &str, options: &str, steps: &str) {
        let ran = self.runcast(&format!("-d --id {id} {options}")).puppet(steps).run().exited(0);
        assert_eq!((ran.out(), ran.err()), (format!("{id}\n"), String::new()));
    }

    /// A reader that has just begun to read the run.
    fn reader(&self, options: &str, id: &str) -> Live {
        self.runcast(&format!("attach {options} {id}")).start()
    }

    #[track_caller]
    fn attach(&self, options: &str, id: &str) -> Ran {
        self.reader(options, id).finish()
    }

    /// The events of a run, from its beginning, each checked.
    #[track_caller]
    fn events(&self, id: &str) -> Vec<Value> {
        lines(&self.attach("-f ndjson", id))
    }

    #[track_caller]
    fn wait(&self, id: &str) -> Ran {
        self.runcast(&format!("wait {id}")).run()
    }

    /// The result of a run, once it is over.
    #[track_caller]
    fn result(&self, id: &str) -> Value {
        let ran = self.wait(id);
        let mut lines = lines(&ran);
        assert_eq!(lines.len(), 1, "{ran}");
        assert_eq!(lines[0]["status"].as_i64(), ran.code().map(i64::from), "{ran}");
        lines.remove(0)
    }

    /// Sends these bytes.
    #[track_caller]
    fn send(&self, options: &str, id: &str, bytes: &[u8]) -> Ran {
        self.runcast(&format!("send {options} {id}")).writes_no_events().input(bytes).run()
    }

    /// What `runs` says of a run.
    #[track_caller]
    fn listed(&self, id: &str) -> Option<Value> {
        let ran = self.runcast("runs -f ndjson").run().exited(0);
        lines(&ran).into_iter().find(|run| run["id"] == id)
    }

    #[track_caller]
    fn state(&self, id: &str) -> String {
        let run = self.listed(id).unwrap_or_else(|| panic!("{id} is not listed"));
        run["state"].as_str().expect("a state is a text").to_owned()
    }

    fn path(&self, id: &str) -> PathBuf {
        self.runs.join(id)
    }

    /// The process id of the command of a run.
    #[track_caller]
    fn command(&self, id: &str) -> i32 {
        let about = fs::read_to_string(self.path(id).join("run")).expect("the run was started");
        let started: Value = serde_json::from_str(about.lines().nth(1).expect("it has two lines"))
            .expect("an event is JSON");
        started["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a process id is there")
    }

    /// The process id of the keeper of a run whose command lives.
    #[track_caller]
    fn keeper(&self, id: &str) -> i32 {
        parent(self.command(id)).expect("the command lives")
    }

    /// Kills the keeper of a run, and waits until both it and the command are gone.
    #[track_caller]
    fn kill_keeper(&self, id: &str) {
        let (keeper, command) = (self.keeper(id), self.command(id));
        send_signal(keeper, Signal::SIGKILL);
        wait_until("the end of the keeper", || !alive(keeper));
        wait_until("the end of the command", || !alive(command));
    }

    /// Connects to the keeper of a run.
    #[track_caller]
    fn connect(&self, id: &str) -> UnixStream {
        UnixStream::connect(self.path(id).join("control")).expect("its keeper listens")
    }

    /// Waits until nothing of any run here lives.
    fn is_quiet(&self) {
        wait_until("the end of all", || self.mark.processes().is_empty());
    }
}

/// The objects that it wrote, one a line.
#[track_caller]
fn lines(ran: &Ran) -> Vec<Value> {
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}: {ran}"))
    };
    assert!(ran.stdout.is_empty() || ran.stdout.ends_with(b"\n"), "half a line: {ran}");
    ran.out().lines().map(parse).collect()
}

/// The events of one kind.
fn of<'a>(events: &'a [Value], op: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["op"] == op).collect()
}

/// The contents of the chunks of a stream, joined.
fn content(events: &[Value], kind: &str) -> String {
    let of_kind = events.iter().filter(|event| event["op"] == "chunk" && event["kind"] == kind);
    of_kind.map(|chunk| chunk["content"].as_str().expect("content is text")).collect()
}

/// Checks that chunks and what is told to be missing are all after `after`, each once and in order, and returns the
/// number of the last one.
#[track_caller]
fn in_order(events: &[Value], after: u64) -> u64 {
    let mut seq = after;
    for event in events {
        if event["op"] == "chunk" {
            seq += 1;
            assert_eq!(event["seq"], seq, "{event}");
        } else if event["op"] == "dropped" {
            assert_eq!(event["after_seq"], seq, "{event}");
            seq += event["chunks"].as_u64().expect("a number of chunks");
        }
    }
    seq
}

/// Checks that it ended with this error, in a result and on standard error.
#[track_caller]
fn failed_with(ran: &Ran, code: &str) {
    assert_eq!(ran.code(), Some(125), "{ran}");
    let lines = lines(ran);
    let result = lines.last().unwrap_or_else(|| panic!("there is no result: {ran}"));
    assert_eq!(
        (&result["op"], &result["error"]["code"]),
        (&"result".into(), &code.into()),
        "{ran}"
    );
    assert!(result["exit_code"].is_null(), "{ran}");
    ran.said_one_line(result["error"]["message"].as_str().expect("a message"));
}

/// Waits for a file that somebody writes.
fn wait_for_file(path: &Path) {
    wait_for("the file", || path.exists().then_some(()));
}
