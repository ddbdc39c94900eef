//! The pump: takes what the readers and the supervisor send, counts, keeps, cuts lines, and shows it.
//!
//! It runs on the main thread and is the only one that waits for the consumer. It decides nothing about the
//! run: that it lost its consumer it tells the supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::channel::{Block, Inbox, Message, Notice, Shared, ToReader, ToSupervisor};
use crate::model::error::Error;
use crate::model::event::{Event, Started, Stream, StreamTotals};
use crate::model::kept::Kept;
use crate::model::lines::{LineCounter, LineCutter, Piece};
use crate::model::outcome::{Delivery, Outcome};
use crate::model::spec::{Capture, OnDisconnect};
use crate::sink::Sink;
use crate::sink::destination::{Lost, Patience};

/// What the pump knows of one stream.
#[derive(Debug)]
struct Flow {
    cutter: LineCutter,
    counter: LineCounter,
    kept: Kept,
    bytes: u64,
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
            unfinished_for: None,
        }
    }
}

/// What is wanted of the output beside showing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// Counts and the kept part, for a result.
    Kept,
    /// Nothing: nobody will see a result.
    None,
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
    seq: u64,
    /// The time of the last chunk: two readers stamp and then queue, so theirs can go back by microseconds.
    last_time: Duration,
    delivery: Delivery,
    is_lost: bool,
    undelivered_bytes: u64,
}

/// What came of a run, as the pump saw it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) outcome: Outcome,
    pub(super) streams: [StreamTotals; 2],
    pub(super) delivery: Delivery,
    /// Whether the sink is of no more use.
    pub(super) is_lost: bool,
    pub(super) undelivered_bytes: Option<u64>,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        shared: Arc<Shared>,
        supervisor: ToSupervisor,
        readers: Vec<ToReader>,
        capture: &Capture,
        account: Account,
        on_disconnect: OnDisconnect,
    ) -> Self {
        Self {
            sink,
            shared,
            supervisor,
            readers,
            flows: [Flow::new(capture), Flow::new(capture)],
            account,
            partial_after: capture.partial_after,
            on_disconnect,
            seq: 1,
            last_time: Duration::ZERO,
            delivery: Delivery::Whole,
            is_lost: false,
            undelivered_bytes: 0,
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
                Some(Message::Exited(exited)) => self.show(&Event::Exited(exited)),
                Some(Message::Stop(stop)) => self.show(&Event::Stop(stop)),
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
        let [stdout, stderr] = self.flows.map(|flow| StreamTotals {
            kept: flow.kept,
            bytes: flow.bytes,
            lines: flow.counter.lines_at_end(),
        });
        let is_cut = matches!(self.delivery, Delivery::Cut(_));
        Report {
            outcome,
            streams: [stdout, stderr],
            delivery: self.delivery,
            is_lost: self.is_lost,
            undelivered_bytes: is_cut.then_some(self.undelivered_bytes),
        }
    }

    fn take_block(&mut self, stream: Stream, block: Block, at: Duration) {
        let bytes = block.bytes();
        if self.account == Account::Kept {
            let flow = &mut self.flows[stream.index()];
            flow.bytes += bytes.len() as u64;
            flow.kept.push(bytes);
            flow.counter.push(bytes);
        }
        if self.is_lost {
            self.undelivered_bytes += bytes.len() as u64;
        } else if self.sink.wants_lines() {
            self.cut(stream, at, Cut::Push(bytes));
        } else {
            let shown = self.sink.block(stream, bytes);
            self.look_at(shown);
        }
        self.readers[stream.index()].give_back(block);
    }

    fn end_stream(&mut self, stream: Stream) {
        if !self.is_lost && self.sink.wants_lines() {
            self.cut(stream, self.last_time, Cut::Finish);
        }
    }

    /// Has the stream's cutter do something, and shows the pieces that it gives.
    fn cut(&mut self, stream: Stream, at: Duration, what: Cut<'_>) {
        self.last_time = self.last_time.max(at);
        let (at, sink, seq) = (self.last_time, &mut *self.sink, &mut self.seq);
        let mut shown = Ok(());
        let mut emit = |piece: Piece<'_>| {
            if shown.is_ok() {
                shown = sink.lines(stream, piece, at, *seq).map(|next| *seq = next);
            }
        };
        let flow = &mut self.flows[stream.index()];
        match what {
            Cut::Push(bytes) => flow.cutter.push(bytes, &mut emit),
            Cut::Unfinished => flow.cutter.flush_partial(&mut emit),
            Cut::Finish => flow.cutter.finish(&mut emit),
        }
        flow.unfinished_for = flow.cutter.has_unfinished().then_some(Duration::ZERO);
        self.look_at(shown);
    }

    fn show(&mut self, event: &Event<'_>) {
        if !self.is_lost {
            let shown = self.sink.event(event);
            self.look_at(shown);
        }
    }

    fn flush(&mut self) {
        if !self.is_lost {
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
                    self.cut(stream, self.shared.elapsed(), Cut::Unfinished);
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
        if self.is_lost {
            return;
        }
        self.is_lost = true;
        self.undelivered_bytes = self.sink.undelivered();
        let stops = self.on_disconnect == OnDisconnect::Stop;
        if stops && !matches!(lost, Lost::Abandoned) {
            self.supervisor.send(Notice::ConsumerLost);
        }
        self.delivery = delivery_of(lost, self.on_disconnect, &self.shared.patience);
    }

    /// A part of ours failed: the run cannot be told truly any more, so it is stopped.
    fn fail(&mut self, error: Error) {
        self.supervisor.send(Notice::ConsumerLost);
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
