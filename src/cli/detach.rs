//! Starts a command and leaves it running.

use std::path::{Path, PathBuf};

use crate::cli::args::{self, Args};
use crate::cli::plan;
use crate::cli::remote::given;
use crate::cli::runs::Said;
use crate::engine::run::show_failure;
use crate::model::error::Error;
use crate::model::run_id::RunId;
use crate::model::spec::{Display, Format, OnDisconnect, OnLag, ResultDestination, Spec, Stdin};
use crate::runs::start::{Request, Started, start};

/// Starts what the arguments ask for. Returns what is to be said of it, and the status.
///
/// `identity` is what the same command with the same options has the same of.
#[must_use]
pub fn run(args: Args, identity: &[u8]) -> Said {
    let format = args.show.format;
    match begin(args, identity, Vec::new()) {
        Ok(started) => (said(&started.id, &started.line, started.existing, format), 0),
        Err(error) => (String::new(), show_failure(error, format)),
    }
}

/// Starts what the arguments ask for, with these secrets masked too.
pub(super) fn begin(args: Args, identity: &[u8], secrets: Vec<Vec<u8>>) -> Result<Started, Error> {
    let asked = plan::display(&args);
    let (id, journal_bytes) = (args.detached.id.clone(), args.detached.journal);
    let request = Request { id: id.as_ref(), identity, journal_bytes };
    let spec = away(plan::plan_with(args, secrets)?);
    start(&spec, &display(asked), &request)
        .map_err(|error| error.hidden(spec.capture.mask.as_deref()))
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

/// What is said of a run that is there.
pub(super) fn said(id: &RunId, started: &[u8], existing: bool, format: Format) -> String {
    if format == Format::Text {
        return format!("{id}\n");
    }
    let line = String::from_utf8_lossy(started);
    match line.trim_end().strip_suffix('}') {
        Some(fields) if existing => format!("{fields},\"existing\":true}}\n"),
        _ => line.into_owned(),
    }
}

/// Why these options make no sense together, if they do not.
pub(super) fn fault(matches: &clap::ArgMatches) -> Result<(), Error> {
    let is_given =
        |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    let (is_remote, is_detached) = (is_given("host"), matches.get_flag("detach"));
    let stdin = matches.get_one::<Stdin>("stdin").filter(|_| is_given("stdin"));
    let result = matches.get_one::<ResultDestination>("result");
    let is_on_stdout = matches!(result, Some(ResultDestination::Stdout));
    let is_on_descriptor = matches!(result, Some(ResultDestination::Descriptor(_)));
    // A run on another machine is always a detached one there.
    let is_kept = is_detached || is_remote;
    let is_left_there = is_detached && is_remote;
    // Which options, whether they are given where they make no sense, and why.
    let rules = [
        ("--retry-timeout", !is_remote && is_given("retry_timeout"), GOES_WITH_HOST),
        ("--remote-runcast", !is_remote && is_given("remote_runcast"), GOES_WITH_HOST),
        ("--id", !is_kept && is_given("id"), GOES_WITH_DETACH),
        ("--journal", !is_kept && is_given("journal"), GOES_WITH_DETACH),
        ("--stdin open", !is_detached && stdin == Some(&Stdin::Open), GOES_WITH_DETACH),
        ("--on-lag", is_detached && is_given("on_lag"), NOT_WITH_DETACH),
        ("--on-disconnect", is_detached && is_given("on_disconnect"), NOT_WITH_DETACH),
        ("--progress", is_detached && is_given("progress"), NOT_WITH_DETACH),
        ("--heartbeat", is_detached && is_given("heartbeat"), NOT_WITH_DETACH),
        ("--result", is_left_there && is_given("result"), NOBODY_IS_LEFT),
        ("--record", is_left_there && is_given("record"), NOBODY_IS_LEFT),
        ("--stdin inherit", is_detached && stdin == Some(&Stdin::Inherit), NOT_WITH_DETACH),
        ("--result -", is_detached && is_on_stdout, NOT_WITH_DETACH),
        ("--result fd:N", is_detached && is_on_descriptor, NOT_WITH_DETACH),
    ];
    match rules.into_iter().find(|(_, is_wrong, _)| *is_wrong) {
        Some((option, _, why)) => Err(Error::Usage(format!("'{option}' {why}"))),
        None => Ok(()),
    }
}

const GOES_WITH_HOST: &str = "goes with '--host'";
const GOES_WITH_DETACH: &str = "goes with '--detach'";
const NOT_WITH_DETACH: &str = "cannot go with '--detach'";
/// There is nobody here who could write it.
const NOBODY_IS_LEFT: &str =
    "cannot go with '--detach' and '--host'; runcast attach and wait show it";

/// What the same command with the same options, started in the same folder, has the same of: all that was typed
/// but the format, and the folder.
pub(super) fn identity(matches: &clap::ArgMatches) -> Vec<u8> {
    let is_counted = |name: &String| !["format", "id", "detach"].contains(&name.as_str());
    let options = given(&args::command(), matches).into_iter().filter(is_counted);
    let mut identity = Vec::new();
    let mut add = |bytes: &[u8]| {
        // With their length before them, no two lists are the same bytes.
        identity.extend_from_slice(&bytes.len().to_be_bytes());
        identity.extend_from_slice(bytes);
    };
    for id in options {
        add(id.as_bytes());
        for value in matches.get_raw(&id).into_iter().flatten() {
            add(value.as_encoded_bytes());
        }
    }
    let folder = std::env::current_dir().unwrap_or_default();
    add(folder.as_os_str().as_encoded_bytes());
    identity
}
