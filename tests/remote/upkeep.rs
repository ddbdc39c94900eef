//! Detached runs there, and all that is done about them from here.

use serde_json::Value;

use super::{Machine, cut};
use crate::harness::{Gate, wait_until};

#[test]
fn a_detached_run_is_started_once_and_looked_at_from_here() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("say:up read-line {gate} err:end exit:3");
    let start = || machine.ndjson("-d --id far --stdin open").puppet(&steps).run().exited(0);
    let existing = |run: &crate::harness::Ran| {
        serde_json::from_str::<Value>(&run.out()).expect("one event")["existing"] == true
    };
    assert!(!existing(&start()) && existing(&start()));
    let text = machine.run("-d --id far --stdin open").puppet(&steps).run().exited(0);
    assert_eq!(text.out(), "far\n");
    let other = machine.ndjson("-d --id far").puppet("say:other").run();
    other.failed(125, "run_exists", "far");
    let sent = machine.ask("send", "far").input("word\n").run().exited(0);
    assert_eq!(sent.out(), "{\"op\":\"stdin\",\"offset\":5}\n");
    machine.ask("send", "--offset 9 -f ndjson far").input("x").run().failed(125, "offset_gap", "5");
    for options in ["--offset 9 -f ndjson far", "--offset 6 --eof -f ndjson far"] {
        machine.ask("send", options).input("").run().failed(125, "offset_gap", "5");
    }
    let again = machine.ask("send", "--offset 0 --eof far").input("word\n").run().exited(0);
    assert_eq!(again.out(), "{\"op\":\"stdin\",\"offset\":5}\n");
    machine.ask("send", "--offset 9 -f ndjson far").input("x").run().failed(
        125,
        "stdin_closed",
        "far",
    );
    let listed = machine.ask("runs", "-f ndjson").run().exited(0);
    let listed: Value = serde_json::from_str(&listed.out()).expect("one run");
    assert_eq!((&listed["id"], &listed["state"]), (&"far".into(), &"running".into()));
    machine.ask("forget", "far").run().refused("far");
    assert_eq!(machine.ask("wait", "-t 0.2 far").run().exited(124).out(), "");
    gate.open();
    let shown = machine.ask("attach", "far").run().exited(3);
    assert_eq!((shown.out().as_str(), shown.err().as_str()), ("up\nread word\n", "end\n"));
    assert_eq!(machine.ask("wait", "far").run().exited(3).result()["exit_code"], 3);
    machine.ask("forget", "far").run().exited(0);
    machine.ask("forget", "far").run().refused("far");
    machine.keeps_nothing();
}

#[test]
fn what_is_asked_about_no_run_is_refused() {
    let Some(machine) = Machine::new() else { return };
    for subcommand in ["attach", "wait", "send", "signal", "forget"] {
        let ran = machine.ask(subcommand, "-f ndjson far").run();
        ran.failed(125, "run_unknown", "far");
    }
    assert_eq!(machine.ask("runs", "").run().exited(0).out(), "");
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_and_nothing_is_done_twice() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("trap:USR1 say:up cat {gate}");
    machine.plan(&["before begun", "after begun"]);
    let started = machine.ndjson("-d --id far --stdin open").puppet(&steps).run().exited(0);
    assert!(!started.out().contains("existing"), "it is this start's: {started}");
    machine.plan(&["before \"received\"", "after \"signal\""]);
    machine.ask("signal", "far USR1").run().exited(0);
    machine.plan(&[
        "before \"input\"",
        "after \"part\"",
        "after \"input\"",
        "before \"end\"",
        "after \"end\"",
    ]);
    let sent = machine.ask("send", "--eof far").input("x".repeat(200_000)).run().exited(0);
    assert_eq!(sent.out(), "{\"op\":\"stdin\",\"offset\":200000}\n");
    gate.open();
    machine.plan(&["before \"done\""]);
    let result = machine.ask("wait", "far").run().exited(0);
    assert_eq!(result.result()["stdout_bytes"], 200_000 + 3 + 5, "{result}");
    machine.plan(&["after chunk", "before \"result\""]);
    let shown = machine.ask("attach", "far").run().exited(0).out();
    assert_eq!((shown.matches("USR1").count(), shown.matches('x').count()), (1, 200_000));
    machine.plan(&["before \"done\""]);
    machine.ask("forget", "far").run().exited(0);
    assert_eq!(machine.plans(), 0);
    machine.keeps_nothing();
}

#[test]
fn signals_reach_the_run_and_stop_stops_it() {
    let Some(machine) = Machine::new() else { return };
    for (signal, status) in [("", 143), ("INT", 130), ("--stop", 143), ("9", 137)] {
        machine.run("-d --id far").puppet("say:up sleep").run().exited(0);
        machine.ask("signal", &format!("far {signal}")).run().exited(0);
        machine.ask("wait", "far").run().exited(status);
        machine.ask("signal", "far -f ndjson").run().failed(125, "run_ended", "far");
        machine.ask("send", "far -f ndjson").input("x").run().failed(125, "run_ended", "far");
        machine.ask("forget", "--finished").run().exited(0);
    }
    machine.keeps_nothing();
}

#[test]
fn what_waits_there_ends_with_its_connection() {
    let Some(machine) = Machine::new() else { return };
    machine.run("-d --id far").puppet("say:up sleep").run().exited(0);
    wait_until("the end of the start", || machine.processes().len() == 2);
    let waiting = machine.ask("wait", "far").start();
    // runcast here, ssh, the other end and what waits, beside the keeper and the command.
    wait_until("what waits", || machine.processes().len() == 6);
    cut(waiting.pid());
    wait_until("its end", || machine.processes().len() == 2);
    drop(waiting.finish());
    machine.ask("signal", "far KILL").run().exited(0);
    machine.is_deserted();
}

#[test]
fn lines_that_were_seen_do_not_come_again_over_another_connection() {
    let Some(machine) = Machine::new() else { return };
    let steps = "err:e0 say:o0 say:o1 err:e1 err:e2 say:o2 say:o3 err:e3";
    machine.run("-d --id far").puppet(steps).run().exited(0);
    machine.ask("wait", "far").run().exited(0);
    let after = |plan: &[&str], options: &str| {
        machine.plan(plan);
        let ran = machine.ask("attach", &format!("{options} far")).run().exited(0);
        assert_eq!(machine.plans(), 0);
        (ran.out(), ran.err())
    };
    let expected = ("o2\no3\n".to_owned(), "e0\ne1\ne2\ne3\n".to_owned());
    for plan in [&[][..], &["after e0"], &["after e1", "after e2", "after o3"]] {
        assert_eq!(after(plan, "--from stdout=2"), expected, "{plan:?}");
    }
    let after_four = after(&["after seq"], "--after 4");
    assert_eq!(after_four.0.len() + after_four.1.len(), 12);
}

#[test]
fn what_would_have_to_be_written_here_later_is_refused() {
    let Some(machine) = Machine::new() else { return };
    for option in ["--result x", "--record x", "--stdin x"] {
        let ran = machine.run(&format!("-d {option}")).puppet("say:x").run();
        assert_eq!(ran.code(), Some(125), "{ran}");
        assert!(ran.err().contains("--host"), "{ran}");
    }
    assert_eq!(machine.connections(), 0);
}

#[test]
fn attach_sends_standard_input_when_asked() {
    let Some(machine) = Machine::new() else { return };
    machine.run("-d --id far --stdin open").puppet("read-line cat").run().exited(0);
    machine.ask("send", "far").input("first\n").run().exited(0);
    machine.plan(&["before \"end\"", "after \"part\""]);
    let attached = machine.ask("attach", "--stdin far").input("second\n").run().exited(0);
    assert_eq!((attached.out().as_str(), attached.err().as_str()), ("read first\nsecond\n", ""));
    assert_eq!(machine.plans(), 0);
    machine.run("-d --id closed").puppet("sleep").run().exited(0);
    let mut attached = machine.ask("attach", "--stdin closed").input("second\n").start();
    let said = attached.error_line();
    assert!(said.contains("the standard input of the run is closed"), "{said}");
    machine.ask("signal", "closed").run().exited(0);
    attached.finish().exited(143);
}
