//! Standard input: bytes that others send, each once and in order, however often they are sent.

use super::{Home, failed_with, lines};
use crate::harness::{Gate, let_pass, wait_until};

#[track_caller]
fn offset(ran: &crate::harness::Ran) -> u64 {
    assert_eq!(ran.code(), Some(0), "{ran}");
    let told = &lines(ran)[0];
    assert_eq!(told["op"], "stdin", "{ran}");
    told["offset"].as_u64().expect("a number")
}

#[test]
fn what_is_sent_is_appended_and_what_is_there_already_is_passed_over() {
    let home = Home::new();
    home.start_with("i", "--stdin open", "cat");
    assert_eq!(offset(&home.send("", "i", b"one ")), 4);
    assert_eq!(offset(&home.send("", "i", b"two ")), 8);
    assert_eq!(offset(&home.send("--offset 4", "i", b"two three ")), 14);
    assert_eq!(offset(&home.send("--offset 4", "i", b"two three ")), 14);
    assert_eq!(offset(&home.send("--offset 0", "i", b"one")), 14);
    assert_eq!(offset(&home.send("--offset 14", "i", b"")), 14);
    let gap = home.send("-f ndjson --offset 15", "i", b"x");
    failed_with(&gap, "offset_gap");
    assert!(gap.err().contains("14"), "{gap}");
    // Also where nothing follows but the end: whoever believes that all is there is told that it is not.
    for options in ["--offset 99", "--offset 15 --eof"] {
        let gap = home.send(&format!("-f ndjson {options}"), "i", b"");
        failed_with(&gap, "offset_gap");
        assert!(gap.err().contains("14"), "{gap}");
    }
    assert_eq!(offset(&home.send("--offset 14 --eof", "i", b"end\n")), 18);
    assert_eq!(home.attach("", "i").exited(0).out(), "one two three end\n");
}

#[test]
fn a_closed_input_and_a_run_that_is_over_take_nothing_and_say_so() {
    let home = Home::new();
    home.start_with("c", "--stdin open", "cat say:eof sleep");
    offset(&home.send("--eof", "c", b"abc"));
    let mut reader = home.reader("", "c");
    reader.until("abceof\n");
    failed_with(&home.send("-f ndjson", "c", b"more"), "stdin_closed");
    failed_with(&home.send("-f ndjson --offset 2", "c", b"cd"), "stdin_closed");
    failed_with(&home.send("-f ndjson --offset 9", "c", b"cd"), "stdin_closed");
    // What it has it has.
    assert_eq!(offset(&home.send("--offset 1 --eof", "c", b"bc")), 3);
    home.runcast("signal c KILL").run().exited(0);
    home.wait("c").exited(137);
    failed_with(&home.send("-f ndjson", "c", b"late"), "run_ended");
    home.send("", "c", b"late").exited(125).said_one_line("c");
    home.start("n", "sleep");
    failed_with(&home.send("-f ndjson", "n", b"x"), "stdin_closed");
    failed_with(&home.send("-f ndjson", "none", b"x"), "run_unknown");
}

#[test]
fn a_command_that_closes_its_input_is_told_to_who_sends() {
    let home = Home::new();
    home.start_with("u", "--stdin open", "read-line close:0 say:closed sleep");
    offset(&home.send("", "u", b"hello\n"));
    home.reader("", "u").until("closed\n");
    failed_with(&home.send("-f ndjson", "u", &[b'x'; 200_000]), "stdin_closed");
}

#[test]
fn a_send_that_waits_for_its_own_input_ends_with_the_run() {
    let home = Home::new();
    home.start_with("w", "--stdin open", "read-line exit:0");
    let (read, write) = nix::unistd::pipe().expect("a pipe can be made");
    let sender = home.runcast("send -f ndjson w").stdin(read).start();
    nix::unistd::write(&write, b"go\n").expect("it is read");
    home.wait("w").exited(0);
    // The writing end is still open.
    failed_with(&sender.finish(), "run_ended");
    drop(write);
}

#[test]
fn more_than_is_held_back_is_taken_as_the_command_reads_and_a_send_waits_for_it() {
    let home = Home::new();
    let gate = Gate::new();
    home.start_with("b", "--stdin open --max-output 8M", &format!("{gate} cat"));
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
    let mut sender = home.runcast("send --eof b").writes_no_events().input(bytes.clone()).start();
    // Long enough for all of it to be sent, if it were taken.
    let_pass(200);
    assert!(sender.ended().is_none(), "it does not wait");
    assert!(crate::harness::peak_rss_bytes(home.keeper("b")) < 32 << 20);
    gate.open();
    assert_eq!(offset(&sender.finish()), 4_000_000);
    assert_eq!(home.result("b")["stdout"].as_str().map(str::as_bytes), Some(&bytes[..]));
}

#[test]
fn a_send_killed_on_its_way_is_made_good_by_the_next_from_its_beginning() {
    let home = Home::new();
    home.start_with("k", "--stdin open --max-output 8M", "repeat:1 { sleep:50 } cat");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| b'a' + (at % 19) as u8).collect();
    for turn in 0..6 {
        let sender =
            home.runcast("send --offset 0 k").writes_no_events().input(bytes.clone()).start();
        // Killed at another place each time.
        let_pass(turn * 7);
        sender.signal(nix::sys::signal::Signal::SIGKILL);
        drop(sender.finish());
    }
    let parts: Vec<_> = (0..4)
        .map(|_| home.runcast("send --offset 0 k").writes_no_events().input(bytes.clone()).start())
        .collect();
    for part in parts {
        assert_eq!(offset(&part.finish()), 3_000_000);
    }
    home.send("--eof", "k", b"").exited(0);
    assert_eq!(home.result("k")["stdout"].as_str().map(str::as_bytes), Some(&bytes[..]));
}

#[test]
fn several_who_append_at_once_lose_nothing() {
    let home = Home::new();
    home.start_with("a", "--stdin open --max-output 8M", "cat");
    let all: Vec<_> = (0..8_u8)
        .map(|at| {
            let line = vec![b'a' + at; 999].into_iter().chain([b'\n']).collect::<Vec<u8>>();
            home.runcast("send a").writes_no_events().input(line).start()
        })
        .collect();
    for sender in all {
        offset(&sender.finish());
    }
    home.send("--eof", "a", b"").exited(0);
    let result = home.result("a");
    let mut lines: Vec<&str> = result["stdout"].as_str().expect("text").lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> =
        (0..8_u8).map(|at| char::from(b'a' + at).to_string().repeat(999)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn an_end_without_bytes_closes_it() {
    let home = Home::new();
    home.start_with("e", "--stdin open", "cat say:end");
    let mut reader = home.reader("", "e");
    assert_eq!(offset(&home.send("--eof", "e", b"")), 0);
    assert_eq!(reader.line(), "end");
    reader.finish().exited(0);
    wait_until("the end", || home.state("e") == "exited 0");
}
