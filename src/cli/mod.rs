//! The command line: what was typed ([`parse`], [`args`]), what it means ([`plan`]), and a function for each thing
//! that can be done about it: a run here ([`run`]), detached ([`detach`]) or on another machine ([`remote`], and its other
//! end, [`remote_end`]), a recording ([`replay`]), and what there is to do with detached runs ([`runs`]).
//!
//! The only layer that knows options by name. It runs nothing by itself: that is the engine's work, and the runs'.

pub mod args;
mod attached_values;
pub mod backends;
pub mod detach;
pub mod parse;
pub mod plan;
pub mod remote;
pub mod remote_end;
pub mod replay;
pub mod run;
mod run_table;
pub mod runs;
mod usage;
pub mod values;
