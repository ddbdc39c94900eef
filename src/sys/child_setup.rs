//! Makes the command's process: what runs between fork and exec.
//!
//! The child borrows our memory until it has called exec (`CLONE_VM | CLONE_VFORK`, as posix_spawn does): no
//! page table is copied, and a failure is written straight to where the parent reads it. The price is the
//! rule for this file: the child allocates nothing, takes no lock, logs nothing and cannot panic. All that it
//! needs is prepared before.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::model::error::Error;
use crate::model::rlimits::Rlimit;
use crate::model::signal::Signal;
use crate::model::spec::{Program, Spec};
use crate::sys::signals;

/// Where commands are looked for when the command's environment has no PATH; what `execvp(3)` takes.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The child's stack, a piece of ours. It calls a handful of system calls, and the C library's wrappers need a few
/// hundred bytes of it. Smaller, and the child overwrites what we have there; bigger, and pages of our stack are
/// touched for it that nothing has used yet.
const STACK_BYTES: usize = 16 * 1024;

/// How often and how long to wait for a file that another thread or process is still writing, `ETXTBSY`: it
/// has just been made, and a fork elsewhere holds it open for a moment until its own exec.
const BUSY_TRIES: u32 = 10;
static BUSY_WAIT: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The command, prepared so far that its process can be made without allocating.
#[derive(Debug)]
pub struct Prepared {
    command: OsString,
    /// Whether the command is a path, with a slash in it, and not to be looked for.
    is_path: bool,
    directory: Option<(PathBuf, CString)>,
    /// The paths to try, in order.
    candidates: Vec<CString>,
    argv: PointerArray,
    /// `sh PATH ARG...`, its PATH filled in for a file that has no format the kernel knows.
    shell_argv: PointerArray,
    /// `None` is our own, as it is.
    environment: Option<PointerArray>,
    limits: Vec<Rlimit>,
    umask: Option<u32>,
    nice: Option<i32>,
    no_new_privs: bool,
}

/// The descriptors that become the command's standard streams.
#[derive(Debug, Clone, Copy)]
pub struct StandardStreams {
    /// `None` leaves what we have.
    pub stdin: Option<RawFd>,
    /// The writing end of a pipe, or a terminal.
    pub stdout: RawFd,
    /// The writing end of a pipe, or a terminal.
    pub stderr: RawFd,
}

/// The session and process group that the command runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// It leads its own, without a controlling terminal.
    Own,
    /// It leads its own, and its standard input is the terminal that controls it.
    OnPty,
    /// Ours, with our terminal.
    Shared,
}

/// Which step failed, in the child.
#[derive(Debug, Clone, Copy)]
enum Step {
    Chdir,
    Limit(usize),
    Exec,
    Other(&'static str),
}

impl Prepared {
    /// Turns what is executed, and a spec for all else, into what the child needs.
    ///
    /// # Errors
    ///
    /// A word or variable with a NUL in it, which no process can be given.
    pub fn new(program: &Program, spec: &Spec) -> Result<Self, Error> {
        let command = program.argv.first().cloned().unwrap_or_default();
        let argv = program
            .argv
            .iter()
            .map(|word| c_string("argument", word))
            .collect::<Result<Vec<_>, _>>()?;
        let mut shell_argv = vec![c"sh".to_owned(), CString::default()];
        shell_argv.extend(argv.iter().skip(1).cloned());
        let environment = match &program.environment {
            None => None,
            Some(variables) => {
                let joined = variables.iter().map(|(name, value)| {
                    let mut pair = name.clone();
                    pair.push("=");
                    pair.push(value);
                    c_string("environment", &pair)
                });
                Some(PointerArray::new(joined.collect::<Result<Vec<_>, _>>()?))
            }
        };
        let directory = match &spec.directory {
            None => None,
            Some(path) => Some((path.clone(), c_string("directory", path.as_os_str())?)),
        };
        Ok(Self {
            candidates: candidates(&command, search_path(program).as_deref())?,
            is_path: command.as_bytes().contains(&b'/'),
            command,
            directory,
            argv: PointerArray::new(argv),
            shell_argv: PointerArray::new(shell_argv),
            environment,
            limits: spec.rlimits.clone(),
            umask: spec.umask,
            nice: spec.nice,
            no_new_privs: spec.no_new_privs,
        })
    }

    /// Makes the process and returns its id once it has called exec. Has to be called on the thread that
    /// lives longest: the command is killed when the thread that made it ends.
    ///
    /// The signals that we handle must be blocked: a handler of ours must not run in the child.
    ///
    /// # Errors
    ///
    /// Whatever of it failed; then there is no process any more.
    pub fn start(
        &mut self,
        session: Session,
        streams: StandardStreams,
        to_reset: &[Signal],
    ) -> Result<i32, Error> {
        let parent = std::process::id();
        let mut child = Child { prepared: self, session, streams, to_reset, parent, failure: None };
        let mut stack = [MaybeUninit::<u128>::uninit(); STACK_BYTES / size_of::<u128>()];
        // A stack grows down.
        let top = stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: CLONE_VFORK holds this thread until the child has called exec or ended, so the stack and
        // `child` outlive its use of them and nobody else touches them meanwhile. What the child runs allocates
        // nothing, takes no lock that another thread could hold, does not unwind, and needs little of the stack;
        // no handler of ours runs in it, since their signals are blocked.
        let pid = unsafe { libc::clone(enter, top.cast(), flags, (&raw mut child).cast()) };
        let failure = child.failure;
        let pid = Errno::result(pid).map_err(|errno| spawn_error("fork", errno))?;
        match failure {
            None => Ok(pid),
            Some((step, errno)) => {
                // It ended by itself right after it had said so. How is no matter.
                let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
                Err(self.explain(step, errno))
            }
        }
    }

    fn explain(&self, step: Step, errno: Errno) -> Error {
        let source = io::Error::from(errno);
        match step {
            Step::Chdir => {
                let directory =
                    self.directory.as_ref().map(|(path, _)| path.clone()).unwrap_or_default();
                Error::Chdir { directory, source }
            }
            Step::Limit(index) => {
                let name = self.limits.get(index).map_or("", |limit| limit.resource.name());
                Error::Limit { option: format!("--rlimit {name}"), source }
            }
            Step::Other(step) => Error::Spawn { step, source },
            Step::Exec => self.explain_exec(errno),
        }
    }

    fn explain_exec(&self, errno: Errno) -> Error {
        let command = self.command.clone();
        match errno {
            // A folder of the PATH may not be searched, and nobody knows what is in it.
            Errno::EACCES if !self.is_path && self.existing_candidate().is_none() => {
                Error::NotFound { command }
            }
            Errno::ENOENT => match self.existing_candidate() {
                // The file is there, so what is missing is what its first line or its header names.
                Some(path) => Error::NotExecutable {
                    command: path,
                    why: "the interpreter that it names was not found".to_owned(),
                },
                None => Error::NotFound { command },
            },
            _ => Error::NotExecutable { command, why: errno.desc().to_owned() },
        }
    }

    fn existing_candidate(&self) -> Option<OsString> {
        let there = |path: &&CString| {
            let path = OsStr::from_bytes(path.to_bytes());
            let path = self
                .directory
                .as_ref()
                .map_or_else(|| PathBuf::from(path), |(dir, _)| dir.join(path));
            path.exists()
        };
        self.candidates.iter().find(there).map(|path| OsString::from_vec(path.to_bytes().to_vec()))
    }
}

/// What the child is given: a pointer to this, in our memory.
struct Child<'a> {
    prepared: &'a mut Prepared,
    session: Session,
    streams: StandardStreams,
    to_reset: &'a [Signal],
    parent: u32,
    failure: Option<(Step, Errno)>,
}

extern "C" fn enter(child: *mut libc::c_void) -> i32 {
    // SAFETY: `start` passes a pointer to its own local value and waits until we are done with it.
    let child = unsafe { &mut *child.cast::<Child<'_>>() };
    let Err(failure) = child.set_up_and_exec();
    child.failure = Some(failure);
    STATUS_SET_UP_FAILED
}

/// Nobody sees it: the parent reads the failure itself.
const STATUS_SET_UP_FAILED: i32 = 125;

type SetUp<T> = Result<T, (Step, Errno)>;

impl Child<'_> {
    /// The child's whole way, in order. Limits come last of all, since a small one may forbid any other step.
    fn set_up_and_exec(&mut self) -> SetUp<std::convert::Infallible> {
        if self.session != Session::Shared {
            check("setsid", nix::unistd::setsid())?;
        }
        self.die_with_parent()?;
        self.connect_streams()?;
        if self.session == Session::OnPty {
            // SAFETY: plain numbers: standard input, which is a terminal, and not to take it from anybody.
            let taken = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
            check("controlling terminal", Errno::result(taken))?;
        }
        if let Some(mask) = self.prepared.umask {
            // SAFETY: a plain number; it cannot fail.
            unsafe { libc::umask(mask) };
        }
        if let Some(increment) = self.prepared.nice {
            set_nice(increment)?;
        }
        if self.prepared.no_new_privs {
            check("--no-new-privs", nix::sys::prctl::set_no_new_privs())?;
        }
        if let Some((_, directory)) = &self.prepared.directory {
            nix::unistd::chdir(directory.as_c_str()).map_err(|errno| (Step::Chdir, errno))?;
        }
        for &signal in self.to_reset {
            signals::set_default(signal);
        }
        for (index, limit) in self.prepared.limits.iter().enumerate() {
            set_limit(limit).map_err(|errno| (Step::Limit(index), errno))?;
        }
        // Whatever came for us meanwhile waits at the parent; what comes for the child acts from here on.
        signals::unblock_all();
        self.exec()
    }

    /// Asks to be killed when runcast is, and looks whether that happened before it could be asked. The
    /// parent's id is compared with what it was, not with 1: runcast may be process 1 itself.
    fn die_with_parent(&self) -> SetUp<()> {
        check("parent-death signal", nix::sys::prctl::set_pdeathsig(nix::sys::signal::SIGKILL))?;
        if nix::unistd::getppid().as_raw().cast_unsigned() != self.parent {
            return Err((Step::Other("parent-death signal"), Errno::ESRCH));
        }
        Ok(())
    }

    fn connect_streams(&self) -> SetUp<()> {
        let streams = [self.streams.stdin, Some(self.streams.stdout), Some(self.streams.stderr)];
        for (target, source) in streams.into_iter().enumerate() {
            if let Some(source) = source {
                // Our descriptors are all above 2, so none is overwritten here before it was used.
                // SAFETY: plain numbers.
                check("dup2", Errno::result(unsafe { libc::dup2(source, target as i32) }))?;
            }
        }
        Ok(())
    }

    /// Tries the candidates in order, as `execvp(3)` does: what is not there is passed over, what may not be
    /// executed is remembered, anything else is final.
    fn exec(&mut self) -> SetUp<std::convert::Infallible> {
        let mut denied = None;
        let mut last = Errno::ENOENT;
        for index in 0..self.prepared.candidates.len() {
            last = self.exec_one(index);
            match last {
                Errno::ENOENT
                | Errno::ENOTDIR
                | Errno::ESTALE
                | Errno::ENODEV
                | Errno::ETIMEDOUT => {}
                Errno::EACCES => denied = Some(last),
                _ => return Err((Step::Exec, last)),
            }
        }
        // A path is in one place, and why it is not there is the answer.
        let nowhere = if self.prepared.is_path { last } else { Errno::ENOENT };
        Err((Step::Exec, denied.unwrap_or(nowhere)))
    }

    fn exec_one(&mut self, index: usize) -> Errno {
        let Prepared { candidates, argv, shell_argv, environment, .. } = &mut *self.prepared;
        let path = &candidates[index];
        let mut errno = execve(path, argv, environment.as_ref());
        for _ in 0..BUSY_TRIES {
            if errno != Errno::ETXTBSY {
                break;
            }
            // SAFETY: reads one live value.
            unsafe { libc::nanosleep(&raw const BUSY_WAIT, ptr::null_mut()) };
            errno = execve(path, argv, environment.as_ref());
        }
        if errno == Errno::ENOEXEC {
            // A script without a first line that names its interpreter: it is the shell's.
            shell_argv.pointers[1] = path.as_ptr();
            errno = execve(c"/bin/sh", shell_argv, environment.as_ref());
        }
        errno
    }
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Returns only where it failed. Without an environment it is our own.
fn execve(path: &CStr, argv: &PointerArray, environment: Option<&PointerArray>) -> Errno {
    let environment = match environment {
        Some(environment) => environment.as_ptr(),
        // SAFETY: it is only read, and nothing of ours ever changes a variable.
        None => unsafe { environ },
    };
    // SAFETY: the path ends in NUL. The arrays end in NULL, and each pointer before it leads to a string that ends in
    // NUL: the array's own, or the candidate that was put into the shell's just now. All of them are live.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment) };
    Errno::last()
}

fn check<T>(step: &'static str, result: nix::Result<T>) -> SetUp<()> {
    result.map(drop).map_err(|errno| (Step::Other(step), errno))
}

/// Raises the nice value. -1 is a nice value as well as a failure, so only errno tells.
fn set_nice(increment: i32) -> SetUp<()> {
    Errno::clear();
    // SAFETY: a plain number.
    let nice = unsafe { libc::nice(increment) };
    if nice == -1 && Errno::last_raw() != 0 {
        return Err((Step::Other("--nice"), Errno::last()));
    }
    Ok(())
}

fn set_limit(limit: &Rlimit) -> nix::Result<()> {
    let value = libc::rlimit64 { rlim_cur: limit.soft, rlim_max: limit.hard };
    let old = ptr::null_mut::<libc::rlimit64>();
    // SAFETY: reads one live value; 0 is the calling process. The system call itself, since the C library
    // gives the resource's number another type than its own constants in some versions.
    let result = unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, limit.resource.number(), &raw const value, old)
    };
    Errno::result(result).map(drop)
}

/// NUL-terminated strings and the NULL-terminated array of pointers to them that exec takes.
#[derive(Debug)]
struct PointerArray {
    /// Owns what the pointers point to.
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl PointerArray {
    fn new(strings: Vec<CString>) -> Self {
        let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(ptr::null());
        Self { _strings: strings, pointers }
    }

    fn as_ptr(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }
}

fn c_string(what: &'static str, text: &OsStr) -> Result<CString, Error> {
    CString::new(text.as_bytes()).map_err(|_| Error::Spawn {
        step: what,
        source: io::Error::new(
            io::ErrorKind::InvalidInput,
            "a NUL byte cannot be passed to a command",
        ),
    })
}

/// The PATH that the command gets.
fn search_path(program: &Program) -> Option<OsString> {
    match &program.environment {
        None => std::env::var_os("PATH"),
        Some(variables) => {
            variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
        }
    }
}

/// Where the command may be, in order. With a slash in it, it is a path; an empty word is nowhere.
fn candidates(command: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, Error> {
    if command.is_empty() {
        return Ok(Vec::new());
    }
    if command.as_bytes().contains(&b'/') {
        return Ok(vec![c_string("argument", command)?]);
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    path.as_bytes()
        .split(|&byte| byte == b':')
        .map(|folder| {
            // An empty entry is the folder that the command starts in.
            let mut candidate = folder.to_vec();
            if !candidate.is_empty() && !candidate.ends_with(b"/") {
                candidate.push(b'/');
            }
            candidate.extend_from_slice(command.as_bytes());
            c_string("argument", &OsString::from_vec(candidate))
        })
        .collect()
}

fn spawn_error(step: &'static str, errno: Errno) -> Error {
    Error::Spawn { step, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What exec would read from there.
    fn strings(array: &PointerArray) -> Vec<String> {
        let mut found = Vec::new();
        for at in 0.. {
            // SAFETY: there is another pointer, since none was the NULL that ends them.
            let place = unsafe { array.as_ptr().add(at) };
            // SAFETY: as above.
            let string = unsafe { *place };
            if string.is_null() {
                break;
            }
            // SAFETY: it is one of the array's own, which end in NUL.
            let string = unsafe { CStr::from_ptr(string) };
            found.push(string.to_str().expect("it is UTF-8").to_owned());
        }
        found
    }

    #[test]
    fn what_was_prepared_is_there_to_be_read_wherever_it_was_moved_to() {
        let array = |words: &[&str]| {
            let strings = words.iter().map(|word| c_string("argument", OsStr::new(word)));
            PointerArray::new(strings.collect::<Result<_, _>>().expect("no NUL in it"))
        };
        let arrays = [array(&["ls", "", "-l ü"]), array(&[]), array(&["A=1"])];
        let mut arrays: Vec<PointerArray> = arrays.into_iter().rev().collect();
        assert_eq!(strings(&arrays[0]), ["A=1"]);
        assert_eq!(strings(&arrays[1]), [""; 0]);
        assert_eq!(strings(&arrays[2]), ["ls", "", "-l ü"]);
        let candidate = c"/bin/ls".to_owned();
        arrays[2].pointers[1] = candidate.as_ptr();
        assert_eq!(strings(&arrays[2]), ["ls", "/bin/ls", "-l ü"]);
    }

    fn paths(command: &str, path: Option<&str>) -> Vec<String> {
        let found = candidates(OsStr::new(command), path.map(OsStr::new)).expect("no NUL in it");
        found.into_iter().map(|path| path.into_string().expect("it is UTF-8")).collect()
    }

    #[test]
    fn a_command_is_looked_for_in_every_folder_of_the_path() {
        assert_eq!(paths("ls", Some("/a:/b/")), ["/a/ls", "/b/ls"]);
        assert_eq!(paths("ls", Some("/a::/b")), ["/a/ls", "ls", "/b/ls"]);
        assert_eq!(paths("ls", None), ["/bin/ls", "/usr/bin/ls"]);
    }

    #[test]
    fn a_command_with_a_slash_is_a_path_and_an_empty_one_is_nowhere() {
        assert_eq!(paths("./ls", Some("/a")), ["./ls"]);
        assert!(paths("", Some("/a")).is_empty());
    }
}
