//! Programs and rights that a machine may lack. A test that needs one says why it is skipped; where
//! `RUNCAST_REQUIRE_TOOLS=1` says that all programs are there, a missing one fails it instead.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where a program is, or nothing, and the test is to end.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        missing(&format!("{name} is not installed"));
    }
    found
}

/// As [`tool`], where it also may trace.
pub(crate) fn strace() -> Option<PathBuf> {
    let strace = tool("strace")?;
    let mut trial = Command::new(&strace);
    trial.args(["-f", "-b", "execve", "-e", "inject=read:error=EIO:when=9999", "true"]);
    let may = trial
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !may {
        missing("strace may not trace here, or cannot inject faults");
    }
    may.then_some(strace)
}

/// Whether this is root, or nothing, and the test is to end.
pub(crate) fn root() -> Option<()> {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip("this needs root");
    }
    is_root.then_some(())
}

/// A program, or what it takes, is missing: why a test ends early, or fails where everything has to be there.
pub(crate) fn missing(reason: &str) {
    assert_ne!(env::var("RUNCAST_REQUIRE_TOOLS").as_deref(), Ok("1"), "{reason}");
    skip(reason);
}

/// Says why a test ends early.
pub(crate) fn skip(reason: &str) {
    // Past the test runner's capture, which would swallow it; if nobody can read it, so be it.
    let _ = writeln!(io::stderr(), "SKIP: {reason}");
}
