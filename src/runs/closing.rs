//! The end of a run's folder: how much output there was in all, and the result.
//!
//! Room for both is taken at the start, so that a disk that is full by then holds up neither. The result is whole
//! or absent; where there is no room for all of it, it is what fits: how the run ended.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use nix::fcntl::OFlag;

use crate::model::error::{Error, ErrorCode, reason};
use crate::model::event::{ErrorFields, Event, LossyText, RunResult};
use crate::runs::folder::Folder;
use crate::runs::segments::Before;
use crate::sink::write_json_line;

/// The name of the file that has the result.
pub(super) const RESULT: &str = "result";

/// Room for the least result. Too little, and a long message has no place; more only takes room.
const RESERVED_BYTES: usize = 4096;

/// The name of the file that keeps that room.
pub(super) const RESERVED: &str = "result.reserved";

/// Room for the totals: the line has at most as many.
const TOTALS_BYTES: usize = 256;

/// The name of the file that has them.
pub(super) const TOTALS: &str = "totals";

/// Takes the room.
pub(super) fn reserve(folder: &Folder) -> io::Result<()> {
    folder.create(RESERVED)?.write_all(&[b' '; RESERVED_BYTES])?;
    folder.create(TOTALS)?.write_all(&[b' '; TOTALS_BYTES])
}

/// Writes down how much output there was in all, whatever the journal has of it.
pub(super) fn put_totals(folder: &Folder, totals: Before) -> io::Result<()> {
    let file = folder.open_file(TOTALS, OFlag::O_WRONLY)?;
    file.write_all_at(&totals.line(), 0)?;
    file.sync_data()
}

/// How much output there was in all; `None` where that is not known.
///
/// # Errors
///
/// Where it cannot be read.
pub(super) fn totals(folder: &Folder) -> io::Result<Option<Before>> {
    Ok(folder.read(TOTALS)?.and_then(|content| Before::parse(content.trim_ascii_end())))
}

/// Writes the result, whole or not at all; where there is no room for it, the least of it.
pub(super) fn put_result(folder: &Folder, event: &Event<'_>) -> io::Result<()> {
    let Event::Result(result) = event else { return Ok(()) };
    let mut line = Vec::new();
    write_json_line(&mut line, event)?;
    let Err(error) = folder.put(RESULT, &line) else {
        // What stays only takes room.
        let _ = folder.remove(RESERVED);
        return Ok(());
    };
    let why = reason(&error);
    put_reserved(folder, &least(result, &why)?).map_err(|_| error)
}

fn line_of(result: RunResult<'_>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    write_json_line(&mut line, &Event::Result(Box::new(result)))?;
    Ok(line)
}

/// The line of a result without its output, in the room that is kept for it.
fn least(result: &RunResult<'_>, why: &str) -> io::Result<Vec<u8>> {
    let empty = || LossyText(b"".into());
    let mut least = RunResult {
        stdout: empty(),
        stderr: empty(),
        stdout_base64: None,
        stderr_base64: None,
        stdout_truncated: result.stdout_bytes > 0,
        stderr_truncated: result.stderr_bytes > 0,
        stdout_omitted: result.stdout_omitted.map(|_| result.stdout_bytes),
        stderr_omitted: result.stderr_omitted.map(|_| result.stderr_bytes),
        ..result.clone()
    };
    let line = line_of(least.clone())?;
    if line.len() <= RESERVED_BYTES {
        return Ok(line);
    }
    if least.result.take().is_some() {
        // A value that was returned and is not there is a failure.
        let error = Error::Output {
            what: "the value that the command returned".to_owned(),
            source: io::Error::other(why.to_owned()),
        };
        least.status = error.status();
        least.error.get_or_insert(ErrorFields {
            code: ErrorCode::OutputFailed.as_str(),
            message: error.to_string(),
        });
    }
    least.leftover = Cow::Borrowed(&[]);
    least.record_error = least.record_error.map(|error| cut(&error));
    if let Some(error) = &mut least.error {
        error.message = cut(&error.message);
    }
    let line = line_of(least)?;
    match line.len() <= RESERVED_BYTES {
        true => Ok(line),
        false => Err(io::Error::other("it is too long")),
    }
}

/// The beginning of a message.
fn cut(message: &str) -> String {
    message.chars().take(100).collect()
}

fn put_reserved(folder: &Folder, line: &[u8]) -> io::Result<()> {
    let file = folder.open_file(RESERVED, OFlag::O_WRONLY)?;
    file.write_all_at(line, 0)?;
    file.set_len(line.len() as u64)?;
    file.sync_all()?;
    folder.rename(RESERVED, RESULT)
}
