//! Who is compared: programs that run a command or filter what it writes, as far as they are installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::scripts;

/// How a peer takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// There is nobody: the command writes straight to where its output goes.
    Nobody,
    /// It reads from a pipe what the command writes.
    Filter,
    /// The command is its own: the command's words follow its own.
    Wrapper,
}

/// One of those who are compared.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// As tables call it.
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    /// Its own words, the program first, by its path; empty for nobody.
    pub(crate) argv: Vec<OsString>,
}

impl Peer {
    /// The command alone, for a reference.
    pub(crate) fn nobody(name: &'static str) -> Self {
        Self { name, part: Part::Nobody, argv: Vec::new() }
    }

    /// A runcast, with these options.
    pub(crate) fn runcast(name: &'static str, program: &Path, options: &[&str]) -> Self {
        let own = std::iter::once(program.as_os_str().to_owned());
        let options = options.iter().chain(&["--"]).map(OsString::from);
        Self { name, part: Part::Wrapper, argv: own.chain(options).collect() }
    }

    fn new(name: &'static str, part: Part, program: PathBuf, words: &[&str]) -> Self {
        let own = std::iter::once(program.into_os_string());
        Self { name, part, argv: own.chain(words.iter().map(OsString::from)).collect() }
    }

    /// A process of it, with the command's words where it takes them.
    pub(crate) fn command(&self, of: &[String]) -> Command {
        let mut words: Vec<OsString> = self.argv.clone();
        if self.part != Part::Filter {
            words.extend(of.iter().map(OsString::from));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Those who were asked for: who is there, and who is not.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) present: Vec<Peer>,
    pub(crate) missing: Vec<&'static str>,
}

impl Peers {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Somebody who is there in any case.
    pub(crate) fn with(mut self, peer: Peer) -> Self {
        self.present.push(peer);
        self
    }

    /// A filter, if it is installed.
    pub(crate) fn filter(self, name: &'static str, program: &str, words: &[&str]) -> Self {
        self.installed(name, Part::Filter, on_path(program), words)
    }

    /// A wrapper, if it is installed.
    pub(crate) fn wrapper(self, name: &'static str, program: &str, words: &[&str]) -> Self {
        self.installed(name, Part::Wrapper, on_path(program), words)
    }

    /// Python with one of the scripts, if it is installed.
    pub(crate) fn python(self, name: &'static str, script: &str, words: &[&str]) -> Self {
        let words = [&["-c", script], words].concat();
        self.installed(name, Part::Wrapper, python(), &words)
    }

    /// The classic design in Python; it turns lines into `text` or `json`.
    pub(crate) fn classic_python(self, format: &str) -> Self {
        self.python(CLASSIC_PYTHON, scripts::PYTHON, &[format])
    }

    fn installed(
        mut self,
        name: &'static str,
        part: Part,
        program: Option<PathBuf>,
        words: &[&str],
    ) -> Self {
        match program {
            Some(program) => self.present.push(Peer::new(name, part, program, words)),
            None => self.missing.push(name),
        }
        self
    }
}

/// What tables call [`scripts::PYTHON`].
pub(crate) const CLASSIC_PYTHON: &str = "Python (2 threads, queue)";

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The interpreter itself: what is on the PATH may be a script that looks for it, and takes its time.
fn python() -> Option<PathBuf> {
    let output = Command::new(on_path("python3")?)
        .args(["-c", "import sys; sys.stdout.write(sys.executable)"])
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok().map(PathBuf::from).filter(|path| path.is_file())
}
