//! A descriptor that somebody else reads, and what can become of it: the one place where a broken pipe, a full
//! disk, a non-blocking pipe and a reader that takes no more are told apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::model::error::Error;
use crate::model::event::Event;
use crate::model::signal::Signal;
use crate::sink::write_json_line;
use crate::sys::descriptors::PipeGrowth;
use crate::sys::terminal;

/// Bytes held back to be written together: as many as an enlarged pipe holds. Too small costs a system call, and
/// wakes the reader, more often (a quarter of this costs a twentieth of the throughput); too big delays nothing,
/// since everything is written when nothing more is waiting, but takes memory and spills the cache.
const BUFFER_BYTES: usize = 256 * 1024;

/// What a pipe that has room takes without blocking: `PIPE_BUF`.
const UNBLOCKED_BYTES: usize = 4096;

/// How long a reader is waited for in all once the time of all readers is up. Too short, and one that reads all the
/// time loses the rest of a result, since it needs its turns of the processor; too long, and the end of a run whose
/// reader reads nothing comes late.
const LAST_TURNS: Duration = Duration::from_millis(100);

/// Why a destination is of no more use.
#[derive(Debug)]
pub enum Lost {
    /// Its consumer went away.
    Gone,
    /// It cannot be written.
    Failed(Error),
    /// Its reader took no more in the time it had.
    Abandoned,
}

/// Whether the reader's time is up; ended by the supervisor, which then interrupts a write that blocks.
#[derive(Debug, Default)]
pub struct Patience {
    is_over: AtomicBool,
    /// The number of the signal that ended it, or 0.
    ended_by: AtomicI32,
}

impl Patience {
    /// The time is up, because of this signal if it is one.
    pub fn end(&self, signal: Option<Signal>) {
        self.ended_by.store(signal.map_or(0, Signal::number), Ordering::Relaxed);
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The signal that ended it.
    #[must_use]
    pub fn ended_by(&self) -> Option<Signal> {
        Signal::from_number(self.ended_by.load(Ordering::Relaxed))
    }
}

/// What a destination writes to.
#[derive(Debug)]
pub enum Outlet {
    /// A descriptor that stays open as long as the process lives.
    Standard(BorrowedFd<'static>),
    /// One that was opened for it.
    Opened(OwnedFd),
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard(fd) => *fd,
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

/// A descriptor to write to, with a buffer in front of it.
#[derive(Debug)]
pub struct Destination {
    outlet: Outlet,
    name: String,
    /// Made when it is first needed. Only the first `filled` bytes are to be written.
    buffer: Vec<u8>,
    filled: usize,
    patience: Arc<Patience>,
    /// What is left of [`LAST_TURNS`].
    last_turns: Duration,
    growth: PipeGrowth,
    /// Told once; what is written after that is let fall.
    is_lost: bool,
    flushes: u64,
    written_bytes: u64,
    /// The last byte that was written ended a line, or nothing was written yet.
    at_line_start: bool,
    /// How many bytes of output each record carries whose end is in the buffer.
    carried_bytes: Vec<u64>,
    /// Bytes of output in the records that were written to their ends.
    delivered_bytes: u64,
}

impl Destination {
    /// A destination that errors call `name`.
    #[must_use]
    pub fn new(outlet: Outlet, name: impl Into<String>, patience: &Arc<Patience>) -> Self {
        Self {
            outlet,
            name: name.into(),
            buffer: Vec::new(),
            filled: 0,
            patience: Arc::clone(patience),
            last_turns: LAST_TURNS,
            growth: PipeGrowth::default(),
            is_lost: false,
            flushes: 0,
            written_bytes: 0,
            at_line_start: true,
            carried_bytes: Vec::new(),
            delivered_bytes: 0,
        }
    }

    /// The free part of the buffer, at least so many bytes, to be filled from its beginning;
    /// [`Destination::fill`] then says how far.
    ///
    /// # Errors
    ///
    /// Where the buffer had to be written out and the destination is lost.
    pub fn room(&mut self, at_least: usize) -> Result<&mut [u8], Lost> {
        if self.is_lost {
            // Whatever is put into it is let fall.
            self.filled = 0;
        }
        if self.buffer.len() - self.filled < at_least {
            self.flush()?;
            if self.buffer.len() < at_least {
                // It is empty, and what a short run does not touch of a new one costs nothing.
                self.buffer = vec![0; at_least.max(BUFFER_BYTES)];
            }
        }
        Ok(&mut self.buffer[self.filled..])
    }

    /// Says that so many bytes of the free part are to be written.
    pub fn fill(&mut self, count: usize) {
        self.filled += count;
        debug_assert!(self.filled <= self.buffer.len());
    }

    /// Puts bytes into the buffer, however many.
    ///
    /// # Errors
    ///
    /// As [`Destination::room`].
    pub fn put(&mut self, mut bytes: &[u8]) -> Result<(), Lost> {
        while !bytes.is_empty() {
            let room = self.room(1)?;
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.fill(count);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Makes room for a record of at most so many bytes, so that it is written in one piece. A record that may
    /// be larger than the buffer begins an empty one.
    ///
    /// # Errors
    ///
    /// As [`Destination::room`].
    pub fn begin_record(&mut self, at_most: usize) -> Result<(), Lost> {
        self.room(at_most.min(BUFFER_BYTES)).map(|_| ())
    }

    /// Says that a record, one line, was put to its end, and how many bytes of output it carries.
    ///
    /// Where this is said of one line it has to be said of each: records are told by their lines' ends.
    pub fn end_record(&mut self, carried_bytes: u64) {
        self.carried_bytes.push(carried_bytes);
    }

    /// Puts a record, one line, that is given in parts.
    ///
    /// # Errors
    ///
    /// As [`Destination::room`].
    pub fn put_record(&mut self, parts: &[&[u8]], carried_bytes: u64) -> Result<(), Lost> {
        self.begin_record(parts.iter().map(|part| part.len()).sum())?;
        for part in parts {
            self.put(part)?;
        }
        self.end_record(carried_bytes);
        Ok(())
    }

    /// Bytes of output in the records that were written to their ends: half a record is of no use to a reader.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// What is in the buffer, not written.
    #[must_use]
    pub fn unwritten(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Whether what was written so far ended with a line's end.
    #[must_use]
    pub fn is_at_line_start(&self) -> bool {
        self.at_line_start
    }

    /// Writes the buffer out. What could not be written stays in it, from the beginning of its line.
    ///
    /// # Errors
    ///
    /// Where the destination is lost.
    pub fn flush(&mut self) -> Result<(), Lost> {
        if self.filled == 0 {
            return Ok(());
        }
        self.flushes += 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let (written, result) = self.write(&buffer[..self.filled]);
        let done = match result {
            Ok(()) => written,
            Err(_) => memchr::memrchr(b'\n', &buffer[..written]).map_or(0, |end| end + 1),
        };
        let records = match result {
            Ok(()) => self.carried_bytes.len(),
            Err(_) => memchr::memchr_iter(b'\n', &buffer[..done]).count(),
        };
        let records = self.carried_bytes.drain(..records.min(self.carried_bytes.len()));
        self.delivered_bytes += records.sum::<u64>();
        buffer.copy_within(done..self.filled, 0);
        self.filled -= done;
        self.buffer = buffer;
        result
    }

    /// Writes bytes past the buffer, which must be empty. Returns how many of them were written, all unless
    /// the destination was lost on the way or before.
    pub fn write(&mut self, bytes: &[u8]) -> (usize, Result<(), Lost>) {
        let mut written = 0;
        while written < bytes.len() && !self.is_lost {
            if let Err(lost) = self.write_some(bytes, &mut written) {
                self.is_lost = true;
                return (written, Err(lost));
            }
        }
        (written, Ok(()))
    }

    /// Bytes that were written, or are in the buffer to be, to what it now writes to.
    #[must_use]
    pub fn passed_bytes(&self) -> u64 {
        self.written_bytes + self.filled as u64
    }

    /// Goes on with something else to write to, which has so many bytes already, and an empty buffer.
    pub fn restart(&mut self, outlet: Outlet, has_bytes: u64) {
        self.outlet = outlet;
        (self.filled, self.written_bytes, self.is_lost) = (0, has_bytes, false);
    }

    /// Lets go of what is in the buffer.
    pub fn let_fall(&mut self) {
        self.filled = 0;
    }

    /// What errors call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How often the buffer was written out.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Whether it is of no more use.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn write_some(&mut self, bytes: &[u8], written: &mut usize) -> Result<(), Lost> {
        let mut rest = &bytes[*written..];
        if self.patience.is_over() {
            // It may be another's fault that the time is up. What this one takes at once it gets, and a little more.
            if !self.gets_room() {
                return Err(Lost::Abandoned);
            }
            rest = &rest[..rest.len().min(UNBLOCKED_BYTES)];
        }
        match nix::unistd::write(&self.outlet, rest) {
            Ok(count) => {
                *written += count;
                self.written_bytes += count as u64;
                self.growth.note(self.outlet.as_fd(), count);
                if let Some(last) = written.checked_sub(1) {
                    self.at_line_start = bytes[last] == b'\n';
                }
            }
            // Perhaps the supervisor's way of saying that the reader's time is up.
            Err(Errno::EINTR) => {}
            // Somebody who shares the descriptor made it non-blocking; that is not ours to change.
            Err(Errno::EAGAIN) => self.wait_for_room(),
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Lost::Gone),
            Err(Errno::EIO) if terminal::is_hung_up(self.outlet.as_fd()) => return Err(Lost::Gone),
            Err(errno) => return Err(Lost::Failed(self.error(errno))),
        }
        Ok(())
    }

    /// Puts one event as a line of NDJSON into the buffer, however long.
    ///
    /// # Errors
    ///
    /// As [`Destination::room`].
    pub fn put_event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        let mut writer = EventWriter { destination: self, lost: None };
        let written = write_json_line(&mut writer, event);
        match writer.lost {
            Some(lost) => Err(lost),
            // An event has only string keys and finite numbers; nothing but the destination can fail.
            None => written.map_err(|error| {
                Lost::Failed(Error::Output { what: self.name.clone(), source: error })
            }),
        }
    }

    /// Whether there is room, or is while this reader may still be waited for.
    fn gets_room(&mut self) -> bool {
        let end = Instant::now() + self.last_turns;
        loop {
            let timeout = PollTimeout::try_from(self.last_turns).unwrap_or(PollTimeout::ZERO);
            let mut fds = [PollFd::new(self.outlet.as_fd(), PollFlags::POLLOUT)];
            let found = poll(&mut fds, timeout);
            self.last_turns = end.saturating_duration_since(Instant::now());
            match found {
                Ok(count) => return count > 0,
                // The supervisor goes on saying so.
                Err(Errno::EINTR) if !self.last_turns.is_zero() => {}
                Err(_) => return false,
            }
        }
    }

    fn wait_for_room(&self) {
        let mut fds = [PollFd::new(self.outlet.as_fd(), PollFlags::POLLOUT)];
        // Whatever it says, the next write tells more.
        let _ = poll(&mut fds, PollTimeout::NONE);
    }

    fn error(&self, errno: Errno) -> Error {
        Error::Output { what: self.name.clone(), source: io::Error::from(errno) }
    }
}

impl AsFd for Destination {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outlet.as_fd()
    }
}

/// A destination as serde's writer takes it; how it was lost is kept beside.
struct EventWriter<'d> {
    destination: &'d mut Destination,
    lost: Option<Lost>,
}

impl io::Write for EventWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.destination.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(lost) => {
                self.lost = Some(lost);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
