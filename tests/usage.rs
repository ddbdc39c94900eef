//! Wrong usage: 125, a clear first line that names what is wrong, and nothing runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::{any, prop_assert};
use proptest::test_runner::Config;
use proptest::{collection, proptest, sample};

use crate::harness::{PUPPET, ndjson, runcast, scratch};

/// Runs with these words and a command that leaves a file; the words must be refused before that.
fn refused(words: &[&OsStr], named: &str) {
    let folder = scratch();
    let started = folder.path().join("started");
    let run = words.iter().fold(runcast(""), |run, word| run.arg(word));
    let ran = run.puppet(&format!("touch:{}", started.display())).run();
    assert_eq!(
        (ran.code(), ran.out(), started.exists()),
        (Some(125), String::new(), false),
        "{words:?}: {ran}"
    );
    let err = ran.err();
    let first = err.lines().next().unwrap_or_default();
    assert!(first.starts_with("runcast: ") && first.contains(named), "{words:?}: {ran}");
    assert!(
        err.contains("--help") && err.lines().count() <= 2 && !err.contains("panicked"),
        "{words:?}: {ran}"
    );
}

#[test]
fn wrong_options_and_values_are_refused_and_named() {
    let all: &[(&[&str], &str)] = &[
        (&["--bogus"], "--bogus"),
        (&["-Z"], "-Z"),
        (&["--timeout"], "--timeout"),
        (&["-f", "xml"], "xml"),
        (&["--format="], "--format"),
        (&["--keep", "middle"], "middle"),
        (&["--split", "crlf"], "crlf"),
        (&["--leftover", "adopt"], "adopt"),
        (&["--on-disconnect", "wait"], "wait"),
        (&["--on-lag", "panic"], "panic"),
        (&["--max-output", "x"], "--max-output"),
        (&["--max-output", "-1"], "--max-output"),
        (&["--max-output", ""], "--max-output"),
        (&["--max-output", "99999999999999999999999"], "--max-output"),
        (&["--max-line", "x"], "--max-line"),
        (&["--max-memory", "1Q"], "--max-memory"),
        (&["--output-limit", "1e"], "--output-limit"),
        (&["-s", "NOSIG"], "NOSIG"),
        (&["-s", "99"], "99"),
        (&["-s", ""], "--signal"),
        (&["--partial-after", "soon"], "--partial-after"),
        (&["--merge=yes"], "--merge"),
        (&["--no-argv=1"], "--no-argv"),
    ];
    for (words, named) in all {
        refused(&words.iter().map(OsStr::new).collect::<Vec<_>>(), named);
    }
}

#[test]
fn words_that_are_not_utf8_or_steer_a_terminal_are_refused_in_plain_text() {
    refused(&[OsStr::from_bytes(b"--bog\xff")], "bog");
    refused(&[OsStr::new("-t"), OsStr::from_bytes(b"\xff")], "--timeout");
    refused(&[OsStr::new("--keep"), OsStr::from_bytes(b"a\x1b[31m\nb")], "keep");
    let ran =
        runcast("").arg(OsStr::from_bytes(b"--x\x1b[31m\n")).puppet("exit:0").run().exited(125);
    assert!(!ran.stderr.contains(&0x1b), "{ran}");
}

#[test]
fn a_word_too_many_is_called_that_and_no_option() {
    for words in ["replay a b", "wait a b", "attach a b"] {
        runcast(words).run().refused_usage("one word too many: 'b'");
    }
}

#[test]
fn no_command_is_refused() {
    for options in ["", "--", "-t 5", "-t 5 --", "-f ndjson --"] {
        let ran = runcast(options).run().exited(125);
        assert!(ran.out().is_empty() && ran.err().starts_with("runcast: "), "{options}: {ran}");
    }
}

#[test]
fn a_usage_error_writes_no_result() {
    let folder = scratch();
    let result = folder.path().join("result");
    let ran = ndjson("-t x --result").arg(&result).puppet("exit:0").run().exited(125);
    assert!(ran.out().is_empty() && !result.exists(), "{ran}");
}

#[test]
fn every_argument_of_every_length_is_survived() {
    let long = "x".repeat(100_000);
    for words in [
        vec![long.as_str()],
        vec!["-t", &long],
        vec!["--", &long],
        vec!["--env", &long],
        vec![PUPPET, &long],
    ] {
        let ran = words.iter().fold(runcast(""), |run, word| run.arg(word)).run();
        assert!(ran.code().is_some() && !ran.err().contains("panicked"), "{ran}");
    }
}

/// Words that mean something, or nearly.
const WORDS: [&str; 48] = [
    "-t",
    "--timeout",
    "--idle-timeout=",
    "-k",
    "-s",
    "--signal=",
    "-r",
    "--rlimit",
    "--max-memory",
    "--output-limit",
    "--max-output",
    "--keep",
    "--max-line",
    "--drain",
    "--leftover",
    "-C",
    "-e",
    "--env",
    "--env-file",
    "--clear-env",
    "--unset",
    "--stdin",
    "--umask",
    "--nice",
    "--no-new-privs",
    "-f",
    "--result",
    "--merge",
    "--partial-after",
    "--split",
    "-q",
    "--meta",
    "--no-argv",
    "--on-disconnect",
    "--map-signal",
    "null",
    "ndjson",
    "text",
    "1",
    "0",
    "5ms",
    "TERM",
    "A=1",
    "cpu=9",
    "both",
    "",
    "-",
    "=",
];

proptest! {
    #![proptest_config(Config { cases: 60, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_words_are_understood_or_refused(
        words in collection::vec(sample::select(&WORDS[..]), 0..6),
        start in sample::select(vec![b"--".to_vec(), b"\xff".to_vec()]),
        odd in collection::vec(1..=u8::MAX, 0..5),
        place in any::<sample::Index>(),
    ) {
        let folder = scratch();
        let mut words: Vec<&OsStr> = words.into_iter().map(OsStr::new).collect();
        let odd = [start, odd].concat();
        words.insert(place.index(words.len() + 1), OsStr::from_bytes(&odd));
        let run = words.iter().fold(runcast(""), |run, word| run.arg(word));
        let ran = run.puppet("say:out exit:3").within(folder.path()).run();
        let err = ran.err();
        prop_assert!(matches!(ran.code(), Some(3 | 124..=127 | 137 | 143)), "{words:?}: {ran}");
        prop_assert!(!err.contains("panicked") && !ran.stderr.contains(&0x1b), "{words:?}: {ran}");
        prop_assert!(ran.code() == Some(3) || ran.code() == Some(124) || err.starts_with("runcast: "), "{words:?}: {ran}");
    }
}

#[test]
fn a_file_without_end_or_of_a_length_that_nothing_has_is_refused() {
    let folder = scratch();
    let holes = folder.path().join("holes");
    let file = fs::File::create(&holes).expect("the scratch folder is ours");
    file.set_len(1 << 40).expect("a file may have holes");
    let holes = holes.display();
    for (words, named) in [
        ("--env-file /dev/zero x".to_owned(), "--env-file /dev/zero"),
        ("--mask-file /dev/zero x".to_owned(), "--mask-file /dev/zero"),
        (format!("--env-file {holes} x"), "--env-file"),
        (format!("--mask-file {holes} x"), "--mask-file"),
        (format!("--callable --input @{holes} x"), "--input @"),
        (format!("--backend python @{holes}"), "COMMAND @"),
    ] {
        // It does not even have the memory for it.
        let ran = runcast(&words).launched("limit:as:268435456:268435456").run();
        ran.refused(named);
        assert!(ran.err().contains("it has more than"), "{ran}");
    }
    // A fifo is read as a file is.
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo can be made");
    let live = runcast("--env-file").arg(&fifo).puppet("report:env:A").start();
    fs::write(&fifo, "A=1\n").expect("it is read");
    assert_eq!(live.finish().exited(0).out(), "1\n");
}
