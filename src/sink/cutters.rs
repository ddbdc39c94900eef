//! Cuts both streams of a run into lines, as far as those are shown.

use crate::model::event::Stream;
use crate::model::lines::{LineCutter, Piece};
use crate::model::spec::Capture;

/// What is shown of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Lines, and pieces of unfinished ones.
    Pieces,
    /// Lines, each in one piece as far as it is no longer than it may be.
    Lines,
    /// Nothing.
    Nothing,
}

/// The cutters of both streams.
#[derive(Debug)]
pub(super) struct Cutters {
    /// In the order of the streams.
    cutters: [LineCutter; 2],
    shows: Shows,
}

impl Cutters {
    /// Cuts as `capture` says.
    pub(super) fn new(capture: &Capture, shows: Shows) -> Self {
        let cutter = || LineCutter::new(capture.split, capture.max_line_bytes);
        Self { cutters: [cutter(), cutter()], shows }
    }

    /// Whether anything of the output is shown.
    pub(super) fn shows_output(&self) -> bool {
        self.shows != Shows::Nothing
    }

    /// Takes the next bytes of a stream and emits what they complete.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8], emit: &mut dyn FnMut(Piece<'_>)) {
        if self.shows_output() {
            self.cutters[stream.index()].push(bytes, emit);
        }
    }

    /// Emits what there is of a stream's unfinished line, if that is shown.
    pub(super) fn flush_partial(&mut self, stream: Stream, emit: &mut dyn FnMut(Piece<'_>)) {
        if self.shows == Shows::Pieces {
            self.cutters[stream.index()].flush_partial(emit);
        }
    }

    /// Whether that would be anything.
    pub(super) fn has_unfinished(&self, stream: Stream) -> bool {
        self.shows == Shows::Pieces && self.cutters[stream.index()].has_unfinished()
    }

    /// Emits what is unfinished as the last line of a stream, which has ended.
    pub(super) fn finish(&mut self, stream: Stream, emit: &mut dyn FnMut(Piece<'_>)) {
        self.cutters[stream.index()].finish(emit);
    }
}
