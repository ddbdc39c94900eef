//! What was asked for on the command line, and how much of everything that comes to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Starting and ending `/bin/true`.
    Startup,
    /// Lines into JSON objects.
    Ndjson,
    /// Output passed on as it is.
    Text,
    /// Output with something before each line, or as records.
    Decorated,
    /// From the command's write to the reader.
    Delay,
    /// Peak resident memory.
    Memory,
    /// Many runs at once.
    Crowd,
    /// A detached run shown again.
    Attach,
}

impl Workload {
    const ALL: [(&'static str, Self); 8] = [
        ("startup", Self::Startup),
        ("ndjson", Self::Ndjson),
        ("text", Self::Text),
        ("decorated", Self::Decorated),
        ("delay", Self::Delay),
        ("memory", Self::Memory),
        ("crowd", Self::Crowd),
        ("attach", Self::Attach),
    ];
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Enough to believe the figures.
    Full,
    /// Enough to see that everything works.
    Quick,
}

/// What to do.
#[derive(Debug)]
pub(crate) struct Settings {
    /// In the order asked for; all where none was named.
    pub(crate) workloads: Vec<Workload>,
    pub(crate) effort: Effort,
    /// Rounds of which the median counts.
    pub(crate) rounds: usize,
    /// The runcast that is measured.
    pub(crate) runcast: PathBuf,
    /// The folder that it is in, for as long as it is measured.
    _installed: TempDir,
}

const USAGE: &str =
    "usage: cargo bench --bench compare -- [WORKLOAD...] [--reps N] [--quick] [--bin PATH]
workloads: startup ndjson text decorated delay memory crowd attach";

impl Settings {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// A word that means nothing; the message is the usage.
    pub(crate) fn from_words(words: &[String]) -> io::Result<Self> {
        let usage = || io::Error::new(io::ErrorKind::InvalidInput, USAGE);
        let mut workloads = Vec::new();
        let mut effort = Effort::Full;
        let mut rounds = None;
        let mut runcast = PathBuf::from(env!("CARGO_BIN_EXE_runcast"));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                // cargo gives it to every benchmark.
                "--bench" => {}
                "--quick" => effort = Effort::Quick,
                "--reps" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    rounds = Some(number.filter(|&number| number > 0).ok_or_else(usage)?);
                }
                "--bin" => runcast = words.next().ok_or_else(usage)?.into(),
                name => {
                    let known = Workload::ALL.iter().find(|(known, _)| *known == name);
                    workloads.push(known.ok_or_else(usage)?.1);
                }
            }
        }
        if workloads.is_empty() {
            workloads.extend(Workload::ALL.iter().map(|(_, workload)| *workload));
        }
        let rounds = rounds.unwrap_or(match effort {
            Effort::Full => 5,
            Effort::Quick => 3,
        });
        // A name without a slash would be looked for on the PATH, and a child's folder may be another.
        let (installed, runcast) = installed(&runcast)?;
        Ok(Self { workloads, effort, rounds, runcast, _installed: installed })
    }

    /// One of the two, by the effort.
    pub(crate) fn either<T>(&self, full: T, quick: T) -> T {
        match self.effort {
            Effort::Full => full,
            Effort::Quick => quick,
        }
    }

    /// About how long one run of a throughput is to take. Shorter, and the start that is taken off and a
    /// single pause of the machine weigh too much; longer only takes time.
    pub(crate) fn run_time(&self) -> Duration {
        self.either(Duration::from_secs(1), Duration::from_millis(150))
    }
}

/// A copy of the program, as an install makes one. A file that the linker has just put together piece by piece
/// lies in the page cache in small pieces, and starts a twentieth slower than one that was written in one go, as
/// those of the peers were.
fn installed(program: &Path) -> io::Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("runcast");
    fs::copy(program, &copy)?;
    Ok((folder, copy))
}
