//! The same on another machine, through the user's own ssh.
//!
//! Over there runcast keeps a detached run, and its other end ([`wire`]) speaks for it over ssh's standard streams.
//! Here a [`session`] starts it and shows it, goes on where it was when the connection breaks, and passes signals
//! and standard input on. Nothing listens on a port, and nothing is scheduled.

mod connection;
pub mod end;
mod feed;
pub mod host;
mod passing;
mod pauses;
mod result_line;
pub mod session;
pub mod task;
pub mod upkeep;
pub mod wire;
