//! What is seen of the output as it passes: counted, and kept for the result.

use std::time::Duration;

use crate::model::event::StreamTotals;
use crate::model::filter::Filter;
use crate::model::kept::Kept;
use crate::model::lines::LineCounter;
use crate::model::spec::Capture;
use crate::sink::Seen;

/// What is known of one stream.
#[derive(Debug)]
pub(super) struct Flow {
    /// What is done to it before anybody sees it.
    pub(super) filter: Option<Filter>,
    pub(super) counter: LineCounter,
    kept: Kept,
    pub(super) bytes: u64,
    /// When its last bytes were read.
    pub(super) last_read: Duration,
    /// How long an unfinished line has waited for more while we waited for the command; `None` where there is
    /// none, or what there is of it went out.
    pub(super) unfinished_for: Option<Duration>,
}

impl Flow {
    pub(super) fn new(capture: &Capture) -> Self {
        Self {
            filter: Filter::new(capture.strip_ansi, capture.mask.as_ref()),
            counter: LineCounter::new(capture.split),
            kept: Kept::new(capture.keep, capture.max_output_bytes),
            bytes: 0,
            last_read: Duration::ZERO,
            unfinished_for: None,
        }
    }

    pub(super) fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.kept.push(bytes);
        self.counter.push(bytes);
    }

    pub(super) fn totals(mut self) -> StreamTotals {
        self.kept.settle();
        StreamTotals { kept: self.kept, bytes: self.bytes, lines: self.counter.lines_at_end() }
    }
}

/// What was seen of both streams so far.
pub(super) fn seen(flows: &[Flow; 2]) -> Seen<'_> {
    let [stdout, stderr] = flows;
    Seen {
        kept: [&stdout.kept, &stderr.kept],
        bytes: [stdout.bytes, stderr.bytes],
        lines: [stdout.counter.lines_at_end(), stderr.counter.lines_at_end()],
        last_output: stdout.last_read.max(stderr.last_read),
    }
}
