//! Runs on another machine: with a stand-in for ssh, which breaks as it is told to, and with OpenSSH's own.

mod broken;
mod failures;
mod hostile;
mod input;
mod machine;
mod many;
mod passing;
mod server;
mod shown;
mod upkeep;
mod words;

use machine::{Machine, NAME, cut};

/// A random number below `below`; the same each time.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}
