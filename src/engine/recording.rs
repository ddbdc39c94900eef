//! Reads a recording, line by line: events as `ndjson` has them, or an asciicast.
//!
//! The two are told apart by their first line, not by the name of the file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::model::error::{Error, reason};
use crate::model::event::Event;
use crate::model::recorded::{Recorded, parse};
use crate::sys::whole::MOST_BYTES;

/// A recording that is being read.
pub(super) struct Recording {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    kind: Kind,
}

/// What its lines are.
enum Kind {
    /// Nothing was read yet.
    New,
    Events {
        is_over: bool,
    },
    Cast(CastStatus),
}

/// What an asciicast says of how its run ended.
#[derive(Clone, Copy)]
enum CastStatus {
    /// Nothing: it was recorded by somebody else.
    Foreign,
    /// It was not over.
    Open,
    /// So.
    Known(u8),
}

/// What one line of a recording is.
pub(super) enum Step<'a> {
    /// An event and its line with the end.
    Shown(Recorded<'a>, &'a [u8]),
    /// Output as it was read, not cut into lines, and when.
    Output(String, Duration),
    /// Something that is passed over.
    Nothing,
}

/// The first line of either kind.
#[derive(Deserialize)]
struct First<'a> {
    version: Option<u64>,
    #[serde(borrow)]
    op: Option<Cow<'a, str>>,
    runcast: Option<Sealed>,
}

/// What runcast adds to the header of an asciicast.
#[derive(Deserialize)]
struct Sealed {
    status: Option<u8>,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::File { option: "replay", path: path.into(), why };
        let file = File::open(path).map_err(|error| failed(reason(&error)))?;
        if file.metadata().is_ok_and(|found| found.is_dir()) {
            return Err(failed("it is a directory".to_owned()));
        }
        let (line, file) = (Vec::new(), BufReader::with_capacity(256 * 1024, file));
        Ok(Self { path: path.to_owned(), file, line, number: 0, kind: Kind::New })
    }

    /// The next line; `None` at the end of a recording that is whole.
    ///
    /// # Errors
    ///
    /// Where the line is none of a recording, or the recording was cut off before it.
    pub(super) fn next(&mut self) -> Result<Option<Step<'_>>, Error> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.file).take(MOST_BYTES).read_until(b'\n', &mut self.line);
        match read {
            Err(error) => return Err(self.fault(reason(&error))),
            Ok(0) => return self.end().map(|()| None),
            // An asciicast may lack its last line's end: what was cut off makes no sense.
            Ok(_) if !self.line.ends_with(b"\n") && matches!(self.kind, Kind::Events { .. }) => {
                return Err(self.fault("cut off"));
            }
            Ok(_) => {}
        }
        if let Kind::New = self.kind {
            self.kind = self.first_line()?;
            if let Kind::Cast(_) = self.kind {
                return Ok(Some(Step::Nothing));
            }
        }
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let step = match &mut self.kind {
            Kind::Events { is_over } => match parse(text) {
                Ok(recorded) => {
                    *is_over = matches!(recorded, Recorded::Event(Event::Result(_)));
                    // Looked for before a result is shown: it is the last line, or none.
                    let behind = if *is_over { self.file.fill_buf() } else { Ok(&[][..]) };
                    self.number += u64::from(*is_over);
                    match behind {
                        Ok([]) => Ok(Step::Shown(recorded, &self.line)),
                        Ok(_) => Err("it stands behind the result".to_owned()),
                        Err(error) => Err(reason(&error)),
                    }
                }
                Err(why) => Err(why),
            },
            Kind::Cast(_) => cast_step(text),
            Kind::New => Ok(Step::Nothing),
        };
        let (path, line) = (&self.path, self.number);
        step.map(Some).map_err(|why| Error::Recording { path: path.clone(), line, why })
    }

    fn first_line(&self) -> Result<Kind, Error> {
        let first: First<'_> = serde_json::from_slice(&self.line)
            .map_err(|_| self.fault("neither an event of a run nor the header of an asciicast"))?;
        match first {
            First { op: Some(_), .. } if !self.line.ends_with(b"\n") => Err(self.fault("cut off")),
            First { op: Some(_), .. } => Ok(Kind::Events { is_over: false }),
            First { version: Some(2), runcast, .. } => {
                let status = match runcast {
                    None => CastStatus::Foreign,
                    Some(Sealed { status: None }) => CastStatus::Open,
                    Some(Sealed { status: Some(status) }) => CastStatus::Known(status),
                };
                Ok(Kind::Cast(status))
            }
            First { version: Some(version), .. } => {
                Err(self.fault(format!("an asciicast of version {version}; only 2 can be played")))
            }
            First { .. } => {
                Err(self.fault("neither an event of a run nor the header of an asciicast"))
            }
        }
    }

    /// The end of the file: is it that of the recording?
    fn end(&self) -> Result<(), Error> {
        match self.kind {
            Kind::New => Err(self.fault("the file is empty")),
            Kind::Cast(CastStatus::Foreign | CastStatus::Known(_))
            | Kind::Events { is_over: true } => Ok(()),
            Kind::Events { is_over: false } | Kind::Cast(CastStatus::Open) => {
                Err(self.fault("the recording was cut off here: it has no result"))
            }
        }
    }

    /// The exit status, of an asciicast that has one.
    pub(super) fn cast_status(&self) -> Option<u8> {
        match self.kind {
            Kind::Cast(CastStatus::Known(status)) => Some(status),
            _ => None,
        }
    }

    fn fault(&self, why: impl Into<String>) -> Error {
        Error::Recording { path: self.path.clone(), line: self.number, why: why.into() }
    }
}

/// One event of an asciicast: `[TIME, CODE, DATA]`.
fn cast_step(line: &[u8]) -> Result<Step<'static>, String> {
    if line.is_empty() {
        return Ok(Step::Nothing);
    }
    let wrong = |_| "no event of an asciicast".to_owned();
    let (time, code, data): (f64, Cow<'_, str>, Value) =
        serde_json::from_slice(line).map_err(wrong)?;
    let at = Duration::try_from_secs_f64(time).map_err(|_| format!("{time} is no time"))?;
    match &*code {
        "o" => {
            let text = serde_json::from_value(data).map_err(wrong)?;
            Ok(Step::Output(text, at))
        }
        // Input, markers, sizes, and what later versions have.
        _ => Ok(Step::Nothing),
    }
}
