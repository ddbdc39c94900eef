//! Starts a command and leaves it running.

use std::path::{Path, PathBuf};

use crate::cli::args::Args;
use crate::cli::plan;
use crate::engine::run::show_failure;
use crate::model::error::Error;
use crate::model::spec::{Display, Format, OnDisconnect, OnLag, ResultDestination, Spec, Stdin};
use crate::runs::start::{Request, Started, start};

/// Starts what the arguments ask for. Returns what is to be said of it, and the status.
///
/// `identity` is what the same command with the same options has the same of.
#[must_use]
pub fn run(args: Args, identity: &[u8]) -> (String, u8) {
    let format = args.show.format;
    let asked = plan::display(&args);
    let (id, journal_bytes) = (args.detached.id.clone(), args.detached.journal);
    let request = Request { id: id.as_ref(), identity, journal_bytes };
    let started = plan::plan(args).and_then(|spec| {
        let spec = away(spec);
        start(&spec, &display(asked), &request)
            .map_err(|error| error.hidden(spec.capture.mask.as_deref()))
    });
    match started {
        Ok(started) => (said(&started, format), 0),
        Err(error) => (String::new(), show_failure(error, format)),
    }
}

/// The run as somebody else keeps it, who is elsewhere.
fn away(mut spec: Spec) -> Spec {
    if spec.stdin == Stdin::Inherit {
        spec.stdin = Stdin::Null;
    }
    spec
}

/// How the run is kept: how it looks is for whoever looks at it to say.
fn display(asked: Display) -> Display {
    Display {
        format: Format::Ndjson,
        quiet: false,
        metadata: Vec::new(),
        shows_unfinished: true,
        heartbeat: None,
        on_lag: OnLag::Block,
        on_disconnect: OnDisconnect::Continue,
        result: asked.result.map(|destination| match destination {
            ResultDestination::File(path) => ResultDestination::File(from_here(&path)),
            other => other,
        }),
        record: asked.record.map(|path| from_here(&path)),
        ..asked
    }
}

/// A path that is the same from wherever it is looked at.
fn from_here(path: &Path) -> PathBuf {
    // In a folder that was deleted there is nothing that could be written either.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn said(started: &Started, format: Format) -> String {
    if format == Format::Text {
        return format!("{}\n", started.id);
    }
    let line = String::from_utf8_lossy(&started.line);
    match line.trim_end().strip_suffix('}') {
        Some(fields) if started.existing => format!("{fields},\"existing\":true}}\n"),
        _ => line.into_owned(),
    }
}

/// Why these options make no sense together, if they do not.
pub(super) fn fault(matches: &clap::ArgMatches) -> Result<(), Error> {
    let is_given =
        |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    let wrong = |text: String| Err(Error::Usage(text));
    let stdin = matches.get_one::<Stdin>("stdin");
    if !matches.get_flag("detach") {
        for name in ["id", "journal"] {
            if is_given(name) {
                return wrong(format!("'--{name}' goes with '--detach'"));
            }
        }
        if stdin == Some(&Stdin::Open) {
            return wrong("'--stdin open' goes with '--detach'".to_owned());
        }
        return Ok(());
    }
    for name in ["on_lag", "on_disconnect", "progress", "heartbeat"] {
        if matches.ids().any(|id| id == name) && is_given(name) {
            let option = name.replace('_', "-");
            return wrong(format!("'--{option}' cannot go with '--detach'"));
        }
    }
    if is_given("stdin") && stdin == Some(&Stdin::Inherit) {
        return wrong("'--stdin inherit' cannot go with '--detach'".to_owned());
    }
    match matches.get_one::<ResultDestination>("result") {
        Some(ResultDestination::Stdout) => {
            wrong("'--result -' cannot go with '--detach'".to_owned())
        }
        Some(ResultDestination::Descriptor(_)) => {
            wrong("'--result fd:N' cannot go with '--detach'".to_owned())
        }
        _ => Ok(()),
    }
}

/// What the same command with the same options, started in the same folder, has the same of: all that was typed
/// but how the output looks, and the folder.
pub(super) fn identity(matches: &clap::ArgMatches) -> Vec<u8> {
    let mut options: Vec<&str> = matches
        .ids()
        .map(clap::Id::as_str)
        .filter(|id| !matches!(*id, "format" | "prefix" | "color" | "id" | "detach"))
        .filter(|id| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine))
        .collect();
    options.sort_unstable();
    let mut identity = Vec::new();
    let mut add = |bytes: &[u8]| {
        // With their length before them, no two lists are the same bytes.
        identity.extend_from_slice(&bytes.len().to_be_bytes());
        identity.extend_from_slice(bytes);
    };
    for id in options {
        add(id.as_bytes());
        for value in matches.get_raw(id).into_iter().flatten() {
            add(value.as_encoded_bytes());
        }
    }
    let folder = std::env::current_dir().unwrap_or_default();
    add(folder.as_os_str().as_encoded_bytes());
    identity
}
