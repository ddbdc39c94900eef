//! Every process of a run: list, signal and reap them.
//!
//! runcast is the subreaper of what it starts, so each process of the run, whatever session or group it moved
//! to, is a descendant of this one. They are found by walking `task/*/children` down from here; a process
//! that is handed over to us in the middle of a walk is missed by it and found by the next, which is why
//! whoever stops a run walks until two walks find nothing new.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::model::outcome::{Ended, Usage};
use crate::model::rlimits::Resource;
use crate::model::signal::Signal;
use crate::sys::child_setup::Session;

/// The flag of a task that ends, as `/proc/PID/stat` has it; `include/linux/sched.h` of Linux.
const PF_EXITING: u64 = 0x4;

/// One process, as it was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in clock ticks since boot; with the id it names one process for good.
    pub start: u64,
    state: u8,
    threads: u32,
    /// It is ending, and does nothing more.
    is_exiting: bool,
}

impl Process {
    /// Whether job control or STOP holds it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    /// Whether it has not ended. One whose first thread ended while others go on looks like a zombie. One that just
    /// ends, and has closed what it had, is no zombie yet; should that take long, it is in state D.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let has_ended =
            matches!(self.state, b'Z' | b'X') || (self.is_exiting && self.state != b'D');
        !has_ended || self.threads > 1
    }

    /// Reads `/proc/PID/stat`; see `proc_pid_stat(5)`.
    fn read(pid: i32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(pid, &text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        // The name, in parentheses, may hold anything; no field behind it has a parenthesis.
        let end = memchr::memrchr(b')', stat)?;
        let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let id = |index: usize| fields.get(index)?.parse::<i32>().ok();
        Some(Self {
            pid,
            parent: id(1)?,
            group: id(2)?,
            session: id(3)?,
            start: number(19)?,
            state: *fields.first()?.as_bytes().first()?,
            threads: u32::try_from(number(17)?).ok()?,
            is_exiting: number(6)? & PF_EXITING != 0,
        })
    }

    /// A process that `/proc` hides from us (`hidepid`), but that is there.
    fn hidden(pid: i32, parent: i32) -> Option<Self> {
        let there = nix::sys::signal::kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH);
        there.then_some(Self {
            pid,
            parent,
            group: 0,
            session: 0,
            start: 0,
            state: b'?',
            threads: 1,
            is_exiting: false,
        })
    }
}

/// The processes of one run.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Children that this process had before it started anything, as a shell that replaced itself by us may
    /// leave them, and their descendants. They are not of the run.
    inherited: HashSet<(i32, u64)>,
    /// A session that no process of the run can be in: our own, where the command made one for itself.
    foreign_session: Option<i32>,
}

impl Tree {
    /// Becomes the subreaper, having noted who is there before the command is, which will run in this session.
    ///
    /// # Errors
    ///
    /// What `prctl(2)` says.
    pub fn prepare(session: Session) -> io::Result<Self> {
        let foreign_session = match session {
            Session::Shared => None,
            Session::Own | Session::OnPty => Some(nix::unistd::getsid(None)?.as_raw()),
        };
        let mut tree = Self { inherited: HashSet::new(), foreign_session };
        if any_child() {
            tree.inherited =
                tree.walk().into_iter().map(|process| (process.pid, process.start)).collect();
        }
        nix::sys::prctl::set_child_subreaper(true)?;
        Ok(tree)
    }

    /// The living processes of the run.
    #[must_use]
    pub fn list(&self) -> Vec<Process> {
        let mut found = self.walk();
        found.retain(|process| process.is_alive() && Some(process.session) != self.foreign_session);
        found
    }

    /// Takes notice of the death of a child, before it is reaped. Where it was an inherited one its own children
    /// are ours now, and not of the run either. Which of our children those are cannot be told any more where
    /// they are in the same session; so, rather than to stop somebody who has nothing to do with the run,
    /// all are taken for inherited that `is_of_run` does not know.
    pub fn note_death(&mut self, dead: i32, is_of_run: impl Fn(i32) -> bool) {
        let is_inherited = self.inherited.iter().any(|&(pid, _)| pid == dead);
        if !is_inherited || self.foreign_session.is_some() {
            return;
        }
        let orphans = children(nix::unistd::getpid().as_raw()).into_iter();
        let orphans = orphans.filter(|&pid| pid != dead && !is_of_run(pid));
        let identified = orphans.filter_map(|pid| Some((pid, Process::read(pid).ok()?.start)));
        self.inherited.extend(identified.collect::<Vec<_>>());
    }

    /// Whether nobody of the run is left: where nothing was inherited, whether we have no children any more,
    /// neither living nor to be reaped. Whoever lives below us is some child's descendant, and becomes ours
    /// when that ends.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !any_child()
            || (!self.inherited.is_empty() && self.list().is_empty() && self.list().is_empty())
    }

    /// All descendants of this process, but for the inherited ones and all below them.
    fn walk(&self) -> Vec<Process> {
        let me = nix::unistd::getpid().as_raw();
        let mut found = Vec::new();
        if !is_proc_ours() {
            return found;
        }
        let mut seen = HashSet::from([me]);
        let mut parents = vec![me];
        while let Some(parent) = parents.pop() {
            for pid in children(parent) {
                if seen.insert(pid)
                    && let Some(process) =
                        Process::read(pid).ok().or_else(|| Process::hidden(pid, parent))
                    && !self.inherited.contains(&(process.pid, process.start))
                {
                    parents.push(pid);
                    found.push(process);
                }
            }
        }
        found
    }

    /// Resident memory of all processes together, in bytes. Adding up resident sizes would count a shared
    /// page once for each process; so the anonymous pages of each are added, and of shared memory, which is
    /// mostly the same for all, the largest part of any one.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let (mut anonymous, mut shared) = (0_u64, 0_u64);
        for process in self.list() {
            let Ok(status) = fs::read_to_string(format!("/proc/{}/status", process.pid)) else {
                continue;
            };
            let kib = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.split_ascii_whitespace().next()?.parse::<u64>().ok()
            };
            anonymous += kib("RssAnon:").unwrap_or(0) * 1024;
            shared = shared.max(kib("RssShmem:").unwrap_or(0) * 1024);
        }
        anonymous + shared
    }
}

/// Whether `/proc` shows the processes that we see, and not those of another pid namespace, or nothing; `proc(5)`.
#[must_use]
pub fn is_proc_ours() -> bool {
    let me = nix::unistd::getpid().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == me.as_str())
}

/// Whether this process has any child, ended or not.
fn any_child() -> bool {
    peek().is_ok()
}

/// The children of every thread of a process, `proc_pid_task(5)`.
fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found
                .extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // A kernel built without that file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && thread.path().exists() => {
                return children_by_parent(pid);
            }
            Err(_) => {}
        }
    }
    found
}

/// The children of a process, found by asking every process there is for its parent.
fn children_by_parent(parent: i32) -> Vec<i32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| Process::read(pid).is_ok_and(|process| process.parent == parent))
        .collect()
}

/// Sends a signal to the command's whole group. Only for a command that was not reaped: then its id, and so
/// its group's, belongs to nobody else.
///
/// # Errors
///
/// What `kill(2)` says: EPERM if not one of them may be signalled.
pub fn signal_group(leader: i32, signal: Signal) -> io::Result<()> {
    // SAFETY: plain numbers.
    Errno::result(unsafe { libc::kill(-leader, signal.number()) })?;
    Ok(())
}

/// Sends a signal to one process that was found before, and to no other: not to one that has meanwhile got
/// its id.
///
/// # Errors
///
/// ESRCH if it is gone, EPERM if it may not be signalled.
pub fn signal(process: &Process, signal: Signal) -> io::Result<()> {
    let pidfd = match open_pidfd(process.pid) {
        Ok(pidfd) => Some(pidfd),
        // A sandbox may forbid the call. Then the moment between the look and the signal stays open.
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => None,
        Err(error) => return Err(error),
    };
    // The descriptor holds on to whoever has the id now; whether that is the one meant, its start tells.
    if process.start != 0 && Process::read(process.pid)?.start != process.start {
        return Err(Errno::ESRCH.into());
    }
    let number = signal.number();
    match pidfd {
        Some(pidfd) if send_by_pidfd(&pidfd, number).is_ok() => Ok(()),
        // Here too: what a sandbox forbids looks like a process that may not be signalled.
        _ => {
            // SAFETY: plain numbers.
            Errno::result(unsafe { libc::kill(process.pid, number) })?;
            Ok(())
        }
    }
}

fn send_by_pidfd(pidfd: &OwnedFd, number: i32) -> nix::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a live descriptor, plain numbers, and no pointer to read from.
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), number, no_info, 0)
    };
    Errno::result(sent).map(drop)
}

fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just made it for us, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether a process does nothing about this signal: it neither handles nor ignores it, so that the signal's
/// default action is what would follow.
#[must_use]
pub fn has_default_action(process: &Process, signal: Signal) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", process.pid)) else {
        return true;
    };
    let bit = 1_u64 << (signal.number() - 1);
    ["SigIgn:", "SigCgt:"].iter().all(|name| {
        let set = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        u64::from_str_radix(set.trim(), 16).unwrap_or(0) & bit == 0
    })
}

/// An ended child that waits to be reaped.
#[derive(Debug, Clone, Copy)]
pub struct Dead {
    /// Its id, which is its own until it is reaped.
    pub pid: i32,
    /// How it ended.
    pub ended: Ended,
}

/// Looks for an ended child without reaping it.
///
/// # Errors
///
/// ECHILD where there are no children, or what else `waitid(2)` says.
pub fn next_dead() -> io::Result<Option<Dead>> {
    let info = peek()?;
    let (pid, status) = id_and_status(&info);
    if pid == 0 {
        return Ok(None);
    }
    let ended = if info.si_code == libc::CLD_EXITED {
        // Of an exit code only the low eight bits exist.
        Ended::Exited((status & 0xff) as u8)
    } else {
        let signal = Signal::from_number(status).unwrap_or(Signal::KILL);
        Ended::Signaled { signal, core_dumped: info.si_code == libc::CLD_DUMPED }
    };
    Ok(Some(Dead { pid, ended }))
}

/// Whose status it is, and the status; of no child, zeros.
fn id_and_status(info: &libc::siginfo_t) -> (i32, i32) {
    // SAFETY: whatever was filled in, these fields lie within it and are numbers, of which all are valid.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    (pid, status)
}

/// What `waitid(2)` tells of any ended child, leaving its status where it is; a zero id is none.
fn peek() -> io::Result<libc::siginfo_t> {
    // SAFETY: a zeroed siginfo is a valid one to be written to.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: writes to one live value. With WNOHANG it does not wait, so no signal can interrupt it.
    Errno::result(unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) })?;
    Ok(info)
}

/// The signal of job control that holds a child of ours, if one does.
#[must_use]
pub fn stopped_by(child: i32) -> Option<Signal> {
    // SAFETY: a zeroed siginfo is a valid one to be written to.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    let child = libc::id_t::try_from(child).ok()?;
    // SAFETY: writes to one live value. With WNOHANG it does not wait.
    Errno::result(unsafe { libc::waitid(libc::P_PID, child, &raw mut info, flags) }).ok()?;
    let (pid, status) = id_and_status(&info);
    if pid == 0 { None } else { Signal::from_number(status) }
}

/// A process by its id, as it is now.
#[must_use]
pub fn look_at(pid: i32) -> Option<Process> {
    Process::read(pid).ok()
}

/// The processor time of a dead process that was not reaped yet, without that of children it waited for.
///
/// It is what the kernel holds against the limit: user and system time by ticks. What `/proc` and
/// `getrusage(2)` tell is scaled to the time that it really ran, and on a busy machine far from that.
#[must_use]
pub fn own_cpu_time(pid: i32) -> Option<Duration> {
    // The clock of another process, see clock_getcpuclockid(3); kind 0 is that of ITIMER_PROF.
    let clock = (!pid) << 3;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to one live value.
    Errno::result(unsafe { libc::clock_gettime(clock, &raw mut time) }).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// A resource limit of another process, soft and hard. It can be read of one that is dead and not reaped.
///
/// # Errors
///
/// What `prlimit(2)` says.
pub fn limit_of(pid: i32, resource: Resource) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: without a new limit the call only reads, into a live value.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            pid,
            resource.number(),
            std::ptr::null::<libc::rlimit64>(),
            &raw mut limit,
        )
    })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Reaps one ended child and returns what it and the children that it waited for used.
///
/// # Errors
///
/// What `wait4(2)` says.
pub fn reap(pid: i32) -> io::Result<Usage> {
    // SAFETY: an all-zero rusage is a valid one: it has numbers alone.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: writes to two live values.
    Errno::result(unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) })?;
    let time = |value: libc::timeval| {
        let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
        let micros = u64::try_from(value.tv_usec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    Ok(Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let stat = b"42 (a) b (c)) S 1 40 39 0 -1 0 0 0 0 0 7 5 0 0 20 0 3 0 12345 0 0";
        let process = Process::parse(42, stat).expect("the line is whole");
        assert_eq!((process.parent, process.group, process.session), (1, 40, 39));
        assert_eq!((process.start, process.threads), (12345, 3));
        assert!(process.is_alive() && !process.is_stopped());
    }

    #[test]
    fn one_that_has_ended_or_just_ends_is_not_alive_unless_a_thread_or_the_kernel_holds_it() {
        let is_alive = |state: &str, flags: u64, threads: u32| {
            let stat =
                format!("42 (a) {state} 1 4 4 0 -1 {flags} 0 0 0 0 7 5 0 0 20 0 {threads} 0 1");
            Process::parse(42, stat.as_bytes()).expect("the line is whole").is_alive()
        };
        let (running, exiting) = (0x40_0040, 0x40_0044);
        assert!(is_alive("S", running, 1) && is_alive("D", exiting, 1));
        assert!(is_alive("S", exiting, 2) && is_alive("Z", exiting, 2));
        assert!(!is_alive("R", exiting, 1) && !is_alive("Z", exiting, 1));
    }

    #[test]
    fn a_cut_line_is_no_process() {
        assert_eq!(Process::parse(42, b"42 (a) S 1 40"), None);
    }
}
