//! Plain data and pure functions: no input or output, no threads, no clock, no unsafe code.

pub mod course;
pub mod error;
pub mod escalation;
pub mod escape;
pub mod event;
pub mod json;
pub mod kept;
pub mod lines;
pub mod outcome;
pub mod recorded;
pub mod rlimits;
pub mod signal;
pub mod spec;
pub mod units;
pub mod wall_clock;
