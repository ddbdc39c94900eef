//! Starts a detached run, once for each name.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use crate::model::error::{Error, RunFault};
use crate::model::run_id::RunId;
use crate::model::spec::{Display, Spec, Stdin};
use crate::runs::folder::{About, Folder, LAYOUT, Part, State, boot, host};
use crate::runs::home::Home;
use crate::runs::keeper::{self, Report, Task};
use crate::sys::daemon::{Side, fork_away};

/// How often to look whether another start of the same name has got somewhere.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long to wait for the end of a keeper that failed. Too short, and its command may still be about when its
/// starter has said that it failed; too long, and one that cannot be ended is waited for.
const LONGEST_END: Duration = Duration::from_secs(10);

/// What a run is to be, as far as that is not its command's matter.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its name; `None`: any.
    pub id: Option<&'a RunId>,
    /// What the same command with the same options has the same of.
    pub identity: &'a [u8],
    /// How long its journal may be, in bytes.
    pub journal_bytes: u64,
}

/// A run that was asked for and is there.
#[derive(Debug)]
pub struct Started {
    /// Its name.
    pub id: RunId,
    /// Its `started` event, a line with its end.
    pub line: Vec<u8>,
    /// Whether it was there already.
    pub existing: bool,
}

/// Starts a run and returns once its command runs, or finds the one that was started so before.
///
/// # Errors
///
/// Where the command cannot be started, or there is another run of that name.
pub fn start(spec: &Spec, display: &Display, request: &Request<'_>) -> Result<Started, Error> {
    let home = Home::create()?;
    home.tidy();
    loop {
        let id = request.id.cloned().unwrap_or_else(RunId::fresh);
        if let Some(existing) = existing(&home, &id, request)? {
            return Ok(existing);
        }
        let (folder, name) = home.unfinished()?;
        let lock = folder.lock(Part::Kept).map_err(|source| Error::Spawn { step: "lock", source });
        // Its name is nobody else's, and nobody else locks it while it has that.
        let lock = lock?.ok_or(Error::Internal("a new folder was locked"))?;
        if !home.finish(&name, &id)? {
            drop(lock);
            home.remove(&name, &folder)?;
            continue;
        }
        let salt = RunId::fresh().to_string();
        let about = About {
            v: LAYOUT,
            digest: digest(&salt, request.identity),
            salt,
            host: host(),
            boot: boot(),
            stdin_open: spec.stdin == Stdin::Open,
        };
        let task =
            Task { spec, display, id: &id, about: &about, journal_bytes: request.journal_bytes };
        return match fork(&task, &home, &folder, lock) {
            Ok(line) => Ok(Started { id, line, existing: false }),
            Err(error) => {
                // No run remains of a command that cannot be started. One that was, and then could not be kept, is
                // being stopped.
                wait_for_end(&folder);
                // What stays is cleared away by the next who looks, and why it failed is what is of interest.
                let _ = home.remove(id.as_str(), &folder);
                Err(error)
            }
        };
    }
}

/// Becomes two: the keeper, which never returns from here, and whoever waits for its report.
fn fork(task: &Task<'_>, home: &Home, folder: &Folder, lock: File) -> Result<Vec<u8>, Error> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)
        .map_err(|errno| Error::Spawn { step: "pipe", source: errno.into() })?;
    let kept = [folder.dir(), lock.as_fd(), write.as_fd()];
    let side = fork_away(&kept).map_err(|source| Error::Spawn { step: "fork", source })?;
    if side == Side::Child {
        // Closed already, and not ours any more.
        std::mem::forget(read);
        keeper::live(task, folder, write.into());
        std::process::exit(0);
    }
    drop((write, lock));
    // While the keeper is at its own part. Where it cannot be done, the run is there for as long as the machine is.
    let _ = home.settle();
    let mut report = Vec::new();
    // However it fails, there is no report.
    let _ = File::from(read).read_to_end(&mut report);
    let Ok(report) = serde_json::from_slice::<Report>(&report) else {
        return Err(Error::Internal("the keeper of the run died"));
    };
    if let Some(error) = report.into_error() {
        return Err(error);
    }
    match folder.about() {
        Ok(Some((_, line))) => Ok(line),
        Ok(None) => Err(Error::Internal("the keeper of the run wrote nothing down")),
        Err(source) => Err(Error::Spawn { step: "reading what the keeper wrote", source }),
    }
}

/// Waits until a keeper that failed is gone, but not for ever.
fn wait_for_end(folder: &Folder) {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST_END && folder.is_kept().unwrap_or(false) {
        thread::sleep(LOOK_AGAIN);
    }
}

/// The run of this name that was started by the same request; `None` where there is none of that name.
fn existing(home: &Home, id: &RunId, request: &Request<'_>) -> Result<Option<Started>, Error> {
    loop {
        let folder = match home.run(id) {
            Err(Error::Run { fault: RunFault::Unknown, .. }) => return Ok(None),
            found => found?,
        };
        let unreadable = |error: io::Error| Error::run_folder(id, &error);
        if let Some((about, line)) = folder.about().map_err(unreadable)? {
            if about.digest != digest(&about.salt, request.identity) {
                return Err(Error::run(RunFault::Exists, id, None));
            }
            return Ok(Some(Started { id: id.clone(), line, existing: true }));
        }
        match folder.state().map_err(unreadable)? {
            // Another is at it: either it gets somewhere, or nothing of it remains.
            State::Starting => thread::sleep(LOOK_AGAIN),
            // Whoever was at it died, before it had written down what it is: that is written before anything else
            // can be told of a run.
            State::Lost if folder.about().map_err(unreadable)?.is_none() => {
                if !home.remove(id.as_str(), &folder)? {
                    thread::sleep(LOOK_AGAIN);
                }
            }
            // It has got somewhere just now.
            State::Lost | State::Running | State::Ended(_) | State::Elsewhere(_) => {}
        }
    }
}

/// Tells the same from others, and is of no use for anything else: what was hashed may hold secrets.
fn digest(salt: &str, identity: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(salt);
    hash.update(identity);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
