//! Plays the children in the tests: a program that does exactly what its arguments say, step by step.
//!
//! It must not decide anything itself, and it has no Rust start-up: `main` is C's, so that it finds the
//! signals, the mask and the descriptors as any C program would, and SIGPIPE ends it. Where something fails
//! it says so on standard error and exits with 99.
//!
//! A step is `VERB` or `VERB:ARGUMENTS`; `{ STEPS }` is a block. STREAM is `stdout`, `stderr` or a number, SIG a
//! name without `SIG` or a number, SIZE a number of bytes with `K` or `M`, TEXT may hold
//! `\n \r \t \0 \s` (a space) `\\ \xHH`, and `%i`: how often the innermost loop went round before.
//! After the last step it exits with 0.
//!
//! | output | |
//! |---|---|
//! | `say:TEXT`, `err:TEXT` | a line to standard output, to standard error; one write |
//! | `print:STREAM:TEXT` | the text alone; one write |
//! | `lines:STREAM:N` | the lines `0000000 some text on the line`, … in writes of 64 KiB, cut anywhere |
//! | `fill:STREAM:SIZE:TEXT` | the text again and again, SIZE bytes in all |
//! | `pattern:STREAM:SIZE` | byte number I is I modulo 251 |
//! | `flood:STREAM` | `y` lines without end |
//! | `args WORD…` | the other words as they came, a line each, escaped as in Rust |
//! | `cat` | standard input to standard output |
//! | `read-line` | reads a line, byte by byte, and says `read LINE` |
//!
//! | order | |
//! |---|---|
//! | `repeat:N { … }`, `forever { … }` | loops |
//! | `sleep:MS`, `sleep` | for so long (signals do not shorten it), for ever |
//! | `wait-file:PATH` | until the file is there |
//! | `touch:PATH`, `pid-file:PATH` | makes an empty file; one with this process's id, whole at once |
//! | `write-file:PATH:SIZE` | writes so many bytes to a file, 1 KiB a write |
//! | `exit:N` | ends |
//! | `exec WORD…` | becomes that program; takes all words to the end of its block |
//!
//! | processes and signals | |
//! |---|---|
//! | `fork { … }` | a child in the group; after its block it exits with 0 |
//! | `reap` | waits for all children; `reap-exit` then exits with the last one's status |
//! | `setsid`, `setpgid` | a session, a group of its own |
//! | `hop:N:MS` | N times: forks, the parent exits, the child makes a session and waits MS |
//! | `ignore:SIG`, `default:SIG`, `block:SIG` | |
//! | `trap:SIG`, `trap:SIG:N` | on each SIG says its name; then exits with N |
//! | `raise:SIG`, `group:SIG` | to this process, to its group |
//!
//! | terminals | |
//! |---|---|
//! | `take-terminal` | makes a group of its own and gives it the terminal on standard input |
//! | `raw`, `no-echo` | changes the modes of the terminal on standard input |
//!
//! | descriptors and resources | |
//! |---|---|
//! | `close:STREAM`, `close-above:N`, `dup:FROM:TO`, `open:PATH:STREAM` | |
//! | `nonblock:STREAM` | sets `O_NONBLOCK` |
//! | `resident:SIZE`, `shared:SIZE` | touches so much memory of its own; so much that children share |
//! | `burn:MS`, `burn` | processor time |
//! | `limit:NAME:SOFT:HARD` | a resource limit of its own; NAME as in `RLIMIT_NAME` |
//! | `user:ID` | gives up root for this user and group |
//!
//! `report:WHAT` says one line: `pid`, `ppid`, `mask`, `ignored` (names or numbers of signals), `descriptors`,
//! `session` (`leader` or `member`, of its session and of its group), `terminal` (`none` or `yes`), `directory`,
//! `umask`, `nice`, `no-new-privs`, `environment` (the names), `env:NAME`, `limit:NAME`, `zombies` (how many
//! there are on the system), `terminals` (which of 0, 1 and 2 are), `size:STREAM` (columns and rows of a terminal),
//! `modes` (of the terminal on standard input: `canonical` or `raw`, and `echo`).
#![no_main]
#![allow(
    unsafe_code,
    reason = "forks, sets handlers and moves descriptors, which has no safe call"
)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, killpg, signal, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::sys::termios;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{self, ForkResult, Gid, Pid, Uid};

/// One step: its verb, what stands after the first colon, and its block or, for `exec`, its words.
struct Step {
    verb: String,
    rest: Vec<u8>,
    block: Vec<Step>,
    words: Vec<Vec<u8>>,
}

#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let count = usize::try_from(argc).expect("a number of arguments is not negative");
    // SAFETY: argv holds argc pointers that live as long as the process.
    let words = unsafe { std::slice::from_raw_parts(argv, count) };
    // SAFETY: each leads to a string that does so too.
    let words = words.iter().map(|&word| unsafe { CStr::from_ptr(word) }.to_bytes());
    let mut words = words.skip(1);
    perform(&parse(&mut words), 0);
    0
}

/// The steps up to the end of the block that the words are in.
fn parse<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    while let Some(word) = words.next() {
        match word {
            b"{" => match steps.last_mut() {
                Some(step) => step.block = parse(words),
                None => fail("a block", "belongs to no step"),
            },
            b"}" => break,
            _ => {
                let colon = word.iter().position(|&byte| byte == b':');
                let (verb, rest) = word.split_at(colon.unwrap_or(word.len()));
                let verb = String::from_utf8_lossy(verb).into_owned();
                let takes_all = verb == "exec" || verb == "args";
                let taken = if takes_all { rest_of_block(words) } else { Vec::new() };
                let rest = rest.get(1..).unwrap_or_default().to_vec();
                steps.push(Step { verb, rest, block: Vec::new(), words: taken });
                if takes_all {
                    break;
                }
            }
        }
    }
    steps
}

fn rest_of_block<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut depth = 0;
    words
        .take_while(|&word| {
            depth += i32::from(word == b"{") - i32::from(word == b"}");
            depth >= 0
        })
        .map(<[u8]>::to_vec)
        .collect()
}

fn perform(steps: &[Step], turn: u64) {
    for step in steps {
        let known = output(step, turn)
            || order(step)
            || processes(step)
            || signals(step)
            || terminals(step)
            || descriptors(step)
            || resources(step);
        if !known {
            fail(&step.verb, "there is no such step");
        }
    }
}

impl Step {
    /// The part of the arguments with this number, as text; empty where there is none.
    fn part(&self, number: usize) -> String {
        let part = self.rest.split(|&byte| byte == b':').nth(number).unwrap_or_default();
        String::from_utf8_lossy(part).into_owned()
    }

    /// What stands after so many colons, to the end.
    fn after(&self, colons: usize) -> &[u8] {
        let mut rest = &self.rest[..];
        for _ in 0..colons {
            let colon = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
            rest = rest.get(colon + 1..).unwrap_or_default();
        }
        rest
    }

    fn number(&self, part: usize) -> u64 {
        self.part(part).parse().unwrap_or_else(|error| fail(&self.verb, error))
    }

    fn size(&self, part: usize) -> usize {
        let text = self.part(part);
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M') => (&text[..text.len() - 1], 1 << 20),
            _ => (&text[..], 1),
        };
        digits.parse::<usize>().unwrap_or_else(|error| fail(&self.verb, error)) * factor
    }

    fn stream(&self, part: usize) -> RawFd {
        match self.part(part).as_str() {
            "stdin" => 0,
            "stdout" => 1,
            "stderr" => 2,
            number => number.parse().unwrap_or_else(|error| fail(&self.verb, error)),
        }
    }

    fn signal(&self) -> Signal {
        let number = self.signal_number();
        Signal::try_from(number).unwrap_or_else(|error| fail(&self.verb, error))
    }

    fn signal_number(&self) -> c_int {
        let name = self.part(0);
        name.parse().unwrap_or_else(|_| {
            let known = format!("SIG{name}").parse::<Signal>();
            known.unwrap_or_else(|error| fail(&self.verb, error)) as c_int
        })
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.rest))
    }

    /// The result of a call, or the end of this process.
    fn done<T>(&self, result: Result<T, impl Display>) -> T {
        result.unwrap_or_else(|error| fail(&self.verb, error))
    }
}

fn fail(what: &str, why: impl Display) -> ! {
    put(2, format!("puppet: {what}: {why}\n").as_bytes());
    process::exit(99);
}

fn output(step: &Step, turn: u64) -> bool {
    match step.verb.as_str() {
        "say" => put(1, &line(&step.rest, turn)),
        "err" => put(2, &line(&step.rest, turn)),
        "print" => put(step.stream(0), &text(step.after(1), turn)),
        "lines" => {
            let lines = (0..step.number(1)).map(|i| format!("{i:07} some text on the line\n"));
            let lines = lines.collect::<String>().into_bytes();
            again(step.stream(0), &lines, lines.len());
        }
        "fill" => again(step.stream(0), &text(step.after(2), turn), step.size(1)),
        "pattern" => again(step.stream(0), &(0..=250).collect::<Vec<_>>(), step.size(1)),
        "flood" => again(step.stream(0), b"y\n", usize::MAX),
        "args" => {
            for word in &step.words {
                put(1, format!("{}\n", word.escape_ascii()).as_bytes());
            }
        }
        "cat" => cat(),
        "read-line" => {
            let mut said = b"read ".to_vec();
            let mut byte = [0];
            while said.last() != Some(&b'\n')
                && step.done(unistd::read(descriptor(0), &mut byte)) == 1
            {
                said.push(byte[0]);
            }
            put(1, &said);
        }
        "report" => put(1, format!("{}\n", report(step)).as_bytes()),
        _ => return false,
    }
    true
}

fn order(step: &Step) -> bool {
    match step.verb.as_str() {
        "repeat" => (0..step.number(0)).for_each(|turn| perform(&step.block, turn)),
        "forever" => (0..=u64::MAX).for_each(|turn| perform(&step.block, turn)),
        "sleep" if step.rest.is_empty() => loop {
            unistd::pause();
        },
        "sleep" => thread::sleep(Duration::from_millis(step.number(0))),
        "wait-file" => {
            while !step.path().exists() {
                thread::sleep(Duration::from_millis(2));
            }
        }
        "touch" => drop(step.done(File::create(step.path()))),
        "pid-file" => {
            let beside = step.path().with_extension("new");
            step.done(fs::write(&beside, process::id().to_string()));
            step.done(fs::rename(beside, step.path()));
        }
        "write-file" => {
            let mut file = step.done(File::create(step.part(0)));
            for _ in 0..step.size(1) / 1024 {
                step.done(file.write_all(&[b'x'; 1024]));
            }
        }
        "exit" => leave(c_int::try_from(step.number(0)).unwrap_or(99)),
        "exec" => {
            let words: Vec<CString> =
                step.words.iter().map(|word| step.done(CString::new(&word[..]))).collect();
            let Some(program) = words.first() else { fail("exec", "nothing to become") };
            let Err(error) = unistd::execvp(program, &words);
            fail("exec", error);
        }
        _ => return false,
    }
    true
}

fn processes(step: &Step) -> bool {
    match step.verb.as_str() {
        "fork" => {
            if child() {
                perform(&step.block, 0);
                leave(0);
            }
        }
        "reap" => drop(reap()),
        "reap-exit" => leave(reap()),
        "setsid" => drop(step.done(unistd::setsid())),
        "setpgid" => step.done(unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))),
        "hop" => {
            for _ in 0..step.number(0) {
                if !child() {
                    leave(0);
                }
                step.done(unistd::setsid());
                thread::sleep(Duration::from_millis(step.number(1)));
            }
        }
        _ => return false,
    }
    true
}

fn signals(step: &Step) -> bool {
    match step.verb.as_str() {
        "ignore" => dispose(step, SigHandler::SigIgn),
        "default" => dispose(step, SigHandler::SigDfl),
        "trap" => {
            if !step.part(1).is_empty() {
                let code = i32::try_from(step.number(1)).unwrap_or(99);
                EXIT_CODES[step.signal() as usize].store(code, Ordering::Relaxed);
            }
            dispose(step, SigHandler::Handler(tell));
        }
        "block" => {
            let set = SigSet::from(step.signal());
            step.done(sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None));
        }
        "raise" => {
            // SAFETY: raise takes any number.
            step.done(Errno::result(unsafe { libc::raise(step.signal_number()) }));
        }
        "group" => step.done(killpg(unistd::getpgrp(), step.signal())),
        _ => return false,
    }
    true
}

fn terminals(step: &Step) -> bool {
    match step.verb.as_str() {
        "take-terminal" => {
            let (this, keep) = (Pid::from_raw(0), SigSet::from(Signal::SIGTTOU));
            step.done(unistd::setpgid(this, this));
            step.done(sigprocmask(SigmaskHow::SIG_BLOCK, Some(&keep), None));
            step.done(unistd::tcsetpgrp(descriptor(0), unistd::getpid()));
            step.done(sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&keep), None));
        }
        "raw" => change_modes(step, termios::cfmakeraw),
        "no-echo" => {
            change_modes(step, |modes| modes.local_flags.remove(termios::LocalFlags::ECHO));
        }
        _ => return false,
    }
    true
}

fn change_modes(step: &Step, change: impl FnOnce(&mut termios::Termios)) {
    let mut modes = step.done(termios::tcgetattr(descriptor(0)));
    change(&mut modes);
    step.done(termios::tcsetattr(descriptor(0), termios::SetArg::TCSANOW, &modes));
}

fn descriptors(step: &Step) -> bool {
    match step.verb.as_str() {
        "close" => step.done(unistd::close(step.stream(0))),
        "close-above" => {
            let first = step.stream(0) + 1;
            // SAFETY: close_range takes any numbers; nothing here owns what is closed.
            step.done(Errno::result(unsafe {
                libc::syscall(libc::SYS_close_range, first, c_int::MAX, 0)
            }));
        }
        "dup" => {
            // SAFETY: dup2 takes any numbers; nothing here owns the descriptor that is replaced.
            step.done(Errno::result(unsafe { libc::dup2(step.stream(0), step.stream(1)) }));
        }
        "open" => {
            let flags = OFlag::O_RDWR | OFlag::O_CREAT;
            let file =
                step.done(open(step.part(0).as_str(), flags, Mode::from_bits_truncate(0o644)));
            // SAFETY: as for `dup`.
            step.done(Errno::result(unsafe { libc::dup2(raw(&file), step.stream(1)) }));
        }
        "nonblock" => {
            let stream = descriptor(step.stream(0));
            step.done(fcntl(stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)));
        }
        _ => return false,
    }
    true
}

fn resources(step: &Step) -> bool {
    match step.verb.as_str() {
        "resident" => drop(vec![1_u8; step.size(0)].leak()),
        "shared" => share(step),
        "burn" => {
            let enough = if step.rest.is_empty() { u64::MAX } else { step.number(0) };
            while processor_ms() < enough {}
        }
        "limit" => {
            let limit = |part| match step.part(part).as_str() {
                "unlimited" => libc::RLIM_INFINITY,
                _ => step.number(part),
            };
            step.done(setrlimit(resource(&step.part(0)), limit(1), limit(2)));
        }
        "user" => {
            let id =
                libc::uid_t::try_from(step.number(0)).unwrap_or_else(|error| fail("user", error));
            step.done(unistd::setgroups(&[]));
            step.done(unistd::setgid(Gid::from_raw(id)));
            step.done(unistd::setuid(Uid::from_raw(id)));
        }
        _ => return false,
    }
    true
}

fn report(step: &Step) -> String {
    let own = |key: &str| status_line("/proc/self/status", key);
    let leader = |is: bool| if is { "leader" } else { "member" };
    let me = unistd::getpid();
    match step.part(0).as_str() {
        "pid" => me.to_string(),
        "ppid" => unistd::getppid().to_string(),
        "mask" => signal_names(&own("SigBlk")),
        "ignored" => signal_names(&own("SigIgn")),
        "descriptors" => {
            let is_open = |fd: &RawFd| fcntl(descriptor(*fd), FcntlArg::F_GETFD).is_ok();
            (0..1024).filter(is_open).map(|fd| fd.to_string()).collect::<Vec<_>>().join(" ")
        }
        "session" => {
            let session = step.done(unistd::getsid(None));
            format!("{} {}", leader(session == me), leader(unistd::getpgrp() == me))
        }
        "terminal" => match open("/dev/tty", OFlag::O_RDWR, Mode::empty()) {
            Ok(_) => "yes".to_owned(),
            Err(Errno::ENXIO) => "none".to_owned(),
            Err(error) => error.to_string(),
        },
        "directory" => step.done(unistd::getcwd()).display().to_string(),
        "umask" => format!("{:03o}", umask(Mode::empty()).bits()),
        // SAFETY: getpriority takes any numbers.
        "nice" => unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }.to_string(),
        "no-new-privs" => own("NoNewPrivs"),
        "environment" => {
            let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
            names.collect::<Vec<_>>().join(" ")
        }
        "env" => match std::env::var_os(step.part(1)) {
            Some(value) => value.as_bytes().escape_ascii().to_string(),
            None => "is not set".to_owned(),
        },
        "limit" => {
            let (soft, hard) = step.done(getrlimit(resource(&step.part(1))));
            let shown = |limit: u64| {
                if limit == libc::RLIM_INFINITY {
                    "unlimited".to_owned()
                } else {
                    limit.to_string()
                }
            };
            format!("{} {}", shown(soft), shown(hard))
        }
        "terminals" => {
            let is_terminal = |fd: &RawFd| unistd::isatty(descriptor(*fd)).unwrap_or(false);
            let found: Vec<String> = (0..=2).filter(is_terminal).map(|fd| fd.to_string()).collect();
            if found.is_empty() { "none".to_owned() } else { found.join(" ") }
        }
        "size" => {
            let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
            let stream =
                if step.part(1).is_empty() { 0 } else { step.done(step.part(1).parse::<RawFd>()) };
            // SAFETY: writes one winsize, to a live one.
            step.done(Errno::result(unsafe {
                libc::ioctl(stream, libc::TIOCGWINSZ, &raw mut size)
            }));
            format!("{} {}", size.ws_col, size.ws_row)
        }
        "modes" => {
            let modes = step.done(termios::tcgetattr(descriptor(0))).local_flags;
            let canonical = modes.contains(termios::LocalFlags::ICANON);
            let echo = modes.contains(termios::LocalFlags::ECHO);
            format!(
                "{}{}",
                if canonical { "canonical" } else { "raw" },
                if echo { " echo" } else { "" }
            )
        }
        "zombies" => {
            let entries = step.done(fs::read_dir("/proc")).flatten();
            let dead = entries
                .filter(|entry| status_line(entry.path().join("status"), "State").starts_with('Z'));
            dead.count().to_string()
        }
        other => fail("report", other),
    }
}

/// A value in a `status` file of /proc; empty where there is none.
fn status_line(path: impl AsRef<Path>, key: &str) -> String {
    let status = fs::read_to_string(path).unwrap_or_default();
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| *found == key).map(|(_, value)| value.trim().to_owned()).collect()
}

fn signal_names(mask: &str) -> String {
    let mask = u64::from_str_radix(mask, 16).unwrap_or_else(|error| fail("signals", error));
    let name = |number: c_int| match Signal::try_from(number) {
        Ok(signal) => signal.as_str()[3..].to_owned(),
        Err(_) => number.to_string(),
    };
    let names: Vec<String> =
        (1..=64).filter(|number| mask >> (number - 1) & 1 == 1).map(name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

fn resource(name: &str) -> Resource {
    match name {
        "as" => Resource::RLIMIT_AS,
        "core" => Resource::RLIMIT_CORE,
        "cpu" => Resource::RLIMIT_CPU,
        "data" => Resource::RLIMIT_DATA,
        "fsize" => Resource::RLIMIT_FSIZE,
        "locks" => Resource::RLIMIT_LOCKS,
        "memlock" => Resource::RLIMIT_MEMLOCK,
        "msgqueue" => Resource::RLIMIT_MSGQUEUE,
        "nice" => Resource::RLIMIT_NICE,
        "nofile" => Resource::RLIMIT_NOFILE,
        "nproc" => Resource::RLIMIT_NPROC,
        "rss" => Resource::RLIMIT_RSS,
        "rtprio" => Resource::RLIMIT_RTPRIO,
        "rttime" => Resource::RLIMIT_RTTIME,
        "sigpending" => Resource::RLIMIT_SIGPENDING,
        "stack" => Resource::RLIMIT_STACK,
        _ => fail("limit", name),
    }
}

fn descriptor(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the numbers come from the test, and a closed one makes the call fail, which is reported.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn raw(file: &impl std::os::fd::AsRawFd) -> RawFd {
    file.as_raw_fd()
}

/// Writes all of it, as one write where the kernel takes it; waits where the descriptor does not block.
fn put(fd: RawFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match unistd::write(descriptor(fd), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut wait = [PollFd::new(descriptor(fd), PollFlags::POLLOUT)];
                // Whatever it returns, the write is tried again.
                let _ = poll(&mut wait, PollTimeout::NONE);
            }
            Err(_) if fd == 2 => process::exit(98),
            Err(error) => fail("write", error),
        }
    }
}

/// Writes these bytes again and again until it wrote so many, 64 KiB a write.
fn again(fd: RawFd, bytes: &[u8], mut left: usize) {
    let block = bytes.repeat((64 << 10) / bytes.len().max(1) + 1);
    while left > 0 {
        for piece in block.chunks(64 << 10) {
            let piece = &piece[..piece.len().min(left)];
            put(fd, piece);
            left -= piece.len();
        }
    }
}

fn cat() {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match unistd::read(descriptor(0), &mut buffer) {
            Ok(0) => return,
            Ok(length) => put(1, &buffer[..length]),
            Err(Errno::EINTR) => {}
            Err(error) => fail("read", error),
        }
    }
}

fn line(escaped: &[u8], turn: u64) -> Vec<u8> {
    let mut line = text(escaped, turn);
    line.push(b'\n');
    line
}

fn text(escaped: &[u8], turn: u64) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = escaped;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                let digits = String::from_utf8_lossy(&digits);
                plain.push(
                    u8::from_str_radix(&digits, 16).unwrap_or_else(|error| fail("\\x", error)),
                );
                rest = &after[3..];
            }
            (b'\\', [letter, ..]) => {
                plain.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'0' => b'\0',
                    b's' => b' ',
                    other => *other,
                });
                rest = &after[1..];
            }
            (b'%', [b'i', ..]) => {
                plain.extend(turn.to_string().bytes());
                rest = &after[1..];
            }
            _ => plain.push(*byte),
        }
    }
    plain
}

/// Whether this is the child of a fork.
fn child() -> bool {
    // SAFETY: this process has one thread, so its copy may do all that it may.
    match unsafe { unistd::fork() } {
        Ok(ForkResult::Child) => true,
        Ok(ForkResult::Parent { .. }) => false,
        Err(error) => fail("fork", error),
    }
}

/// Waits for all children and returns the last one's exit status, as a shell tells it.
fn reap() -> c_int {
    let mut last = 0;
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(_, code)) => last = code,
            Ok(WaitStatus::Signaled(_, signal, _)) => last = 128 + signal as c_int,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return last,
        }
    }
}

fn leave(code: c_int) -> ! {
    // SAFETY: nothing is buffered, so nothing is lost without the work of exit.
    unsafe { libc::_exit(code) }
}

/// What to exit with after a signal; -1 is not to.
static EXIT_CODES: [AtomicI32; 65] = [const { AtomicI32::new(-1) }; 65];

fn dispose(step: &Step, handler: SigHandler) {
    // SAFETY: the one handler calls nothing but write and _exit.
    step.done(unsafe { signal(step.signal(), handler) });
}

extern "C" fn tell(number: c_int) {
    let name = Signal::try_from(number).map_or("SIG?", Signal::as_str).as_bytes();
    let mut line = [b'\n'; 16];
    line[..name.len() - 3].copy_from_slice(&name[3..]);
    put(1, &line[..name.len() - 2]);
    let code = EXIT_CODES[number as usize].load(Ordering::Relaxed);
    if code >= 0 {
        leave(code);
    }
}

fn share(step: &Step) {
    let size = step.size(0);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever the kernel puts it.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        fail("shared", Errno::last());
    }
    // SAFETY: the mapping has this size, and nothing else refers to it.
    unsafe { start.cast::<u8>().write_bytes(1, size) };
}

fn processor_ms() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap_or_else(|error| fail("burn", error));
    let (user, system) = (usage.user_time(), usage.system_time());
    let ms = (user.tv_sec() + system.tv_sec()) * 1000 + (user.tv_usec() + system.tv_usec()) / 1000;
    u64::try_from(ms).unwrap_or(0)
}
