//! The processes of the run: once it has its threads they are signalled and reaped here, on the supervisor's,
//! and nowhere else. So nothing is ever signalled that was reaped.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::model::escalation::KILL_AGAIN;
use crate::model::outcome::{Ended, LimitHit, Usage};
use crate::model::rlimits::{RLIM_INFINITY, Resource};
use crate::model::signal::Signal;
use crate::sys::child_setup::Session;
use crate::sys::tree::{self, Dead, Process, Tree};

/// How many walks over the processes one signal may take: a fork bomb may grow as fast as it is walked. What
/// is left after so many is met by the next round of KILL.
const MOST_WALKS: usize = 100;

/// How often KILL is sent where nobody supervises. What lives after all of that
/// hangs in the kernel.
const MOST_KILLS: u32 = 100;

/// How far the processor time of a dead process may be behind what it was when the limit was found passed:
/// none but for rounding. Too big takes a KILL by somebody else, just before the limit, for the limit's.
const CPU_TIME_LAG: Duration = Duration::from_millis(20);

/// Who may have sent the KILL that ended the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KilledBy {
    /// We did, so it was no limit.
    Us,
    /// Somebody else, or the kernel at a limit.
    Anyone,
}

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Death {
    pub(super) at: Instant,
    pub(super) ended: Ended,
    pub(super) usage: Usage,
    /// The resource limit that ended it, where that can be known.
    pub(super) limit: Option<LimitHit>,
}

/// The command and all that it started.
#[derive(Debug)]
pub(super) struct Processes {
    command: i32,
    /// Where the command shares our group, it is not only the run's, and nothing is ever sent to it as a whole.
    session: Session,
    is_command_reaped: bool,
    /// How the command ended, until that is asked for.
    death: Option<Death>,
    tree: Tree,
    /// Those that may not be signalled.
    untouchable: HashSet<(i32, u64)>,
}

impl Processes {
    /// The command with this process id, and all below it.
    pub(super) fn new(command: i32, session: Session, tree: Tree) -> Self {
        let untouchable = HashSet::new();
        Self { command, session, is_command_reaped: false, death: None, tree, untouchable }
    }

    /// Kills all of them, where the run cannot be seen to its end: nobody else would.
    pub(super) fn abandon(&mut self) {
        for _ in 0..MOST_KILLS {
            self.kill_all();
            if self.are_gone() || self.are_untouchable() {
                break;
            }
            std::thread::sleep(KILL_AGAIN);
        }
    }

    /// Whether nobody is left.
    pub(super) fn are_gone(&self) -> bool {
        self.tree.is_empty()
    }

    /// The ids of those that are alive.
    pub(super) fn alive(&self) -> Vec<i32> {
        if self.are_gone() {
            return Vec::new();
        }
        let mut alive: Vec<i32> = self.tree.list().iter().map(|process| process.pid).collect();
        alive.sort_unstable();
        alive
    }

    /// Resident memory of all together, in bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.tree.resident_bytes()
    }

    /// Sends a signal to the command's group.
    pub(super) fn signal_group(&self, signal: Signal) {
        // Members that are gone or may not be signalled are the command's own affair.
        if self.leads_group() {
            let _ = tree::signal_group(self.command, signal);
        } else {
            for process in self.group() {
                let _ = tree::signal(&process, signal);
            }
        }
    }

    /// Continues the command's group. Where it shares our terminal, whoever made us go on has mostly done that,
    /// and those who were continued are not to hear of it twice.
    pub(super) fn continue_group(&self) {
        if self.session != Session::Shared {
            return self.signal_group(Signal::CONT);
        }
        for process in self.group().iter().filter(|process| process.is_stopped()) {
            // One that is gone, or may not be signalled, is the command's own affair.
            let _ = tree::signal(process, Signal::CONT);
        }
    }

    /// Stops the command's group as the terminal's `signal` would.
    ///
    /// A group of its own is an orphaned one, its parent being in another session, and there the kernel discards
    /// the default action of these signals. So whoever leaves it at that gets STOP instead.
    pub(super) fn suspend_group(&self, signal: Signal) {
        for process in self.group() {
            let stops = tree::has_default_action(&process, signal);
            // One that is gone, or may not be signalled, is the command's own affair.
            let _ = tree::signal(&process, if stops { Signal::STOP } else { signal });
        }
    }

    /// Sends a signal that stops to those of the command's group whom it stops.
    pub(super) fn stop_members(&self, signal: Signal) {
        for process in self.group() {
            if tree::has_default_action(&process, signal) {
                // One that is gone, or may not be signalled, is the command's own affair.
                let _ = tree::signal(&process, signal);
            }
        }
    }

    /// Whether the command does nothing about this signal.
    pub(super) fn does_command_stop_by(&self, signal: Signal) -> bool {
        let command = if self.is_command_reaped { None } else { tree::look_at(self.command) };
        command.is_some_and(|command| tree::has_default_action(&command, signal))
    }

    /// The living members of the command's group.
    fn group(&self) -> Vec<Process> {
        let mut members = self.tree.list();
        let group = self.command_group();
        members.retain(|process| process.group == group);
        members
    }

    /// The group that the command is in: one that shares ours may have made another for itself.
    pub(super) fn command_group(&self) -> i32 {
        if self.session != Session::Shared {
            return self.command;
        }
        let command = if self.is_command_reaped { None } else { tree::look_at(self.command) };
        command.map_or_else(|| nix::unistd::getpgrp().as_raw(), |command| command.group)
    }

    /// Whether the command leads a group that has its id and nobody else's processes.
    fn leads_group(&self) -> bool {
        self.session != Session::Shared && !self.is_command_reaped
    }

    /// The signal of job control that holds the command, if one does.
    pub(super) fn command_stopped_by(&self) -> Option<Signal> {
        if self.is_command_reaped { None } else { tree::stopped_by(self.command) }
    }

    /// Sends a signal to everybody: to the group at once, to the others one by one, until two walks find nobody
    /// new. Whoever is stopped is continued, or would never learn of it.
    pub(super) fn signal_all(&mut self, signal: Signal) {
        let is_group_told = self.leads_group() && tree::signal_group(self.command, signal).is_ok();
        let mut seen = HashSet::new();
        let mut quiet_walks = 0;
        for _ in 0..MOST_WALKS {
            let mut anyone_new = false;
            for process in self.tree.list() {
                if !seen.insert((process.pid, process.start)) {
                    continue;
                }
                anyone_new = true;
                if !(is_group_told && process.group == self.command) {
                    self.signal_one(&process, signal);
                }
                if process.is_stopped() {
                    self.signal_one(&process, Signal::CONT);
                }
            }
            quiet_walks = if anyone_new { 0 } else { quiet_walks + 1 };
            if quiet_walks == 2 {
                break;
            }
        }
    }

    /// Sends a signal that is no part of a stop to everybody.
    pub(super) fn deliver(&mut self, signal: Signal) {
        let is_group_told = self.leads_group() && tree::signal_group(self.command, signal).is_ok();
        for process in self.tree.list() {
            if !(is_group_told && process.group == self.command) {
                self.signal_one(&process, signal);
            }
        }
    }

    /// Sends KILL to everybody, each by itself too, to learn who may not be. A walk races with those who fork
    /// and end as fast as it goes, and can miss all of them; whether anybody is left, only the kernel's word
    /// on our children tells. So this goes on until nobody is, or those who are were all met.
    pub(super) fn kill_all(&mut self) {
        if self.leads_group() {
            // Its members are met below as well.
            let _ = tree::signal_group(self.command, Signal::KILL);
        }
        let mut seen = HashSet::new();
        for _ in 0..MOST_WALKS {
            self.reap(KilledBy::Us);
            let found = self.tree.list();
            let mut anyone_new = found.is_empty();
            for process in &found {
                anyone_new |= seen.insert((process.pid, process.start));
                self.signal_one(process, Signal::KILL);
            }
            if !anyone_new || self.are_gone() {
                break;
            }
        }
    }

    fn signal_one(&mut self, process: &Process, signal: Signal) {
        if let Err(error) = tree::signal(process, signal)
            && error.raw_os_error() == Some(Errno::EPERM as i32)
        {
            self.untouchable.insert((process.pid, process.start));
        }
    }

    /// Whether those who are left may not be signalled, any of them.
    pub(super) fn are_untouchable(&self) -> bool {
        let left = self.tree.list();
        !left.is_empty()
            && left.iter().all(|process| self.untouchable.contains(&(process.pid, process.start)))
    }

    /// Reaps whoever has ended: orphans that came to us, and the command.
    pub(super) fn reap(&mut self, killed_by: KilledBy) {
        while let Ok(Some(dead)) = tree::next_dead() {
            let at = Instant::now();
            let is_command = dead.pid == self.command && !self.is_command_reaped;
            let limit = if is_command { limit_hit(&dead, killed_by) } else { None };
            let command = self.command;
            self.tree.note_death(dead.pid, |pid| pid == command);
            let Ok(usage) = tree::reap(dead.pid) else { break };
            if is_command {
                self.is_command_reaped = true;
                self.death = Some(Death { at, ended: dead.ended, usage, limit });
            }
        }
    }

    /// How the command ended, once, after it was reaped.
    pub(super) fn take_death(&mut self) -> Option<Death> {
        self.death.take()
    }
}

/// The resource limit that ended a process, where that can be known. It is asked of the dead process itself,
/// which may have changed its limits, and of its own time, not of its children's.
fn limit_hit(dead: &Dead, killed_by: KilledBy) -> Option<LimitHit> {
    let Ended::Signaled { signal, .. } = dead.ended else { return None };
    match signal {
        Signal::XFSZ => {
            let (soft, _) = tree::limit_of(dead.pid, Resource::Fsize).ok()?;
            (soft != RLIM_INFINITY).then_some(LimitHit::FileSize)
        }
        // Each time it sends XCPU, the kernel moves the soft limit on by a second.
        Signal::XCPU => {
            let (soft, _) = tree::limit_of(dead.pid, Resource::Cpu).ok()?;
            used_up(dead, soft.saturating_sub(1)).then_some(LimitHit::Cpu)
        }
        Signal::KILL if killed_by == KilledBy::Anyone => {
            let (_, hard) = tree::limit_of(dead.pid, Resource::Cpu).ok()?;
            used_up(dead, hard).then_some(LimitHit::Cpu)
        }
        _ => None,
    }
}

/// Whether a dead process has used that many seconds of processor time.
fn used_up(dead: &Dead, seconds: u64) -> bool {
    let limit = Duration::from_secs(seconds);
    tree::own_cpu_time(dead.pid).is_some_and(|time| time + CPU_TIME_LAG >= limit)
}
