//! What a run is shown in: from how it is to be shown to the sinks for that, put together.

use std::env;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use nix::unistd::geteuid;

use crate::engine::console;
use crate::model::error::{Error, reason};
use crate::model::event::Stream;
use crate::model::spec::{
    Capture, Display, Format, Limits, OnDisconnect, OnLag, ResultDestination, Streams, When,
    WindowSize,
};
use crate::sink::Sink;
use crate::sink::cast::{Cast, LineEnd, Screen};
use crate::sink::cri::Cri;
use crate::sink::cutters::Shows;
use crate::sink::destination::{Destination, Outlet, Patience};
use crate::sink::lagging::{Lag, Lagging};
use crate::sink::lined::Lined;
use crate::sink::log::Log;
use crate::sink::logfmt::Logfmt;
use crate::sink::ndjson::Ndjson;
use crate::sink::prefixed::{LinePrefix, Prefixed};
use crate::sink::result_file::own_descriptor;
use crate::sink::snapshot::Snapshot;
use crate::sink::status_line::StatusLine;
use crate::sink::tee::Tee;
use crate::sink::text::Text;
use crate::sys::descriptors;
use crate::sys::shared_folder::{Leads, follow_links, may_trust};

/// What the prefixes of the streams look like, in their order: colours that can be told apart, and read on light
/// and dark, and that claim nothing of what the lines say.
const PREFIX_STYLES: [Style; 2] = [AnsiColor::Cyan.on_default(), AnsiColor::Magenta.on_default()];

/// What the status line looks like.
const STATUS_STYLE: Style = Style::new().dimmed();

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
        let outlets =
            if display.format == Format::Text { &Stream::ALL[..] } else { &[Stream::Stdout] };
        let outlets = outlets.iter().map(|&stream| standard(stream)).collect::<Result<_, _>>()?;
        let holds_unfinished = display.format != Format::Text;
        let lag = Lag { outlets, limit_bytes: bytes, shows, refresh_every, holds_unfinished };
        sink = Box::new(Lagging::new(sink, lag, capture, patience));
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
    let (file, again) = match open_recording(path) {
        Ok(opened) => opened,
        Err(error) => return Err((error, shown)),
    };
    let name = format!("--record {}", path.display());
    let name = capture.mask.as_ref().map_or(name.clone(), |mask| mask.text(&name).into_owned());
    let out = Destination::new(Outlet::Opened(file.into()), name.clone(), patience);
    let recording: Box<dyn Sink> = if path.as_os_str().as_bytes().ends_with(b".cast") {
        Box::new(Cast::new(out, screen(display), again))
    } else {
        Box::new(Lined::new(ndjson(out, display), capture, Shows::Pieces).with_file(again))
    };
    Ok(Box::new(Tee::new(shown, recording, name, patience)))
}

/// What a recording is played on: a terminal like the command's, our own, or one of the usual size.
fn screen(display: &Display) -> Screen {
    let WindowSize { columns, rows } = console::size(display.pty_size);
    let variable = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    Screen {
        columns,
        rows,
        terminal: variable("TERM"),
        shell: variable("SHELL"),
        line_end: if console::writes_crlf(display) { LineEnd::AsItCame } else { LineEnd::Lf },
    }
}

/// The file, and where it is a regular one the same once more.
fn open_recording(path: &Path) -> Result<(File, Option<File>), Error> {
    let failed = |error: std::io::Error| Error::File {
        option: "--record",
        path: path.as_os_str().to_owned(),
        why: reason(&error),
    };
    if let Some(number) = own_descriptor(path) {
        // At the place where whoever else writes through it writes: opened anew each would write over the other.
        let own = descriptors::take_over(number).map_err(failed)?;
        let is_writable = descriptors::is_writable(own.as_fd()).map_err(failed)?;
        let refused = || std::io::Error::from_raw_os_error(libc::EBADF);
        return if is_writable { Ok((own.into(), None)) } else { Err(failed(refused())) };
    }
    let mut flags = libc::O_NOCTTY;
    let path = &match follow_links(path).map_err(failed)? {
        Leads::ToDescriptor(path) => path,
        Leads::To(path) => {
            if let Ok(found) = std::fs::symlink_metadata(&path) {
                may_trust(&path, &found).map_err(failed)?;
            }
            flags |= libc::O_NOFOLLOW;
            path
        }
    };
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags);
    let (file, is_new) = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            // What is in it goes once it is known to be ours.
            (options.create(true).truncate(false).open(path).map_err(failed)?, false)
        }
        made => (made.map_err(failed)?, true),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Ok((file, None));
    }
    if !is_new && found.uid() != geteuid().as_raw() {
        // Whoever has it could read on.
        return Err(failed(std::io::Error::other("it belongs to another user")));
    }
    // One that was there may have been open to others.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    let again = file.try_clone().map_err(failed)?;
    Ok((file, Some(again)))
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
    let result_last = display.result == Some(ResultDestination::Stdout);
    let shows = shows(display);
    Ok(match display.format {
        Format::Text => {
            let stderr = destination(Stream::Stderr, patience)?;
            let shown = as_text([stdout, stderr], display, capture, limits);
            with_status(shown, display, limits, patience)?
        }
        Format::Snapshot => Box::new(Snapshot::new(stdout, display.snapshot_every, display.quiet)),
        Format::Ndjson => Box::new(Lined::new(ndjson(stdout, display), capture, shows)),
        Format::Cri => Box::new(
            Lined::new(Cri::new(stdout, capture.split), capture, shows).with_result(result_last),
        ),
        Format::Log => {
            let log = Log::new(stdout, capture.split, display.stderr_level);
            Box::new(Lined::new(log, capture, shows).with_result(result_last))
        }
        Format::Logfmt => {
            let logfmt = Logfmt::new(stdout, capture.split, display.stderr_level);
            Box::new(Lined::new(logfmt, capture, shows).with_result(result_last))
        }
    })
}

fn ndjson(out: Destination, display: &Display) -> Ndjson {
    Ndjson::new(out, &display.metadata, display.timestamps.is_some())
}

fn as_text(
    destinations: [Destination; 2],
    display: &Display,
    capture: &Capture,
    limits: Option<&Limits>,
) -> Box<dyn Sink> {
    let limits = limits.cloned();
    let Some(template) = display.line_prefix() else {
        return Box::new(Text::new(destinations, display, limits));
    };
    let zone = if template.needs_zone() { TimeZone::system() } else { TimeZone::UTC };
    let styles = Stream::ALL.map(|stream| {
        let is_coloured = is_coloured(stream, display.color);
        if is_coloured { PREFIX_STYLES[stream.index()] } else { Style::new() }
    });
    let prefix = LinePrefix { template, zone, styles };
    let result_last = display.result == Some(ResultDestination::Stdout);
    let pty = display.pty;
    Box::new(Prefixed::new(destinations, &prefix, capture.split, limits, pty, result_last))
}

/// The sink with a status line under it, where that is asked for and standard error is a terminal, and the command
/// has not all of it.
fn with_status(
    shown: Box<dyn Sink>,
    display: &Display,
    limits: Option<&Limits>,
    patience: &Arc<Patience>,
) -> Result<Box<dyn Sink>, Error> {
    // Whoever has the whole terminal draws all of it.
    if display.progress == When::Never || console::writes_crlf(display) {
        return Ok(shown);
    }
    let [stdout, stderr] = [standard(Stream::Stdout)?, standard(Stream::Stderr)?];
    let is_dumb = || std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    if !stderr.is_terminal() || (display.progress == When::Auto && is_dumb()) {
        return Ok(shown);
    }
    let on_terminal = [stdout.is_terminal() && !display.quiet, !display.quiet];
    let is_coloured = is_coloured(Stream::Stderr, display.color);
    let style = if is_coloured { STATUS_STYLE } else { Style::new() };
    let terminal = destination(Stream::Stderr, patience)?;
    let timeout = limits.and_then(|limits| limits.timeout);
    Ok(Box::new(StatusLine::new(shown, terminal, on_terminal, style, timeout)))
}

/// Whether what is runcast's own is in colour where this stream is shown.
fn is_coloured(stream: Stream, color: When) -> bool {
    let (choice, is_terminal) = match stream {
        Stream::Stdout => (AutoStream::choice(&stdout()), stdout().is_terminal()),
        Stream::Stderr => (AutoStream::choice(&stderr()), stderr().is_terminal()),
    };
    // By the convention for it a zero forces nothing; anstream looks only whether there is a value.
    let is_forced = || env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    match color {
        When::Auto => choice != ColorChoice::Never && (is_terminal || is_forced()),
        When::Always => true,
        When::Never => false,
    }
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
    descriptors::standard_stream(number)
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
