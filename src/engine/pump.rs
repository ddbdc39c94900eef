//! The pump: takes what the readers and the supervisor send, counts, keeps, cuts lines, and shows it.
//!
//! It runs on the main thread, and is the only one that waits for the consumer (with `--on-lag drop` nobody of the run
//! does). It decides nothing about the run: that it lost its consumer it tells the supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::channel::{Block, Inbox, Message, Notice, Shared, ToReader, ToSupervisor};
use crate::engine::flow::{Flow, seen};
use crate::model::error::Error;
use crate::model::event::{Event, Heartbeat, Seconds, Started, Stream, StreamTotals};
use crate::model::outcome::{Delivery, Outcome};
use crate::model::spec::{Capture, Display, OnDisconnect};
use crate::sink::Sink;
use crate::sink::destination::{Lost, Patience};

/// The pump of one run.
pub(super) struct Pump<'a> {
    sink: &'a mut dyn Sink,
    shared: Arc<Shared>,
    supervisor: ToSupervisor,
    readers: Vec<ToReader>,
    flows: [Flow; 2],
    /// Whether anybody will see what was counted and kept.
    counts: bool,
    partial_after: Option<Duration>,
    heartbeat: Option<Duration>,
    /// Whether output counts as something that was shown.
    shows_output: bool,
    on_disconnect: OnDisconnect,
    /// The time of the last event. Each thread takes its time and then queues, so one can be behind another's
    /// by microseconds.
    last_time: Duration,
    /// When something was last shown.
    last_shown: Duration,
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
            counts: display.needs_totals(),
            partial_after: capture.partial_after,
            heartbeat: display.heartbeat,
            shows_output: !display.quiet,
            on_disconnect: display.on_disconnect,
            last_time: Duration::ZERO,
            last_shown: Duration::ZERO,
            taken_bytes: 0,
            delivery: Delivery::Whole,
        }
    }

    /// Shows the run to its end.
    pub(super) fn run(mut self, inbox: &Inbox, started: Option<Started>) -> Report {
        if let Some(started) = started {
            self.show(&Event::Started(started));
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
                Some(Message::Resized { at }) => self.resized(at),
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
        let at = self.in_order(Seconds(at)).0;
        let flow = &mut self.flows[stream.index()];
        flow.last_read = at;
        if flow.filter.is_some() {
            self.take_filtered(stream, Some(block.bytes()), at);
        } else {
            self.take_bytes(stream, block.bytes(), at);
        }
        self.readers[stream.index()].give_back(block);
        self.refresh(at);
    }

    /// Takes what a stream's filter makes of these bytes, or of the stream's end.
    fn take_filtered(&mut self, stream: Stream, bytes: Option<&[u8]>, at: Duration) {
        // Out of its place for as long as what it gives is looked at.
        let Some(mut filter) = self.flows[stream.index()].filter.take() else { return };
        let filtered = match bytes {
            Some(bytes) => filter.push(bytes),
            None => filter.finish(),
        };
        self.take_bytes(stream, filtered, at);
        self.flows[stream.index()].filter = Some(filter);
    }

    /// Counts, keeps and shows what came of a stream.
    fn take_bytes(&mut self, stream: Stream, bytes: &[u8], at: Duration) {
        if bytes.is_empty() {
            return;
        }
        self.taken_bytes += bytes.len() as u64;
        let flow = &mut self.flows[stream.index()];
        if self.counts {
            let lines = flow.counter.ended_lines();
            flow.count(bytes);
            // What is not a whole line yet is not written.
            if self.shows_output && flow.counter.ended_lines() > lines {
                self.last_shown = at;
            }
        }
        self.tell(|sink| sink.block(stream, bytes, at));
        self.note_unfinished(stream);
    }

    fn end_stream(&mut self, stream: Stream) {
        let at = self.in_order(Seconds(self.flows[stream.index()].last_read)).0;
        self.take_filtered(stream, None, at);
        self.tell(|sink| sink.end(stream, at));
        self.flows[stream.index()].unfinished_for = None;
    }

    fn resized(&mut self, at: Duration) {
        let (Seconds(at), size) = (self.in_order(Seconds(at)), self.shared.take_window_size());
        self.tell(|sink| sink.resized(size, at));
    }

    /// Shows what there is of an unfinished line.
    fn flush_partial(&mut self, stream: Stream) {
        let at = self.in_order(Seconds(self.flows[stream.index()].last_read)).0;
        self.last_shown = self.shared.elapsed();
        self.tell(|sink| sink.flush_partial(stream, at));
        self.flows[stream.index()].counter.flush_partial();
        self.note_unfinished(stream);
    }

    fn note_unfinished(&mut self, stream: Stream) {
        let has_unfinished = self.partial_after.is_some() && self.sink.has_unfinished(stream);
        self.flows[stream.index()].unfinished_for = has_unfinished.then_some(Duration::ZERO);
    }

    /// Lets the sink show where the run is, if it wants that now.
    fn refresh(&mut self, now: Duration) {
        if self.sink.is_lost() || self.sink.due().is_none_or(|due| due > now) {
            return;
        }
        let shown = self.sink.refresh(now, seen(&self.flows));
        self.look_at(shown);
    }

    /// Tells the sink something, while there is anybody to see it.
    fn tell(&mut self, what: impl FnOnce(&mut dyn Sink) -> Result<(), Lost>) {
        if !self.sink.is_lost() {
            let shown = what(self.sink);
            self.look_at(shown);
        }
    }

    /// A time, or that of the event before if it is later.
    fn in_order(&mut self, time: Seconds) -> Seconds {
        self.last_time = self.last_time.max(time.0);
        Seconds(self.last_time)
    }

    fn show(&mut self, event: &Event<'_>) {
        self.last_shown = self.last_time;
        self.tell(|sink| sink.event(event));
    }

    fn flush(&mut self) {
        self.tell(|sink| sink.flush());
    }

    /// Nothing more has come: shows what is due, writes out what was held back, and waits. An unfinished line
    /// goes out when it has waited for long enough; only time counts in which the command had the word and not
    /// the consumer.
    fn idle(&mut self, inbox: &Inbox) {
        let rest = [self.partial_rest(), self.refresh_rest(), self.heartbeat_rest()];
        self.flush();
        let Some(rest) = rest.into_iter().flatten().min() else { return inbox.wait(None) };
        let begin = Instant::now();
        inbox.wait(begin.checked_add(rest));
        let waited = begin.elapsed();
        for flow in &mut self.flows {
            if let Some(unfinished_for) = &mut flow.unfinished_for {
                *unfinished_for += waited;
            }
        }
    }

    /// How long until an unfinished line is to go out. One that has waited for long enough goes out here.
    fn partial_rest(&mut self) -> Option<Duration> {
        let partial_after = self.partial_after?;
        let mut rest: Option<Duration> = None;
        for stream in Stream::ALL {
            let Some(waited) = self.flows[stream.index()].unfinished_for else { continue };
            if waited >= partial_after {
                self.flush_partial(stream);
            } else {
                let left = partial_after - waited;
                rest = Some(rest.map_or(left, |rest| rest.min(left)));
            }
        }
        rest
    }

    /// How long until the sink wants to show where the run is. What it wants now it shows here.
    fn refresh_rest(&mut self) -> Option<Duration> {
        self.sink.due()?;
        let now = self.in_order(Seconds(self.shared.elapsed())).0;
        self.refresh(now);
        self.sink.due().map(|due| due.saturating_sub(now))
    }

    /// How long until a sign of life is due. One that is due now is shown here.
    fn heartbeat_rest(&mut self) -> Option<Duration> {
        let heartbeat = self.heartbeat?;
        let now = self.shared.elapsed();
        let silent = now.saturating_sub(self.last_shown);
        if silent < heartbeat {
            return Some(heartbeat - silent);
        }
        let t = self.in_order(Seconds(now));
        let seen = seen(&self.flows);
        let [stdout_bytes, stderr_bytes] = seen.bytes;
        let idle = Seconds(t.0.saturating_sub(seen.last_output));
        let event = Event::Heartbeat(Heartbeat { t, idle, stdout_bytes, stderr_bytes });
        self.show(&event);
        Some(heartbeat)
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
    pub(super) fn fail(&mut self, error: Error) {
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
