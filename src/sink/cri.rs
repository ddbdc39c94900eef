//! `cri`: container log lines, as the runtimes of Kubernetes write them.
//!
//! A record is one line whatever the output holds. It carries the output's exact bytes, so a LF in them, where
//! something else ends a line, begins a new record as it would have in a container.

use std::time::Duration;

use crate::model::event::{Event, Stream};
use crate::model::lines::{Piece, without_end};
use crate::model::spec::Split;
use crate::sink::destination::{Destination, Lost};
use crate::sink::lined::LineFormat;
use crate::sink::stamp::Stamp;

/// Shows a run as container log lines.
#[derive(Debug)]
pub struct Cri {
    out: Destination,
    split: Split,
    stamp: Stamp,
    /// Which streams, in their order, are within a line.
    in_line: [bool; 2],
}

impl Cri {
    /// Shows a run, whose lines end so, on this destination.
    #[must_use]
    pub fn new(out: Destination, split: Split) -> Self {
        Self { out, split, stamp: Stamp::new(), in_line: [false; 2] }
    }

    /// A line, or a piece of one, without its end, which had `end_bytes`.
    fn put_line(
        &mut self,
        stream: Stream,
        mut content: &[u8],
        end_bytes: usize,
        partial: bool,
    ) -> Result<(), Lost> {
        if self.split == Split::Nul {
            while let Some(at) = memchr::memchr(b'\n', content) {
                self.put(stream, &content[..at], 1, false)?;
                content = &content[at + 1..];
            }
        }
        self.put(stream, content, end_bytes, partial)?;
        self.in_line[stream.index()] = partial;
        Ok(())
    }

    fn put(
        &mut self,
        stream: Stream,
        content: &[u8],
        end_bytes: usize,
        partial: bool,
    ) -> Result<(), Lost> {
        let tags: &[u8] = match (stream, partial) {
            (Stream::Stdout, false) => b" stdout F ",
            (Stream::Stdout, true) => b" stdout P ",
            (Stream::Stderr, false) => b" stderr F ",
            (Stream::Stderr, true) => b" stderr P ",
        };
        let parts = [self.stamp.text(), tags, content, b"\n"];
        self.out.put_record(&parts, (content.len() + end_bytes) as u64)
    }
}

impl LineFormat for Cri {
    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration) -> Result<(), Lost> {
        self.stamp.set(at);
        match piece {
            Piece::One { bytes, partial: true } => self.put_line(stream, bytes, 0, true),
            Piece::One { bytes, partial: false } => {
                let content = without_end(bytes, self.split);
                self.put_line(stream, content, bytes.len() - content.len(), false)
            }
            Piece::Lines(mut lines) => {
                let end = *lines.last().expect("a run of lines has at least one");
                while let Some(at) = memchr::memchr(end, lines) {
                    self.put_line(stream, &lines[..at], 1, false)?;
                    lines = &lines[at + 1..];
                }
                Ok(())
            }
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Started(started) => self.stamp.start(started.clock),
            Event::Result(_) => {
                for stream in Stream::ALL {
                    self.break_line(stream)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Who joins the pieces of a line waits for the last one.
    fn break_line(&mut self, stream: Stream) -> Result<(), Lost> {
        let is_open = std::mem::take(&mut self.in_line[stream.index()]);
        if is_open { self.put(stream, b"", 0, false) } else { Ok(()) }
    }

    /// Its records have no numbers.
    fn set_seq(&mut self, _: u64) {}

    fn out(&mut self) -> &mut Destination {
        &mut self.out
    }

    fn out_ref(&self) -> &Destination {
        &self.out
    }

    fn delivered_bytes(&self) -> u64 {
        self.out.delivered_bytes()
    }
}
