//! From a call to what is executed, and from what that leaves to the value that it returned.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::backend::folder::{Folder, Returned};
use crate::backend::table::{self, BACKENDS, Backend, Form};
use crate::model::error::{Error, reason};
use crate::model::json::one_value;
use crate::model::outcome::{Ended, Outcome};
use crate::model::spec::{Call, Module, Program, Spec};

/// The variable that names the file with the input.
const INPUT: &str = "RUNCAST_INPUT";
/// The variable that names the file for the result.
const RESULT: &str = "RUNCAST_RESULT";

const INPUT_FILE: &str = "input.json";
const RESULT_FILE: &str = "result.json";
/// Where a bootstrap looks for the source of its module: beside itself.
const MODULE_FILE: &str = "module";

/// What a private folder may hold by runcast's doing.
pub(super) fn file_names() -> impl Iterator<Item = &'static str> {
    let bootstraps = BACKENDS.iter().filter_map(|backend| match &backend.form {
        Form::Module { bootstrap, .. } => Some(bootstrap.file),
        Form::Program | Form::Script { .. } => None,
    });
    [INPUT_FILE, RESULT_FILE, MODULE_FILE].into_iter().chain(bootstraps)
}

/// A command that is ready to be started, with all that it is handed in its place. What was made for it on
/// disk goes with this value.
#[derive(Debug)]
pub struct Launch {
    program: Program,
    folder: Option<Folder>,
    max_result_bytes: u64,
}

impl Launch {
    /// Makes what is executed. Where a value is taken or returned, a private folder is made for it.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a folder that cannot be made or filled.
    pub fn prepare(spec: &Spec) -> Result<Self, Error> {
        let backend = table::named(OsStr::new(spec.call.backend))?;
        let max_result_bytes = spec.call.max_result_bytes.unwrap_or(u64::MAX);
        if !spec.call.callable {
            let program =
                Program { argv: backend.argv(&spec.argv), environment: spec.environment.clone() };
            return Ok(Self { program, folder: None, max_result_bytes });
        }
        let parent = temporary_folder();
        let failed = |error: io::Error| Error::File {
            option: "TMPDIR",
            path: parent.clone().into(),
            why: reason(&error),
        };
        let folder = Folder::new(&parent).map_err(failed)?;
        let program = fill(&folder, backend, spec).map_err(failed)?;
        Ok(Self { program, folder: Some(folder), max_result_bytes })
    }

    /// What is executed.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the value that the command returned, if it went well and did, and removes what was made for it.
    ///
    /// # Errors
    ///
    /// [`Error::ResultInvalid`] and [`Error::ResultTooLarge`].
    pub fn finish(self, outcome: &Outcome) -> Result<Option<Box<RawValue>>, Error> {
        let Some(folder) = self.folder else { return Ok(None) };
        if outcome.ended != Ended::Exited(0) || outcome.stopped_by.is_some() {
            return Ok(None);
        }
        let invalid = |why| Error::ResultInvalid { why };
        match folder.read(RESULT_FILE, self.max_result_bytes) {
            Returned::Nothing => Ok(None),
            Returned::Bytes(bytes) => one_value(bytes).map(Some).map_err(invalid),
            Returned::TooLarge => Err(Error::ResultTooLarge { max_bytes: self.max_result_bytes }),
            Returned::Unreadable(why) => Err(invalid(why)),
        }
    }
}

/// Puts what is handed in into the folder.
fn fill(folder: &Folder, backend: &Backend, spec: &Spec) -> io::Result<Program> {
    let Call { input, module, .. } = &spec.call;
    let input =
        input.as_ref().map(|input| folder.write(INPUT_FILE, input.get().as_bytes())).transpose()?;
    let result = folder.write(RESULT_FILE, b"")?;
    let argv = match (&backend.form, module) {
        (Form::Module { interpreter, bootstrap }, Some(Module { source, file })) => {
            folder.write(MODULE_FILE, source)?;
            let start = folder.write(bootstrap.file, bootstrap.source.as_bytes())?;
            let file = file.clone().unwrap_or_default();
            let head = [OsString::from(interpreter), start.into(), file.into()];
            let (_, arguments) = table::split_first(&spec.argv);
            head.into_iter().chain(arguments.iter().cloned()).collect()
        }
        _ => backend.argv(&spec.argv),
    };
    let mut environment = spec.environment.clone().unwrap_or_else(|| std::env::vars_os().collect());
    // A run inside a run has a value of its own, or none.
    environment.retain(|(name, _)| name != INPUT && name != RESULT);
    environment.extend(input.map(|path| (INPUT.into(), path.into())));
    environment.push((RESULT.into(), result.into()));
    Ok(Program { argv, environment: Some(environment) })
}

/// Where temporary files go, as an absolute path: the command may start elsewhere.
fn temporary_folder() -> PathBuf {
    let given = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
    let path = given.map_or_else(|| Path::new("/tmp").to_owned(), PathBuf::from);
    std::path::absolute(&path).unwrap_or(path)
}
