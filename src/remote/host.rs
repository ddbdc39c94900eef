//! The other machine, and the ssh that leads there.

use std::process::{Child, Command, Stdio};

use crate::model::error::{Error, reason};
use crate::model::shell_line::quoted;
use crate::remote::connection::Ended;
use crate::remote::wire::REMOTE_END;
use crate::sys::signals::ignore_keys;

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
        let failed = |why| Error::Remote { host: self.name.clone(), why };
        let words = ssh_words().map_err(failed)?;
        let (program, options) = words.split_first().expect("there is at least the program");
        let mut command = Command::new(program);
        // No terminal there: the run gets its own if it is to have one.
        command.args(options).arg("-T").arg(&self.name).arg(self.command());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ignore_keys(&mut command);
        command.spawn().map_err(|source| failed(format!("{program}: {}", reason(&source))))
    }

    /// The command that does the same there as `runcast WORDS` would, as far as it is typed here.
    pub(super) fn typed(&self, subcommand: &str, options: &str, words: &[&str]) -> String {
        let mut typed = format!("runcast {subcommand} --host {}", quoted(&self.name));
        if let Some(program) = &self.program {
            typed.push_str(" --remote-runcast ");
            typed.push_str(&quoted(program));
        }
        typed.push_str(options);
        for word in words {
            typed.push(' ');
            typed.push_str(&quoted(word));
        }
        typed
    }
}

/// The command that leads there, in words.
fn ssh_words() -> Result<Vec<String>, String> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(vec!["ssh".to_owned()]);
    };
    let wrong = |why: &str| format!("{VARIABLE} {}: {why}", value.to_string_lossy());
    let text = value.to_str().ok_or_else(|| wrong("not UTF-8"))?;
    let words = shlex::split(text).ok_or_else(|| wrong("a quote is missing"))?;
    match words.first() {
        None => Err(wrong("it holds no word")),
        Some(program) if program.is_empty() => Err(wrong("its first word is empty")),
        Some(_) => Ok(words),
    }
}

/// What ssh says where trying again is of no use: it was turned away, or is not set up for it. ssh has no exit
/// status for these.
const PERMANENT: [&str; 17] = [
    "Host key verification failed",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Permission denied",
    "Too many authentication failures",
    "No supported authentication methods",
    "no matching host key type found",
    "no matching key exchange method found",
    "no matching cipher found",
    "no matching MAC found",
    "Bad configuration option",
    "Bad owner or permissions",
    "terminating, ",
    "Cannot execute command-line and remote command",
    "unknown option",
    "illegal option",
    "usage: ssh",
    "Bad port",
];

/// What a line begins with that says why there never was a connection. Once there was one, the machine may be
/// starting anew.
const UNREACHED: &str = "ssh: ";

/// Why trying again is of no use; `None`: it was a connection that broke, or never came to be for now.
pub(super) fn permanent(ended: &Ended, was_reached: bool) -> Option<String> {
    if let Some(why) = &ended.foreign {
        return Some(why.clone());
    }
    if ended.was_open {
        return None;
    }
    let lines = || ended.said.lines().map(str::trim);
    match ended.status {
        // ssh's own failure, or a connection that broke.
        Some(255) | None => {
            let is_permanent = |line: &&str| PERMANENT.iter().any(|word| line.contains(word));
            let is_unreached = |line: &&str| !was_reached && line.starts_with(UNREACHED);
            let found = lines().find(is_permanent).or_else(|| lines().find(is_unreached))?;
            Some(found.trim_start_matches(UNREACHED).to_owned())
        }
        Some(127) => {
            Some("there is no runcast on its PATH, or where --remote-runcast says".to_owned())
        }
        Some(126) => Some("the runcast there cannot be executed".to_owned()),
        Some(125) => Some(format!("the runcast there is too old for this{}", last_words(ended))),
        Some(status) => {
            Some(format!("the login shell there ended with {status}{}", last_words(ended)))
        }
    }
}

/// The last that was heard of a connection, to be put behind why it failed; empty where there is nothing.
pub(super) fn last_words(ended: &Ended) -> String {
    let said = ended.said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let said = said.unwrap_or(&ended.noise);
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(status: i32, said: &str, was_reached: bool) -> Option<String> {
        let ended = Ended { status: Some(status), said: said.to_owned(), ..Ended::default() };
        permanent(&ended, was_reached)
    }

    #[test]
    fn a_failure_of_sshs_own_is_told_from_a_connection_that_broke() {
        for broken in [
            "",
            "client_loop: send disconnect: Broken pipe\r\n",
            "kex_exchange_identification: Connection closed by remote host\r\n",
            "Warning: Permanently added 'x' to the list of known hosts.\r\nConnection to x closed.\r\n",
        ] {
            assert_eq!(why(255, broken, false), None, "{broken}");
        }
        for unreached in [
            "connect to host x port 22: Connection refused",
            "connect to host x port 22: Connection timed out",
            "connect to host x port 22: No route to host",
            "Could not resolve hostname x: Name or service not known",
        ] {
            let said = format!("ssh: {unreached}\r\n");
            assert_eq!(why(255, &said, false).as_deref(), Some(unreached));
            assert_eq!(why(255, &said, true), None, "it may be starting anew");
        }
        for turned_away in [
            "me@x: Permission denied (publickey).",
            "Host key verification failed.",
            "Cannot execute command-line and remote command.",
            "/home/me/.ssh/config: line 3: Bad configuration option: x",
        ] {
            let said = format!("Warning: y\r\n{turned_away}\r\n");
            assert_eq!(why(255, &said, false).as_deref(), Some(turned_away));
            assert_eq!(why(255, &said, true).as_deref(), Some(turned_away));
        }
        let has =
            |status, said, part| why(status, said, false).is_some_and(|why| why.contains(part));
        assert!(has(127, "sh: 1: exec: runcast: not found", "PATH"));
        assert!(has(125, "runcast: unknown option", "old"));
        assert!(has(1, "motd\nno login for you\n", "no login"));
    }

    #[test]
    fn what_was_heard_of_breaks_and_what_speaks_otherwise_does_not() {
        let open = Ended { was_open: true, status: Some(125), ..Ended::default() };
        assert_eq!(permanent(&open, true), None);
        let foreign = Ended { foreign: Some("x".to_owned()), ..Ended::default() };
        assert_eq!(permanent(&foreign, false).as_deref(), Some("x"));
        let noise = "This account is not available.".to_owned();
        let noisy = Ended { status: Some(1), noise, ..Ended::default() };
        assert!(permanent(&noisy, false).is_some_and(|why| why.contains("not available")));
    }

    #[test]
    fn what_is_to_be_typed_is_quoted() {
        let mut host = Host { name: "me@box".to_owned(), program: None };
        assert_eq!(host.typed("attach", "", &["id"]), "runcast attach --host me@box id");
        host = Host { name: "a;b".to_owned(), program: Some("/my bin/runcast".to_owned()) };
        assert_eq!(
            host.typed("attach", " --after 3", &["id"]),
            "runcast attach --host 'a;b' --remote-runcast '/my bin/runcast' --after 3 id"
        );
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
