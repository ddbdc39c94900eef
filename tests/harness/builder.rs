//! A run to be: options, command, surroundings. It ends in a [`Ran`] or a [`Live`].

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{PoisonError, RwLock};

use super::process::VARIABLE;
use super::{Live, Mark, PUPPET, RUNCAST, Ran, Terminal, program};

/// Shared while a process is started, exclusive while a file that will be executed is open for writing: a
/// child forked at that moment would hold it open, and executing it would fail with ETXTBSY.
static FORKS: RwLock<()> = RwLock::new(());

/// A run to be.
pub(crate) struct Runcast {
    before: Vec<OsString>,
    program: Option<&'static str>,
    options: Vec<OsString>,
    command: Vec<OsString>,
    after: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    input: Option<Vec<u8>>,
    stdin: Stdio,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    mark: Mark,
    writes_events: bool,
}

/// runcast with these options, divided at spaces.
pub(crate) fn runcast(options: &str) -> Runcast {
    Runcast {
        before: Vec::new(),
        program: Some(RUNCAST),
        options: words(options),
        command: Vec::new(),
        after: Vec::new(),
        environment: Vec::new(),
        directory: None,
        input: None,
        stdin: Stdio::null(),
        stdout: None,
        stderr: None,
        mark: Mark::new(),
        writes_events: true,
    }
}

/// The same, writing events.
pub(crate) fn ndjson(options: &str) -> Runcast {
    runcast(&format!("-f ndjson {options}"))
}

/// Some other program in the same surroundings.
pub(crate) fn launch(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Runcast {
    let options = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    Runcast { program: None, options, ..runcast("") }
}

fn words(text: &str) -> Vec<OsString> {
    text.split_ascii_whitespace().map(OsString::from).collect()
}

impl Runcast {
    /// One more word before the command, as it is.
    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.options.push(word.as_ref().to_owned());
        self
    }

    /// The puppet with these steps as the command.
    pub(crate) fn puppet(self, steps: &str) -> Self {
        let command = [OsString::from(PUPPET)].into_iter().chain(words(steps));
        self.command(command)
    }

    /// Any command.
    pub(crate) fn command(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self.options.push(OsString::from("--"));
        self
    }

    /// Started by the puppet after these steps, in the same process.
    pub(crate) fn launched(self, steps: &str) -> Self {
        let before = [OsString::from(PUPPET)].into_iter().chain(words(steps)).chain(words("exec"));
        self.through(before)
    }

    /// Started as a shell starts a job: with a process group of its own, and a parent outside of it in the
    /// same session.
    pub(crate) fn started_as_a_job(mut self) -> Self {
        self.after = words("} reap-exit");
        self.launched("fork { setpgid")
    }

    /// Started on this terminal, as the leader of a session that it controls.
    pub(crate) fn on(self, terminal: &Terminal) -> Self {
        self.launched(&terminal.steps())
    }

    /// Started on this terminal in the same group as its parent, which leads the session and waits for it.
    pub(crate) fn on_in_a_script(mut self, terminal: &Terminal) -> Self {
        self.after = words("} reap-exit");
        let steps = format!("{} fork {{", terminal.steps());
        self.launched(&steps)
    }

    /// The same, and then the parent reads a line from the terminal, says `modes` and it.
    pub(crate) fn on_in_a_script_that_reads_then(mut self, terminal: &Terminal) -> Self {
        self.after = words("} reap report:modes read-line");
        let steps = format!("{} fork {{", terminal.steps());
        self.launched(&steps)
    }

    /// Started by this program with these arguments before runcast's own path.
    pub(crate) fn through(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.before = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// A variable of runcast's own environment.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Started in this folder.
    pub(crate) fn within(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// With these bytes, then the end, on its standard input.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// With this standard input, which is /dev/null else.
    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// With this standard output, which the test then does not read itself.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// With this standard error, which the test then does not read itself.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// With a mark that other runs carry too.
    pub(crate) fn marked(mut self, mark: &Mark) -> Self {
        self.mark = mark.clone();
        self
    }

    /// With lines that look like events and are none, or none that this version would write.
    pub(crate) fn writes_no_events(mut self) -> Self {
        self.writes_events = false;
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Live {
        let mut argv = self.before;
        argv.extend(self.program.map(OsString::from));
        argv.extend(self.options.into_iter().chain(self.command).chain(self.after));
        let mut command = program(&argv[0]);
        command.args(&argv[1..]).env_clear();
        for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        command.env("LC_ALL", "C.UTF-8").envs(self.environment).env(VARIABLE, self.mark.as_str());
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        command.stdin(if self.input.is_some() { Stdio::piped() } else { self.stdin });
        command.stdout(self.stdout.unwrap_or_else(Stdio::piped));
        command.stderr(self.stderr.unwrap_or_else(Stdio::piped));
        let child = {
            let _shared = FORKS.read().unwrap_or_else(PoisonError::into_inner);
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{} cannot be started: {error}", argv[0].display()))
        };
        // The test's own copies of the descriptors given above go with it.
        drop(command);
        Live::new(child, self.input, self.mark, self.writes_events)
    }

    /// Starts it, and waits until its command says `up`.
    pub(crate) fn up(self) -> Live {
        let mut live = self.start();
        live.shows("up");
        live
    }

    /// Starts it on this terminal, as the leader of a session that it controls, and waits until its command says `up`.
    #[track_caller]
    pub(crate) fn up_on(self, terminal: &mut Terminal) -> Live {
        let live = self.on(terminal).start();
        terminal.until("up\r\n");
        live
    }

    /// The same in a script, see [`Runcast::on_in_a_script`].
    #[track_caller]
    pub(crate) fn up_in_a_script_on(self, terminal: &mut Terminal) -> Live {
        let live = self.on_in_a_script(terminal).start();
        terminal.until("up\r\n");
        live
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Ran {
        self.start().finish()
    }
}

/// Writes an executable file.
pub(crate) fn script(path: &Path, content: &[u8]) {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    fs::write(path, content).expect("a file can be written in the test's own folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .expect("a file of one's own can be made executable");
}

/// runcast and the puppet where every user may execute them, in this folder.
pub(crate) fn copies_for_everyone(folder: &Path) -> [PathBuf; 2] {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    [("runcast", RUNCAST), ("puppet", PUPPET)].map(|(name, original)| {
        let copy = folder.join(name);
        script(&copy, &fs::read(original).expect("it was built"));
        copy
    })
}
