//! Structured input and result: a value goes in, one comes back, and the output stays the command's own.

mod contract;
mod folder;
mod modules;
mod values;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Ran, Runcast, ndjson, tool};

/// A module with this source, run by node; nothing where there is no node.
fn node(options: &str, source: &str) -> Option<Runcast> {
    tool("node").map(|_| ndjson(&format!("--backend node {options}")).command([source]))
}

/// The same in Python.
fn python(options: &str, source: &str) -> Option<Runcast> {
    tool("python3").map(|_| ndjson(&format!("--backend python {options}")).command([source]))
}

/// A program that keeps the contract: a script for the shell.
fn callable(options: &str, script: &str) -> Runcast {
    ndjson(&format!("--backend shell --callable {options}")).command([script])
}

/// The value that came back; it has to be there.
#[track_caller]
fn value(ran: &Ran) -> &Value {
    assert!(ran.result().names().contains(&"result"), "no value came back: {ran}");
    &ran.result()["result"]
}

/// Itself, if it ended so and nothing came back.
#[track_caller]
fn without_value(ran: Ran, code: i32) -> Ran {
    let ran = ran.exited(code);
    assert!(!ran.result().names().contains(&"result"), "{ran}");
    ran
}

/// Checks that an exception ended it: status 1 of its own, words on its standard error, nothing back.
#[track_caller]
fn threw(ran: Ran, words: &str) -> Ran {
    let ran = without_value(ran, 1);
    let stderr = ran.result().text("stderr");
    assert!(stderr.contains(words), "{words}: {stderr}");
    assert!(ran.result()["error"].is_null() && ran.result()["exit_code"] == 1, "{ran}");
    ran
}

#[track_caller]
fn is_empty(folder: &Path) {
    let left: Vec<_> = fs::read_dir(folder).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
    fs::write(&path, content).expect("the scratch folder is ours");
    path.into_os_string().into_string().expect("a scratch folder's name is text")
}
