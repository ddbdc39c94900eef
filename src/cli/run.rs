//! Runs a command: the main job.

use crate::cli::args::Args;
use crate::cli::plan;
use crate::engine;

/// Runs what the arguments ask for and returns the exit status.
#[must_use]
pub fn run(args: Args) -> u8 {
    let display = plan::display(&args);
    engine::run::run(plan::plan(args), &display)
}
