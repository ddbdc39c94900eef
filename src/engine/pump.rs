//! The pump: takes what the readers and the supervisor send, counts, keeps, cuts lines, and shows it.
//!
//! It runs on the main thread and is the only one that waits for the consumer. It decides nothing about the
//! run: that it lost its consumer it tells the supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::channel::{Block, Inbox, Message, Notice, Shared, ToReader, ToSupervisor};
use crate::model::error::Error;
use crate::model::event::{Event, Seconds, Started, Stream, StreamTotals};
use crate::model::kept::Kept;
use crate::model::lines::{LineCounter, LineCutter, Piece};
use crate::model::outcome::{Delivery, Outcome};
use crate::model::spec::{Capture, Display, Format, OnDisconnect};
use crate::sink::Sink;
use crate::sink::destination::{Lost, Patience};

/// What the pump knows of one stream.
#[derive(Debug)]
struct Flow {
    cutter: LineCutter,
    counter: LineCounter,
    kept: Kept,
    bytes: u64,
    /// When its last bytes were read.
    last_read: Duration,
    /// How long an unfinished line has waited for more while we waited for the command; `None` where there is
    /// none, or what there is of it went out.
    unfinished_for: Option<Duration>,
}

impl Flow {
    fn new(capture: &Capture) -> Self {
        Self {
            cutter: LineCutter::new(capture.split, capture.max_line_bytes),
            counter: LineCounter::new(capture.split),
            kept: Kept::new(capture.keep, capture.max_output_bytes),
            bytes: 0,
            last_read: Duration::ZERO,
            unfinished_for: None,
        }
    }

    fn totals(mut self) -> StreamTotals {
        self.kept.settle();
        StreamTotals { kept: self.kept, bytes: self.bytes, lines: self.counter.lines_at_end() }
    }
}

/// What is wanted of the output beside showing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Account {
    /// Counts and the kept part, for a result.
    Kept,
    /// Nothing: nobody will see a result.
    None,
}

impl Account {
    fn of(display: &Display) -> Self {
        match (display.format, &display.result) {
            (Format::Text, None) => Self::None,
            _ => Self::Kept,
        }
    }
}

/// What a stream's cutter is to do.
enum Cut<'b> {
    Push(&'b [u8]),
    Unfinished,
    Finish,
}

/// The pump of one run.
pub(super) struct Pump<'a> {
    sink: &'a mut dyn Sink,
    shared: Arc<Shared>,
    supervisor: ToSupervisor,
    readers: Vec<ToReader>,
    flows: [Flow; 2],
    account: Account,
    partial_after: Option<Duration>,
    on_disconnect: OnDisconnect,
    /// The time of the last event. Each thread takes its time and then queues, so one can be behind another's
    /// by microseconds.
    last_time: Duration,
    taken_bytes: u64,
    delivery: Delivery,
}

/// What came of a run, as the pump saw it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) outcome: Outcome,
    pub(super) streams: [StreamTotals; 2],
    pub(super) delivery: Delivery,
    /// Bytes of output that came from the command.
    pub(super) taken_bytes: u64,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        shared: Arc<Shared>,
        supervisor: ToSupervisor,
        readers: Vec<ToReader>,
        capture: &Capture,
        display: &Display,
    ) -> Self {
        Self {
            sink,
            shared,
            supervisor,
            readers,
            flows: [Flow::new(capture), Flow::new(capture)],
            account: Account::of(display),
            partial_after: capture.partial_after,
            on_disconnect: display.on_disconnect,
            last_time: Duration::ZERO,
            taken_bytes: 0,
            delivery: Delivery::Whole,
        }
    }

    /// Shows the run to its end.
    pub(super) fn run(mut self, inbox: &Inbox, started: Option<Started<'_>>) -> Report {
        if let Some(started) = started {
            let shown = self.sink.started(started);
            self.look_at(shown);
        }
        let outcome = loop {
            match inbox.take() {
                None => self.idle(inbox),
                Some(Message::Data { stream, block, at }) => self.take_block(stream, block, at),
                Some(Message::End(stream)) => self.end_stream(stream),
                Some(Message::Exited(mut exited)) => {
                    exited.t = self.in_order(exited.t);
                    self.show(&Event::Exited(exited));
                }
                Some(Message::Stop(mut stop)) => {
                    stop.t = self.in_order(stop.t);
                    self.show(&Event::Stop(stop));
                }
                Some(Message::Broken(error)) => self.fail(error),
                Some(Message::Over(outcome)) => break *outcome,
                Some(Message::Died) => {
                    // Without it the end of the run cannot be waited for. The command is killed when we end.
                    self.fail(Error::Internal("a thread panicked"));
                    break Outcome::never_started();
                }
            }
        };
        self.flush();
        let [stdout, stderr] = self.flows.map(Flow::totals);
        Report {
            outcome,
            streams: [stdout, stderr],
            delivery: self.delivery,
            taken_bytes: self.taken_bytes,
        }
    }

    fn take_block(&mut self, stream: Stream, block: Block, at: Duration) {
        let bytes = block.bytes();
        self.taken_bytes += bytes.len() as u64;
        let flow = &mut self.flows[stream.index()];
        flow.last_read = at;
        if self.account == Account::Kept {
            flow.bytes += bytes.len() as u64;
            flow.kept.push(bytes);
            flow.counter.push(bytes);
        }
        if self.sink.wants_lines() {
            self.cut(stream, Cut::Push(bytes));
        } else if !self.sink.is_lost() {
            let shown = self.sink.block(stream, bytes);
            self.look_at(shown);
        }
        self.readers[stream.index()].give_back(block);
    }

    fn end_stream(&mut self, stream: Stream) {
        if self.sink.wants_lines() {
            self.cut(stream, Cut::Finish);
        }
    }

    /// Has the stream's cutter do something, and shows the pieces that it gives.
    fn cut(&mut self, stream: Stream, what: Cut<'_>) {
        if self.sink.is_lost() {
            return;
        }
        let Seconds(at) = self.in_order(Seconds(self.flows[stream.index()].last_read));
        let (flow, sink) = (&mut self.flows[stream.index()], &mut *self.sink);
        let mut shown = Ok(());
        let mut emit = |piece: Piece<'_>| {
            if shown.is_ok() {
                shown = sink.lines(stream, piece, at);
            }
        };
        match what {
            Cut::Push(bytes) => flow.cutter.push(bytes, &mut emit),
            Cut::Unfinished => {
                flow.cutter.flush_partial(&mut emit);
                flow.counter.flush_partial();
            }
            Cut::Finish => flow.cutter.finish(&mut emit),
        }
        flow.unfinished_for = flow.cutter.has_unfinished().then_some(Duration::ZERO);
        self.look_at(shown);
    }

    /// A time, or that of the event before if it is later.
    fn in_order(&mut self, time: Seconds) -> Seconds {
        self.last_time = self.last_time.max(time.0);
        Seconds(self.last_time)
    }

    fn show(&mut self, event: &Event<'_>) {
        if !self.sink.is_lost() {
            let shown = self.sink.event(event);
            self.look_at(shown);
        }
    }

    fn flush(&mut self) {
        if !self.sink.is_lost() {
            let shown = self.sink.flush();
            self.look_at(shown);
        }
    }

    /// Nothing more has come: writes out what was held back, and waits. An unfinished line goes out when it
    /// has waited for long enough; only time counts in which the command had the word and not the consumer.
    fn idle(&mut self, inbox: &Inbox) {
        let mut rest = None;
        if let Some(partial_after) = self.partial_after {
            for stream in Stream::ALL {
                let Some(waited) = self.flows[stream.index()].unfinished_for else { continue };
                if waited >= partial_after {
                    self.cut(stream, Cut::Unfinished);
                } else {
                    let left = partial_after - waited;
                    rest = Some(rest.map_or(left, |rest: Duration| rest.min(left)));
                }
            }
        }
        self.flush();
        let Some(rest) = rest else { return inbox.wait(None) };
        let begin = Instant::now();
        inbox.wait(begin.checked_add(rest));
        let waited = begin.elapsed();
        for flow in &mut self.flows {
            if let Some(unfinished_for) = &mut flow.unfinished_for {
                *unfinished_for += waited;
            }
        }
    }

    /// Takes note of what became of something shown.
    fn look_at(&mut self, shown: Result<(), Lost>) {
        let Err(lost) = shown else { return };
        if self.on_disconnect == OnDisconnect::Stop && !matches!(lost, Lost::Abandoned) {
            self.supervisor.send(Notice::OutputLost);
        }
        // Of two that are lost the first one counts.
        if matches!(self.delivery, Delivery::Whole) {
            self.delivery = delivery_of(lost, self.on_disconnect, &self.shared.patience);
        }
    }

    /// A part of ours failed: the run cannot be told truly any more, so it is stopped.
    fn fail(&mut self, error: Error) {
        self.supervisor.send(Notice::Broken);
        if !matches!(self.delivery, Delivery::Failed(_)) {
            self.delivery = Delivery::Failed(error);
        }
    }
}

/// What losing the consumer so makes of the delivery.
pub(super) fn delivery_of(
    lost: Lost,
    on_disconnect: OnDisconnect,
    patience: &Patience,
) -> Delivery {
    match lost {
        Lost::Gone if on_disconnect == OnDisconnect::Stop => Delivery::Disconnected,
        // That nobody looks any more was to be no matter.
        Lost::Gone => Delivery::Whole,
        Lost::Failed(error) => Delivery::Failed(error),
        Lost::Abandoned => Delivery::Cut(patience.ended_by()),
    }
}
