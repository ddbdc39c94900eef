//! Lists the runs, and deletes those that are over.

use std::io;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::error::{Error, RunFault};
use crate::model::event::Event;
use crate::model::recorded::{Recorded, parse};
use crate::model::run_id::RunId;
use crate::runs::client;
use crate::runs::folder::{Folder, State};
use crate::runs::follow::written;
use crate::runs::home::{Home, unknown};

/// A run, as a list tells of it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name.
    pub id: RunId,
    /// `running`, `exited 0`, `SIGTERM`, `timed out`, `failed` (its end was not seen), `lost`, `elsewhere`.
    pub state: String,
    /// Whether there is a result, or never will be one.
    pub is_over: bool,
    /// When it was started, as its `started` event tells it.
    pub started: String,
    /// The same.
    pub at: Option<Timestamp>,
    /// How long the command ran, or has run until now; `None`: nobody knows.
    pub duration: Option<Duration>,
    /// Bytes of standard output and standard error.
    pub bytes: [u64; 2],
    /// The command line; `None` where it is not to be shown.
    pub argv: Option<Vec<String>>,
    /// The machine that it runs on.
    pub host: String,
}

/// All runs, the newest first.
///
/// # Errors
///
/// Where they cannot be read. One that cannot be read is told and passed over.
pub fn list(mut tell: impl FnMut(Error)) -> Result<Vec<Listed>, Error> {
    let Some(home) = Home::open()? else { return Ok(Vec::new()) };
    let mut runs = Vec::new();
    for id in home.ids()? {
        let found = home.run(&id).and_then(|folder| {
            describe(&id, &folder).map_err(|error| Error::run_folder(&id, &error))
        });
        match found {
            Ok(Some(run)) => runs.push(run),
            // It is just being started, or was just forgotten, or whoever was at it died.
            Ok(None) => home.tidy_away(&id),
            Err(Error::Run { .. }) => {}
            Err(error) => tell(error),
        }
    }
    runs.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.id.cmp(&other.id)));
    Ok(runs)
}

fn describe(id: &RunId, folder: &Folder) -> io::Result<Option<Listed>> {
    let Some((about, started)) = folder.about()? else { return Ok(None) };
    let Ok(Recorded::Event(Event::Started(started))) = parse(started.trim_ascii_end()) else {
        return Err(io::Error::other("its started event makes no sense"));
    };
    let at = started.clock.0;
    let mut listed = Listed {
        id: id.clone(),
        state: String::new(),
        is_over: false,
        started: started.time,
        at: Some(at),
        duration: None,
        bytes: [0; 2],
        argv: started.argv,
        host: about.host,
    };
    match folder.state()? {
        State::Ended(line) => {
            let Ok(Recorded::Event(Event::Result(result))) = parse(line.trim_ascii_end()) else {
                return Err(io::Error::other("its result makes no sense"));
            };
            listed.is_over = true;
            listed.duration = Some(result.duration.0);
            listed.bytes = [result.stdout_bytes, result.stderr_bytes];
            listed.state = match (result.timed_out, &result.signal, result.exit_code) {
                (true, ..) => "timed out".to_owned(),
                (false, Some(signal), _) => signal.clone(),
                (false, None, Some(code)) => format!("exited {code}"),
                (false, None, None) => "failed".to_owned(),
            };
            return Ok(Some(listed));
        }
        State::Starting | State::Running => {
            listed.state = "running".to_owned();
            let since = Timestamp::now().duration_since(at);
            listed.duration = Some(Duration::try_from(since).unwrap_or_default());
        }
        State::Lost => (listed.state, listed.is_over) = ("lost".to_owned(), true),
        State::Elsewhere(_) => listed.state = "elsewhere".to_owned(),
    }
    listed.bytes = written(folder)?.bytes;
    Ok(Some(listed))
}

/// Ends what others have left half done.
pub fn tidy() {
    // Where there is no folder of runs that can be used, there is nothing to be done in it.
    if let Ok(Some(home)) = Home::open() {
        home.tidy();
    }
}

/// Deletes a run that is over.
///
/// # Errors
///
/// Where there is none of that name, or it is not over.
pub fn forget(id: &RunId) -> Result<(), Error> {
    let Some(home) = Home::open()? else { return Err(unknown(id)) };
    let folder = home.run(id)?;
    let state = match folder.state() {
        // What is written of it makes no sense, and nobody keeps it.
        Err(error) if error.raw_os_error().is_none() && matches!(folder.is_kept(), Ok(false)) => {
            State::Lost
        }
        state => state.map_err(|error| Error::run_folder(id, &error))?,
    };
    match state {
        State::Starting | State::Running => Err(Error::run(RunFault::Running, id, None)),
        // It may live there.
        State::Elsewhere(host) => Err(client::elsewhere(RunFault::Running, id, &host)),
        State::Ended(_) | State::Lost => match home.remove(id.as_str(), &folder)? {
            true => Ok(()),
            false => Err(unknown(id)),
        },
    }
}
