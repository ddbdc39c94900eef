//! A recording as an asciicast v2, which terminal players play: what was shown, and when.
//!
//! It has the output alone; for how the run ended the format has no event. So the exit status stands in the header,
//! as a field of runcast's own, which players pass over: null until the run is over.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::Serialize;

use crate::model::error::Error;
use crate::model::escape::{LEAST_ROOM, escape_until};
use crate::model::event::{Event, Started, Stream};
use crate::model::lines::unfinished_character;
use crate::model::shell_line::joined;
use crate::model::spec::WindowSize;
use crate::sink::destination::{Destination, Lost};
use crate::sink::json_text::{REPLACEMENT, put_escaped};
use crate::sink::{Account, Cut, Sink};

/// The exit status of a run that is not over.
const NO_STATUS: &[u8; 4] = b"null";

/// What the output is played on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// Its width.
    pub columns: u16,
    /// Its height.
    pub rows: u16,
    /// What kind of terminal it is: the variable `TERM`.
    pub terminal: Option<String>,
    /// The user's shell: the variable `SHELL`.
    pub shell: Option<String>,
    /// What ends a line of the output.
    pub line_end: LineEnd,
}

/// What ends a line of output that is played on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// What the terminal takes for one: the output was written to a terminal.
    AsItCame,
    /// LF alone, which a terminal would have made CR LF of.
    Lf,
}

/// Records a run as an asciicast.
#[derive(Debug)]
pub struct Cast {
    out: Destination,
    /// The file once more, where the header can be written in.
    file: Option<File>,
    /// Where the exit status stands in it.
    status_at: u64,
    screen: Screen,
    is_begun: bool,
    /// Of each stream, the beginning of a character whose rest is yet to come.
    unfinished: [Vec<u8>; 2],
}

#[derive(Serialize)]
struct Header<'a> {
    version: u8,
    width: u16,
    height: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    env: Environment<'a>,
}

#[derive(Serialize)]
struct Environment<'a> {
    #[serde(rename = "TERM", skip_serializing_if = "Option::is_none")]
    terminal: Option<&'a str>,
    #[serde(rename = "SHELL", skip_serializing_if = "Option::is_none")]
    shell: Option<&'a str>,
}

impl Cast {
    /// Records a run on this destination, to be played on this screen. `file` is the destination where that is a
    /// regular file, and empty.
    #[must_use]
    pub fn new(out: Destination, screen: Screen, file: Option<File>) -> Self {
        let unfinished = [Vec::new(), Vec::new()];
        Self { out, file, status_at: 0, screen, is_begun: false, unfinished }
    }

    /// Writes the exit status into the header, in the room that its null takes.
    fn put_status(&mut self, status: u8) -> Result<(), Lost> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = format!("{status:<width$}", width = NO_STATUS.len());
        file.write_all_at(text.as_bytes(), self.status_at).map_err(|source| {
            Lost::Failed(Error::Output { what: self.out.name().to_owned(), source })
        })
    }

    /// The first line. One of a run that never started knows neither command nor time.
    fn begin(&mut self, started: Option<&Started>) -> Result<(), Lost> {
        self.is_begun = true;
        let Screen { columns, rows, terminal, shell, .. } = &self.screen;
        let header = Header {
            version: 2,
            width: *columns,
            height: *rows,
            timestamp: started.map(|started| started.clock.0.as_second()),
            command: started
                .and_then(|started| started.argv.as_deref())
                .map(|argv| joined(argv.iter().map(String::as_str))),
            env: Environment { terminal: terminal.as_deref(), shell: shell.as_deref() },
        };
        let mut line = serde_json::to_vec(&header).expect("fields into memory cannot fail");
        if self.file.is_some() {
            // Where it cannot be written in later, nothing is said of it.
            line.pop();
            line.extend_from_slice(b",\"runcast\":{\"status\":");
            self.status_at = line.len() as u64;
            line.extend_from_slice(NO_STATUS);
            line.extend_from_slice(b"}}");
        }
        line.push(b'\n');
        self.out.put(&line)
    }

    fn begin_event(&mut self, at: Duration, kind: &str) -> Result<(), Lost> {
        self.out.put(b"[")?;
        self.out.put(itoa::Buffer::new().format(at.as_secs()).as_bytes())?;
        // The seventh digit is there only to keep the zeros behind it.
        let mut micros = itoa::Buffer::new();
        let micros = micros.format(1_000_000 + at.subsec_micros());
        for part in [b".", &micros.as_bytes()[1..], b",\"", kind.as_bytes(), b"\",\""] {
            self.out.put(part)?;
        }
        Ok(())
    }

    fn put_output(&mut self, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        self.begin_event(at, "o")?;
        for part in bytes.utf8_chunks() {
            match self.screen.line_end {
                LineEnd::AsItCame => put_escaped(&mut self.out, part.valid())?,
                LineEnd::Lf => self.put_lines(part.valid())?,
            }
            if !part.invalid().is_empty() {
                self.out.put(REPLACEMENT)?;
            }
        }
        self.out.put(b"\"]\n")
    }

    /// Text, with CR LF for its LF.
    fn put_lines(&mut self, text: &str) -> Result<(), Lost> {
        let mut text = text.as_bytes();
        while !text.is_empty() {
            let progress = escape_until(text, self.out.room(LEAST_ROOM)?, Some(b'\n'));
            self.out.fill(progress.written);
            if progress.at_end {
                self.out.put(b"\\r\\n")?;
            }
            text = &text[progress.read..];
        }
        Ok(())
    }
}

impl Sink for Cast {
    fn block(&mut self, stream: Stream, bytes: &[u8], at: Duration) -> Result<(), Lost> {
        let unfinished = &mut self.unfinished[stream.index()];
        let mut joined = std::mem::take(unfinished);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let (whole, rest) = bytes.split_at(bytes.len() - unfinished_character(bytes));
        unfinished.extend_from_slice(rest);
        if whole.is_empty() { Ok(()) } else { self.put_output(whole, at) }
    }

    fn piece(&mut self, piece: Cut<'_>) -> Result<(), Lost> {
        self.block(piece.stream, piece.piece.bytes(), piece.at)
    }

    fn end(&mut self, stream: Stream, at: Duration) -> Result<(), Lost> {
        let unfinished = std::mem::take(&mut self.unfinished[stream.index()]);
        if unfinished.is_empty() { Ok(()) } else { self.put_output(&unfinished, at) }
    }

    fn resized(&mut self, size: WindowSize, at: Duration) -> Result<(), Lost> {
        self.begin_event(at, "r")?;
        self.out.put(format!("{}x{}", size.columns, size.rows).as_bytes())?;
        self.out.put(b"\"]\n")
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Lost> {
        match event {
            Event::Started(started) => self.begin(Some(started)),
            Event::Result(result) => {
                if !self.is_begun {
                    self.begin(None)?;
                }
                self.flush()?;
                self.put_status(result.status)
            }
            _ => Ok(()),
        }
    }

    fn amend(&mut self, result: &Event<'_>) -> Result<(), Lost> {
        match result {
            Event::Result(result) if !self.is_lost() => self.put_status(result.status),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.out.flush()
    }

    fn is_lost(&self) -> bool {
        self.out.is_lost()
    }

    fn account(&self) -> Account {
        Account::default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::sync::Arc;

    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::Value;

    use super::*;
    use crate::sink::destination::Outlet;

    /// The events of a recording of what `record` does.
    fn recorded(line_end: LineEnd, record: impl FnOnce(&mut Cast)) -> Vec<Value> {
        let mut file: File = tempfile::tempfile().expect("a file");
        let outlet = Outlet::Opened(file.try_clone().expect("a descriptor is free").into());
        let out = Destination::new(outlet, "a file", &Arc::default());
        let screen = Screen { columns: 80, rows: 24, terminal: None, shell: None, line_end };
        let mut cast = Cast::new(out, screen, None);
        record(&mut cast);
        cast.flush().expect("there is room");
        let mut written = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut written)).expect("it is text");
        written.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    fn text_of(events: &[Value]) -> String {
        events.iter().map(|event| event[2].as_str().expect("it is text")).collect()
    }

    proptest! {
        #[test]
        fn text_comes_whole_however_it_was_read(text in any::<String>(), size in 1..9_usize, raw in any::<bool>()) {
            let line_end = if raw { LineEnd::AsItCame } else { LineEnd::Lf };
            let events = recorded(line_end, |cast| {
                for block in text.as_bytes().chunks(size) {
                    cast.block(Stream::Stdout, block, Duration::ZERO).expect("there is room");
                }
                cast.end(Stream::Stdout, Duration::ZERO).expect("there is room");
            });
            let expected = if raw { text } else { text.replace('\n', "\r\n") };
            prop_assert_eq!(text_of(&events), expected);
        }

        #[test]
        fn what_is_not_utf8_is_replaced(bytes in proptest::collection::vec(any::<u8>(), 0..40), size in 1..9_usize) {
            let events = recorded(LineEnd::AsItCame, |cast| {
                for block in bytes.chunks(size) {
                    cast.block(Stream::Stderr, block, Duration::ZERO).expect("there is room");
                }
                cast.end(Stream::Stderr, Duration::ZERO).expect("there is room");
            });
            prop_assert_eq!(text_of(&events), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn an_event_has_its_time_and_its_kind() {
        let events = recorded(LineEnd::AsItCame, |cast| {
            let at = Duration::from_micros(61_000_042);
            cast.block(Stream::Stdout, b"a", at).expect("there is room");
            cast.resized(WindowSize { columns: 132, rows: 43 }, at).expect("there is room");
        });
        let expected = [
            serde_json::json!([61.000_042, "o", "a"]),
            serde_json::json!([61.000_042, "r", "132x43"]),
        ];
        assert_eq!(events, expected);
    }
}
