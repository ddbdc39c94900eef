//! From the text of one value to what it means, and the types of values that only the command line has.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};

use crate::backend::load::Input;
use crate::model::rlimits::Rlimit;
use crate::model::signal::Signal;
use crate::model::spec::{
    DEFAULT_LAG_BYTES, MIN_LINE_BYTES, OnLag, ResultDestination, Stdin, WindowSize,
};
use crate::model::units::{parse_assignment, parse_digits, parse_duration, parse_size};

/// What one `--env` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// Set this name to this value.
    Set(OsString, OsString),
    /// Take it over from runcast's own environment.
    Inherit(OsString),
}

/// A time after which the run is stopped; `None` is never.
pub type TimeLimit = Option<Duration>;
/// A number of bytes; `None` is unlimited.
pub type SizeLimit = Option<u64>;
/// What one `--rlimit` gave.
pub type Rlimits = Vec<Rlimit>;
/// A received signal, and what is forwarded in its place; `None` is nothing.
pub type SignalMapping = (Signal, Option<Signal>);

/// Parses a value that is a text. A value that is not UTF-8 is refused in the option's name; clap's own
/// parsers for texts refuse it without one.
pub(super) fn text<T>(parse: fn(&str) -> Result<T, String>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    OsStringValueParser::new().try_map(move |typed: OsString| match typed.to_str() {
        Some(typed) => parse(typed),
        None => Err("not UTF-8".to_owned()),
    })
}

/// Parses a value of any bytes.
pub(super) fn bytes<T>(parse: fn(&OsStr) -> Result<T, String>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    OsStringValueParser::new().try_map(move |typed: OsString| parse(&typed))
}

/// Parses one of a few words, each with what it means.
#[derive(Clone)]
pub(super) struct Words<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        typed: &OsStr,
    ) -> Result<T, clap::Error> {
        // What is not UTF-8 is not one of the words either, nor is it with U+FFFD in it.
        let typed = typed.to_string_lossy();
        match self.0.iter().find(|(word, _)| *word == typed) {
            Some((_, meaning)) => Ok(*meaning),
            None => {
                let words = self.0.iter().map(|(word, _)| *word);
                let refused = PossibleValuesParser::new(words).parse_ref(
                    command,
                    option,
                    OsStr::new(&*typed),
                );
                Err(refused.err().unwrap_or_else(|| clap::Error::new(ErrorKind::InvalidValue)))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|(word, _)| PossibleValue::new(*word))))
    }
}

/// Takes any word, and proposes a few.
#[derive(Clone)]
pub(super) struct Names(pub(super) Vec<&'static str>);

impl TypedValueParser for Names {
    type Value = OsString;

    fn parse_ref(
        &self,
        _: &Command,
        _: Option<&Arg>,
        typed: &OsStr,
    ) -> Result<OsString, clap::Error> {
        Ok(typed.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|word| PossibleValue::new(*word))))
    }
}

pub(super) fn parse_nice(typed: &str) -> Result<i32, String> {
    typed.parse().map_err(|_| "not a whole number".to_owned())
}

pub(super) fn parse_line_size(typed: &str) -> Result<usize, String> {
    match usize::try_from(parse_size(typed)?) {
        Ok(size) if size < MIN_LINE_BYTES => Err(format!("less than {MIN_LINE_BYTES} bytes")),
        Ok(size) => Ok(size),
        Err(_) => Err("too large".to_owned()),
    }
}

/// Columns, an `x`, rows.
pub(super) fn parse_window_size(typed: &str) -> Result<WindowSize, String> {
    let (columns, rows) = typed.split_once('x').ok_or("not COLSxROWS, as 80x24")?;
    let number = |part: &str| {
        parse_digits(part)
            .filter(|&number: &u16| number > 0)
            .ok_or_else(|| format!("'{part}' is not a number from 1 to {}", u16::MAX))
    };
    Ok(WindowSize { columns: number(columns)?, rows: number(rows)? })
}

pub(super) fn parse_partial_after(typed: &str) -> Result<TimeLimit, String> {
    match typed {
        "never" => Ok(None),
        _ => parse_duration(typed).map(Some),
    }
}

pub(super) fn parse_on_lag(typed: &str) -> Result<OnLag, String> {
    match typed.split_once(':') {
        None if typed == "block" => Ok(OnLag::Block),
        None if typed == "drop" => Ok(OnLag::Drop { bytes: DEFAULT_LAG_BYTES }),
        Some(("drop", size)) => parse_size(size).map(|bytes| OnLag::Drop { bytes }),
        _ => Err("neither block nor drop[:SIZE]".to_owned()),
    }
}

pub(super) fn parse_path(typed: &OsStr) -> Result<PathBuf, String> {
    if typed.is_empty() { Err("the path is empty".to_owned()) } else { Ok(typed.into()) }
}

pub(super) fn parse_variable(typed: &OsStr) -> Result<Variable, String> {
    if typed.as_encoded_bytes().contains(&b'=') {
        parse_assignment(typed).map(|(name, value)| Variable::Set(name, value))
    } else {
        parse_name(typed).map(Variable::Inherit)
    }
}

pub(super) fn parse_name(typed: &OsStr) -> Result<OsString, String> {
    if typed.is_empty() {
        Err("the name is empty".to_owned())
    } else if typed.as_encoded_bytes().contains(&b'=') {
        Err("a name holds no '='".to_owned())
    } else {
        Ok(typed.to_owned())
    }
}

pub(super) fn parse_stdin(typed: &OsStr) -> Result<Stdin, String> {
    match typed.as_encoded_bytes() {
        b"" => Err("the path is empty".to_owned()),
        b"inherit" => Ok(Stdin::Inherit),
        b"null" => Ok(Stdin::Null),
        b"open" => Ok(Stdin::Open),
        _ => Ok(Stdin::File(typed.into())),
    }
}

pub(super) fn parse_input(typed: &OsStr) -> Result<Input, String> {
    match typed.as_bytes() {
        b"@" => Err("the path is empty".to_owned()),
        b"-" => Ok(Input::Stdin),
        [b'@', path @ ..] => Ok(Input::File(OsStr::from_bytes(path).into())),
        _ => Ok(Input::Text(typed.to_owned())),
    }
}

pub(super) fn parse_destination(typed: &OsStr) -> Result<ResultDestination, String> {
    match typed.as_encoded_bytes() {
        b"" => Err("the path is empty".to_owned()),
        b"-" | b"/dev/stdout" => Ok(ResultDestination::Stdout),
        b"/dev/stderr" => Ok(ResultDestination::Descriptor(2)),
        // By its path a descriptor would be opened anew, and a file written over from its beginning.
        [b'f', b'd', b':', number @ ..]
        | [b'/', b'd', b'e', b'v', b'/', b'f', b'd', b'/', number @ ..] => {
            descriptor(number).ok_or_else(|| "fd: wants the number of a descriptor".to_owned())
        }
        _ => Ok(ResultDestination::File(typed.into())),
    }
}

/// The destination that a descriptor's number names.
fn descriptor(number: &[u8]) -> Option<ResultDestination> {
    match parse_digits(std::str::from_utf8(number).ok()?)? {
        1 => Some(ResultDestination::Stdout),
        number => Some(ResultDestination::Descriptor(number)),
    }
}
