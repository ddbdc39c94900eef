//! Plays a recording.

use std::path::PathBuf;

use clap::{Command, ValueHint};

use crate::cli::args::{ShowArgs, SplitArg, finished};
use crate::cli::plan;
use crate::cli::values::{TimeLimit, bytes, parse_path, text};
use crate::engine::replay::{Pace, replay};
use crate::model::units::parse_limit_duration;

/// What was typed.
#[derive(Debug, Clone, clap::Args)]
pub struct ReplayArgs {
    /// How many times as fast as it was, or max: without waiting
    #[arg(long, value_name = "N|max", default_value = "1", value_parser = text(parse_speed))]
    pub speed: Speed,

    /// The longest pause between two lines; 0 is any [default: any]
    #[arg(long, value_name = "DURATION", value_parser = text(parse_limit_duration))]
    pub idle_limit: Option<TimeLimit>,

    /// How the output looks.
    #[command(flatten)]
    pub show: ShowArgs,
    /// What ended its lines.
    #[command(flatten)]
    pub split: SplitArg,

    /// What `runcast --record FILE` wrote, or an asciicast (version 2)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true, help_heading = None,
          value_parser = bytes(parse_path))]
    pub file: PathBuf,
}

/// How many times as fast as it was; `None` is without waiting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(Option<f64>);

fn parse_speed(typed: &str) -> Result<Speed, String> {
    match typed.parse::<f64>() {
        _ if typed == "max" => Ok(Speed(None)),
        Ok(speed) if speed.is_normal() && speed.is_sign_positive() => Ok(Speed(Some(speed))),
        _ => Err("neither a number above 0 nor max".to_owned()),
    }
}

/// The definition of the command line.
#[must_use]
pub fn command() -> Command {
    let base = Command::new("replay")
        .bin_name("runcast replay")
        .override_usage("runcast replay [OPTIONS] FILE");
    let command = <ReplayArgs as clap::Args>::augment_args(base)
        .about("Play a recording in its own time, and end with the status that it has recorded");
    finished(command)
}

/// Plays the recording and returns the exit status.
#[must_use]
pub fn run(args: &ReplayArgs) -> u8 {
    let pace = Pace { speed: args.speed.0, idle_limit: args.idle_limit.flatten() };
    let capture = plan::capture_recorded(args.split);
    replay(&args.file, pace, &plan::display_recorded(&args.show), &capture)
}
