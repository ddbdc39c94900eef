//! Another machine that is this one: a stand-in for ssh leads to a folder of its own, and breaks when it is told to.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::{Mark, RUNCAST, Runcast, alive, runcast, scratch, script, tool, wait_until};

/// The stand-in.
const SSH: &str = include_str!("ssh.py");

/// How it is called.
pub(super) const NAME: &str = "me@box";

/// Another machine.
pub(super) struct Machine {
    folder: TempDir,
    ssh: PathBuf,
    mark: Mark,
}

impl Machine {
    /// One that nothing runs on yet; none where a program for it is missing, and the test is to end.
    pub(super) fn new() -> Option<Self> {
        let python = tool("python3")?;
        let folder = scratch();
        let ssh = folder.path().join("ssh");
        let first = format!("#!{} -IS\n", python.display());
        script(&ssh, [first.as_bytes(), SSH.as_bytes()].concat().as_slice());
        for name in ["bin", "home", "local"] {
            fs::create_dir(folder.path().join(name)).expect("the folder is ours");
        }
        let there = folder.path().join("bin/runcast");
        std::os::unix::fs::symlink(RUNCAST, there).expect("the folder is ours");
        Some(Self { folder, ssh, mark: Mark::new() })
    }

    /// A file or folder of it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes one of its files.
    pub(super) fn set(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), content).expect("the folder is ours");
        self
    }

    /// What is to become of the next connections, one after another.
    pub(super) fn plan(&self, lines: &[impl AsRef<str>]) -> &Self {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        self.set("plan", lines.join("\n") + "\n")
    }

    /// How many connections there are still plans for.
    pub(super) fn plans(&self) -> usize {
        fs::read_to_string(self.path("plan")).unwrap_or_default().lines().count()
    }

    /// runcast with these options, and there.
    pub(super) fn run(&self, options: &str) -> Runcast {
        self.local(&format!("--host {NAME} {options}"))
    }

    /// The same with events.
    pub(super) fn ndjson(&self, options: &str) -> Runcast {
        self.run(&format!("-f ndjson {options}"))
    }

    /// A subcommand of runcast, and there.
    pub(super) fn ask(&self, subcommand: &str, options: &str) -> Runcast {
        self.local(&format!("{subcommand} --host {NAME} {options}"))
    }

    /// runcast here, from which it can be reached.
    pub(super) fn local(&self, options: &str) -> Runcast {
        runcast(options)
            .env("RUNCAST_SSH", &self.ssh)
            .env("MACHINE", self.folder.path())
            .env("RUNCAST_DIR", self.path("local"))
            .marked(&self.mark)
    }

    /// When each connection was made, in seconds, and to what.
    pub(super) fn log(&self) -> Vec<(f64, String)> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let entry = |line: &str| {
            let (time, what) = line.split_once('\t').expect("a line has a time");
            (time.parse().expect("a time is a number"), what.to_owned())
        };
        log.lines().map(entry).collect()
    }

    /// How many connections there were.
    pub(super) fn connections(&self) -> usize {
        self.log().len()
    }

    /// The process of the newest connection.
    pub(super) fn newest(&self) -> Option<i32> {
        let pids = fs::read_to_string(self.path("pids")).ok()?;
        pids.lines().last()?.parse().ok()
    }

    /// The folders of runs there.
    pub(super) fn folders(&self) -> Vec<String> {
        names(&self.path("runs"))
    }

    /// The living processes of all that was done there, and here.
    pub(super) fn processes(&self) -> Vec<i32> {
        self.mark.processes()
    }

    /// Waits until nothing lives that was started for it.
    pub(super) fn is_deserted(&self) {
        wait_until("the end of all processes", || self.processes().is_empty());
    }

    /// Waits until nothing of a run is left there.
    pub(super) fn keeps_nothing(&self) {
        self.is_deserted();
        assert_eq!(self.folders(), [""; 0], "folders of runs are left");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// Kills a process of ssh's, as a network would that is gone.
pub(super) fn cut(pid: i32) {
    use nix::sys::signal::{Signal, kill};
    if alive(pid) {
        // It may have ended meanwhile.
        let _ = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
}
