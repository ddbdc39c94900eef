//! A reader that is too slow and is not waited for.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use nix::fcntl::OFlag;

use crate::harness::schema::check_lines;
use crate::harness::{children, ndjson, result_in, runcast, scratch, wait_until};

/// What a reader finds in a pipe that it opens only when the command has ended.
fn read_late(options: &str, steps: &str) -> Vec<u8> {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    let live = runcast(options).puppet(steps).stdout(Stdio::from(writer)).start();
    wait_until("the command", || !children(live.pid()).is_empty());
    wait_until("its end, though nobody reads", || children(live.pid()).is_empty());
    let mut read = Vec::new();
    File::from(reader).read_to_end(&mut read).expect("it can be read");
    live.finish();
    check_lines(&read);
    read
}

#[test]
fn the_command_does_not_wait_and_every_line_is_shown_or_counted_in_its_place() {
    let read = read_late(
        "-f ndjson --partial-after never --on-lag drop:256K --max-output 1K",
        "lines:stdout:300000",
    );
    let text = String::from_utf8(read).expect("JSON is UTF-8");
    let (mut next, mut dropped) = (1, 0);
    let mut last = serde_json::Value::Null;
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        match event["op"].as_str() {
            Some("chunk") => {
                assert_eq!(event["seq"], next);
                next += 1;
            }
            Some("dropped") => {
                assert_eq!(event["after_seq"], next - 1);
                let chunks = event["chunks"].as_u64().expect("a number");
                (next, dropped) = (next + chunks, dropped + chunks);
            }
            _ => {}
        }
        last = event;
    }
    assert_eq!(next - 1, 300_000);
    assert!(dropped > 0);
    assert_eq!(last["dropped_chunks"], dropped);
    assert_eq!(last["stdout_lines"], 300_000);
}

#[test]
fn in_text_the_oldest_whole_lines_go() {
    let folder = scratch();
    let result = folder.path().join("r.json");
    let options = format!("--on-lag drop:100K --result {}", result.display());
    let read = read_late(&options, "lines:stdout:300000");
    let text = String::from_utf8(read).expect("lines of text");
    let lines: Vec<&str> = text.lines().collect();
    let result = result_in(&result);
    assert_eq!(lines.len() as u64 + result.number("dropped_chunks"), 300_000);
    assert_eq!(text.len() as u64 + result.number("dropped_bytes"), result.number("stdout_bytes"));
    let all = runcast("").puppet("lines:stdout:300000").run();
    let all: Vec<String> = all.out().lines().map(str::to_owned).collect();
    assert_eq!(lines.last(), all.last().map(String::as_str).as_ref());
    let mut rest = all.iter();
    assert!(lines.iter().all(|line| rest.any(|other| other == line)), "whole lines, in order");
}

#[test]
fn a_reader_that_keeps_up_loses_nothing() {
    for options in ["-f ndjson --on-lag drop", "-f ndjson --on-lag drop:64M --merge"] {
        let ran = runcast(options).puppet("lines:stdout:2000").run().exited(0);
        let plain = ndjson("").puppet("lines:stdout:2000").run().exited(0);
        assert_eq!(ran.bytes("stdout"), plain.bytes("stdout"));
        assert!(ran.result()["dropped_chunks"].is_null());
    }
    let ran = runcast("--on-lag drop").command(["sh", "-c", "printf 'no end'"]).run().exited(0);
    assert_eq!(ran.out(), "no end");
}

#[test]
fn a_timeout_is_on_time_and_the_reader_has_its_grace_then() {
    let (_reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    let folder = scratch();
    let result = folder.path().join("r.json");
    let options = format!("-t 500ms -k 200ms --on-lag drop:1M --result {}", result.display());
    let mut live = runcast(&options).puppet("flood:stdout").stdout(Stdio::from(writer)).start();
    assert_eq!(live.ends_unread().code(), Some(124));
    let result = result_in(&result);
    assert_eq!(result.text("stopped_by"), "timeout");
    assert!(result.number("dropped_bytes") > 0 && result.number("undelivered_bytes") > 0);
}

#[test]
fn lines_are_numbered_as_they_are_without_it_however_they_were_cut() {
    let read = read_late("-p{seq}: --on-lag drop:64K", "lines:stdout:200000 say:end");
    let text = String::from_utf8(read).expect("lines of text");
    let last = text.lines().last();
    assert_eq!(last, Some("200001:end"));
}

#[test]
fn why_a_run_was_stopped_is_told_to_who_reads_that_though_nobody_reads_the_output() {
    let (_reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    let options = "-t 500ms -k 200ms --on-lag drop:64K";
    let mut live = runcast(options).puppet("flood:stdout").stdout(Stdio::from(writer)).start();
    live.ends_unread();
    let ran = live.finish().exited(124);
    assert!(
        ran.err().contains("runcast: run stopped: it ran longer than --timeout 500ms\n"),
        "{ran}"
    );
    assert!(ran.err().contains("were dropped: they were read too slowly\n"), "{ran}");
}

#[test]
fn a_reader_that_goes_away_is_noticed() {
    let mut live = runcast("--on-lag drop").puppet("flood:stdout").start();
    live.close_stdout();
    assert_eq!(live.finish().code(), Some(141));
}

#[test]
fn a_full_disk_is_an_error_here_too() {
    let full = File::options().write(true).open("/dev/full").expect("there is one");
    let ran = runcast("--on-lag drop").puppet("lines:stdout:10000").stdout(full).run();
    ran.exited(125).said_one_line("standard output");
}
