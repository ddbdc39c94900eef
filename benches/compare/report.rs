//! The Markdown that comes out, and the targets that figures are held against.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Stdout, Write};

use crate::settings::{Effort, Settings};

/// What a figure has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A target and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    bound: Bound,
    of: String,
    /// NaN where there is no figure, because whom it compares with is not installed.
    measured: f64,
}

impl Bound {
    /// Holds a figure against it; `of` says of what, `x cat` or `MB`.
    pub(crate) fn judge(self, measured: f64, of: impl Into<String>) -> Verdict {
        Verdict { bound: self, of: of.into(), measured }
    }
}

impl Verdict {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.measured >= least,
            Bound::AtMost(most) => self.measured <= most,
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (sign, number, miss) = match self.bound {
            Bound::AtLeast(least) => (">=", least, "below"),
            Bound::AtMost(most) => ("<=", most, "above"),
        };
        let verdict = if self.measured.is_nan() {
            "not measured"
        } else if self.is_met() {
            "PASS"
        } else {
            miss
        };
        write!(out, "{sign} {number} {}: {verdict}", self.of)
    }
}

/// One table.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<(Vec<String>, Vec<Verdict>)>,
    notes: Vec<String>,
}

impl Table {
    /// An empty one. The column of the targets is added to these.
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>, verdicts: Vec<Verdict>) {
        self.rows.push((cells, verdicts));
    }

    /// Adds a sentence to what stands below it.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Says below it who would be in it if they were installed.
    pub(crate) fn note_missing(&mut self, missing: &[&str]) {
        if !missing.is_empty() {
            self.note(format!("Not installed, skipped: {}.", missing.join(", ")));
        }
    }
}

impl Display for Table {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n### {}\n", self.title)?;
        writeln!(out, "| {} | target |", self.columns.join(" | "))?;
        writeln!(out, "|---{}|---|", "|---:".repeat(self.columns.len() - 1))?;
        for (cells, verdicts) in &self.rows {
            let verdicts: Vec<String> = verdicts.iter().map(Verdict::to_string).collect();
            writeln!(out, "| {} | {} |", cells.join(" | "), verdicts.join(", "))?;
        }
        if !self.notes.is_empty() {
            writeln!(out, "\n{}", self.notes.join(" "))?;
        }
        Ok(())
    }
}

/// A figure with about three digits; nothing where there is none.
pub(crate) fn digits(figure: f64) -> String {
    match figure.abs() {
        _ if figure.is_nan() => String::new(),
        0.0..1.0 => format!("{figure:.3}"),
        ..10.0 => format!("{figure:.2}"),
        ..100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

/// All that is printed.
#[derive(Debug)]
pub(crate) struct Report {
    out: Stdout,
    met: usize,
    /// Targets that were not met, with their table and row.
    missed: Vec<String>,
    unmeasured: usize,
}

impl Report {
    /// Says on what this is measured.
    ///
    /// # Errors
    ///
    /// Where it cannot be printed.
    pub(crate) fn begin(settings: &Settings) -> io::Result<Self> {
        let mut out = io::stdout();
        let cores = std::thread::available_parallelism()?;
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        writeln!(out, "# {}", settings.runcast.display())?;
        writeln!(
            out,
            "\n{cores} cores, Linux {}, load {load} at the beginning, {} rounds.",
            kernel.trim(),
            settings.rounds
        )?;
        if load.parse().is_ok_and(|load: f64| load > 0.5) {
            writeln!(out, "\n**The machine is busy with something else: do not trust this.**")?;
        }
        if settings.effort == Effort::Quick {
            writeln!(out, "\n**`--quick`: this shows that it works, not how fast it is.**")?;
        }
        Ok(Self { out, met: 0, missed: Vec::new(), unmeasured: 0 })
    }

    /// Prints a table and remembers its verdicts.
    ///
    /// # Errors
    ///
    /// Where it cannot be printed.
    pub(crate) fn show(&mut self, table: &Table) -> io::Result<()> {
        for (cells, verdicts) in &table.rows {
            for verdict in verdicts {
                if verdict.measured.is_nan() {
                    self.unmeasured += 1;
                } else if verdict.is_met() {
                    self.met += 1;
                } else {
                    let row = cells.first().map_or("", String::as_str);
                    let figure = digits(verdict.measured);
                    self.missed.push(format!("{}: {row}: {figure} {verdict}", table.title));
                }
            }
        }
        write!(self.out, "{table}")?;
        self.out.flush()
    }

    /// Prints how many targets were met, and the others.
    ///
    /// # Errors
    ///
    /// Where it cannot be printed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let all = self.met + self.missed.len();
        writeln!(
            self.out,
            "\n{} of {all} targets met, {} not measured.",
            self.met, self.unmeasured
        )?;
        for missed in &self.missed {
            writeln!(self.out, "- {missed}")?;
        }
        self.out.flush()
    }
}
