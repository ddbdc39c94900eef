//! Runs on another machine: with a stand-in for ssh, which breaks as it is told to, and with OpenSSH's own.

mod broken;
mod failures;
mod input;
mod machine;
mod passing;
mod server;
mod shown;
mod upkeep;
mod words;

use machine::{Machine, NAME, cut};
