//! How the [other end](crate::remote::end) of a connection starts a run: by the words of a command line.

use std::ffi::OsString;

use crate::cli::args::Args;
use crate::cli::detach;
use crate::cli::parse::{Parsed, parse};
use crate::model::error::Error;
use crate::remote::end;
use crate::remote::wire::Bytes;
use crate::runs::start::Started;

/// Serves one connection, and returns the exit status.
#[must_use]
pub fn serve() -> u8 {
    end::serve(start)
}

/// Starts a run as these words would behind `runcast`, with options that another start of the same run may have not,
/// and with these secrets masked.
fn start(words: Vec<Bytes>, uncounted: Vec<Bytes>, secrets: Vec<Bytes>) -> Result<Started, Error> {
    let mut identity = parsed(words.clone())?.1;
    // The same run hides the same.
    for Bytes(secret) in &secrets {
        identity.extend_from_slice(&secret.len().to_be_bytes());
        identity.extend_from_slice(secret);
    }
    let end = words.iter().position(|Bytes(word)| word == b"--").unwrap_or(0);
    let mut all = words;
    all.splice(end..end, uncounted);
    let (args, _) = parsed(all)?;
    let secrets = secrets.into_iter().map(|Bytes(secret)| secret).collect();
    detach::begin(*args, &identity, secrets)
}

/// The arguments of a detached run, and what the same run has the same.
fn parsed(words: Vec<Bytes>) -> Result<(Box<Args>, Vec<u8>), Error> {
    let words = words.into_iter().map(Bytes::into_word);
    match parse(std::iter::once(OsString::from("runcast")).chain(words)) {
        Parsed::Detach(args, identity) => Ok((args, identity)),
        Parsed::Error(error) => Err(error),
        _ => Err(Error::Usage("these words start no run".to_owned())),
    }
}
