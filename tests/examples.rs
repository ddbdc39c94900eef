//! The examples do what they say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{RUNCAST, program, scratch, tool};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// A command that runs an example, with runcast on its PATH.
fn command(interpreter: &Path, name: &str, words: &[&str]) -> Command {
    let own = Path::new(RUNCAST).parent().expect("it is in a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path)));
    let mut command = program(interpreter);
    command.arg(example(name)).args(words).env("PATH", path.expect("folders without colons"));
    command
}

fn run(interpreter: &Path, name: &str, words: &[&str]) -> Output {
    command(interpreter, name, words).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_clients_show_lines_abort_a_run_and_return_its_result() {
    for (program, name) in [("python3", "harness.py"), ("node", "harness.mjs")] {
        let Some(program) = tool(program) else { continue };
        let ended = run(&program, name, &["sh", "-c", "echo a; echo b >&2; exit 3"]);
        let mut shown: Vec<String> = text(&ended.stdout).lines().map(str::to_owned).collect();
        shown.sort();
        assert_eq!(shown, ["stderr: b", "stdout: a"], "{name}");
        assert_eq!(ended.status.code(), Some(3), "{name}");
        assert!(text(&ended.stderr).starts_with("result: exit code 3, signal "), "{name}");
        let aborted = run(&program, name, &["--abort-at", "up", "sh", "-c", "echo up; sleep 60"]);
        assert_eq!(aborted.status.code(), Some(143), "{name}");
        let told = text(&aborted.stderr);
        assert!(told.contains("signal SIGTERM, stopped by signal"), "{name}: {told}");
        let missing = run(&program, name, &["no-such-command-here"]);
        assert_eq!(missing.status.code(), Some(127), "{name}");
        assert!(text(&missing.stderr).contains("result: no-such-command-here: command not found"));
        let source = std::fs::read_to_string(example(name)).expect("it is there");
        assert!(source.lines().count() < 60, "{name} is short");
    }
}

#[test]
fn the_step_of_a_ci_job_says_how_it_ended_and_leaves_nothing() {
    let Some(sh) = tool("sh") else { return };
    let Some(_) = tool("jq") else { return };
    let folder = scratch();
    let step = |limit: &str, script: &str| {
        let mut command = command(&sh, "ci.sh", &["sh", "-c", script]);
        command.env("CI_STEP_TIMEOUT", limit).env("TMPDIR", folder.path());
        command.output().expect("it can be started")
    };
    let ended = step("1m", "echo out; exit 4");
    assert_eq!((text(&ended.stdout).as_str(), ended.status.code()), ("out\n", Some(4)));
    assert!(text(&ended.stderr).starts_with("ended with 4 after "), "{}", text(&ended.stderr));
    let stopped = step("300ms", "sleep 60");
    assert_eq!(stopped.status.code(), Some(124));
    assert!(text(&stopped.stderr).contains(", stopped by timeout, signal SIGTERM"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

#[test]
fn the_jobs_for_ci_services_are_well_formed_and_use_options_that_there_are() {
    let definition = runcast::cli::args::command();
    for name in ["github-actions.yml", "gitlab-ci.yml", "Containerfile"] {
        let content = std::fs::read_to_string(example(name)).expect("it is there");
        let is_long = |word: &&str| word.starts_with("--") && word.len() > 2;
        let lines =
            content.lines().filter(|line| line.contains("runcast") && !line.contains("cargo"));
        let words = lines.flat_map(|line| line.split([' ', '"', ','])).filter(is_long);
        for word in words {
            let option = word[2..].split('=').next().unwrap_or_default();
            let is_it = |arg: &clap::Arg| arg.get_long() == Some(option);
            let is_of_others = ["rm", "locked"].contains(&option);
            assert!(is_of_others || definition.get_arguments().any(is_it), "{name}: {word}");
        }
    }
}
