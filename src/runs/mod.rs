//! Detached runs: started here, looked at from anywhere, and outliving both.
//!
//! A run is a folder and, while it lives, a process: its keeper, which is the engine of a run in the foreground
//! with the journal in place of a reader. Whether the keeper lives, a lock says that it holds; its process id is
//! never asked. Everything is the user's own: no link is followed, and nothing of another user's is trusted.

pub mod attach;
mod client;
mod closing;
pub mod control;
pub mod folder;
pub mod follow;
pub mod home;
pub mod input;
pub mod journal;
mod keeper;
pub mod list;
pub mod observer;
#[cfg(test)]
mod properties;
pub mod protocol;
pub mod segments;
pub(crate) mod so_far;
pub mod start;
