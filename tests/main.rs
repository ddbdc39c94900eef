//! runcast through its real binary: a module per capability, each test named as the sentence that it proves.

mod harness;

mod backends;
mod consumer;
mod decoration;
mod descriptors;
mod detached;
mod docs;
mod endurance;
mod environment;
mod examples;
mod faults;
mod formats;
mod install;
mod kept;
mod lag;
mod layers;
mod leftover;
mod limits;
mod pty;
mod record;
mod remote;
mod result;
mod schema;
mod screens;
mod security;
mod signals;
mod snapshot;
mod startup;
mod status;
mod streaming;
mod terminal;
mod timeout;
mod usage;
mod viewers;
