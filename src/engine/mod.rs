//! One run: the process, two readers, one channel, a supervisor and the pump.
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
