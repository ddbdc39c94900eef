//! `ndjson`: one JSON object per line.
//!
//! Events come through serde, but for the chunk: of those there are millions, so it is put together from a
//! ready-made envelope and the escaped line. A test holds the two against each other.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::event::{Event, Metadata, RunResult, Started, Stream};
use crate::model::lines::Piece;
use crate::model::spec::Display;
use crate::sink::destination::{Destination, Lost};
use crate::sink::{Sink, json_line};

/// The longest part of a line that is escaped before the buffer is looked at: a line may be as long as the
/// user allows, and each of its bytes may take six.
const SLICE_BYTES: usize = 16 * 1024;

/// Shows a run as NDJSON.
#[derive(Debug)]
pub struct Ndjson<'a> {
    out: Destination<'a>,
    quiet: bool,
    /// What stands in every chunk behind its own fields: `}` and the line's end, and before it the metadata.
    tail: Vec<u8>,
    /// What stands between a chunk's number and its content, and what it was made for.
    time: (Duration, Vec<u8>),
}

impl<'a> Ndjson<'a> {
    /// Shows a run on this destination.
    #[must_use]
    pub fn new(out: Destination<'a>, display: &Display) -> Self {
        let mut tail = Vec::new();
        if !display.metadata.is_empty() {
            tail.extend_from_slice(b",\"metadata\":");
            serde_json::to_writer(&mut tail, &Metadata(&display.metadata))
                .expect("strings into memory cannot fail");
        }
        tail.extend_from_slice(b"}\n");
        let mut sink = Self { out, quiet: display.quiet, tail, time: (Duration::ZERO, Vec::new()) };
        sink.set_time(Duration::ZERO);
        sink
    }

    fn set_time(&mut self, at: Duration) {
        self.time.0 = at;
        self.time.1.clear();
        write!(self.time.1, ",\"t\":{}.{:06},\"content\":\"", at.as_secs(), at.subsec_micros())
            .expect("writing into memory cannot fail");
    }

    fn put_event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.out.buffer().extend_from_slice(&json_line(event));
        self.out.flush_if_full()
    }

    /// Puts one chunk into the buffer.
    fn put_chunk(&mut self, kind: Stream, seq: u64, bytes: &[u8], text: &str, partial: bool) -> Result<(), Lost> {
        let envelope: &[u8] = match kind {
            Stream::Stdout => b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":",
            Stream::Stderr => b"{\"op\":\"chunk\",\"kind\":\"stderr\",\"seq\":",
        };
        let buffer = self.out.buffer();
        buffer.extend_from_slice(envelope);
        write!(buffer, "{seq}").expect("writing into memory cannot fail");
        buffer.extend_from_slice(&self.time.1);
        for slice in text.as_bytes().chunks(SLICE_BYTES) {
            escape_into(self.out.buffer(), slice);
            self.out.flush_if_full()?;
        }
        let buffer = self.out.buffer();
        buffer.push(b'"');
        if partial {
            buffer.extend_from_slice(b",\"partial\":true");
        }
        if bytes.as_ptr() != text.as_ptr() {
            self.put_base64(bytes)?;
        }
        self.out.buffer().extend_from_slice(&self.tail);
        self.out.flush_if_full()
    }

    fn put_base64(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.out.buffer().extend_from_slice(b",\"base64\":\"");
        // A multiple of three bytes is encoded without padding, so the parts can stand one behind another.
        for slice in bytes.chunks(SLICE_BYTES / 3 * 3) {
            let encoded = STANDARD.encode(slice);
            self.out.buffer().extend_from_slice(encoded.as_bytes());
            self.out.flush_if_full()?;
        }
        self.out.buffer().push(b'"');
        Ok(())
    }

    fn put_line(&mut self, kind: Stream, seq: u64, bytes: &[u8], partial: bool) -> Result<(), Lost> {
        match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => self.put_chunk(kind, seq, bytes, text, partial),
            Cow::Owned(text) => self.put_chunk(kind, seq, bytes, &text, partial),
        }
    }
}

impl Sink for Ndjson<'_> {
    fn wants_lines(&self) -> bool {
        !self.quiet
    }

    fn started(&mut self, started: Started<'_>) -> Result<(), Lost> {
        self.put_event(&Event::Started(started))
    }

    fn block(&mut self, _: Stream, _: &[u8]) -> Result<(), Lost> {
        Ok(())
    }

    fn lines(&mut self, stream: Stream, piece: Piece<'_>, at: Duration, mut seq: u64) -> Result<u64, Lost> {
        if self.time.0 != at {
            self.set_time(at);
        }
        match piece {
            Piece::One { bytes, partial } => {
                self.put_line(stream, seq, bytes, partial)?;
                seq += 1;
            }
            Piece::Lines(lines) => {
                let end = *lines.last().expect("a run of lines has at least one");
                let mut begin = 0;
                for at in memchr::memchr_iter(end, lines) {
                    self.put_line(stream, seq, &lines[begin..=at], false)?;
                    begin = at + 1;
                    seq += 1;
                }
            }
        }
        Ok(seq)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        self.put_event(event)
    }

    fn result(&mut self, result: RunResult<'_>) -> Result<(), Lost> {
        self.put_event(&Event::Result(Box::new(result)))?;
        self.out.flush()
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.out.flush()
    }

    /// The output in the lines that were not written to their end: half a line is of no use to a reader.
    fn undelivered(&self) -> u64 {
        self.out.unwritten().split_inclusive(|&byte| byte == b'\n').map(chunk_bytes).sum()
    }
}

/// How many bytes of output a line of this format carries, whole or only its end.
fn chunk_bytes(line: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Carried<'a> {
        #[serde(borrow)]
        content: Option<Cow<'a, str>>,
        #[serde(borrow)]
        base64: Option<Cow<'a, str>>,
    }
    match serde_json::from_slice::<Carried<'_>>(line) {
        Ok(Carried { base64: Some(exact), .. }) => {
            STANDARD.decode(exact.as_bytes()).map_or(0, |bytes| bytes.len() as u64)
        }
        Ok(Carried { content, .. }) => content.map_or(0, |text| text.len() as u64),
        // The beginning of it was written: what is left is at least that much, escapes aside.
        Err(_) => line.len() as u64,
    }
}

/// Appends a text as the inside of a JSON string. Bytes above 127 pass as they are.
fn escape_into(buffer: &mut Vec<u8>, text: &[u8]) {
    let mut begin = 0;
    for (at, &byte) in text.iter().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        buffer.extend_from_slice(&text[begin..at]);
        begin = at + 1;
        if escape == b'u' {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
            buffer.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        } else {
            buffer.extend_from_slice(&[b'\\', escape]);
        }
    }
    buffer.extend_from_slice(&text[begin..]);
}

/// For each byte what stands behind the backslash, or 0 where it needs none.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};
