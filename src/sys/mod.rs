//! The operating system. The only layer with unsafe code: one operation a block, each argued.

#![allow(unsafe_code)]

pub mod child_setup;
pub mod daemon;
pub mod descriptors;
pub mod drainer;
mod emergency;
pub mod interrupt;
mod memory;
pub mod pty;
pub mod shared_folder;
pub mod signals;
pub mod start;
pub mod terminal;
pub mod tree;
pub mod whole;
