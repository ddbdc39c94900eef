//! A shell at its prompt, on a terminal of its own, which tells what a TAB makes of a line.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Live, Terminal, launch, tool};

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
    terminal: Terminal,
    _shell: Live,
}

impl Prompt {
    /// A shell in this home folder, with these in its environment and `programs` before the PATH, that has run
    /// `setup`; or nothing, and the test is to end.
    pub(crate) fn start(
        shell: &Shell,
        home: &Path,
        programs: &Path,
        environment: &[(&str, &Path)],
        setup: &str,
    ) -> Option<Self> {
        let program = tool(shell.program)?;
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", programs.display());
        fs::write(home.join(STARTUP), format!("{}{setup}", shell.tells))
            .expect("the folder is ours");
        let mut terminal = Terminal::new();
        let words = [program.as_os_str()].into_iter().chain(shell.arguments.iter().map(OsStr::new));
        let run = launch(words).within(home).on(&terminal);
        let run = run.env("PATH", path).env("TERM", "vt100").env("INPUTRC", "/dev/null");
        let run = run.env("HOME", home).env("ZDOTDIR", home);
        let run = environment.iter().fold(run, |run, (name, value)| run.env(name, value));
        let shell = run.start();
        terminal.until(PROMPT);
        Some(Self { terminal, _shell: shell })
    }

    /// What the line becomes when TAB is typed behind it.
    pub(crate) fn completed(&mut self, typed: &str) -> String {
        self.terminal.press(&format!("{CLEAR}{typed}\t{TELL}"));
        self.terminal.until("<<");
        self.terminal.until(">>").trim_end_matches(">>").trim_end().to_owned()
    }
}
