//! Signals, and the end of whoever reads here, have there the effect that they have here.

use std::fs;

use nix::sys::signal::Signal;

use super::{Machine, cut};
use crate::harness::{Gate, let_pass, runcast, wait_until};

#[test]
fn a_signal_ends_the_run_there_as_it_would_here() {
    let Some(machine) = Machine::new() else { return };
    for signal in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1]
    {
        let status = 128 + signal as i32;
        let run = machine.ndjson("").puppet("say:up sleep").up();
        run.signal(signal);
        let ran = run.finish().exited(status);
        assert_eq!(ran.result()["signal"], signal.as_str(), "{ran}");
        machine.keeps_nothing();
    }
}

#[test]
fn a_signal_comes_once_though_its_answer_is_lost() {
    let Some(machine) = Machine::new() else { return };
    for signal in [Signal::SIGINT, Signal::SIGUSR1, Signal::SIGTERM] {
        machine.plan(&["before \"received\"", "before \"received\""]);
        let gate = Gate::new();
        let name = &signal.as_str()[3..];
        let steps = format!("trap:{name} say:up {gate} exit:5");
        let mut run = machine.run("").puppet(&steps).up();
        let before = machine.connections();
        run.signal(signal);
        run.until(&format!("{name}\n"));
        wait_until("two more connections", || machine.connections() == before + 2);
        // Another signal behind it, whose answer comes, tells that nothing more comes of the first.
        gate.open();
        assert_eq!(run.finish().exited(5).out(), format!("up\n{name}\n"));
        assert_eq!(machine.plans(), 0);
    }
    machine.keeps_nothing();
}

#[test]
fn a_signal_that_cannot_be_handed_over_there_is_not_forgotten() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("trap:USR1 say:up {gate} exit:5");
    let mut run = machine.run("").puppet(&steps).up();
    let socket = machine.path("runs").join(&machine.folders()[0]).join("control");
    let elsewhere = machine.path("socket");
    fs::rename(&socket, &elsewhere).expect("it is there");
    let before = machine.connections();
    run.signal(Signal::SIGUSR1);
    wait_until("the connection after that", || machine.connections() > before);
    fs::rename(&elsewhere, &socket).expect("it is there");
    run.until("USR1\n");
    gate.open();
    run.finish().exited(5);
    machine.keeps_nothing();
}

#[test]
fn a_run_that_ignores_term_has_the_time_that_it_would_have_here() {
    let Some(machine) = Machine::new() else { return };
    let run = |run: crate::harness::Runcast| {
        let run = run.puppet("ignore:TERM say:up sleep").up();
        run.signal(Signal::SIGTERM);
        run.finish()
    };
    let there = run(machine.ndjson("-k 0.2"));
    let here = run(runcast("-f ndjson -k 0.2"));
    assert_eq!(there.code(), here.code(), "{there}");
    for field in ["signal", "status", "stopped_by", "received"] {
        assert_eq!(there.result()[field], here.result()[field], "{field}: {there}");
    }
    machine.keeps_nothing();
}

#[test]
fn a_second_interrupt_leaves_the_run_and_tells_how_to_see_it() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("trap:INT say:up {gate} say:end exit:3");
    let mut run = machine.run("--id far").puppet(&steps).up();
    run.signal(Signal::SIGINT);
    // Two that come at once are one.
    run.shows("INT");
    run.signal(Signal::SIGINT);
    let ran = run.finish().exited(130);
    ran.said_one_line("left the run far on me@box; runcast attach --host me@box far shows it");
    gate.open();
    assert_eq!(machine.ask("attach", "far").run().exited(3).out(), "up\nINT\nend\n");
    machine.is_deserted();
}

#[test]
fn an_interrupt_before_there_is_a_connection_ends_it_at_once_and_nothing_starts() {
    let Some(machine) = Machine::new() else { return };
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        for plan in ["freeze 0", "fail 255"] {
            machine.plan(&[plan; 20]);
            let before = machine.connections();
            let run = machine.ndjson("").puppet("say:x").start();
            wait_until("a connection", || machine.connections() > before);
            run.signal(signal);
            let ran = run.finish();
            ran.failed(status, "remote_failed", "before anything was started there");
            machine.is_deserted();
            assert_eq!(machine.folders(), [""; 0]);
        }
    }
}

#[test]
fn an_interrupt_while_it_connects_again_waits_for_the_run_and_a_second_one_leaves() {
    let Some(machine) = Machine::new() else { return };
    let plans = [["after \"seq\":1"].as_slice(), ["fail 255"; 3].as_slice()].concat();
    machine.plan(&plans);
    let run = machine.run("").puppet("say:up sleep").up();
    wait_until("another attempt", || machine.connections() > 1);
    run.signal(Signal::SIGINT);
    run.finish().exited(130);
    machine.keeps_nothing();
    machine.plan(&[["after \"seq\":1"].as_slice(), ["fail 255"; 50].as_slice()].concat());
    let before = machine.connections();
    let run = machine.run("--id far").puppet("say:up sleep").up();
    wait_until("another attempt", || machine.connections() > before + 1);
    run.signal(Signal::SIGINT);
    // Nobody can tell when it was taken in, and two that come at once are one.
    let_pass(100);
    run.signal(Signal::SIGINT);
    run.finish().exited(130).said_one_line("left the run far");
    machine.set("plan", "");
    machine.ask("signal", "far KILL").run().exited(0);
    machine.is_deserted();
}

#[test]
fn a_reader_that_goes_away_stops_the_run_there_and_nothing_is_left() {
    let Some(machine) = Machine::new() else { return };
    for plan in [&[][..], &["before \"received\""]] {
        machine.plan(plan);
        let result = machine.path("result");
        let options = format!("--result {}", result.display());
        let mut run = machine.run(&options).puppet("say:up flood:stdout").up();
        run.close_stdout();
        run.finish().exited(141);
        assert_eq!(crate::harness::result_in(&result)["stopped_by"], "disconnect");
        machine.keeps_nothing();
    }
    // Also while it is silent.
    let mut run = machine.run("").puppet("say:up sleep").up();
    run.close_stdout();
    run.finish().exited(141);
    machine.keeps_nothing();
}

#[test]
fn with_continue_the_run_goes_on_without_a_reader() {
    let Some(machine) = Machine::new() else { return };
    let (gate, result, record) = (Gate::new(), machine.path("result"), machine.path("record"));
    let options = format!(
        "--on-disconnect continue --result {} --record {}",
        result.display(),
        record.display()
    );
    let steps = format!("say:up {gate} say:end lines:stdout:5000 exit:3");
    let mut run = machine.run(&options).puppet(&steps).up();
    run.close_stdout();
    gate.open();
    run.finish().exited(3);
    assert_eq!(crate::harness::result_in(&result)["exit_code"], 3);
    let recorded = crate::harness::events_in(&record);
    assert_eq!(recorded.iter().filter(|event| event["op"] == "chunk").count(), 5002);
    machine.keeps_nothing();
}

#[test]
fn a_stopped_run_does_not_wait_for_a_reader_that_does_not_read() {
    let Some(machine) = Machine::new() else { return };
    let mut run = machine.run("-t 0.5 -k 0.3").puppet("flood:stdout").start();
    assert_eq!(run.ends_unread().code(), Some(124));
    let mut run = machine.run("-k 0.3").puppet("say:up flood:stdout").up();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.ends_unread().code(), Some(143));
    drop(run);
    machine.keeps_nothing();
}

#[test]
fn killed_here_the_run_goes_on_there() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("say:up {gate} exit:3");
    let run = machine.run("--id far").puppet(&steps).up();
    cut(run.pid());
    wait_until("the end of all but the run", || machine.processes().len() == 2);
    gate.open();
    assert_eq!(machine.ask("attach", "far").run().exited(3).out(), "up\n");
    machine.is_deserted();
}
