//! Going on from a place: after a chunk, or after so many lines of each stream.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Home, content, in_order, lines, of};
use crate::harness::{LINE_BYTES, read_bytes};

fn after(home: &Home, seq: u64, id: &str) -> Vec<Value> {
    lines(&home.attach(&format!("-f ndjson --after {seq}"), id))
}

#[test]
fn after_a_chunk_come_all_behind_it_once_and_the_result() {
    let home = Home::new();
    home.start("r", "repeat:50 { say:out%i err:err%i } exit:2");
    home.wait("r").exited(2);
    for seq in [0, 1, 42, 99, 100] {
        let events = after(&home, seq, "r");
        assert_eq!(in_order(&events, seq), 100, "{seq}");
        assert_eq!((&events[0]["op"], events.len() as u64), (&"started".into(), 102 - seq));
        assert_eq!(events.last().expect("a result")["exit_code"], 2);
    }
    for seq in [101, 1 << 40, u64::MAX] {
        let events = after(&home, seq, "r");
        assert_eq!(of(&events, "chunk").len() + of(&events, "dropped").len(), 0);
        assert_eq!(events.last().expect("a result")["exit_code"], 2);
    }
}

#[test]
fn a_reader_killed_again_and_again_gets_each_chunk_once_from_a_run_that_goes_on() {
    let home = Home::new();
    home.start("r", "repeat:300 { say:out%i err:err%i print:stdout:part sleep:1 }");
    let (mut seen, mut last) = (Vec::new(), 0);
    for turn in 0.. {
        assert!(turn < 1000, "it never ends");
        let mut reader = home.reader(&format!("-f ndjson --after {last}"), "r");
        let mut is_over = false;
        for _ in 0..40 {
            let event = reader.event();
            is_over = event["op"] == "result";
            if event["op"] == "chunk" {
                last = event["seq"].as_u64().expect("a number");
                seen.push(event);
            }
            if is_over {
                break;
            }
        }
        if is_over {
            break;
        }
        reader.signal(Signal::SIGKILL);
    }
    let all = lines(&home.attach("-f ndjson", "r"));
    let chunks: Vec<Value> = of(&all, "chunk").into_iter().cloned().collect();
    assert_eq!(seen, chunks);
    let errors: String = (0..300).map(|at| format!("err{at}\n")).collect();
    assert_eq!(content(&seen, "stderr"), errors);
}

#[test]
fn from_lines_on_comes_what_each_stream_has_behind_them() {
    let home = Home::new();
    home.start("r", "repeat:10 { say:out%i } repeat:5 { err:err%i } print:stdout:rest");
    home.wait("r").exited(0);
    let from = |lines: &str| {
        let ran = home.attach(&format!("--from {lines}"), "r").exited(0);
        (ran.out(), ran.err())
    };
    assert_eq!(from("stdout=8,stderr=5"), ("out8\nout9\nrest".to_owned(), String::new()));
    assert_eq!(from("stderr=4,stdout=10"), ("rest".to_owned(), "err4\n".to_owned()));
    assert_eq!(from("stdout=11"), (String::new(), (0..5).map(|at| format!("err{at}\n")).collect()));
    for wrong in
        ["--from 3", "--from stdout=x", "--after -1", "--after x", "--after 1 --from stdout=1"]
    {
        home.runcast(&format!("attach {wrong} r")).run().refused_usage("--");
    }
}

#[test]
fn a_bounded_journal_drops_its_oldest_whole_segments_and_says_exactly_what() {
    let home = Home::new();
    home.start_with("r", "--journal 256K --partial-after never", "lines:stdout:30000");
    assert_eq!(home.result("r")["stdout_lines"], 30_000);
    let events = home.events("r");
    assert_eq!(in_order(&events, 0), 30_000);
    let gaps = of(&events, "dropped");
    assert_eq!(gaps.len(), 1);
    assert_eq!(events[1]["op"], "dropped", "it does not come first");
    let gone = gaps[0]["chunks"].as_u64().expect("a number");
    assert_eq!(gaps[0]["bytes"].as_u64(), Some(gone * LINE_BYTES as u64));
    // In what is gone, and behind it.
    for seq in [gone / 2, gone, gone + 1, 29_999] {
        assert_eq!(in_order(&after(&home, seq, "r"), seq), 30_000);
    }
    assert_eq!(of(&after(&home, gone, "r"), "dropped").len(), 0);
    // By lines too: what was seen of what is gone is not missing.
    let seen = lines(&home.attach(&format!("-f ndjson --from stdout={gone}"), "r"));
    assert_eq!((of(&seen, "dropped").len(), of(&seen, "chunk").len() as u64), (0, 30_000 - gone));
    let unseen = lines(&home.attach("-f ndjson --from stdout=10", "r"));
    assert_eq!(
        (of(&unseen, "dropped").len(), of(&unseen, "chunk").len() as u64),
        (1, 30_000 - gone)
    );
}

#[test]
fn a_journal_takes_no_more_room_than_it_may_whatever_the_lines_are() {
    let home = Home::new();
    for (id, steps) in [
        ("empty", "fill:stdout:1000K:\\n"),
        ("short", "fill:stdout:1000K:a\\n"),
        ("binary", "fill:stdout:1000K:\\xff\\xfe\\n"),
        ("both", "repeat:20000 { say:x err:y }"),
    ] {
        home.start_with(id, "--journal 64K --partial-after never --max-output 1", steps);
        home.wait(id).exited(0);
        let entries = fs::read_dir(home.path(id)).expect("it is there");
        let size: u64 = entries
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        // The lock, what the run is, the totals, the result, and one segment that is too long.
        assert!(size < (64 + 16) << 10, "{id}: {size}");
    }
}

#[test]
fn finding_a_place_does_not_read_the_whole_journal() {
    let Some(strace) = crate::harness::strace() else { return };
    let home = Home::new();
    home.start_with("r", "--journal 16M --partial-after never", "lines:stdout:100000");
    home.wait("r").exited(0);
    let trace = home.folder.path().join("trace");
    for place in
        ["--after 99990", "--after 50000 -f ndjson", "--from stdout=99990", "--from stdout=50000"]
    {
        let words = ["-f", "-qq", "-e", "trace=pread64,write", "-o"].map(std::ffi::OsString::from);
        let mut reader = home
            .runcast(&format!("attach {place} r"))
            .through(
                [strace.clone().into_os_string()]
                    .into_iter()
                    .chain(words)
                    .chain([trace.clone().into_os_string()]),
            )
            .start();
        let first = reader.line();
        drop(reader.finish());
        assert!(!first.is_empty());
        let calls = fs::read_to_string(&trace).expect("it was traced");
        let before_output = calls.lines().take_while(|call| !call.contains(" write(1,"));
        let read: u64 = before_output
            .filter(|call| call.contains("pread64("))
            .filter_map(|call| call.rsplit_once("= ")?.1.trim().parse::<u64>().ok())
            .sum();
        assert!(read > 0 && read < 4 << 20, "{place}: {read} bytes were read");
    }
}

#[test]
fn a_place_in_a_run_that_goes_on_is_found_at_once() {
    let home = Home::new();
    let steps = "lines:stdout:200000 say:end sleep";
    home.start_with("r", "--journal 16M --partial-after never", steps);
    let mut first = home.reader("-f ndjson --after 200000", "r");
    first.shows("end");
    let mut reader = home.reader("-f ndjson --after 200000", "r");
    reader.shows("end");
    let read = read_bytes(reader.pid());
    assert!(read < 4 << 20, "{read} bytes were read");
}
