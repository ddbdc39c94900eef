//! The keeper's end, whenever and however it comes: the command ends with it, nobody is told of a success, and
//! nothing half-written is shown.

use std::fs;
use std::os::unix::net::UnixListener;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Home, content, failed_with, in_order, lines, of};
use crate::harness::{alive, let_pass, parent, send_signal, until_connected, wait_for, wait_until};

#[test]
fn when_it_is_killed_the_command_dies_and_whoever_looks_is_told_at_once() {
    let home = Home::new();
    home.start("l", "say:up sleep");
    let mut reader = home.reader("-f ndjson", "l");
    reader.shows("up");
    let waiter = home.runcast("wait l").start();
    let sender = home.runcast("attach l").start();
    until_connected(waiter.pid());
    until_connected(sender.pid());
    home.kill_keeper("l");
    let ran = reader.finish();
    failed_with(&ran, "run_lost");
    assert_eq!(content(&lines(&ran), "stdout"), "up\n");
    failed_with(&waiter.finish(), "run_lost");
    assert_eq!(sender.finish().exited(125).out(), "up\n");
    // And whoever comes later.
    failed_with(&home.wait("l"), "run_lost");
    failed_with(&home.attach("-f ndjson", "l"), "run_lost");
    assert_eq!(home.attach("-f ndjson --after 1", "l").code(), Some(125));
    home.attach("", "l").exited(125).said_one_line("l");
    assert_eq!(home.state("l"), "lost");
    failed_with(&home.runcast("signal -f ndjson l").run(), "run_lost");
    failed_with(&home.send("-f ndjson", "l", b"x"), "run_lost");
    home.runcast("forget l").run().exited(0);
    failed_with(&home.wait("l"), "run_unknown");
}

#[test]
fn killed_at_any_moment_it_leaves_whole_lines_and_no_success() {
    for delay in 0..30_u64 {
        let home = Home::new();
        let run =
            home.runcast("-d --id k --journal 64K").puppet("repeat:2000 { say:out%i err:err%i }");
        let starter = run.start();
        let command = wait_for("the command", || {
            if starter_is_done(&home) { Some(home.command("k")) } else { None }
        });
        let_pass(delay / 2);
        // It may be over by now.
        let keeper = parent(command).filter(|&pid| pid > 1 && is_keeper(pid));
        if let Some(keeper) = keeper {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), Signal::SIGKILL);
        }
        let is_started = starter.finish().code() == Some(0);
        let ran = home.attach("-f ndjson", "k");
        if !is_started {
            // Its keeper was killed before it could say that it was.
            failed_with(&ran, "run_unknown");
            continue;
        }
        let events = lines(&ran);
        in_order(&events, 0);
        for kind in ["stdout", "stderr"] {
            let name = if kind == "stdout" { "out" } else { "err" };
            for line in content(&events, kind).lines() {
                let number = line.strip_prefix(name).and_then(|number| number.parse::<u32>().ok());
                assert!(number.is_some(), "half a line: {line}");
            }
        }
        let result = events.last().expect("there is a result");
        match ran.code() {
            Some(0) => {
                assert_eq!(result["exit_code"], 0);
                assert_eq!(in_order(&events, 0), 4000);
            }
            _ => failed_with(&ran, "run_lost"),
        }
        wait_until("the end of the command", || !alive(command));
    }
}

#[test]
fn the_result_of_a_run_that_was_lost_has_all_that_it_had_written() {
    let home = Home::new();
    home.start("l", "say:one err:two print:stdout:half sleep");
    home.reader("-f ndjson", "l").shows("half");
    home.kill_keeper("l");
    let ended = ["-f ndjson", "-f ndjson --after 1", "-f text", "-f snapshot"];
    let ended = ended.map(|options| home.attach(options, "l"));
    for ran in ended.iter().filter(|ran| !ran.out().ends_with("half")).chain([&home.wait("l")]) {
        failed_with(ran, "run_lost");
        let lines = lines(ran);
        let result = lines.last().expect("there is one");
        assert_eq!((&result["stdout"], &result["stderr"]), (&"one\nhalf".into(), &"two\n".into()));
        assert_eq!((&result["stdout_bytes"], &result["stderr_bytes"]), (&8.into(), &4.into()));
        assert_eq!((&result["stdout_lines"], &result["stderr_lines"]), (&2.into(), &1.into()));
        assert_eq!(result["stdout_truncated"], false);
    }
    // Of what is no longer there it is known how much it was.
    home.start_with(
        "r",
        "--journal 64K",
        "repeat:40 { fill:stdout:8000:x print:stdout:\\n } say:end sleep",
    );
    home.reader("-f ndjson", "r").shows("end");
    home.kill_keeper("r");
    let ran = home.wait("r");
    failed_with(&ran, "run_lost");
    let result = &lines(&ran)[0];
    assert_eq!((&result["stdout_bytes"], &result["stdout_lines"]), (&320_044.into(), &41.into()));
    assert_eq!(result["stdout_truncated"], true);
    assert!(result["stdout"].as_str().is_some_and(|kept| kept.ends_with("x\nend\n")), "{ran}");
}

#[test]
fn a_run_of_which_what_is_written_makes_no_sense_is_told_as_that_and_can_be_deleted() {
    let home = Home::new();
    for (file, content) in [("result", "nonsense\n"), ("run", ""), ("run", "{}\n"), ("run", "x")] {
        home.start("d", "say:x sleep");
        home.reader("", "d").shows("x");
        home.kill_keeper("d");
        home.attach("", "d").exited(125);
        fs::write(home.path("d").join(file), content).expect("it is ours");
        failed_with(&home.attach("-f ndjson", "d"), "file_failed");
        failed_with(&home.wait("d"), "file_failed");
        home.runcast("forget d").run().exited(0);
        assert!(!home.path("d").exists());
    }
}

fn starter_is_done(home: &Home) -> bool {
    home.path("k").join("run").exists()
}

fn is_keeper(pid: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim() == "runcast"
}

#[test]
fn a_journal_cut_at_any_byte_shows_what_is_whole_before_it() {
    let home = Home::new();
    home.start("c", "repeat:20 { say:out%i err:err%i } print:stdout:\\xe4\\xff sleep");
    let mut reader = home.reader("-f ndjson", "c");
    reader.shows("base64");
    home.kill_keeper("c");
    reader.finish();
    let journal = home.path("c").join("journal-00000000000000000001");
    let content = fs::read(&journal).expect("it is there");
    for length in (0..=content.len()).rev().step_by(7).chain([0, 1]) {
        fs::write(&journal, &content[..length]).expect("it can be written");
        let whole = content[..length]
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"));
        let chunks = whole.filter(|line| line.starts_with(b"{\"op\":\"chunk\"")).count();
        let ran = home.attach("-f ndjson", "c");
        failed_with(&ran, "run_lost");
        let events = lines(&ran);
        assert_eq!((in_order(&events, 0) as usize, of(&events, "chunk").len()), (chunks, chunks));
    }
}

#[test]
fn zeros_that_a_power_failure_left_are_shown_to_nobody() {
    let home = Home::new();
    home.start("z", "say:one say:two sleep");
    home.reader("-f ndjson", "z").shows("two");
    home.kill_keeper("z");
    let journal = home.path("z").join("journal-00000000000000000001");
    let mut content = fs::read(&journal).expect("it is there");
    let at = content.windows(3).rposition(|part| part == b"two").expect("it was written");
    content[at..at + 2].fill(0);
    content.extend([0; 100]);
    fs::write(&journal, &content).expect("it can be written");
    for format in ["text", "ndjson"] {
        let ran = home.attach(&format!("-f {format}"), "z").exited(125);
        let (out, shown) = (ran.out(), if format == "text" { "" } else { "\"content\":\"" });
        assert!(out.contains(&format!("{shown}one")) && !ran.stdout.contains(&0), "{ran}");
        assert!(!out.contains(&format!("{shown}two")), "{ran}");
    }
}

#[test]
fn a_run_that_ended_before_the_power_did_tells_what_its_journal_has_lost() {
    let home = Home::new();
    home.start("e", "repeat:100 { say:line%i } exit:6");
    home.wait("e").exited(6);
    let journal = home.path("e").join("journal-00000000000000000001");
    let content = fs::read(&journal).expect("it is there");
    fs::write(&journal, &content[..content.len() / 2]).expect("it can be written");
    let ran = home.attach("-f ndjson", "e").exited(6);
    let events = ran.events();
    let shown: usize = ran.bytes("stdout").len();
    let gap = &ran.of("dropped")[0];
    assert_eq!(events.len(), ran.of("chunk").len() + 3);
    assert_eq!(gap.number("chunks") + gap.number("after_seq"), 100);
    assert_eq!(gap.number("bytes") as usize + shown, ran.result().number("stdout_bytes") as usize);
}

#[test]
fn a_socket_that_a_dead_keeper_left_is_no_keeper() {
    let home = Home::new();
    home.start_with("s", "--stdin open", "say:up cat");
    home.reader("", "s").line();
    home.kill_keeper("s");
    let socket = home.path("s").join("control");
    assert!(socket.exists());
    failed_with(&home.wait("s"), "run_lost");
    failed_with(&home.send("-f ndjson", "s", b"x"), "run_lost");
    // Nor is one that somebody else listens at.
    fs::remove_file(&socket).expect("it can be deleted");
    let _listener = UnixListener::bind(&socket).expect("it can be made");
    failed_with(&home.wait("s"), "run_lost");
    failed_with(&home.attach("-f ndjson", "s"), "run_lost");
    failed_with(&home.runcast("signal -f ndjson s KILL").run(), "run_lost");
    assert_eq!(home.state("s"), "lost");
}

#[test]
fn a_process_id_that_is_somebody_else_s_now_decides_nothing() {
    let home = Home::new();
    home.start("p", "say:up sleep");
    home.reader("", "p").line();
    home.kill_keeper("p");
    let bystander = home.runcast("").puppet("say:here sleep").start();
    let about = home.path("p").join("run");
    let mut written: Vec<Value> = fs::read_to_string(&about)
        .expect("it is there")
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    written[1]["pid"] = bystander.pid().into();
    let text: String = written.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&about, text).expect("it can be written");
    assert_eq!(home.state("p"), "lost");
    failed_with(&home.runcast("signal -f ndjson p KILL").run(), "run_lost");
    failed_with(&home.runcast("signal -f ndjson --stop p").run(), "run_lost");
    home.runcast("forget p").run().exited(0);
    assert!(alive(bystander.pid()));
    send_signal(bystander.pid(), Signal::SIGTERM);
    bystander.finish();
}

#[test]
fn a_run_of_before_the_machine_s_last_start_is_lost_and_one_of_another_machine_s_is_elsewhere() {
    let home = Home::new();
    home.start("b", "say:up sleep");
    home.reader("", "b").line();
    home.kill_keeper("b");
    let about = home.path("b").join("run");
    let original = fs::read_to_string(&about).expect("it is there");
    let mut lines = original.lines();
    let first: Value = serde_json::from_str(lines.next().expect("a line")).expect("JSON");
    let started = lines.next().expect("another");
    let write = |change: &dyn Fn(&mut Value)| {
        let mut first = first.clone();
        change(&mut first);
        fs::write(&about, format!("{first}\n{started}\n")).expect("it can be written");
    };
    write(&|first| first["boot"] = "another".into());
    assert_eq!(home.state("b"), "lost");
    failed_with(&home.wait("b"), "run_lost");
    write(&|first| {
        first["boot"] = "another".into();
        first["host"] = "far".into();
    });
    assert_eq!(home.state("b"), "elsewhere");
    assert_eq!(home.listed("b").expect("it is there")["host"], "far");
    failed_with(&home.wait("b"), "run_unknown");
    assert_eq!(home.attach("", "b").exited(125).out(), "up\n");
    home.runcast("forget b").run().exited(125).said_one_line("far");
    // The machine was only given another name.
    write(&|first| first["host"] = "renamed".into());
    assert_eq!(home.state("b"), "lost");
}

#[test]
fn a_keeper_whose_machine_gets_another_name_is_still_here() {
    let home = Home::new();
    home.start("n", "say:up sleep");
    let about = home.path("n").join("run");
    let text = fs::read_to_string(&about).expect("it is there");
    let (first, started) = text.split_once('\n').expect("two lines");
    let mut first: Value = serde_json::from_str(first).expect("JSON");
    first["host"] = "renamed".into();
    fs::write(&about, format!("{first}\n{started}")).expect("it can be written");
    assert_eq!(home.state("n"), "running");
    home.runcast("signal n KILL").run().exited(0);
    assert_eq!(home.result("n")["signal"], "SIGKILL");
}

#[test]
fn a_keeper_that_is_told_to_end_ends_its_run_as_in_the_foreground() {
    let home = Home::new();
    home.start("t", "trap:TERM:9 say:up sleep");
    let mut reader = home.reader("", "t");
    assert_eq!(reader.line(), "up");
    send_signal(home.keeper("t"), Signal::SIGTERM);
    assert_eq!(reader.finish().exited(9).out(), "up\nTERM\n");
    let result = home.result("t");
    assert_eq!((&result["exit_code"], &result["received"]), (&9.into(), &"SIGTERM".into()));
    home.is_quiet();
}
