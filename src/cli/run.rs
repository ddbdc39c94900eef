//! Runs a command: the main job.

use crate::cli::args::Args;
use crate::cli::plan;
use crate::engine;
use crate::model::outcome::Exit;

/// Runs what the arguments ask for and returns how runcast is to end.
#[must_use]
pub fn run(args: Args) -> Exit {
    let mut display = plan::display(&args);
    let plan = plan::plan(args);
    if let Ok(spec) = &plan {
        display.hide(spec.capture.mask.as_deref());
    }
    engine::run::run(plan, &display)
}
