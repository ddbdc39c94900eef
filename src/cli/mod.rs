//! The command line: what was typed ([`args`]), what it means ([`plan`]), and the function that does it
//! ([`run`]).
//!
//! The only layer that knows options by name. It starts nothing and writes nothing by itself: that is the
//! engine's work and the sinks'.

pub mod args;
pub mod plan;
pub mod run;
mod usage;
pub mod values;
