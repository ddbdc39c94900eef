//! One run, and the showing of runs.
//!
//! | what | files |
//! |---|---|
//! | a run, from beginning to end | [`run`] |
//! | its command and its terminals | `spawn`, `console`, `typing` |
//! | its threads and what passes between them | `reader`, `supervisor`, `pump`, `channel` |
//! | its processes | `processes` |
//! | what is counted and kept of its output | `flow` |
//! | what it is shown in, and its end | `show`, `ending` |
//! | a run that was written down, shown again | `player`, `recording`, [`replay`] |
//!
//! See the crate's documentation for the threads and for what each may and may not do.

mod channel;
mod console;
pub(crate) mod ending;
mod flow;
pub(crate) mod player;
mod processes;
mod pump;
mod reader;
mod recording;
pub(crate) mod show;
mod spawn;
mod supervisor;
mod typing;

pub mod replay;
pub mod run;
