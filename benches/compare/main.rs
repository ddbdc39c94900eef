//! Compares runcast with its peers, side by side on this machine, and prints Markdown tables of ratios.
//!
//! ```text
//! cargo bench --bench compare -- [WORKLOAD...] [--reps N] [--quick] [--bin PATH]
//! ```
//!
//! Everybody runs in turn, each round in another order, and what counts is the median of the rounds: other
//! load on the machine then meets all alike. An absolute number says something about the machine and its
//! hour, a ratio about the programs. Whatever writes, reads and keeps the time is this program itself, started
//! again as a [`play::Play`].

mod attach;
mod crowd;
mod decorated;
mod delay;
mod memory;
mod ndjson;
mod peer;
mod pipeline;
mod play;
mod report;
mod rounds;
mod scripts;
mod settings;
mod startup;
mod text;
mod throughput;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::play::Play;
use crate::report::Report;
use crate::settings::{Settings, Workload};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first() {
        Some(first) if first == play::FLAG => Play::from_words(&words[1..]).and_then(Play::perform),
        _ => Settings::from_words(&words).and_then(|settings| compare(&settings)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere else to say that this cannot be said.
            let _ = writeln!(io::stderr(), "compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(settings: &Settings) -> io::Result<()> {
    let mut report = Report::begin(settings)?;
    for workload in &settings.workloads {
        match workload {
            Workload::Startup => startup::compare(settings, &mut report)?,
            Workload::Ndjson => ndjson::compare(settings, &mut report)?,
            Workload::Text => text::compare(settings, &mut report)?,
            Workload::Decorated => decorated::compare(settings, &mut report)?,
            Workload::Delay => delay::compare(settings, &mut report)?,
            Workload::Memory => memory::compare(settings, &mut report)?,
            Workload::Crowd => crowd::compare(settings, &mut report)?,
            Workload::Attach => attach::compare(settings, &mut report)?,
        }
    }
    report.finish()
}
