//! The README's examples are run as they stand, and show what it says.

use std::path::Path;

use super::read;
use crate::harness::{Mark, RUNCAST, launch, scratch, script, tool};

/// What a command of the README is and what it shows.
struct Example {
    command: String,
    shown: String,
}

/// The examples in a section of the README: what stands behind `$ ` in its blocks for a console.
fn examples(title: &str) -> Vec<Example> {
    let readme = read("README.md");
    let (_, section) = readme.split_once(&format!("\n## {title}\n")).expect("it has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut examples = Vec::new();
    for block in section.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for example in block.strip_prefix("$ ").unwrap_or(block).split("\n$ ") {
            let mut lines = example.trim_end().lines();
            let mut command = lines.next().unwrap_or_default().to_owned();
            while command.ends_with(['|', '\\']) {
                command = command.trim_end_matches('\\').to_owned() + "\n";
                command += lines.next().unwrap_or_default();
            }
            let shown = lines.map(|line| line.to_owned() + "\n").collect();
            examples.push(Example { command, shown });
        }
    }
    examples
}

/// A text without what differs from run to run: a mark stands for each fraction, and in a line with times, as a
/// row of the list of runs, for these and for whole numbers; words have one space between them.
fn without_times(text: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_time =
        |word: &str| word.strip_suffix("ms").or(word.strip_suffix('s')).is_some_and(is_number);
    let line = |line: &str| {
        let has_times = line.split_whitespace().any(is_time);
        let word = |word: &str| {
            let differs = has_times && (is_time(word) || is_number(word));
            if differs { "#".to_owned() } else { without_fractions(word) }
        };
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

fn without_fractions(word: &str) -> String {
    let mut plain = String::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if c.is_ascii_digit() {
            let number = &rest[..rest.len() - after.len()];
            plain.push_str(if number.contains('.') { "#" } else { number });
            rest = after;
        } else {
            plain.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    plain
}

/// Runs a section's examples in a folder of their own, where `cat FILE` makes the file that is shown, and
/// compares what they show, as `seen` makes it of both.
fn show_what_they_say(title: &str, programs: &[&str], seen: fn(&str) -> String) {
    if programs.iter().any(|program| tool(program).is_none()) {
        return;
    }
    let (folder, mark) = (scratch(), Mark::new());
    let own = Path::new(RUNCAST).parent().expect("it is in a folder").display().to_string();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
    let mut count = 0;
    for Example { command, shown } in examples(title) {
        if let Some(name) = command.strip_prefix("cat ") {
            script(&folder.path().join(name), shown.as_bytes());
            continue;
        }
        let words = ["sh", "-c", &format!("exec 2>&1\n{command}")];
        let shell = launch(words).marked(&mark).within(folder.path());
        let ran = shell.env("PATH", &path).env("RUNCAST_DIR", folder.path().join("runs")).run();
        assert_eq!(seen(&ran.out()), seen(&shown), "{command}");
        count += 1;
    }
    assert!(count >= 2, "hardly any example was found");
}

#[test]
fn values_go_in_and_come_out_as_the_readme_shows() {
    let programs = ["node", "python3", "jq"];
    show_what_they_say("A value in, a value out", &programs, str::to_owned);
}

#[test]
fn detached_runs_are_as_the_readme_shows() {
    show_what_they_say("Detached runs", &["jq"], without_times);
}

#[test]
fn secrets_are_masked_as_the_readme_shows() {
    show_what_they_say("Keeping secrets out", &["jq", "base64"], str::to_owned);
}

#[test]
fn recordings_are_played_as_the_readme_shows() {
    show_what_they_say("Recording and playing again", &["jq"], without_times);
}

#[test]
fn what_differs_from_run_to_run_is_passed_over_and_nothing_else() {
    let [one, other] = ["a  12ms  15s  7  x", "a 1s    30ms  9  x\n"].map(without_times);
    assert_eq!([one, other], ["a # # # x\n"; 2]);
    assert_eq!(without_times("status 3\n[1,0.25,\"a.b\"]"), "status 3\n[1,#,\"a.b\"]\n");
}
