//! What the journal has of a run that has no result of its own, for one that is made in its place.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::ending::SoFar;
use crate::model::event::{Stream, StreamTotals};
use crate::model::kept::Kept;
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::model::spec::Capture;
use crate::runs::folder::Folder;
use crate::runs::follow::{Follower, Since, written};
use crate::runs::observer::find;

/// What there was of a run, and of its output what a result keeps; `None` where that cannot be read.
pub(crate) fn so_far(id: &RunId, capture: &Capture) -> Option<SoFar> {
    read(&Arc::new(find(id).ok()?), capture).ok()
}

fn read(folder: &Arc<Folder>, capture: &Capture) -> io::Result<SoFar> {
    let mut kept = Stream::ALL.map(|_| Kept::new(capture.keep, capture.max_output_bytes));
    let mut duration = Duration::ZERO;
    let mut follower = Follower::new(Arc::clone(folder), Since::Chunk(0));
    let mut lines = Vec::new();
    while follower.next(&mut lines)? {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            if let Ok(Recorded::Chunk(chunk)) = parse(line.trim_ascii_end()) {
                kept[chunk.stream.index()].push(&chunk.bytes);
                duration = chunk.at;
            }
        }
    }
    // Of what is no longer in the journal it still knows how much it was.
    let all = written(folder)?;
    let [stdout, stderr] = kept;
    let totals = |mut kept: Kept, stream: Stream| {
        kept.settle();
        let (bytes, whole) = (all.bytes[stream.index()], all.lines[stream.index()]);
        StreamTotals {
            kept,
            bytes,
            lines: whole.saturating_add(u64::from(all.open[stream.index()])),
        }
    };
    let streams = [totals(stdout, Stream::Stdout), totals(stderr, Stream::Stderr)];
    Ok(SoFar { streams, duration })
}
