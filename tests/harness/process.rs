//! Processes as /proc shows them, found by a mark that all descendants of a test's runs inherit.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{process, thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait_until;

/// The variable that carries the mark.
pub(super) const VARIABLE: &str = "TEST_MARK";

/// A mark in the environment of every process of a test's runs. When the last copy of it goes, they are killed.
#[derive(Clone)]
pub(crate) struct Mark(Arc<Inner>);

struct Inner(String);

impl Mark {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner(format!("{}-{number}", process::id()))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0.0
    }

    /// The living processes that carry it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.0.processes()
    }
}

impl Inner {
    fn processes(&self) -> Vec<i32> {
        let variable = format!("{VARIABLE}={}", self.0);
        let carries = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
        };
        all().filter(carries).filter(|&pid| alive(pid)).collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > end {
                return;
            }
            for pid in left {
                // It may have ended meanwhile.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The state letter and the parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The state letter of a process: `T` is stopped, `Z` ended but not waited for.
pub(crate) fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// Whether it is there and not only waits to be reaped.
pub(crate) fn alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Waits until it is stopped.
#[track_caller]
pub(crate) fn until_stopped(pid: i32) {
    wait_until("its stop", || state(pid) == Some('T'));
}

/// Waits until it is stopped no more.
#[track_caller]
pub(crate) fn until_continued(pid: i32) {
    wait_until("its going on", || state(pid).is_some_and(|state| state != 'T'));
}

/// Waits until it has taken a signal that was sent to it and that it blocks.
#[track_caller]
pub(crate) fn until_taken(pid: i32, signal: Signal) {
    wait_until("its taking the signal", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let waiting = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let waiting = waiting.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        waiting.expect("it tells which signals wait") >> (signal as i32 - 1) & 1 == 0
    });
}

/// Waits until the pipe that it has as this descriptor takes no more, so that whoever writes there waits.
#[track_caller]
pub(crate) fn until_full(pid: i32, descriptor: i32) {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let mut options = File::options();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    wait_until("the pipe's being full", || {
        options.open(&path).is_ok_and(|pipe| {
            let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::ZERO) == Ok(0)
        })
    });
}

/// Waits until it has a connection and sleeps, as whoever waits for what comes over it does.
#[track_caller]
pub(crate) fn until_connected(pid: i32) {
    let is_socket = |entry: fs::DirEntry| {
        fs::read_link(entry.path())
            .is_ok_and(|leads| leads.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
    };
    wait_until("its connection", || {
        let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("it is there");
        // One may have been closed meanwhile.
        descriptors.any(|entry| entry.is_ok_and(is_socket)) && state(pid) == Some('S')
    });
}

/// Sends it a signal.
#[track_caller]
pub(crate) fn send_signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("it is there and ours");
}

/// The process id that the puppet wrote to this file.
#[track_caller]
pub(crate) fn pid_in(path: &Path) -> i32 {
    let written = fs::read_to_string(path).expect("it wrote its process id");
    written.parse().expect("a process id is a number")
}

/// Its parent.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Its children, those that wait to be reaped included.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    all().filter(|&child| stat(child).is_some_and(|(_, parent)| parent == pid)).collect()
}

/// How many bytes it has read, of whatever.
pub(crate) fn read_bytes(pid: i32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).expect("the process is there");
    let count = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    count.and_then(|count| count.parse().ok()).expect("it is counted")
}

/// The most memory that it ever had resident.
pub(crate) fn peak_rss_bytes(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line =
        status.lines().find(|line| line.starts_with("VmHWM:")).expect("a process has a peak");
    let kib = line.split_ascii_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kib.expect("the peak is a number") * 1024
}
