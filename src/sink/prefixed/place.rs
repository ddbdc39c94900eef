//! Where lines with prefixes are put: a destination, what is at its end, and how much of the command's output is
//! in its buffer.

use crate::model::event::{Event, Stream};
use crate::model::line_prefix::Prefix;
use crate::sink::destination::{Destination, Lost};
use crate::sys::terminal;

/// A destination for lines with prefixes.
#[derive(Debug)]
pub(super) struct Place {
    out: Destination,
    /// What ends a line.
    end: u8,
    /// The stream whose line is at its end, unfinished.
    open: Option<Stream>,
    /// What the buffer holds, in order.
    buffered: Vec<Part>,
    /// Bytes of the command's output that were put.
    put_bytes: u64,
}

/// A part of what the buffer holds.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// All its bytes; a buffer is smaller than 4 GiB.
    length: u32,
    /// Those of the command's output.
    output: u32,
    /// How long the prefix of each of its lines is.
    prefix: u32,
}

fn in_buffer(length: usize) -> u32 {
    u32::try_from(length).expect("a buffer is smaller than 4 GiB")
}

impl Place {
    /// Puts lines that this byte ends.
    pub(super) fn new(out: Destination, end: u8) -> Self {
        Self { out, end, open: None, buffered: Vec::new(), put_bytes: 0 }
    }

    /// The stream whose line is at its end, unfinished.
    pub(super) fn open(&self) -> Option<Stream> {
        self.open
    }

    /// Says whether the stream's line that was put is still unfinished.
    pub(super) fn set_open(&mut self, open: Option<Stream>) {
        self.open = open;
    }

    /// Whether it is of no more use.
    pub(super) fn is_lost(&self) -> bool {
        self.out.is_lost()
    }

    /// Ends an unfinished line, so that another one can begin.
    pub(super) fn begin_line(&mut self) -> Result<(), Lost> {
        match self.open.take() {
            Some(_) if self.end == b'\n' => self.put(terminal::line_end().as_bytes(), false),
            Some(_) => self.put(&[self.end], false),
            None => Ok(()),
        }
    }

    /// Puts what is not of the command.
    pub(super) fn put_own(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.put(bytes, false)
    }

    /// Puts a line of the command or a part of one.
    pub(super) fn put_output(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.put(bytes, true)
    }

    fn put(&mut self, mut bytes: &[u8], is_output: bool) -> Result<(), Lost> {
        while !bytes.is_empty() {
            let room = self.room(1)?;
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.filled(count, if is_output { count } else { 0 }, 0);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Puts whole lines behind a prefix that they all have. This is where the time goes.
    pub(super) fn put_lines(&mut self, prefix: &Prefix, mut lines: &[u8]) -> Result<(), Lost> {
        let end = self.end;
        let mut is_empty = false;
        while !lines.is_empty() {
            let progress = prefix.put_lines(lines, end, self.room(1)?);
            self.filled(progress.written, progress.read, prefix.bytes().len());
            lines = &lines[progress.read..];
            if lines.is_empty() {
                break;
            }
            if is_empty && progress.read == 0 {
                // A line that no buffer holds.
                let length = memchr::memchr(end, lines).map_or(lines.len(), |at| at + 1);
                self.put(prefix.bytes(), false)?;
                self.put(&lines[..length], true)?;
                lines = &lines[length..];
            } else {
                self.flush()?;
            }
            is_empty = !is_empty;
        }
        Ok(())
    }

    /// Writes an event at the start of a line.
    pub(super) fn put_event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.begin_line()?;
        self.flush()?;
        self.out.put_event(event)?;
        self.out.flush()
    }

    /// Writes the buffer out.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        if self.out.is_lost() {
            return Ok(());
        }
        self.out.flush()?;
        self.buffered.clear();
        Ok(())
    }

    fn room(&mut self, at_least: usize) -> Result<&mut [u8], Lost> {
        let flushes = self.out.flushes();
        self.out.room(at_least)?;
        if self.out.flushes() != flushes {
            self.buffered.clear();
        }
        self.out.room(at_least)
    }

    fn filled(&mut self, length: usize, output: usize, prefix: usize) {
        self.out.fill(length);
        self.put_bytes += output as u64;
        if length > 0 {
            let [length, output, prefix] = [length, output, prefix].map(in_buffer);
            self.buffered.push(Part { length, output, prefix });
        }
    }

    /// Bytes of the command's output that were written, but for a line that was cut short when the destination
    /// was lost.
    pub(super) fn delivered_bytes(&self) -> u64 {
        let unwritten = self.out.unwritten();
        let mut left = unwritten.len();
        let mut output = 0;
        for part in self.buffered.iter().rev() {
            let length = part.length as usize;
            if length > left {
                // Its end was not written, from the beginning of a line on.
                output += output_in(&unwritten[..left], *part, self.end);
                break;
            }
            output += u64::from(part.output);
            left -= length;
        }
        self.put_bytes.saturating_sub(output)
    }
}

/// How much of the end of a part is the command's output.
fn output_in(bytes: &[u8], part: Part, end: u8) -> u64 {
    match part.output {
        0 => 0,
        _ => {
            let lines = memchr::memchr_iter(end, bytes).count();
            bytes.len().saturating_sub(lines * part.prefix as usize) as u64
        }
    }
}
