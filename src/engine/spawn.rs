//! Starts the command: its pipes, its standard input, its process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use nix::fcntl::OFlag;

use crate::engine::console::Console;
use crate::model::error::{Error, reason};
use crate::model::signal::Signal;
use crate::model::spec::{Program, Spec, Stdin, Streams};
use crate::model::wall_clock::WallClock;
use crate::sys::child_setup::{Prepared, StandardStreams};
use crate::sys::descriptors;

/// A command that was started.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) pid: i32,
    /// The reading ends, in the order of the streams; only one where they are merged. Of a terminal, our side.
    pub(super) pipes: Vec<Arc<OwnedFd>>,
    /// When it was started; nothing of it happened before.
    pub(super) start: Instant,
    /// The same on the wall's clock.
    pub(super) clock: WallClock,
    /// What is to be typed into its terminal, where that is not our standard input.
    pub(super) typed: Option<File>,
}

/// Starts the command on the calling thread, which has to live as long as the run.
pub(super) fn spawn(
    program: &Program,
    spec: &Spec,
    stdin: Option<File>,
    console: &Console,
    to_reset: &[Signal],
) -> Result<Command, Error> {
    let mut prepared = Prepared::new(program, spec)?;
    let session = console.session();
    if let Some(ptys) = console.ptys()
        && let Some(streams) = ptys.streams(stdin.as_ref())
    {
        let (start, clock) = (Instant::now(), WallClock(Timestamp::now()));
        let pid = prepared.start(session, streams, to_reset)?;
        let mut typed = None;
        if ptys.is_typed_to() {
            typed = stdin;
        } else {
            // Where it cannot be let go, whoever writes to it does not learn that the command reads no more.
            let _ = descriptors::release_stdin();
        }
        return Ok(Command { pid, pipes: ptys.masters().to_vec(), start, clock, typed });
    }
    let (read, write) = pipe()?;
    let mut pipes = vec![Arc::new(read)];
    let stderr = match spec.streams {
        Streams::Merged => None,
        Streams::Separate => {
            let (read, write) = pipe()?;
            pipes.push(Arc::new(read));
            Some(write)
        }
    };
    let streams = StandardStreams {
        stdin: stdin.as_ref().map(AsRawFd::as_raw_fd),
        stdout: write.as_raw_fd(),
        stderr: stderr.as_ref().unwrap_or(&write).as_raw_fd(),
    };
    let (start, clock) = (Instant::now(), WallClock(Timestamp::now()));
    let pid = prepared.start(session, streams, to_reset)?;
    // The command has it now, or another. Were it held here too, whoever writes to it would not learn that
    // the command reads no more. Where it cannot be let go that is all that is lost.
    let _ = descriptors::release_stdin();
    Ok(Command { pid, pipes, start, clock, typed: None })
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC)
        .map_err(|errno| Error::Spawn { step: "pipe", source: io::Error::from(errno) })
}

/// Opens what the command is to read; `None` is what we have ourselves.
///
/// With [`Stdin::Open`] it is a pipe, and its writing end comes with it.
pub(super) fn open_stdin(stdin: &Stdin) -> Result<(Option<File>, Option<OwnedFd>), Error> {
    let path = match stdin {
        Stdin::Inherit => return Ok((None, None)),
        Stdin::Open => {
            let (read, write) = pipe()?;
            return Ok((Some(read.into()), Some(write)));
        }
        Stdin::Null => Path::new("/dev/null"),
        Stdin::File(path) => path,
    };
    let failed =
        |why: String| Error::File { option: "--stdin", path: path.as_os_str().to_owned(), why };
    // A terminal that is read from is not to become ours.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY).open(path);
    let file = opened.map_err(|error| failed(reason(&error)))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(failed("it is a directory".to_owned()));
    }
    Ok((Some(file), None))
}
