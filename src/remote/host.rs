//! The other machine, and the ssh that leads there.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};

use crate::model::error::Error;
use crate::remote::wire::REMOTE_END;
use crate::sys::session::ignore_keys;

/// The variable that names another command in place of ssh.
const VARIABLE: &str = "RUNCAST_SSH";

/// The other machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// As ssh knows it.
    pub name: String,
    /// The runcast there; `None` is the one on the PATH there.
    pub program: Option<String>,
}

impl Host {
    /// The name, as long as no ssh would take it for an option.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse_name(text: &str) -> Result<String, String> {
        if text.is_empty() {
            Err("the name is empty".to_owned())
        } else if text.starts_with('-') {
            Err("a name does not begin with '-'".to_owned())
        } else if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            Err("a name holds no blanks".to_owned())
        } else {
            Ok(text.to_owned())
        }
    }

    /// The path of a program, as long as every login shell takes it for the same.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse_program(text: &str) -> Result<String, String> {
        if text.is_empty() {
            Err("the path is empty".to_owned())
        } else if text.contains(|c: char| c.is_control() || "'\\!".contains(c)) {
            // Within single quotes these are the ones that shells disagree about.
            Err("it may hold no quote, backslash or exclamation mark".to_owned())
        } else {
            Ok(text.to_owned())
        }
    }

    /// What the login shell there is given: the same for all that is ever done, since ssh joins words with blanks
    /// and shells differ.
    fn command(&self) -> String {
        match &self.program {
            None => format!("exec runcast {REMOTE_END}"),
            Some(path) => format!("exec '{path}' {REMOTE_END}"),
        }
    }

    /// Starts ssh, its three streams at our end.
    pub(super) fn connect(&self) -> Result<Child, Error> {
        let words = ssh_words()?;
        let (program, options) = words.split_first().expect("there is at least the program");
        let mut command = Command::new(program);
        // No terminal there: the run gets its own if it is to have one.
        command.args(options).arg("-T").arg(&self.name).arg(self.command());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ignore_keys(&mut command);
        command.spawn().map_err(|source| Error::Remote {
            host: self.name.clone(),
            why: format!("{}: {}", program.to_string_lossy(), crate::model::error::reason(&source)),
        })
    }
}

/// The command that leads there, in words.
fn ssh_words() -> Result<Vec<OsString>, Error> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(vec![OsString::from("ssh")]);
    };
    let wrong =
        |why: &str| Error::File { option: VARIABLE, path: value.clone(), why: why.to_owned() };
    let text = value.to_str().ok_or_else(|| wrong("not UTF-8"))?;
    let words = shell_words::split(text).map_err(|_| wrong("a quote is missing"))?;
    if words.is_empty() {
        return Err(wrong("it holds no word"));
    }
    Ok(words.iter().map(|word| OsStr::new(word).to_owned()).collect())
}

/// What ssh says where trying again is of no use: it never got as far as a connection that could have broken, or
/// was turned away. ssh has no exit status for these.
const PERMANENT: [&str; 13] = [
    "Host key verification failed",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Permission denied",
    "Too many authentication failures",
    "No supported authentication methods",
    "Could not resolve hostname",
    "Name or service not known",
    "Bad configuration option",
    "Bad owner or permissions",
    "no matching host key type found",
    "no matching key exchange method found",
    "unknown option",
    "Connection refused",
];

/// What is permanent only for a machine that was never reached: once it was, it may be starting anew.
const PASSING: [&str; 3] =
    ["Could not resolve hostname", "Name or service not known", "Connection refused"];

/// What else ends the first attempt.
const UNREACHED: [&str; 3] = ["Connection timed out", "No route to host", "Network is unreachable"];

/// Why a connection that never came to a first line is none that broke; `None`: it is worth another attempt.
pub(super) fn permanent(status: Option<i32>, said: &str, was_reached: bool) -> Option<String> {
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let line_with = |words: &[&str]| {
        said.lines().find(|line| words.iter().any(|word| line.contains(word))).map(str::trim)
    };
    match status {
        // ssh's own failure, or a connection that broke.
        Some(255) | None => {
            let found = line_with(&PERMANENT)
                .or_else(|| if was_reached { None } else { line_with(&UNREACHED) })?;
            let is_passing = was_reached && PASSING.iter().any(|word| found.contains(word));
            (!is_passing).then(|| found.trim_start_matches("ssh: ").to_owned())
        }
        Some(127) => Some("there is no runcast on its PATH; --remote-runcast names one".to_owned()),
        Some(126) => Some("the runcast there cannot be executed".to_owned()),
        Some(125) => Some("the runcast there is too old for this".to_owned()),
        Some(status) => {
            let said = last.map(|line| format!(": {line}")).unwrap_or_default();
            Some(format!("the login shell there ended with {status}{said}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_sshs_own_is_told_from_a_connection_that_broke() {
        let why = |status, said: &str| permanent(Some(status), said, false);
        assert_eq!(why(255, ""), None);
        assert_eq!(why(255, "client_loop: send disconnect: Broken pipe\r\n"), None);
        let refused = "ssh: connect to host x port 22: Connection refused\r\n";
        assert_eq!(
            why(255, refused).as_deref(),
            Some("connect to host x port 22: Connection refused")
        );
        assert_eq!(permanent(Some(255), refused, true), None, "it may be starting anew");
        let denied = "Warning: x\nme@x: Permission denied (publickey).\n";
        assert!(permanent(Some(255), denied, true).is_some());
        assert!(
            why(127, "sh: 1: exec: runcast: not found").is_some_and(|why| why.contains("PATH"))
        );
        assert!(why(125, "runcast: unknown option").is_some_and(|why| why.contains("old")));
        assert!(why(1, "motd\nno login for you\n").is_some_and(|why| why.contains("no login")));
    }

    #[test]
    fn a_name_is_none_that_ssh_takes_for_an_option() {
        for good in ["box", "user@box", "ssh://me@box:22", "[::1]"] {
            assert_eq!(Host::parse_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "-oProxyCommand=x", "a b", "a\n"] {
            assert!(Host::parse_name(bad).is_err(), "{bad}");
        }
    }
}
