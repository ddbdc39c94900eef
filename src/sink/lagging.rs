//! `--on-lag drop`: shows a run without ever waiting for whoever reads it.
//!
//! The sink that shows it works on a thread of its own, and blocks there as it likes. In front of it stands a
//! queue of whole lines, bounded in bytes; what it has no room for are the oldest ones. That is decided here,
//! before any format, so it is the same in all of them.

pub mod queue;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::model::error::Error;
use crate::model::event::{Event, Stream};
use crate::model::kept::Kept;
use crate::model::lines::Piece;
use crate::model::recorded::Recorded;
use crate::model::spec::Capture;
use crate::sink::cutters::{Cutters, Shows};
use crate::sink::destination::{Lost, Patience};
use crate::sink::{Account, Cut, Seen, Sink};
use crate::sys::interrupt::Interruptible;
use queue::{Entry, Output, Queue};

/// How many bytes of lines the showing thread takes at a time.
const BATCH_BYTES: usize = 64 * 1024;

/// How often to look whether it is the reader that is waited for.
const READER_LOOK: Duration = Duration::from_millis(2);

/// How often to look whether the reader's time is up.
const PATIENCE_LOOK: Duration = Duration::from_millis(20);

/// How a reader is treated that is too slow.
#[derive(Debug)]
pub struct Lag {
    /// Where the sink writes to, as far as a reader may be slow there.
    pub outlets: Vec<BorrowedFd<'static>>,
    /// How much output may wait, in bytes.
    pub limit_bytes: u64,
    /// What is shown of it.
    pub shows: Shows,
    /// How often the sink shows where the run is; `None`: it shows the output.
    pub refresh_every: Option<Duration>,
    /// Whether an unfinished line is waited for. Else it goes out at once, and lines are what is counted.
    pub holds_unfinished: bool,
}

/// Shows a run in another sink, on a thread of its own.
pub struct Lagging {
    meeting: Arc<Meeting>,
    /// The sink, until there is something to show in it.
    idle: Option<Box<dyn Sink>>,
    /// The thread that has it then, and gives it back at its end.
    thread: Option<JoinHandle<Box<dyn Sink>>>,
    patience: Arc<Patience>,
    cutters: Cutters,
    outlets: Vec<BorrowedFd<'static>>,
    /// See [`Lag`]; and when it was last shown.
    refresh_every: Option<Duration>,
    refreshed: Option<Duration>,
    has_news: bool,
    holds_unfinished: bool,
    /// When something last came.
    last_at: Duration,
    next_seq: u64,
    /// Of each stream, whether what comes next is the rest of a line.
    is_in_line: [bool; 2],
    is_lost: bool,
}

/// Where the pump and the showing thread meet. It is theirs alone, and only with this option.
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
    /// The showing thread, where it waits for the reader.
    shower: Interruptible,
}

struct State {
    queue: Queue,
    /// Nothing follows.
    is_closed: bool,
    /// Consumers that the sink lost, each to be told once.
    lost: VecDeque<Lost>,
    /// It has no other.
    is_lost: bool,
    account: Account,
    has_ended: bool,
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has told so by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues output. Before some of what waits goes for it, whoever shows it gets the time that it needs to, as
    /// long as it is not its reader that it waits for.
    fn push(&self, output: Output, outlets: &[BorrowedFd<'_>]) {
        let mut state = self.state();
        while state.queue.is_full_for(&output) && !state.has_ended && have_room(outlets) {
            state = self
                .changed
                .wait_timeout(state, READER_LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if state.queue.is_empty() && have_room(outlets) {
            // It is on its way at once, however much it is.
            state.queue.admit(output);
        } else {
            state.queue.push(output);
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Whether whatever is written there now is taken at once: nobody reads it too slowly.
fn have_room(outlets: &[BorrowedFd<'_>]) -> bool {
    let mut fds: Vec<PollFd<'_>> =
        outlets.iter().map(|&fd| PollFd::new(fd, PollFlags::POLLOUT)).collect();
    // Where it cannot be told, nobody is waited for.
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds.iter().all(|fd| {
            fd.revents().is_some_and(|events| {
                events.contains(PollFlags::POLLOUT) && !events.contains(PollFlags::POLLERR)
            })
        })
}

/// Where the run was when it was to be shown.
#[derive(Debug)]
pub struct Moment {
    now: Duration,
    kept: [Kept; 2],
    bytes: [u64; 2],
    lines: [u64; 2],
    last_output: Duration,
}

impl Moment {
    fn seen(&self) -> Seen<'_> {
        let [stdout, stderr] = &self.kept;
        let Self { bytes, lines, last_output, .. } = *self;
        Seen { kept: [stdout, stderr], bytes, lines, last_output }
    }
}

impl Lagging {
    /// Shows a run in this sink, with at most so many bytes of output waiting.
    #[must_use]
    pub fn new(sink: Box<dyn Sink>, lag: Lag, capture: &Capture, patience: &Arc<Patience>) -> Self {
        let Lag { outlets, limit_bytes, shows, refresh_every, holds_unfinished } = lag;
        let meeting = Arc::new(Meeting {
            state: Mutex::new(State {
                queue: Queue::new(limit_bytes),
                is_closed: false,
                lost: VecDeque::new(),
                is_lost: false,
                account: Account::default(),
                has_ended: false,
            }),
            changed: Condvar::new(),
            shower: Interruptible::default(),
        });
        Self {
            meeting,
            idle: Some(sink),
            thread: None,
            patience: Arc::clone(patience),
            cutters: Cutters::new(capture, shows),
            outlets,
            refresh_every,
            refreshed: None,
            has_news: false,
            holds_unfinished,
            last_at: Duration::ZERO,
            next_seq: 1,
            is_in_line: [false; 2],
            is_lost: false,
        }
    }

    /// Whether it is the output that is shown. Where the run is, is shown without what came.
    fn shows_output(&self) -> bool {
        self.cutters.shows_output() && self.refresh_every.is_none()
    }

    /// Makes the thread with the first that there is to show. Before, signals that it must not take may not be
    /// blocked yet. The calling thread is the one that is told when the sink is lost.
    fn start(&mut self) -> Result<(), Lost> {
        let Some(sink) = self.idle.take() else { return Ok(()) };
        let (meeting, pump) = (Arc::clone(&self.meeting), thread::current());
        let made = thread::Builder::new()
            .name("shower".to_owned())
            .spawn(move || show_all(sink, &meeting, &pump));
        match made {
            Ok(thread) => {
                self.thread = Some(thread);
                Ok(())
            }
            Err(source) => {
                self.is_lost = true;
                self.meeting.state().has_ended = true;
                Err(Lost::Failed(Error::Spawn { step: "thread", source }))
            }
        }
    }

    /// Has the cutters do something with a stream, and queues what comes of it.
    fn cut(
        &mut self,
        stream: Stream,
        at: Duration,
        work: impl FnOnce(&mut Cutters, &mut dyn FnMut(Piece<'_>)),
    ) -> Result<(), Lost> {
        self.start()?;
        let (meeting, outlets, next_seq) = (&self.meeting, &self.outlets, &mut self.next_seq);
        let (numbers_pieces, is_in_line) =
            (self.holds_unfinished, &mut self.is_in_line[stream.index()]);
        work(&mut self.cutters, &mut |piece| {
            let goes_on = matches!(piece, Piece::One { partial: true, .. });
            let is_numbered = !std::mem::replace(is_in_line, goes_on) || numbers_pieces;
            let output = Output::new(Cut { stream, piece, at, seq: *next_seq }, is_numbered);
            *next_seq += output.chunks();
            meeting.push(output, outlets);
        });
        self.take_lost()
    }

    fn queue(&mut self, entry: Entry) -> Result<(), Lost> {
        self.start()?;
        self.meeting.state().queue.push_event(entry);
        self.meeting.changed.notify_all();
        self.take_lost()
    }

    fn take_lost(&mut self) -> Result<(), Lost> {
        let mut state = self.meeting.state();
        self.is_lost |= state.is_lost;
        state.lost.pop_front().map_or(Ok(()), Err)
    }

    /// Waits until all that is queued was shown, or its reader's time is up, and gives the sink back; `None` where
    /// there never was a thread to show it.
    fn take_back(&mut self) -> Result<Option<Box<dyn Sink>>, Lost> {
        if let Some(sink) = self.idle.take() {
            return Ok(Some(sink));
        }
        let mut state = self.meeting.state();
        state.is_closed = true;
        self.meeting.changed.notify_all();
        while !state.has_ended {
            if self.patience.is_over() {
                // Again and again: it may just be on its way into the write that blocks.
                self.meeting.shower.interrupt();
            }
            state = self
                .meeting
                .changed
                .wait_timeout(state, PATIENCE_LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        let sink = self.thread.take().map(JoinHandle::join).transpose();
        sink.map_err(|_| {
            self.is_lost = true;
            Lost::Failed(Error::Internal("the thread that shows the run panicked"))
        })
    }
}

/// Shows what is queued until nothing follows or every consumer is lost, and gives the sink back.
fn show_all(mut sink: Box<dyn Sink>, meeting: &Meeting, pump: &Thread) -> Box<dyn Sink> {
    struct End<'a>(&'a Meeting, &'a Thread);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.state().has_ended = true;
            self.0.changed.notify_all();
            self.1.unpark();
        }
    }
    meeting.shower.register();
    let _end = End(meeting, pump);
    loop {
        // Before anybody has to wait for it.
        let account = sink.account();
        let mut state = meeting.state();
        state.account = account;
        while state.queue.is_empty() && !state.is_closed {
            state = meeting.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let batch = state.queue.take(BATCH_BYTES);
        let is_last = state.queue.is_empty();
        drop(state);
        // There is room again.
        meeting.changed.notify_all();
        if batch.is_empty() {
            return sink;
        }
        for entry in &batch {
            if let Err(lost) = show(&mut *sink, entry) {
                note_lost(&*sink, lost, meeting, pump);
            }
        }
        if is_last && let Err(lost) = sink.flush() {
            note_lost(&*sink, lost, meeting, pump);
        }
        if sink.is_lost() {
            return sink;
        }
    }
}

/// Has the pump told that the sink lost a consumer.
fn note_lost(sink: &dyn Sink, lost: Lost, meeting: &Meeting, pump: &Thread) {
    let account = sink.account();
    let mut state = meeting.state();
    state.account = account;
    state.lost.push_back(lost);
    if sink.is_lost() {
        state.is_lost = true;
        state.queue.give_up();
    }
    drop(state);
    pump.unpark();
}

fn show(sink: &mut dyn Sink, entry: &Entry) -> Result<(), Lost> {
    match entry {
        Entry::Output(output) => sink.piece(output.cut()),
        Entry::Event(event) => sink.event(event),
        Entry::Broken(stream) => sink.break_line(*stream),
        Entry::Dropped(dropped) => sink.event(&Event::Dropped(*dropped)),
        Entry::Unknown(line) => sink.recorded(&Recorded::Unknown, line),
        Entry::Moment(moment) => sink.refresh(moment.now, moment.seen()),
    }
}

impl Sink for Lagging {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.has_news = true;
        if !self.shows_output() {
            return self.take_lost();
        }
        self.last_at = at;
        self.cut(stream, at, |cutters, emit| cutters.push(stream, bytes, emit))
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.has_news = true;
        if self.shows_output() {
            self.start()?;
            self.meeting.push(Output::new(piece, true), &self.outlets);
        }
        self.take_lost()
    }

    fn flush_partial(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.cut(stream, at, |cutters, emit| cutters.flush_partial(stream, emit))
    }

    fn has_unfinished(&self, stream: Stream) -> bool {
        self.cutters.has_unfinished(stream)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        self.cut(stream, at, |cutters, emit| cutters.finish(stream, emit))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        let entry = match event {
            Event::Result(_) => {
                let sink = self.take_back()?;
                let lost = self.take_lost();
                let Some(mut sink) = sink.filter(|sink| !sink.is_lost()) else { return lost };
                // What has lost one consumer may have another.
                let shown = sink.event(event);
                self.is_lost = sink.is_lost();
                self.meeting.state().account = sink.account();
                return lost.and(shown);
            }
            Event::Started(started) => Event::Started(started.clone()),
            Event::Exited(exited) => Event::Exited(exited.clone()),
            Event::Stop(stop) => Event::Stop(stop.clone()),
            Event::Heartbeat(heartbeat) => Event::Heartbeat(*heartbeat),
            Event::Dropped(dropped) => Event::Dropped(*dropped),
            // Those are made behind the queue.
            Event::Chunk(_) | Event::Snapshot(_) => return Ok(()),
        };
        self.queue(Entry::Event(entry))
    }

    fn recorded(&mut self, recorded: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
        match recorded {
            Recorded::Chunk(chunk) => self.piece(chunk.into()),
            Recorded::Event(event) => self.event(event),
            Recorded::Unknown => self.queue(Entry::Unknown(line.to_vec())),
        }
    }

    fn due(&self) -> Option<Duration> {
        let every = self.refresh_every.filter(|_| self.has_news)?;
        Some(self.refreshed.map_or(Duration::ZERO, |last| last.saturating_add(every)))
    }

    fn refresh(&mut self, now: Duration, seen: Seen<'_>) -> Result<(), Lost> {
        (self.has_news, self.refreshed) = (false, Some(now));
        let Seen { kept, bytes, lines, last_output } = seen;
        let kept = kept.map(Kept::clone);
        self.queue(Entry::Moment(Box::new(Moment { now, kept, bytes, lines, last_output })))
    }

    fn flush(&mut self) -> Result<(), Lost> {
        if !self.holds_unfinished {
            // Nothing more has come.
            for stream in Stream::ALL {
                if self.cutters.has_unfinished(stream) {
                    self.flush_partial(stream, self.last_at)?;
                }
            }
        }
        self.take_lost()
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn account(&self) -> Account {
        let state = self.meeting.state();
        let dropped = state.queue.dropped();
        Account { dropped: (dropped.chunks > 0).then_some(dropped), ..state.account.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{RunResult, StreamTotals};
    use crate::model::outcome::{Delivery, Outcome};
    use crate::sink::write_json_line;

    /// Notes what it is to show, and panics on output.
    struct Told(Arc<Mutex<Vec<u8>>>);

    impl Sink for Told {
        fn block(&mut self, _: Stream, _: &[u8], _: Duration) -> Result<(), Lost> {
            panic!("a sink that panics")
        }

        fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
            self.block(piece.stream, piece.piece.bytes(), piece.at)
        }

        fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
            let mut told = self.0.lock().expect("nobody panics with it");
            write_json_line(&mut *told, event).expect("there is room");
            Ok(())
        }

        fn recorded(&mut self, _: &Recorded<'_>, line: &[u8]) -> Result<(), Lost> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(line);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), Lost> {
            Ok(())
        }

        fn is_lost(&self) -> bool {
            false
        }

        fn account(&self) -> Account {
            Account::default()
        }
    }

    fn lagging() -> (Lagging, Arc<Mutex<Vec<u8>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let lag = Lag {
            outlets: Vec::new(),
            limit_bytes: 100,
            shows: Shows::Pieces,
            refresh_every: None,
            holds_unfinished: true,
        };
        let sink = Box::new(Told(Arc::clone(&told)));
        (Lagging::new(sink, lag, &Capture::default(), &Arc::default()), told)
    }

    fn end(lagging: &mut Lagging) -> Result<(), Lost> {
        let (outcome, streams) =
            (Outcome::never_started(), [StreamTotals::nothing(), StreamTotals::nothing()]);
        let result = RunResult::new(&outcome, &streams, &Delivery::Whole);
        lagging.event(&Event::Result(Box::new(result)))
    }

    #[test]
    fn a_panic_where_the_run_is_shown_is_no_success() {
        let (mut lagging, _) = lagging();
        // Whether this hears of it already is a matter of who is faster.
        let _ = lagging.block(Stream::Stdout, b"x\n", Duration::ZERO);
        let ended = end(&mut lagging);
        assert!(matches!(ended, Err(Lost::Failed(Error::Internal(_)))), "{ended:?}");
        assert!(lagging.is_lost());
    }

    #[test]
    fn what_a_later_version_wrote_is_handed_on_in_its_place_and_bounded() {
        let (mut lagging, told) = lagging();
        let line = |of: char, length: usize| format!("{}\n", of.to_string().repeat(length - 1));
        let (first, huge) = (line('a', 60), line('b', 101));
        for line in [&first, &huge] {
            lagging.recorded(&Recorded::Unknown, line.as_bytes()).expect("nobody is lost");
        }
        end(&mut lagging).expect("nobody is lost");
        let told = String::from_utf8(told.lock().expect("nobody panics with it").clone());
        let told = told.expect("it is text");
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], first.trim_end());
        assert!(lines[1].starts_with("{\"op\":\"result\""), "{told}");
        assert_eq!(lines.len(), 2);
    }
}
