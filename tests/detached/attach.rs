//! Attaching: all that came and comes, for any number of readers, none of which the run ever waits for.

use std::fs;
use std::os::unix::fs::FileExt;

use nix::sys::signal::Signal;

use super::{Home, content, failed_with, in_order, of, wait_for_file};
use crate::harness::{Gate, LIMIT, LINE_BYTES, Live, alive, let_pass, wait_until};

#[test]
fn it_shows_all_so_far_then_what_comes_then_ends_with_the_run_s_status() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("r", &format!("say:early err:warn {gate} say:late exit:3"));
    let mut early = home.reader("", "r");
    assert_eq!((early.line(), early.error_line()), ("early".to_owned(), "warn".to_owned()));
    gate.open();
    assert_eq!(early.finish().exited(3).out(), "early\nlate\n");
    let late = home.attach("", "r").exited(3);
    assert_eq!((late.out(), late.err()), ("early\nlate\n".to_owned(), "warn\n".to_owned()));
    let events = home.attach("-f ndjson", "r").exited(3);
    assert_eq!(events.contents("stdout"), ["early\n", "late\n"]);
    assert_eq!(events.contents("stderr"), ["warn\n"]);
    assert_eq!(events.result()["exit_code"], 3);
}

#[test]
fn formats_and_their_options_are_those_of_the_foreground() {
    let home = Home::new();
    home.start("r", "say:one print:stdout:\\xff\\n err:two exit:5");
    home.wait("r").exited(5);
    let run = |options: &str| home.attach(options, "r").exited(5);
    assert!(run("-f cri").out().contains(" stdout F one\n"));
    assert!(run("-f logfmt").out().contains("msg=\"one\" stream=stdout"));
    assert!(
        run("-f log --stderr-level error").out().contains(r#""level":"error","message":"two""#)
    );
    let quiet = run("-f ndjson -q");
    assert_eq!(quiet.of("chunk").len(), 0);
    let meta = run("-f ndjson --meta a=b");
    assert!(meta.of("chunk").iter().all(|chunk| chunk["metadata"]["a"] == "b"), "{meta}");
    assert_eq!(run("-f text").stdout, b"one\n\xff\n");
    assert_eq!(meta.bytes("stdout"), b"one\n\xff\n");
    let snapshot = run("-f snapshot");
    assert_eq!(snapshot.result()["stderr"], "two\n");
}

/// Changes the journal of a run so that all its output was written a quarter of an hour after its start, far more than
/// a test waits for anything. Each line is as long as before, since the run goes on behind the last one.
fn say_it_was_written_late(home: &Home, id: &str) {
    let path = home.path(id).join("journal-00000000000000000001");
    let journal = fs::read_to_string(&path).expect("it is there");
    let mut parts = journal.split("\"t\":");
    let mut late = parts.next().expect("there is always a first one").to_owned();
    for part in parts {
        let end = part.find(',').expect("what was written follows");
        late += &format!("\"t\":{:<end$}{}", "999", &part[end..]);
    }
    assert!(late.len() == journal.len() && late != journal, "{late}");
    let file = fs::File::options().write(true).open(path).expect("it is ours");
    file.write_all_at(late.as_bytes(), 0).expect("there is room");
}

#[test]
fn a_snapshot_of_a_run_that_has_gone_on_for_long_comes_as_soon_as_any() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("r", &format!("say:one say:two say:three {gate}"));
    let mut first = home.reader("-f ndjson", "r");
    first.shows("three");
    say_it_was_written_late(&home, "r");
    // What is shown when an interval ends is shown then, whatever time it is for the run. Reckoned from the reader's
    // start, it would be due only after as long as the run had gone on.
    let mut late = home.reader("-f snapshot --snapshot-every 50ms", "r");
    loop {
        if late.event_of("snapshot")["stdout"] == "one\ntwo\nthree\n" {
            break;
        }
    }
    gate.open();
    late.finish().exited(0);
    first.finish().exited(0);
}

#[test]
fn a_reader_that_is_interrupted_or_loses_its_own_only_detaches() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("r", &format!("say:up {gate} say:end"));
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL, Signal::SIGHUP] {
        let mut reader = home.reader("", "r");
        assert_eq!(reader.line(), "up");
        reader.signal(signal);
        let ran = reader.finish();
        let status = format!("{:?}", ran.status);
        let code = 128 + signal as i32;
        assert!(
            ran.code() == Some(code) || status.contains(&format!("({})", signal as i32)),
            "{ran}"
        );
    }
    for format in ["text", "ndjson"] {
        let mut gone = home.reader(&format!("-f {format}"), "r");
        gone.until("up");
        gone.close_stdout();
        assert_eq!(gone.ends_unread().code(), Some(141));
    }
    gate.open();
    assert_eq!(home.attach("", "r").exited(0).out(), "up\nend\n");
}

#[test]
fn a_hundred_readers_that_stall_and_some_that_die_do_not_hold_it_up() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("r", &format!("{gate} lines:stdout:100000"));
    let stalled: Vec<Live> = (0..100).map(|_| home.reader("-f ndjson", "r")).collect();
    gate.open();
    assert_eq!(home.result("r")["stdout_bytes"].as_u64(), Some(100_000 * LINE_BYTES as u64));
    let (dies, reads): (Vec<_>, Vec<_>) =
        stalled.into_iter().enumerate().partition(|(at, _)| at % 4 != 0);
    for (at, reader) in dies {
        reader.signal(if at % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM });
    }
    for (at, reader) in reads {
        let ran = reader.finish().exited(0);
        if at % 20 == 0 {
            assert_eq!(ran.bytes("stdout").len(), 100_000 * LINE_BYTES);
        } else {
            assert_eq!(ran.stdout.iter().filter(|&&byte| byte == b'\n').count(), 100_002);
        }
    }
}

#[test]
fn a_reader_that_stalls_past_what_the_journal_keeps_is_told_exactly_what_it_missed() {
    let home = Home::new();
    let (gate, written) = (Gate::new(), home.folder.path().join("written"));
    home.start_with(
        "r",
        "--journal 1M --partial-after never",
        &format!("say:first {gate} lines:stdout:200000 touch:{}", written.display()),
    );
    let mut reader = home.reader("-f ndjson", "r");
    reader.shows("first");
    gate.open();
    home.wait("r").exited(0);
    wait_for_file(&written);
    let events = super::lines(&reader.finish().exited(0));
    assert_eq!(in_order(&events, 0), 200_001);
    let gone: u64 = of(&events, "dropped").iter().filter_map(|gap| gap["bytes"].as_u64()).sum();
    assert!(gone > 0, "nothing was dropped");
    let shown = content(&events, "stdout").len() as u64;
    let result = events.last().expect("there is a result");
    assert_eq!(result["stdout_bytes"].as_u64(), Some(shown + gone));
}

#[test]
fn output_that_is_gone_is_told_in_every_format() {
    let home = Home::new();
    home.start_with("r", "--journal 64K", "lines:stdout:20000");
    home.wait("r").exited(0);
    let events = home.events("r");
    let number = |name| of(&events, "dropped")[0][name].as_u64().expect("it is told");
    let told = format!("{} lines ({} bytes) are missing", number("chunks"), number("bytes"));
    for format in ["text", "cri"] {
        home.attach(&format!("-f {format}"), "r").exited(0).said_one_line(&told);
        assert_eq!(home.attach(&format!("-q -f {format}"), "r").exited(0).err(), "");
    }
    for format in ["log", "logfmt"] {
        let ran = home.attach(&format!("-f {format}"), "r").exited(0);
        assert!(ran.out().contains("dropped") && ran.err().is_empty(), "{}", ran.err());
    }
}

#[test]
fn readers_see_a_line_as_soon_as_it_is_written() {
    let home = Home::new();
    let folder = home.folder.path();
    let steps: String =
        (0..40).map(|at| format!("say:line{at} wait-file:{}/{at} ", folder.display())).collect();
    home.start("r", &steps);
    let mut readers: Vec<Live> = (0..3).map(|_| home.reader("", "r")).collect();
    let begun = std::time::Instant::now();
    for at in 0..40 {
        for reader in &mut readers {
            assert_eq!(reader.line(), format!("line{at}"));
        }
        fs::write(folder.join(at.to_string()), "").expect("it can be written");
    }
    // Who is not told of a line looks for it a second later.
    assert!(begun.elapsed() < LIMIT, "{:?} for forty lines", begun.elapsed());
    for reader in readers {
        reader.finish().exited(0);
    }
}

#[test]
fn a_run_that_nobody_started_is_unknown_in_every_format() {
    let home = Home::new();
    failed_with(&home.attach("-f ndjson", "none"), "run_unknown");
    home.attach("", "none").exited(125).said_one_line("none");
    home.start("other", "exit:0");
    failed_with(&home.attach("-f snapshot", "none"), "run_unknown");
}

#[test]
fn an_idle_reader_and_an_idle_keeper_take_no_processor_time() {
    let home = Home::new();
    home.start("r", "say:up sleep");
    let mut reader = home.reader("", "r");
    assert_eq!(reader.line(), "up");
    let ticks = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .expect("a name in brackets")
            .1
            .split_ascii_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect();
        // Behind the parent, the group and so on: user and system time.
        fields[10] + fields[11]
    };
    let keeper = home.keeper("r");
    let before = [ticks(keeper), ticks(reader.pid())];
    // Nothing is to be done for so long.
    let_pass(1000);
    let after = [ticks(keeper), ticks(reader.pid())];
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before <= 5, "{} hundredths of a second", after - before);
    }
}

#[test]
fn a_reader_that_comes_while_the_run_ends_has_all_of_it() {
    for at in 0..20 {
        let home = Home::new();
        home.start("r", &format!("say:one sleep:{at} err:two exit:7"));
        let ran = home.attach("-f ndjson", "r").exited(7);
        assert_eq!(
            (ran.contents("stdout"), ran.contents("stderr")),
            (vec!["one\n"], vec!["two\n"])
        );
    }
}

#[test]
fn standard_input_of_attach_goes_to_the_run_if_that_is_asked_for() {
    let home = Home::new();
    home.start_with("r", "--stdin open", "cat exit:4");
    let ran = home.runcast("attach --stdin r").input(b"to the run\n".to_vec()).run().exited(4);
    assert_eq!(ran.out(), "to the run\n");
    let gate = Gate::new();
    home.start("closed", &format!("{gate} say:end"));
    let mut reader = home.runcast("attach --stdin closed").input(b"x".to_vec()).start();
    reader.error_line();
    gate.open();
    let ran = reader.finish().exited(0);
    assert_eq!(ran.out(), "end\n");
    ran.said_one_line("closed");
}

#[test]
fn whoever_looks_changes_nothing_in_the_folder() {
    let home = Home::new();
    home.start("r", "say:x");
    home.wait("r").exited(0);
    wait_until("the end of its keeper", || home.mark.processes().is_empty());
    let listing = || {
        let entries = fs::read_dir(home.path("r")).expect("it is there");
        let mut all: Vec<_> = entries
            .map(|entry| {
                let entry = entry.expect("it can be read");
                let found = entry.metadata().expect("it is there");
                (entry.file_name(), found.len(), found.modified().ok())
            })
            .collect();
        all.sort();
        all
    };
    let before = listing();
    home.attach("", "r").exited(0);
    home.attach("-f ndjson --after 1", "r").exited(0);
    home.wait("r").exited(0);
    assert_eq!(home.state("r"), "exited 0");
    assert_eq!(listing(), before);
    assert!(!alive(home.command("r")));
}
