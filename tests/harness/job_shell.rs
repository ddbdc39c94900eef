//! An interactive shell on a terminal, with its prompt and its jobs, and how it is spoken to.

use super::{CTRL_Z, Live, PUPPET, RUNCAST, Terminal, launch, tool};

/// An interactive shell on a terminal.
pub(crate) struct JobShell {
    pub(crate) terminal: Terminal,
    live: Live,
    prompts: usize,
}

impl JobShell {
    /// One that waits at its prompt, or nothing, and the test is to end.
    pub(crate) fn start() -> Option<Self> {
        let bash = tool("bash")?;
        let terminal = Terminal::of_size(200, 24);
        let words = [bash.as_os_str(), "--norc".as_ref(), "--noediting".as_ref(), "-i".as_ref()];
        let live = launch(words).on(&terminal).start();
        let mut shell = Self { terminal, live, prompts: 0 };
        shell.asks("PS1='<$((++n))>'; bind 'set enable-bracketed-paste off' 2>/dev/null");
        Some(shell)
    }

    /// Types a line.
    pub(crate) fn say(&self, line: &str) {
        self.terminal.press(&format!("{line}\r"));
    }

    /// Waits for the next prompt, and returns what came before.
    #[track_caller]
    fn prompt(&mut self) -> String {
        self.prompts += 1;
        let prompt = format!("<{}>", self.prompts);
        self.terminal.until(&prompt)
    }

    /// What a line says, before the next prompt.
    #[track_caller]
    pub(crate) fn asks(&mut self, line: &str) -> String {
        self.say(line);
        self.prompt()
    }

    /// Runs the puppet under runcast in the foreground, until it says `up`.
    #[track_caller]
    pub(crate) fn runs(&mut self, options: &str, steps: &str) {
        self.say(&format!("{RUNCAST} {options} -- {PUPPET} {steps}"));
        self.terminal.until("up\r\n");
    }

    /// The process of its only job.
    pub(crate) fn job(&self) -> i32 {
        self.live.child_pid()
    }

    /// Waits until what runs in the foreground has become a stopped job.
    #[track_caller]
    pub(crate) fn has_it_stopped(&mut self) {
        assert!(self.prompt().contains("Stopped"));
    }

    /// Presses Ctrl-Z, and waits until what runs in the foreground has become a stopped job.
    #[track_caller]
    pub(crate) fn stops_it(&mut self) {
        self.terminal.press(CTRL_Z);
        self.has_it_stopped();
    }

    /// Brings the job whose command line ends so back into the foreground.
    #[track_caller]
    pub(crate) fn brings_it_back(&mut self, end: &str) {
        self.say("fg");
        // The shell shows the line as it lets the job go on. What is typed before that would be for the shell.
        self.terminal.until(&format!("{end}\r\n"));
    }

    /// Types a word for what runs in the foreground, which says that it read it.
    #[track_caller]
    pub(crate) fn gives_it(&mut self, word: &str) {
        self.say(word);
        self.terminal.until(&format!("read {word}\r\n"));
    }

    /// Waits until what runs in the foreground has ended, with this status.
    #[track_caller]
    pub(crate) fn sees_it_end_with(&mut self, status: i32) {
        self.prompt();
        let told = self.asks("echo status:$?");
        assert!(told.contains(&format!("status:{status}\r\n")), "{told:?}");
    }

    /// Leaves it, with nothing left behind.
    #[track_caller]
    pub(crate) fn leave(self) {
        self.say("exit 0");
        self.live.finish().exited(0).left_nothing();
    }
}
