//! What a run is shown in: from how it is to be shown to the sinks for that, put together.

use std::env;
use std::fs::{OpenOptions, Permissions};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::model::error::{Error, reason};
use crate::model::event::Stream;
use crate::model::spec::{
    Capture, Display, Format, Limits, OnDisconnect, OnLag, ResultDestination, Streams,
};
use crate::sink::Sink;
use crate::sink::cast::{Cast, LineEnd, Screen};
use crate::sink::cri::Cri;
use crate::sink::destination::{Destination, Outlet, Patience};
use crate::sink::lagging::Lagging;
use crate::sink::lined::{Lined, Shows};
use crate::sink::log::Log;
use crate::sink::logfmt::Logfmt;
use crate::sink::ndjson::Ndjson;
use crate::sink::snapshot::Snapshot;
use crate::sink::tee::Tee;
use crate::sink::text::Text;
use crate::sys::{descriptors, window};

/// What the run is shown in, and recorded in.
///
/// # Errors
///
/// Where a standard stream cannot be used or the recording cannot be opened.
pub(crate) fn make_sink(
    display: &Display,
    capture: &Capture,
    limits: Option<&Limits>,
    patience: &Arc<Patience>,
) -> Result<Box<dyn Sink>, Error> {
    let mut sink = on_standard_output(display, capture, limits, patience)?;
    if let OnLag::Drop { bytes } = display.on_lag {
        let refresh_every = (display.format == Format::Snapshot).then_some(display.snapshot_every);
        let shows = shows(display);
        sink = Box::new(Lagging::new(sink, bytes, capture, shows, refresh_every, patience));
    }
    Ok(sink)
}

/// Records the run beside `shown`, if that is asked for.
///
/// # Errors
///
/// Where the recording cannot be opened.
pub(crate) fn recorded(
    shown: Box<dyn Sink>,
    display: &Display,
    capture: &Capture,
    patience: &Arc<Patience>,
) -> Result<Box<dyn Sink>, (Error, Box<dyn Sink>)> {
    let Some(path) = &display.record else { return Ok(shown) };
    let outlet = match open_recording(path) {
        Ok(outlet) => outlet,
        Err(error) => return Err((error, shown)),
    };
    let name = format!("--record {}", path.display());
    let name = capture.mask.as_ref().map_or(name.clone(), |mask| mask.text(&name).into_owned());
    let out = Destination::new(outlet, name.clone(), patience);
    let recording: Box<dyn Sink> = if path.as_os_str().as_bytes().ends_with(b".cast") {
        Box::new(Cast::new(out, screen()))
    } else {
        let events = Ndjson::new(out, &display.metadata, false);
        Box::new(Lined::new(events, capture, Shows::Pieces))
    };
    Ok(Box::new(Tee::new(shown, recording, name, patience)))
}

/// What a recording is played on: our own terminal, or one of the usual size.
fn screen() -> Screen {
    let (columns, rows) = window::size().unwrap_or((80, 24));
    let variable = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    Screen {
        columns,
        rows,
        terminal: variable("TERM"),
        shell: variable("SHELL"),
        line_end: LineEnd::Lf,
    }
}

fn open_recording(path: &Path) -> Result<Outlet, Error> {
    let failed = |error: std::io::Error| Error::File {
        option: "--record",
        path: path.as_os_str().to_owned(),
        why: reason(&error),
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOCTTY);
    let file = options.open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        // One that was there may have been open to others.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(Outlet::Opened(file.into()))
}

/// What is shown of the output, line by line.
fn shows(display: &Display) -> Shows {
    match display.format {
        _ if display.quiet => Shows::Nothing,
        Format::Cri | Format::Log | Format::Logfmt if !display.shows_unfinished => Shows::Lines,
        _ => Shows::Pieces,
    }
}

fn on_standard_output(
    display: &Display,
    capture: &Capture,
    limits: Option<&Limits>,
    patience: &Arc<Patience>,
) -> Result<Box<dyn Sink>, Error> {
    let stdout = destination(Stream::Stdout, patience)?;
    let shows = shows(display);
    Ok(match display.format {
        Format::Text => {
            let stderr = destination(Stream::Stderr, patience)?;
            Box::new(Text::new([stdout, stderr], display, limits.cloned()))
        }
        Format::Snapshot => Box::new(Snapshot::new(stdout, display.snapshot_every, display.quiet)),
        Format::Ndjson => {
            Box::new(Lined::new(Ndjson::new(stdout, &display.metadata, false), capture, shows))
        }
        Format::Cri => Box::new(Lined::new(Cri::new(stdout, capture.split), capture, shows)),
        Format::Log => {
            let log = Log::new(stdout, capture.split, display.stderr_level);
            Box::new(Lined::new(log, capture, shows))
        }
        Format::Logfmt => {
            let logfmt = Logfmt::new(stdout, capture.split, display.stderr_level);
            Box::new(Lined::new(logfmt, capture, shows))
        }
    })
}

fn destination(stream: Stream, patience: &Arc<Patience>) -> Result<Destination, Error> {
    let name = match stream {
        Stream::Stdout => "standard output",
        Stream::Stderr => "standard error",
    };
    Ok(Destination::new(Outlet::Standard(standard(stream)?), name, patience))
}

/// One of our own standard streams. What was closed at the start is `/dev/null` by now.
fn standard(stream: Stream) -> Result<BorrowedFd<'static>, Error> {
    let number = match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    };
    descriptors::open_descriptor(number)
        .map_err(|source| Error::Output { what: format!("standard stream {number}"), source })
}

/// The descriptors whose consumer's end is to stop the run.
///
/// # Errors
///
/// Where a standard stream cannot be used.
pub(crate) fn watched(
    streams: Streams,
    display: &Display,
) -> Result<Vec<BorrowedFd<'static>>, Error> {
    if display.on_disconnect == OnDisconnect::Continue {
        return Ok(Vec::new());
    }
    let shown: &[Stream] = match (display.format, display.quiet) {
        (Format::Text, false) if streams == Streams::Merged => &[Stream::Stdout],
        (Format::Text, false) => &Stream::ALL,
        (Format::Text, true) if display.result == Some(ResultDestination::Stdout) => {
            &[Stream::Stdout]
        }
        (Format::Text, true) => &[],
        _ => &[Stream::Stdout],
    };
    shown.iter().map(|&stream| standard(stream)).collect()
}
