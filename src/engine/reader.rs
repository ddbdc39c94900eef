//! The reader of one stream: what one read gives goes to the pump as one message. It cuts no lines and
//! decides nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::engine::channel::{Blocks, Message, Notice, ReaderState, Shared, ToPump, ToSupervisor};
use crate::model::error::Error;
use crate::model::event::Stream;
use crate::sys::descriptors::{self, PipeGrowth};

/// More than a terminal holds of what was written to it: two buffers of 64 KiB and 4 KiB.
const TERMINAL_BYTES: usize = 128 * 1024;

/// The reader of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) stream: Stream,
    /// Whether what is read is our side of a terminal.
    pub(super) is_terminal: bool,
    pub(super) pipe: Arc<OwnedFd>,
    pub(super) blocks: Blocks,
    pub(super) shared: Arc<Shared>,
    pub(super) pump: ToPump,
    pub(super) supervisor: ToSupervisor,
    pub(super) growth: PipeGrowth,
    /// The byte that ends a line, where it is a single one.
    pub(super) line_end: Option<u8>,
    /// Whether what was read last is not the end of a line, for all that is known here.
    pub(super) is_in_line: bool,
    /// `--output-limit`, until it was passed.
    pub(super) output_limit: Option<u64>,
}

/// What came of one attempt to read.
enum Read {
    Data(usize),
    Interrupted,
    End,
}

impl Reader {
    /// Reads to the end of the stream, or until it was drained for long enough.
    pub(super) fn run(mut self) {
        self.state().thread.register();
        let leaked = self.read_all();
        self.state().finish();
        // The pump hears of the end behind all data, and before the supervisor can say that all is over. It has
        // something to do at once only where a line is unfinished.
        if self.is_in_line {
            self.pump.send(Message::End(self.stream));
        } else {
            self.pump.leave(Message::End(self.stream));
        }
        self.supervisor
            .send_if_ended(Notice::StreamEnded { stream: self.stream, leaked }, &self.shared);
    }

    /// Returns whether the stream was still held when reading stopped.
    fn read_all(&mut self) -> bool {
        loop {
            match self.read() {
                Read::End => return false,
                // Looked at after data too: a pipe that is never empty never lets a read be interrupted.
                _ if self.state().is_draining() => return self.drain(),
                Read::Interrupted | Read::Data(_) => {}
            }
        }
    }

    /// The command has ended. What the pipe holds now is always read, however long its reader takes; how
    /// long to wait for more after that, the supervisor says. Returns whether the stream is still held then.
    fn drain(&mut self) -> bool {
        self.state().answer_drain();
        let mut promised = self.bytes_waiting();
        loop {
            if self.state().is_drained()
                && (promised == 0 || !descriptors::is_readable(self.pipe.as_fd()))
            {
                return !descriptors::is_hung_up(self.pipe.as_fd());
            }
            if self.wait_readable() {
                match self.read() {
                    Read::End => return false,
                    Read::Data(count) => promised = promised.saturating_sub(count),
                    Read::Interrupted => {}
                }
            }
        }
    }

    /// How much it holds, or may hold: of what was written to a terminal nobody can tell how much is on its way.
    fn bytes_waiting(&self) -> usize {
        if self.is_terminal {
            return TERMINAL_BYTES;
        }
        descriptors::bytes_waiting(self.pipe.as_fd()).unwrap_or(0)
    }

    fn wait_readable(&self) -> bool {
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        // The supervisor interrupts this when it has lasted long enough.
        matches!(poll(&mut fds, PollTimeout::NONE), Ok(count) if count > 0)
    }

    fn read(&mut self) -> Read {
        self.wait_for_block();
        if self.state().must_answer() {
            // Said while the consumer was waited for: the next read may wait for ever, and nobody would know.
            return Read::Interrupted;
        }
        let Some(mut block) = self.blocks.take() else { return Read::Interrupted };
        match nix::unistd::read(&*self.pipe, block.room()) {
            Ok(0) => Read::End,
            Ok(count) => {
                let at = self.shared.elapsed();
                self.growth.note(self.pipe.as_fd(), count);
                self.is_in_line = Some(block.room()[count - 1]) != self.line_end;
                let produced = self.shared.note_output(count, at);
                self.pump.send(Message::Data {
                    stream: self.stream,
                    block: block.filled(count),
                    at,
                });
                if self.output_limit.is_some_and(|limit| produced > limit) {
                    self.output_limit = None;
                    self.supervisor.send(Notice::OutputLimitPassed);
                }
                Read::Data(count)
            }
            Err(Errno::EINTR) => {
                self.blocks.put_back(block);
                Read::Interrupted
            }
            // Nobody has the terminal open any more: that is its end.
            Err(Errno::EIO) if self.is_terminal => Read::End,
            Err(errno) => {
                let what = format!("reading the command's {}", self.stream.as_str());
                self.pump
                    .send(Message::Broken(Error::Output { what, source: io::Error::from(errno) }));
                Read::End
            }
        }
    }

    /// Waits for a buffer to read into. While there is none, because the consumer takes too little, the idle
    /// clock rests: the command may be waiting for us.
    fn wait_for_block(&mut self) {
        if self.blocks.is_any_free() {
            return;
        }
        self.state().set_held_back(true);
        while !self.blocks.is_any_free() {
            self.blocks.wait();
        }
        self.shared.note_activity(self.shared.elapsed());
        self.state().set_held_back(false);
    }

    fn state(&self) -> &ReaderState {
        &self.shared.readers[self.stream.index()]
    }
}
