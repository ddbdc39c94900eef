//! A record a line for log viewers, whatever the record is written in: that is its [`Dialect`]'s.

use std::time::Duration;

use crate::model::escape::escape_until;
use crate::model::event::{Dropped, Event, Stream};
use crate::model::lines::{Piece, by_encoding, without_end};
use crate::model::spec::{Level, Split};
use crate::sink::conclusion::Conclusion;
use crate::sink::destination::{Destination, Lost};
use crate::sink::json_text::{put_base64, put_escaped, put_lossy};
use crate::sink::lined::LineFormat;
use crate::sink::stamp::Stamp;

/// What records are written in. The text of a message is in all of them a JSON string's.
pub trait Dialect: Send {
    /// What stands behind a record's number.
    const END: &[u8];
    /// What stands there too where the line goes on in the next record of its stream.
    const PARTIAL: &[u8];
    /// What stands before and behind the base64 of a line that is not UTF-8.
    const BASE64: [&[u8]; 2];

    /// Writes what stands before the message of a record.
    fn put_head(head: &mut Vec<u8>, time: &[u8], level: Level);

    /// Writes what stands behind the message of a line, up to its number.
    fn put_tail(tail: &mut Vec<u8>, stream: Stream, run: Option<&str>);

    /// Writes what stands behind the message of a record that is no line, its end included.
    fn put_rest(rest: &mut Vec<u8>, run: Option<&str>, conclusion: Option<&Conclusion<'_>>);
}

/// The longest number.
const NUMBER_BYTES: usize = "18446744073709551615".len();

/// How many times as long as the bytes is what is written for them at most: an escape has six bytes, and there
/// may be base64 of them too.
const GROWTH: usize = 8;

/// Shows a run as such records.
#[derive(Debug)]
pub struct Logged<D> {
    out: Destination,
    dialect: std::marker::PhantomData<D>,
    split: Split,
    stderr_level: Level,
    /// The run's name, as soon as it has one.
    run: Option<String>,
    /// The number of the next line.
    seq: u64,
    stream: Stream,
    stamp: Stamp,
    /// What stands before and behind each message of what was read together.
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<D: Dialect> Logged<D> {
    /// Shows a run, whose lines end so, on this destination, with this level for a line of standard error.
    #[must_use]
    pub fn new(out: Destination, split: Split, stderr_level: Level) -> Self {
        Self {
            out,
            dialect: std::marker::PhantomData,
            split,
            stderr_level,
            run: None,
            seq: 1,
            stream: Stream::Stdout,
            stamp: Stamp::new(),
            head: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// Makes ready for lines that were read together.
    fn set(&mut self, stream: Stream, at: Duration) {
        if self.stamp.set(at) | (self.stream != stream) | self.tail.is_empty() {
            self.stream = stream;
            let level = match stream {
                Stream::Stdout => Level::Info,
                Stream::Stderr => self.stderr_level,
            };
            self.head.clear();
            D::put_head(&mut self.head, self.stamp.text(), level);
            self.tail.clear();
            D::put_tail(&mut self.tail, stream, self.run.as_deref());
        }
    }

    /// Whole lines: those that are UTF-8 all at once, others one by one.
    fn put_lines(&mut self, lines: &[u8]) -> Result<(), Lost> {
        let end = *lines.last().expect("a run of lines has at least one");
        for (valid, bad) in by_encoding(lines) {
            self.put_valid_lines(valid, end)?;
            if let Some(bad) = bad {
                self.put_one(bad, false)?;
            }
        }
        Ok(())
    }

    /// Whole lines that are UTF-8. This is where the time goes.
    fn put_valid_lines(&mut self, mut lines: &[u8], end: u8) -> Result<(), Lost> {
        while !lines.is_empty() {
            let mut length = self.put_if_room(lines, end)?;
            if length == 0 {
                self.out.flush()?;
                length = self.put_if_room(lines, end)?;
            }
            if length == 0 {
                // It is larger than the buffer.
                length = memchr::memchr(end, lines).map_or(lines.len(), |end| end + 1);
                self.put_one(&lines[..length], false)?;
            }
            lines = &lines[length..];
        }
        Ok(())
    }

    /// The first of these lines, if the buffer has room for its record. Returns its length, or 0.
    fn put_if_room(&mut self, lines: &[u8], end: u8) -> Result<usize, Lost> {
        let Self { out, head, tail, seq, .. } = self;
        let room = out.room(1)?;
        let closing = tail.len() + NUMBER_BYTES + D::END.len();
        if room.len() < head.len() + closing {
            return Ok(0);
        }
        room[..head.len()].copy_from_slice(head);
        let limit = room.len() - closing;
        let progress = escape_until(lines, &mut room[head.len()..limit], Some(end));
        if !progress.at_end {
            return Ok(0);
        }
        let mut at = head.len() + progress.written;
        let mut number = itoa::Buffer::new();
        for part in [tail, number.format(*seq).as_bytes(), D::END] {
            room[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        *seq = seq.saturating_add(1);
        out.fill(at);
        out.end_record(progress.read as u64);
        Ok(progress.read)
    }

    /// A single line, or a piece of one.
    fn put_one(&mut self, bytes: &[u8], partial: bool) -> Result<(), Lost> {
        let content = if partial { bytes } else { without_end(bytes, self.split) };
        let around = self.head.len() + self.tail.len() + NUMBER_BYTES + 64;
        self.out.begin_record(content.len().saturating_mul(GROWTH).saturating_add(around))?;
        self.out.put(&self.head)?;
        let exact = put_lossy(&mut self.out, content)?;
        self.out.put(&self.tail)?;
        self.out.put(itoa::Buffer::new().format(self.seq).as_bytes())?;
        if partial {
            self.out.put(D::PARTIAL)?;
        }
        if !exact {
            let [before, behind] = D::BASE64;
            self.out.put(before)?;
            put_base64(&mut self.out, content)?;
            self.out.put(behind)?;
        }
        self.out.put(D::END)?;
        self.out.end_record(bytes.len() as u64);
        // What was read back may add up to any number.
        self.seq = self.seq.saturating_add(1);
        Ok(())
    }

    /// A record that is no line.
    fn put_record(
        &mut self,
        level: Level,
        message: &str,
        conclusion: Option<&Conclusion<'_>>,
    ) -> Result<(), Lost> {
        let (mut head, mut rest) = (Vec::new(), Vec::new());
        D::put_head(&mut head, self.stamp.text(), level);
        D::put_rest(&mut rest, self.run.as_deref(), conclusion);
        self.out.begin_record(head.len() + message.len() * GROWTH + rest.len())?;
        self.out.put(&head)?;
        put_escaped(&mut self.out, message)?;
        self.out.put(&rest)?;
        self.out.end_record(0);
        // The next lines need their own time again.
        self.tail.clear();
        Ok(())
    }

    fn put_dropped(&mut self, dropped: &Dropped) -> Result<(), Lost> {
        let Dropped { t, chunks, bytes, .. } = *dropped;
        self.stamp.advance(t.0);
        let message = format!("{chunks} lines ({bytes} bytes) were dropped");
        self.put_record(Level::Warn, &message, None)
    }
}

impl<D: Dialect> LineFormat for Logged<D> {
    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration) -> Result<(), Lost> {
        self.set(stream, at);
        match piece {
            Piece::One { bytes, partial } => self.put_one(bytes, partial),
            Piece::Lines(lines) => self.put_lines(lines),
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Started(started) => {
                self.stamp.start(started.clock);
                self.run = Some(started.id.clone());
                Ok(())
            }
            Event::Dropped(dropped) => self.put_dropped(dropped),
            Event::Result(result) => {
                let conclusion = Conclusion::of(result);
                self.stamp.advance(result.duration.0);
                self.put_record(conclusion.level(), &conclusion.message(), Some(&conclusion))
            }
            _ => Ok(()),
        }
    }

    fn set_seq(&mut self, seq: u64) {
        self.seq = seq;
    }

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
