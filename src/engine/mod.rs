//! One run: the process, two readers, one channel, a supervisor and the pump.
//!
//! See the crate's documentation for the threads and for what each may and may not do.

mod channel;
mod processes;
mod pump;
mod reader;
mod show;
mod spawn;
mod supervisor;

pub mod run;
