//! Plain data and pure functions: no input or output, no threads, no clock, no unsafe code. Only
//! the names of runs are drawn at random.

pub mod chunk_line;
pub mod course;
pub mod error;
pub mod escalation;
pub mod escape;
pub mod event;
pub mod filter;
pub mod json;
pub mod kept;
pub mod line_prefix;
pub mod lines;
pub mod mask;
pub mod outcome;
mod patterns;
pub mod recorded;
pub mod rlimits;
pub mod run_id;
#[cfg(feature = "schema")]
pub mod schema;
pub mod secret_forms;
pub mod shell_line;
pub mod signal;
pub mod spec;
pub mod strip;
pub mod template;
pub mod text_files;
pub mod units;
pub mod wall_clock;
mod words;
