//! The keeper of a run: the process that has started its command, writes its journal, and hears who speaks to it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::engine::run::{Handle, keep};
use crate::model::error::{Error, ErrorCode};
use crate::model::event::{Event, Started};
use crate::model::json::line;
use crate::model::run_id::RunId;
use crate::model::spec::{Display, Spec};
use crate::runs::client::SOCKET;
use crate::runs::control;
use crate::runs::folder::{About, Folder};
use crate::runs::home::socket_path;
use crate::runs::journal::Journal;
use crate::sink::write_json_line;

/// What a keeper is to keep.
pub(super) struct Task<'a> {
    pub(super) spec: &'a Spec,
    pub(super) display: &'a Display,
    pub(super) id: &'a RunId,
    pub(super) about: &'a About,
    pub(super) journal_bytes: u64,
}

/// What the keeper tells whoever started it, once: a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Report {
    /// The command runs. The `started` event is in the folder.
    Started,
    /// It does not.
    Failed { code: String, status: u8, message: String },
}

impl Report {
    /// The failure that was reported.
    pub(super) fn into_error(self) -> Option<Error> {
        match self {
            Self::Started => None,
            Self::Failed { code, status, message } => {
                Some(Error::reported(&code, ErrorCode::SpawnFailed, status, message))
            }
        }
    }
}

/// The keeper's whole life. Reports once how the start went; the lock is held until the process ends.
pub(super) fn live(task: &Task<'_>, folder: &Folder, report: File) {
    let mut report = Some(report);
    let kept = folder
        .again()
        .map_err(|error| Error::run_folder(task.id, &error))
        .and_then(|folder| keep_in(task, &Arc::new(folder), &mut report));
    if let Err(error) = kept {
        tell(&mut report, &failure(&error));
    }
}

fn failure(error: &Error) -> Report {
    let (code, message) = (error.code().as_str().to_owned(), error.to_string());
    Report::Failed { code, status: error.status(), message }
}

fn tell(report: &mut Option<File>, what: &Report) {
    if let Some(mut report) = report.take() {
        // Whoever started the run may be gone; that does not end it.
        let _ = report.write_all(&line(what));
    }
}

fn keep_in(task: &Task<'_>, folder: &Arc<Folder>, report: &mut Option<File>) -> Result<(), Error> {
    let failed = |error: io::Error| Error::run_folder(task.id, &error);
    let listener = UnixListener::bind(socket_path(&folder.dir(), SOCKET)).map_err(failed)?;
    restrict(folder).map_err(failed)?;
    let journal = Journal::new(Arc::clone(folder), task.journal_bytes, &task.spec.capture);
    let journal = Box::new(journal.map_err(failed)?);
    keep(task.spec, task.id, task.display, journal, |handle: Handle, started: &Started| {
        begin(task, folder, listener, handle, started).inspect_err(|error| {
            tell(report, &failure(error));
        })?;
        tell(report, &Report::Started);
        // Nothing of ours stands in the way of who wants to unmount it.
        let _ = nix::unistd::chdir(c"/");
        Ok(())
    })?;
    // A connection that comes now would only be cut.
    let _ = folder.remove(SOCKET);
    Ok(())
}

/// Lets others find the run, and speak to it.
fn begin(
    task: &Task<'_>,
    folder: &Folder,
    listener: UnixListener,
    handle: Handle,
    started: &Started,
) -> Result<(), Error> {
    let mut line = Vec::new();
    let failed = |error: io::Error| Error::run_folder(task.id, &error);
    write_json_line(&mut line, &Event::Started(started.clone())).map_err(failed)?;
    folder.put_about(task.about, &line).map_err(failed)?;
    let server = control::server(&listener, handle).map_err(failed)?;
    let thread = thread::Builder::new().name("control".to_owned());
    thread
        .spawn(move || control::serve(&listener, server))
        .map(drop)
        .map_err(|source| Error::Spawn { step: "thread", source })
}

/// The socket is its owner's alone, as its folder is.
fn restrict(folder: &Folder) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = socket_path(&folder.dir(), SOCKET);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}
