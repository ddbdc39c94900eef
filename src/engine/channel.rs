//! How the threads of a run talk: messages to the pump, buffers back to the readers, notices to the supervisor.
//!
//! crossbeam's blocking receive yields the processor before it sleeps, which costs milliseconds where other
//! processes are busy. So whoever waits here looks once and parks, and whoever sends unparks it. A park that
//! was unparked before it began returns at once, so nothing is missed in between.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::model::error::Error;
use crate::model::event::{Exited, Stop, Stream};
use crate::model::outcome::Outcome;
use crate::model::signal::Signal;
use crate::model::spec::WindowSize;
use crate::sink::destination::Patience;
use crate::sys::interrupt::Interruptible;

/// Bytes that one read takes at the most: all that an enlarged pipe holds. Too small, and reader and pump wake
/// each other for little (a quarter of this costs a fifth of the throughput); too big takes memory and spills
/// the cache. What a short run does not touch of it costs nothing.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// Buffers of each stream. They are what bounds the memory between command and consumer: with none free the
/// reader waits, the pipe fills and the command waits. Two would let reader and pump work at once only in
/// step; more than a few only take memory.
pub(super) const BLOCKS: usize = 4;

/// What the pump is sent in all of a run beside data: from each reader its end and perhaps a failure, from the
/// supervisor a failure, an `exited`, two stops, a new size and the end, from who types a failure, and from each
/// of the four a panic: fifteen. With room for them beside all buffers, no sender ever waits.
const OTHER_MESSAGES: usize = 15;

/// What one read gave.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Box<[u8]>,
    len: usize,
}

impl Block {
    fn new() -> Self {
        Self { bytes: vec![0; BLOCK_BYTES].into_boxed_slice(), len: 0 }
    }

    /// All of it, to read into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Says how much of it was read into.
    pub(super) fn filled(mut self, len: usize) -> Self {
        self.len = len;
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What the pump is told, in the order in which it happened.
#[derive(Debug)]
pub(super) enum Message {
    /// A read gave something.
    Data { stream: Stream, block: Block, at: Duration },
    /// A stream ended, or is read no further.
    End(Stream),
    /// The command ended and its streams are still held.
    Exited(Exited),
    /// A stop signal is sent.
    Stop(Stop),
    /// The command's terminal has another size, see [`Shared::take_window_size`].
    Resized { at: Duration },
    /// All is over. Nothing follows.
    Over(Box<Outcome>),
    /// Reading failed, or taking signals.
    Broken(Error),
    /// A thread of ours panicked.
    Died,
}

/// The way to the pump.
#[derive(Debug, Clone)]
pub(super) struct ToPump {
    sender: Sender<Message>,
    pump: Thread,
}

impl ToPump {
    pub(super) fn send(&self, message: Message) {
        self.leave(message);
        self.pump.unpark();
    }

    /// Sends what the pump need not know before it wakes for something else.
    pub(super) fn leave(&self, message: Message) {
        // The pump is gone only when the process ends.
        let _ = self.sender.send(message);
    }
}

/// What the pump waits on.
#[derive(Debug)]
pub(super) struct Inbox(Receiver<Message>);

impl Inbox {
    /// A message that is there already.
    pub(super) fn take(&self) -> Option<Message> {
        self.0.try_recv().ok()
    }

    /// Waits for a message, at most until the deadline. May return before either.
    pub(super) fn wait(&self, deadline: Option<Instant>) {
        if self.0.is_empty() {
            park_until(deadline);
        }
    }
}

/// The channel to the pump, which is the calling thread.
pub(super) fn to_pump() -> (ToPump, Inbox) {
    let (sender, receiver) = bounded(2 * BLOCKS + OTHER_MESSAGES);
    (ToPump { sender, pump: thread::current() }, Inbox(receiver))
}

fn park_until(deadline: Option<Instant>) {
    match deadline {
        None => thread::park(),
        Some(deadline) => {
            let rest = deadline.saturating_duration_since(Instant::now());
            if !rest.is_zero() {
                thread::park_timeout(rest);
            }
        }
    }
}

/// Where a reader gets its buffers from.
#[derive(Debug)]
pub(super) struct Blocks {
    back: Receiver<Block>,
    spare: Option<Block>,
    made: usize,
}

/// The way of a used buffer back to its reader.
#[derive(Debug)]
pub(super) struct ToReader {
    back: Sender<Block>,
    reader: Thread,
}

/// The way back for one reader's buffers, before its thread is known.
///
/// The first buffer is made here and not by the reader: if the other one had freed its own by then, the allocator
/// would take this one from its heap and clear it, which touches all of it.
pub(super) fn blocks() -> (Sender<Block>, Blocks) {
    let (back, receiver) = bounded(BLOCKS);
    (back, Blocks { back: receiver, spare: Some(Block::new()), made: 1 })
}

impl ToReader {
    pub(super) fn new(back: Sender<Block>, reader: Thread) -> Self {
        Self { back, reader }
    }

    pub(super) fn give_back(&self, block: Block) {
        // A reader that has ended needs none.
        let _ = self.back.try_send(block);
        self.reader.unpark();
    }
}

impl Blocks {
    /// Whether there is one to be had.
    pub(super) fn is_any_free(&self) -> bool {
        self.spare.is_some() || self.made < BLOCKS || !self.back.is_empty()
    }

    /// A buffer that is free now. `None`: all are on their way.
    pub(super) fn take(&mut self) -> Option<Block> {
        if let Some(block) = self.spare.take() {
            return Some(block);
        }
        match self.back.try_recv() {
            Ok(block) => Some(block),
            Err(TryRecvError::Empty) if self.made < BLOCKS => {
                self.made += 1;
                Some(Block::new())
            }
            Err(_) => None,
        }
    }

    /// Takes one back that was not read into.
    pub(super) fn put_back(&mut self, block: Block) {
        self.spare = Some(block);
    }

    /// Waits until one may be free. May return before.
    pub(super) fn wait(&self) {
        if self.back.is_empty() {
            thread::park();
        }
    }
}

/// What the supervisor is told.
#[derive(Debug)]
pub(super) enum Notice {
    /// Somebody sent us INT.
    Interrupted,
    /// A stream was read to its end, or no further (`leaked`).
    StreamEnded { stream: Stream, leaked: bool },
    /// Both streams together have produced more than they may.
    OutputLimitPassed,
    /// Output is lost, and that is to stop the run.
    OutputLost,
    /// A part of ours failed, and the run cannot be told truly any more.
    Broken,
    /// Somebody wants a signal sent to the processes of the run.
    Signal(Signal),
    /// Somebody received a signal for us, who is where our own are sent to.
    Received(Signal),
    /// Somebody wants the run stopped as a timeout would.
    Stop,
    /// Everything is shown and written.
    Delivered,
}

/// The way to the supervisor, which waits on descriptors.
#[derive(Debug, Clone)]
pub(super) struct ToSupervisor {
    sender: Sender<Notice>,
    bell: Arc<EventFd>,
}

/// What the supervisor hears.
#[derive(Debug)]
pub(super) struct Notices {
    receiver: Receiver<Notice>,
    bell: Arc<EventFd>,
}

/// The channel to the supervisor. Nobody sends more than a few notices, and it never waits for anybody.
pub(super) fn to_supervisor() -> Result<(ToSupervisor, Notices), Errno> {
    let (sender, receiver) = unbounded();
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    Ok((ToSupervisor { sender, bell: Arc::clone(&bell) }, Notices { receiver, bell }))
}

impl ToSupervisor {
    pub(super) fn send(&self, notice: Notice) {
        self.leave(notice);
        // A counter that is full has rung already.
        let _ = self.bell.write(1);
    }

    /// Sends what matters only once the command has ended, and wakes the supervisor only then.
    ///
    /// Either the command's end is seen here, and the bell rings, or the notice was sent before that end was
    /// told, and the supervisor, which takes in its notices after telling it, finds it there.
    pub(super) fn send_if_ended(&self, notice: Notice, shared: &Shared) {
        self.leave(notice);
        if shared.has_command_ended() {
            // A counter that is full has rung already.
            let _ = self.bell.write(1);
        }
    }

    fn leave(&self, notice: Notice) {
        // The supervisor is gone only when the process ends.
        let _ = self.sender.send(notice);
    }
}

impl Notices {
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Those that have come.
    pub(super) fn pending(&self) -> impl Iterator<Item = Notice> + use<'_> {
        // Empty is as good as read.
        let _ = self.bell.read();
        self.receiver.try_iter()
    }
}

/// What the threads know of each other without a message, since it is asked for far more often than it
/// changes, or changes far more often than it is asked for.
#[derive(Debug)]
pub(super) struct Shared {
    /// When the command was started.
    pub(super) start: Instant,
    /// Whether the reader of our output may still take its time.
    pub(super) patience: Arc<Patience>,
    /// The pump's thread, where it waits for that reader.
    pub(super) pump: Interruptible,
    /// In the order of the streams.
    pub(super) readers: [ReaderState; 2],
    /// Bytes that both streams have produced.
    produced_bytes: AtomicU64,
    /// When either stream last produced a byte, in nanoseconds since the start.
    last_output: AtomicU64,
    /// Whether the command has ended.
    has_ended: AtomicBool,
    /// The size of the command's terminal: columns in the upper half, rows in the lower.
    window_size: AtomicU32,
    /// Whether the pump is still to take in the last change of it. However often it changes, there is one message
    /// on its way.
    is_resize_told: AtomicBool,
}

/// What one reader and the supervisor know of each other.
#[derive(Debug, Default)]
pub(super) struct ReaderState {
    /// Its thread, where it waits for the command.
    pub(super) thread: Interruptible,
    /// Whether the command has ended and the stream is only to be drained.
    draining: AtomicBool,
    /// Whether the reader knows that.
    answered: AtomicBool,
    /// Whether draining has lasted long enough.
    drained: AtomicBool,
    /// Whether it reads no more.
    finished: AtomicBool,
    /// Whether it does not read for lack of a buffer.
    held_back: AtomicBool,
}

impl ReaderState {
    /// Says that the stream is to be drained.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// The reader says that it knows.
    pub(super) fn answer_drain(&self) {
        self.answered.store(true, Ordering::Release);
    }

    /// The reader says that it reads no more.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Whether it has not answered that the stream is to be drained.
    pub(super) fn must_answer(&self) -> bool {
        self.is_draining() && !self.answered.load(Ordering::Acquire)
    }

    /// Whether it has to be interrupted (again), since it waits for the command and does not know yet. One that
    /// waits for the consumer looks when it has waited long enough: either it sees then what was said before, or
    /// it is seen here not to be held back any more. That takes one order for both, SeqCst.
    pub(super) fn needs_interruption(&self) -> bool {
        let has_news = self.must_answer() || self.is_drained();
        has_news && !self.finished.load(Ordering::Acquire) && !self.held_back.load(Ordering::SeqCst)
    }

    /// Says that it was drained for long enough.
    pub(super) fn end_drain(&self) {
        self.drained.store(true, Ordering::Release);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    pub(super) fn set_held_back(&self, held_back: bool) {
        self.held_back.store(held_back, Ordering::SeqCst);
    }
}

impl Shared {
    pub(super) fn new(start: Instant, patience: Arc<Patience>) -> Self {
        Self {
            start,
            patience,
            pump: Interruptible::default(),
            readers: [ReaderState::default(), ReaderState::default()],
            produced_bytes: AtomicU64::new(0),
            last_output: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            window_size: AtomicU32::new(0),
            is_resize_told: AtomicBool::new(false),
        }
    }

    /// Notes another size of the command's terminal. Returns whether the pump is to be told.
    pub(super) fn set_window_size(&self, size: WindowSize) -> bool {
        let packed = u32::from(size.columns) << 16 | u32::from(size.rows);
        self.window_size.store(packed, Ordering::SeqCst);
        !self.is_resize_told.swap(true, Ordering::SeqCst)
    }

    /// The pump takes in the size that the command's terminal has now.
    pub(super) fn take_window_size(&self) -> WindowSize {
        // In this order: a change after the first of these is told anew.
        self.is_resize_told.store(false, Ordering::SeqCst);
        let packed = self.window_size.load(Ordering::SeqCst);
        WindowSize { columns: (packed >> 16) as u16, rows: (packed & 0xffff) as u16 }
    }

    /// Tells the readers that the command has ended.
    pub(super) fn tell_command_ended(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_command_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Notes output, and returns how much there was in all.
    pub(super) fn note_output(&self, bytes: usize, at: Duration) -> u64 {
        self.note_activity(at);
        self.produced_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64
    }

    /// Starts the idle clock anew.
    pub(super) fn note_activity(&self, at: Duration) {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.last_output.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Takes time off the idle clock that did not count.
    pub(super) fn shift_activity(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let now = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let shift = |last: u64| Some(last.saturating_add(by).min(now));
        // It always succeeds: the closure never refuses. A reader that is ahead of us stays so.
        let _ = self.last_output.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shift);
    }

    pub(super) fn last_output(&self) -> Duration {
        Duration::from_nanos(self.last_output.load(Ordering::Relaxed))
    }

    /// Whether a stream is not read because the consumer takes too little.
    pub(super) fn is_held_back(&self) -> bool {
        self.readers.iter().any(|reader| reader.held_back.load(Ordering::Acquire))
    }
}
