//! A screen as people see it, in tmux: a shell's prompt, keys, and what is shown then.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use tempfile::TempDir;

use super::process::VARIABLE;
use super::{LIMIT, Mark, program, scratch, tool};

/// A screen with a shell on it. All of it goes when this does.
pub(crate) struct Tmux {
    tmux: PathBuf,
    folder: TempDir,
    mark: Mark,
}

impl Tmux {
    /// One of this size, or nothing, and the test is to end.
    pub(crate) fn start(columns: u16, rows: u16) -> Option<Self> {
        let (tmux, bash) = (tool("tmux")?, tool("bash")?);
        let screen = Self { tmux, folder: scratch(), mark: Mark::new() };
        let shell = format!("unset PS1; exec {} --norc --noprofile -i", bash.display());
        screen.tmux(&[
            "new-session",
            "-d",
            "-x",
            &columns.to_string(),
            "-y",
            &rows.to_string(),
            &shell,
        ]);
        screen.until("bash");
        screen.say("PS1='shell> '; clear");
        screen.until("shell>");
        Some(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = program(&self.tmux);
        command.arg("-S").arg(self.folder.path().join("socket")).args(["-u", "-f", "/dev/null"]);
        command.args(arguments).env_remove("TMUX").env(VARIABLE, self.mark.as_str());
        command.env("HISTFILE", "/dev/null").env("TERM", "screen").stdin(Stdio::null());
        let output = command.output().expect("tmux can be started");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "tmux {arguments:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types a line at a prompt.
    pub(crate) fn say(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press(&["Enter"]);
    }

    /// Presses keys by their names, as `C-c`.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// What is shown, line by line, without blanks at the ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let shown = self.tmux(&["capture-pane", "-p"]);
        shown.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until it looks so.
    #[track_caller]
    pub(crate) fn shows(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            let lines = self.lines();
            if is_so(&lines) {
                return;
            }
            assert!(Instant::now() < end, "{what} is not shown:\n{}", lines.join("\n"));
        }
    }

    /// Waits until some line begins with this.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) {
        self.shows(text, |lines| lines.iter().any(|line| line.starts_with(text)));
    }
}
