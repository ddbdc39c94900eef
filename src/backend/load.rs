//! What is handed to a backend: looked at, read and checked before anything of the run exists.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::backend::table::{self, Form};
use crate::model::error::{Error, reason};
use crate::model::json::one_value;
use crate::model::spec::{Call, Module};
use crate::sys::whole::{MOST_BYTES, read, read_path};

/// Where the value to hand in is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// On the command line.
    Text(OsString),
    /// In this file.
    File(PathBuf),
    /// In runcast's own standard input, to its end.
    Stdin,
}

/// What is asked of a backend.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Its name.
    pub backend: &'a OsStr,
    /// Whether the program at hand takes a value and returns one, even if the backend by itself does not.
    pub callable: bool,
    /// The value to hand in.
    pub input: Option<&'a Input>,
    /// The longest value that is taken back, in bytes; `None` is any.
    pub max_result_bytes: Option<u64>,
    /// COMMAND.
    pub command: &'a OsStr,
}

/// Returns what is handed to the backend; files and standard input are read.
///
/// # Errors
///
/// A backend that there is not, or that takes no value; a value that is not JSON; a file that cannot be read.
pub fn load(asked: &Asked<'_>) -> Result<Call, Error> {
    let backend = table::named(asked.backend)?;
    let callable = backend.callable || asked.callable;
    if asked.input.is_some() && !callable {
        return Err(Error::BackendNotCallable { backend: backend.name });
    }
    let input = asked.input.map(read_input).transpose()?;
    let module = match backend.form {
        Form::Module { .. } => Some(read_module(asked.command)?),
        Form::Program | Form::Script { .. } => None,
    };
    let max_result_bytes = asked.max_result_bytes;
    Ok(Call { backend: backend.name, callable, input, module, max_result_bytes })
}

fn read_input(input: &Input) -> Result<Box<RawValue>, Error> {
    let unreadable = |given: &OsStr, error: &io::Error| Error::File {
        option: "--input",
        path: given.to_owned(),
        why: reason(error),
    };
    let (given, read) = match input {
        Input::Text(text) => (OsString::new(), Ok(text.as_bytes().to_vec())),
        Input::File(path) => (marked(path), read_path(path, MOST_BYTES)),
        Input::Stdin => ("-".into(), read(io::stdin().lock(), MOST_BYTES)),
    };
    let bytes = read.map_err(|error| unreadable(&given, &error))?;
    one_value(bytes).map_err(|why| Error::InputInvalid { given, why })
}

/// A module's source: COMMAND itself, or after `@` the file that it is in.
fn read_module(command: &OsStr) -> Result<Module, Error> {
    let Some(path) = command.as_bytes().strip_prefix(b"@") else {
        return Ok(Module { source: command.as_bytes().to_vec(), file: None });
    };
    let path = Path::new(OsStr::from_bytes(path));
    let unreadable = |error: io::Error| Error::File {
        option: "COMMAND",
        path: command.to_owned(),
        why: reason(&error),
    };
    let source = read_path(path, MOST_BYTES).map_err(unreadable)?;
    // A pipe has no neighbours that could be imported.
    let file = path.is_file().then(|| std::path::absolute(path)).transpose().map_err(unreadable)?;
    Ok(Module { source, file })
}

/// A file as it stands on the command line.
fn marked(path: &Path) -> OsString {
    let mut word = OsString::from("@");
    word.push(path);
    word
}
