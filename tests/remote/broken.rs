//! A connection breaks, at any moment, and nothing is lost, comes twice, or is left.

use super::{Machine, cut, random};
use crate::harness::{Gate, LINE_BYTES, Ran, let_pass, runcast, wait_until};

#[test]
fn every_line_comes_once_though_the_connection_breaks_again_and_again() {
    let Some(machine) = Machine::new() else { return };
    let mut state = 1;
    let plans: Vec<String> =
        (0..25).map(|_| format!("out {}", 200 + random(&mut state, 300_000))).collect();
    machine.plan(&plans);
    let count = machine.path("count");
    let steps = format!("write-file:{}:1 lines:stdout:60000 err:end exit:2", count.display());
    let ran = machine.ndjson("").puppet(&steps).run().exited(2);
    assert_eq!(machine.plans(), 0, "it did not break as often as it was to");
    let out = ran.bytes("stdout");
    assert_eq!(out.len(), 60_000 * LINE_BYTES);
    let numbers = out.chunks(LINE_BYTES).enumerate();
    assert!(
        numbers
            .into_iter()
            .all(|(number, line)| line.starts_with(format!("{number:07}").as_bytes()))
    );
    assert_eq!(ran.contents("stderr"), ["end\n"]);
    machine.keeps_nothing();
}

#[test]
fn a_command_starts_once_wherever_its_start_is_cut_off() {
    let Some(machine) = Machine::new() else { return };
    let plans = [
        "out 0",
        "out 1",
        "out 22",
        "in 0",
        "in 1",
        "in 300",
        "before begun",
        "after begun",
        "out 23",
        "before started",
        "after started",
        "before feed",
        "after attach",
        "after input",
    ];
    for plan in plans {
        machine.plan(&[plan]);
        let count = machine.path("count");
        let append = "echo started >> \"$1\"; cat; echo out; echo err >&2; exit 3";
        let command = ["sh", "-c", append, "sh"].map(Into::into).into_iter().chain([count.clone()]);
        let ran = machine.run("").command(command).input("in\n").run().exited(3);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("in\nout\n", "err\n"), "{plan}");
        assert_eq!(std::fs::read(&count).expect("it ran"), b"started\n", "{plan}");
        std::fs::remove_file(count).expect("it was there");
        assert_eq!(machine.plans(), 0, "{plan}");
        machine.keeps_nothing();
    }
}

#[test]
fn nothing_is_left_there_wherever_the_end_is_cut_off() {
    let Some(machine) = Machine::new() else { return };
    for plan in
        ["before result", "after result", "before forget", "after forget", "before received"]
    {
        machine.plan(&[plan]);
        let ran = machine.ndjson("").puppet("say:out exit:3").run().exited(3);
        assert_eq!(ran.contents("stdout"), ["out\n"], "{plan}");
        assert_eq!(machine.plans(), 0, "{plan}");
        machine.keeps_nothing();
    }
}

#[test]
fn an_event_between_two_lines_comes_once() {
    let Some(machine) = Machine::new() else { return };
    // The stop is seen, and then nothing more until the connection is another one.
    machine.plan(&["after \"op\":\"stop\"", "after alive"]);
    let ran = machine
        .ndjson("-t 0.3 -k 2")
        .env("RUNCAST_TEST_SILENCE_MS", "3000")
        .puppet("trap:TERM say:up sleep:1500 say:end exit:0")
        .run()
        .exited(124);
    assert_eq!(ran.of("stop").len(), 1, "{ran}");
    assert_eq!(ran.contents("stdout"), ["up\n", "TERM\n", "end\n"]);
    assert_eq!(machine.plans(), 0);
}

/// The command to attach with that a message tells.
fn told(ran: &Ran) -> Vec<String> {
    let err = ran.err();
    let begin = err.find("runcast attach").unwrap_or_else(|| panic!("it tells none: {ran}"));
    let end = begin + err[begin..].find(" shows it").unwrap_or_else(|| panic!("{ran}"));
    err[begin..end].split(' ').map(str::to_owned).collect()
}

#[test]
fn what_is_told_when_the_time_is_over_shows_the_rest() {
    let Some(machine) = Machine::new() else { return };
    for (format, option) in [("text", ""), ("ndjson", "--remote-runcast runcast")] {
        machine.plan(&[["after \"seq\":2"].as_slice(), ["fail 255"; 50].as_slice()].concat());
        let gate = Gate::new();
        let steps = format!("say:first say:second {gate} say:third exit:4");
        let options = format!("-f {format} --retry-timeout 0.7 {option}");
        let ran = machine.run(&options).puppet(&steps).run().exited(125);
        if format == "ndjson" {
            ran.failed(125, "disconnected", "me@box");
            assert_eq!(ran.contents("stdout"), ["first\n", "second\n"]);
        } else {
            assert_eq!(ran.out(), "first\nsecond\n");
        }
        machine.set("plan", "");
        gate.open();
        let words = told(&ran);
        let rest = machine.local("").arg(&words[1]);
        let rest = words[2..].iter().fold(rest, |run, word| run.arg(word));
        assert_eq!(rest.run().exited(4).out(), "third\n", "{words:?}");
    }
}

#[test]
fn pauses_between_attempts_grow_and_begin_anew_once_something_came() {
    let Some(machine) = Machine::new() else { return };
    let failures = ["fail 255"; 5];
    machine.plan(&[failures.as_slice(), &["after \"seq\":1", "fail 255", "fail 255"]].concat());
    machine.run("--retry-timeout 60").puppet("say:up").run().exited(0);
    let times: Vec<f64> = machine.log().into_iter().map(|(time, _)| time).collect();
    let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [0.2, 0.4, 0.8, 1.6, 2.0, 0.2, 0.4, 0.8];
    assert_eq!(pauses.len(), expected.len(), "{pauses:?}");
    for (pause, expected) in pauses.iter().zip(expected) {
        // The stand-in takes a moment to begin, more on a busy machine.
        assert!(*pause >= expected - 0.1, "{pauses:?}");
    }
    assert!(pauses[5] < 2.0, "the pauses did not begin anew: {pauses:?}");
}

#[test]
fn the_time_to_try_again_counts_from_the_last_whole_line() {
    let Some(machine) = Machine::new() else { return };
    // Each connection has a whole line more, so the time is never over though all together take longer.
    let plans: Vec<String> = (1..8).map(|number| format!("after \"seq\":{number},")).collect();
    machine.plan(&plans);
    let steps: Vec<String> = (1..9).map(|number| format!("say:line{number} sleep:250")).collect();
    let ran = machine.run("--retry-timeout 1").puppet(&steps.join(" ")).run().exited(0);
    assert_eq!(ran.out().lines().count(), 8);
    // Here each has a part of one.
    machine.plan(&["out 40"; 200]);
    let ran = machine.run("--retry-timeout 1 --id far").puppet("say:x").run();
    ran.refused("the run far");
}

#[test]
fn what_comes_again_over_each_connection_is_no_reason_to_go_on() {
    let Some(machine) = Machine::new() else { return };
    // Enough for all but the result, which is a longer line.
    machine.plan(&["out 2500"; 400]);
    let steps = format!("print:stdout:{} exit:3", "x".repeat(1000));
    let ran = machine.ndjson("--retry-timeout 1 --id far").puppet(&steps).run();
    ran.failed(125, "disconnected", "the run far");
    assert!(machine.plans() > 0, "each plan was tried");
}

#[test]
fn no_time_to_try_again_is_no_other_attempt() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["after \"seq\":1"]);
    let ran = machine.ndjson("--retry-timeout 0").puppet("say:up sleep:100").run();
    ran.failed(125, "disconnected", "goes on there");
    assert_eq!(machine.connections(), 1);
    // The result has what was shown until then.
    let result = ran.result();
    assert_eq!((&result["stdout"], result.number("stdout_bytes")), (&"up\n".into(), 3));
    assert_eq!((result.number("stdout_lines"), &result["stdout_truncated"]), (1, &false.into()));
}

#[test]
fn a_connection_over_which_nothing_passes_any_more_is_noticed() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["freeze 1200", "freeze 0", "freeze 3000"]);
    let ran = machine
        .ndjson("")
        .env("RUNCAST_TEST_SILENCE_MS", "900")
        .puppet("lines:stdout:1000 sleep:300 say:end")
        .run()
        .exited(0);
    assert_eq!(ran.of("chunk").len(), 1001);
    assert_eq!((machine.plans(), machine.connections()), (0, 4));
    machine.keeps_nothing();
}

#[test]
fn a_connection_over_which_nothing_is_to_be_said_is_none_that_broke() {
    let Some(machine) = Machine::new() else { return };
    let silence = |run: crate::harness::Runcast| run.env("RUNCAST_TEST_SILENCE_MS", "600");
    let run = silence(machine.run("--id far")).puppet("say:up sleep:2500").start();
    wait_until("the run", || machine.folders() == ["far"]);
    let waited = silence(machine.ask("wait", "far")).run().exited(0);
    assert_eq!(waited.result()["status"], 0);
    run.finish().exited(0);
    assert_eq!(machine.connections(), 2, "somebody connected again");
}

#[test]
fn the_other_end_ends_with_its_connection_and_the_run_does_not() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("say:up {gate} say:end");
    let run = machine.run("--id far --retry-timeout 0").puppet(&steps).up();
    cut(machine.newest().expect("there is a connection"));
    run.finish().exited(125);
    // What is left is the command and its keeper.
    wait_until("the end of the other end", || machine.processes().len() == 2);
    gate.open();
    assert_eq!(machine.ask("attach", "far").run().exited(0).out(), "up\nend\n");
    machine.is_deserted();
    assert_eq!(machine.folders(), ["far"]);
}

#[test]
fn a_connection_that_is_killed_while_the_reader_stalls_loses_nothing() {
    let Some(machine) = Machine::new() else { return };
    let mut run = machine.run("").puppet("lines:stdout:200000").start();
    run.until("0000000");
    for _ in 0..4 {
        let before = machine.connections();
        cut(machine.newest().expect("there is a connection"));
        // Nobody reads meanwhile: the connection can only be made anew once there is room again.
        wait_until("another connection", || {
            (0..500).for_each(|_| drop(run.line()));
            machine.connections() > before
        });
    }
    let ran = run.finish().exited(0);
    assert_eq!(ran.out().len(), 200_000 * LINE_BYTES);
    let in_order = ran
        .out()
        .lines()
        .enumerate()
        .all(|(number, line)| line.starts_with(&format!("{number:07}")));
    assert!(in_order);
    machine.keeps_nothing();
}

#[test]
fn it_works_from_within_a_detached_run() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["after \"seq\":1"]);
    let inner = [crate::harness::RUNCAST, "--host", "me@box", "--", crate::harness::PUPPET];
    let steps = ["say:first", "say:second", "exit:3"];
    machine.local("-d --id outer").command(inner.into_iter().chain(steps)).run().exited(0);
    let shown = machine.local("attach outer").run().exited(3);
    assert_eq!((shown.out().as_str(), shown.err().as_str()), ("first\nsecond\n", ""));
    assert_eq!(machine.plans(), 0);
    machine.keeps_nothing();
}

#[test]
fn without_a_connection_it_takes_no_processor_time_to_wait() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["freeze 0"]);
    let mut run = runcast("").command(["true"]).start();
    assert!(run.ends_unread().success());
    let live = machine.run("").puppet("say:x").start();
    wait_until("the connection", || machine.connections() == 1);
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", live.pid())).expect("it lives");
        let fields: Vec<&str> =
            stat.rsplit_once(')').expect("it has a name").1.split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("a number of ticks");
        ticks(12) + ticks(13)
    };
    let before = used();
    // Nothing comes for so long.
    let_pass(500);
    assert!(used() - before < 20, "it is busy with waiting");
    cut(machine.newest().expect("there is a connection"));
    assert_eq!(live.finish().exited(0).out(), "x\n");
}
