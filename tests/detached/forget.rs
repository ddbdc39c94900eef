//! Forgetting runs: those that are over, whoever is still at them.

use std::fs;

use super::{Home, failed_with, in_order, lines};
use crate::harness::LINE_BYTES;

#[test]
fn one_that_is_over_is_deleted_and_one_that_goes_on_is_refused() {
    let home = Home::new();
    home.start("live", "sleep");
    home.start("a", "say:x");
    home.start("b", "exit:3");
    home.wait("a").exited(0);
    home.wait("b").exited(3);
    failed_with(&home.runcast("forget -f ndjson live").run(), "run_running");
    home.runcast("forget a b").run().exited(0);
    for id in ["a", "b"] {
        assert!(!home.path(id).exists());
        failed_with(&home.wait(id), "run_unknown");
    }
    failed_with(&home.runcast("forget -f ndjson a").run(), "run_unknown");
    // Each of several is tried.
    home.start("c", "exit:0");
    home.wait("c").exited(0);
    let ran = home.runcast("forget live c none").run().exited(125);
    assert_eq!(ran.err().lines().count(), 2, "{ran}");
    assert!(!home.path("c").exists() && home.state("live") == "running");
    home.runcast("forget").run().exited(125);
}

#[test]
fn finished_and_older_than_choose() {
    let home = Home::new();
    home.start("live", "sleep");
    for id in ["new", "old"] {
        home.start(id, "exit:0");
        home.wait(id).exited(0);
    }
    let about = home.path("old").join("run");
    let text = fs::read_to_string(&about).expect("it is there");
    let at = text.find("\"time\":\"").expect("it has a time") + 8;
    fs::write(&about, format!("{}2001{}", &text[..at], &text[at + 4..]))
        .expect("it can be written");
    home.runcast("forget --older-than 365d").run().exited(0);
    assert!(!home.path("old").exists() && home.path("new").exists());
    home.runcast("forget --finished").run().exited(0);
    assert!(!home.path("new").exists());
    assert_eq!(home.state("live"), "running");
}

#[test]
fn as_soon_as_a_wait_has_returned_a_run_can_be_forgotten() {
    let home = Home::new();
    for turn in 0..60 {
        let id = format!("t{turn}");
        home.start(&id, "exit:0");
        home.wait(&id).exited(0);
        home.runcast(&format!("forget {id}")).run().exited(0);
    }
    let left: Vec<_> = fs::read_dir(&home.runs).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
    home.is_quiet();
}

#[test]
fn several_who_forget_one_run_at_once_and_one_who_starts_it_anew_are_no_trouble() {
    for _ in 0..10 {
        let home = Home::new();
        home.start("x", "exit:0");
        home.wait("x").exited(0);
        let forgets: Vec<_> = (0..6).map(|_| home.runcast("forget x").start()).collect();
        let starter = home.runcast("-d --id x").puppet("sleep").start();
        let done = forgets
            .into_iter()
            .map(|forget| forget.finish())
            .filter(|ran| ran.code() == Some(0))
            .count();
        assert_eq!(done, 1, "it was forgotten so often");
        let started = starter.finish();
        // Before it was forgotten there was another of that name.
        if started.code() == Some(0) {
            assert_eq!(home.state("x"), "running");
        } else {
            started.said_one_line("x");
            assert!(!home.path("x").exists());
        }
        let left: Vec<_> = fs::read_dir(&home.runs)
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").file_name())
            .filter(|name| name != "x")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn who_still_reads_is_told_what_is_gone_and_how_it_ended() {
    let home = Home::new();
    home.start_with("r", "--partial-after never", "lines:stdout:300000 exit:5");
    home.wait("r").exited(5);
    // It stalls, since what it writes to is full.
    let mut reader = home.reader("-f ndjson", "r");
    reader.shows("0000000");
    home.runcast("forget r").run().exited(0);
    let events = lines(&reader.finish().exited(5));
    assert_eq!(in_order(&events, 0), 300_000);
    let sum = |op: &str, value: &dyn Fn(&serde_json::Value) -> usize| -> usize {
        events.iter().filter(|event| event["op"] == op).map(value).sum()
    };
    let shown = sum("chunk", &|chunk| chunk["content"].as_str().map_or(0, str::len));
    let gone = sum("dropped", &|gap| gap["bytes"].as_u64().map_or(0, |bytes| bytes as usize));
    assert_eq!(shown + gone, 300_000 * LINE_BYTES);
}

#[test]
fn whatever_else_is_in_its_folder_goes_too() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    home.start("x", "exit:0");
    home.wait("x").exited(0);
    let name = std::ffi::OsStr::from_bytes(b"not \xff text");
    fs::write(home.path("x").join(name), "").expect("it can be written");
    std::os::unix::fs::symlink("/etc/passwd", home.path("x").join("link")).expect("it can be made");
    let outside = home.folder.path().join("outside");
    fs::write(&outside, "kept").expect("it can be written");
    fs::hard_link(&outside, home.path("x").join("hard")).expect("it can be made");
    home.runcast("forget x").run().exited(0);
    assert_eq!(fs::read_dir(&home.runs).expect("it is there").count(), 0);
    assert!(std::path::Path::new("/etc/passwd").exists());
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "kept");
}
