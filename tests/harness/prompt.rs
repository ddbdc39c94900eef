//! A shell at its prompt, on a terminal of its own, which tells what a TAB makes of a line.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;

use super::{LIMIT, tool};

/// How a shell is started, and how it is made to tell its line.
pub(crate) struct Shell {
    program: &'static str,
    arguments: &'static [&'static str],
    tells: &'static str,
}

pub(crate) const BASH: Shell = Shell {
    program: "bash",
    arguments: &["--noprofile", "--rcfile", STARTUP, "-i"],
    tells: r#"PS1='READY> '
tell() { printf '<<%s>>\n' "$READLINE_LINE"; }
bind -x '"\C-x": tell'
"#,
};

pub(crate) const ZSH: Shell = Shell {
    program: "zsh",
    arguments: &["-i"],
    tells: r#"PS1='READY> '
unsetopt PROMPT_SP PROMPT_CR
tell() { print -r -- "<<$BUFFER>>" }
zle -N tell
bindkey -e
bindkey '^X' tell
"#,
};

pub(crate) const FISH: Shell = Shell {
    program: "fish",
    arguments: &["-N", "-i", "-C", "source .zshrc"],
    tells: r#"function fish_prompt; echo -n 'READY> '; end
function fish_right_prompt; end
set -g fish_greeting
bind \cx 'echo "<<"(commandline)">>"'
bind \cu 'commandline ""'
"#,
};

/// What the shell reads first, in its home folder. The name is the one that zsh cannot be told otherwise.
const STARTUP: &str = ".zshrc";

/// What the shell prints before it takes a line.
const PROMPT: &str = "READY> ";

/// Ctrl-X, which prints the line as it stands.
const TELL: &str = "\x18";

/// Ctrl-U, which takes the line away.
const CLEAR: &str = "\x15";

/// A shell at its prompt.
pub(crate) struct Prompt {
    shell: Child,
    screen: File,
    seen: String,
}

impl Prompt {
    /// A shell in this home folder, with nothing in its environment but these and `programs` before the PATH, that has
    /// run `setup`; or nothing, and the test is to end.
    pub(crate) fn start(
        shell: &Shell,
        home: &Path,
        programs: &Path,
        environment: &[(&str, &Path)],
        setup: &str,
    ) -> Option<Self> {
        let (program, setsid) = (tool(shell.program)?, tool("setsid")?);
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", programs.display());
        fs::write(home.join(STARTUP), format!("{}{setup}", shell.tells))
            .expect("the folder is ours");
        let ends = openpty(None, None).expect("there are terminals");
        let screen =
            |end: &OwnedFd| Stdio::from(end.try_clone().expect("a descriptor can be copied"));
        let mut command = Command::new(setsid);
        command.args(["-c", "-w"]).arg(program).args(shell.arguments).current_dir(home);
        command.env_clear().env("PATH", path).env("TERM", "vt100").env("INPUTRC", "/dev/null");
        command.env("HOME", home).env("ZDOTDIR", home).envs(environment.iter().copied());
        command.stdin(screen(&ends.slave)).stdout(screen(&ends.slave)).stderr(screen(&ends.slave));
        let shell = command.spawn().expect("a shell can be started");
        drop((command, ends.slave));
        let mut prompt = Self { shell, screen: ends.master.into(), seen: String::new() };
        prompt.read_to(PROMPT);
        Some(prompt)
    }

    /// Reads on to this text and returns what stands before it.
    fn read_to(&mut self, text: &str) -> String {
        let limit = Instant::now() + LIMIT;
        let mut buffer = [0; 4096];
        loop {
            if let Some((before, after)) = self.seen.split_once(text) {
                let before = before.to_owned();
                self.seen = after.to_owned();
                return before;
            }
            assert!(Instant::now() < limit, "{text:?} did not come: {:?}", self.seen);
            let mut fds = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(50_u8)).is_ok_and(|ready| ready > 0) {
                let count = self.screen.read(&mut buffer).expect("the shell lives");
                self.seen += &String::from_utf8_lossy(&buffer[..count]);
            }
        }
    }

    /// What the line becomes when TAB is typed behind it.
    pub(crate) fn completed(&mut self, typed: &str) -> String {
        self.seen.clear();
        let keys = format!("{CLEAR}{typed}\t{TELL}");
        self.screen.write_all(keys.as_bytes()).expect("the shell lives");
        self.read_to("<<");
        self.read_to(">>").trim_end().to_owned()
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // They are gone already where the test failed early.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
