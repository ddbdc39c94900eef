//! One run: the command, a peer, and perhaps a reader, connected and started.

use std::io;
use std::process::{Child, Command, Output as ChildOutput, Stdio};
use std::time::{Duration, Instant};

use crate::peer::{Part, Peer};
use crate::play::Play;

/// Where the peer's output goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    /// `/dev/null`.
    Null,
    /// A pipe that this part reads.
    Pipe(Play),
}

/// A process that does not outlive its owner.
#[derive(Debug)]
pub(crate) struct Guarded(Option<Child>);

impl Guarded {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// With the program's name, where it cannot be started.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", command.get_program().display()))
        })?;
        Ok(Self(Some(child)))
    }

    fn id(&self) -> Option<u32> {
        self.0.as_ref().map(Child::id)
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        self.0.as_mut().map_or(Ok(true), |child| Ok(child.try_wait()?.is_some()))
    }

    /// Waits for its end and returns its status and what it wrote, if that goes to us.
    pub(crate) fn end(mut self) -> io::Result<ChildOutput> {
        self.0.take().expect("it ends once").wait_with_output()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Pipeline {
    name: &'static str,
    begin: Instant,
    peer: Guarded,
    /// The command, where it is not the peer's own.
    source: Option<Guarded>,
    reader: Option<Guarded>,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Finished {
    /// From the first start to the last end.
    pub(crate) wall: Duration,
    /// What the reader wrote; empty where there was none.
    pub(crate) told: Vec<u8>,
}

impl Pipeline {
    /// Starts all of it.
    ///
    /// # Errors
    ///
    /// Where a process or a pipe cannot be made.
    pub(crate) fn start(peer: &Peer, source: Play, to: Destination) -> io::Result<Self> {
        let begin = Instant::now();
        let (stdout, reader) = match to {
            Destination::Null => (Stdio::null(), None),
            Destination::Pipe(part) => {
                let (read, write) = io::pipe()?;
                let mut reader = part.command()?;
                reader.stdin(read).stdout(Stdio::piped());
                (write.into(), Some(Guarded::start(reader)?))
            }
        };
        let argv = source.argv()?;
        let mut command = peer.command(&argv);
        command.stdout(stdout);
        let (peer_process, source) = if peer.part == Part::Filter {
            let (read, write) = io::pipe()?;
            command.stdin(read);
            let peer_process = Guarded::start(command)?;
            let mut source = source.command()?;
            source.stdin(Stdio::null()).stdout(write).stderr(Stdio::null());
            (peer_process, Some(Guarded::start(source)?))
        } else {
            (Guarded::start(command)?, None)
        };
        Ok(Self { name: peer.name, begin, peer: peer_process, source, reader })
    }

    /// Waits until everybody has ended.
    ///
    /// # Errors
    ///
    /// Where the peer ends with another status than 0.
    pub(crate) fn finish(self) -> io::Result<Finished> {
        // First what the reader writes to us: nobody may have to wait because nobody takes it.
        let told = match self.reader {
            Some(reader) => reader.end()?.stdout,
            None => Vec::new(),
        };
        let ended = self.peer.end()?;
        if let Some(source) = self.source {
            source.end()?;
        }
        let wall = self.begin.elapsed();
        if !ended.status.success() {
            return Err(io::Error::other(format!("{}: {}", self.name, ended.status)));
        }
        Ok(Finished { wall, told })
    }

    /// The process of the peer.
    pub(crate) fn peer_id(&self) -> Option<u32> {
        self.peer.id()
    }

    /// How long it has been under way.
    pub(crate) fn age(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Whether the peer, or the reader before it, has ended.
    ///
    /// # Errors
    ///
    /// What `wait(2)` says.
    pub(crate) fn is_over(&mut self) -> io::Result<bool> {
        let reader_ended = self.reader.as_mut().map_or(Ok(false), Guarded::has_ended)?;
        Ok(reader_ended || self.peer.has_ended()?)
    }
}
