//! Waiting for a run: its result and its status, or what is in the way of one.

use super::{Home, failed_with, lines};
use crate::harness::{Gate, until_connected};

#[test]
fn it_prints_the_result_and_ends_with_the_run_s_status() {
    let home = Home::new();
    home.start("w", "say:out err:err exit:9");
    let result = home.result("w");
    assert_eq!(
        (&result["exit_code"], &result["stdout"], &result["stderr"]),
        (&9.into(), &"out\n".into(), &"err\n".into())
    );
    home.start("k", "raise:KILL");
    home.wait("k").exited(137);
    failed_with(&home.wait("none"), "run_unknown");
}

#[test]
fn a_delete_character_stays_in_whatever_is_told_of_a_run() {
    let home = Home::new();
    let with_one = "a\u{7f}b";
    let ran = home.runcast("-d -f ndjson --id x").command(["echo", "-n", with_one]).run().exited(0);
    assert_eq!(lines(&ran)[0]["argv"][2], with_one);
    assert_eq!(home.result("x")["stdout"], with_one);
    assert_eq!(home.listed("x").expect("it is there")["argv"][2], with_one);
}

#[test]
fn many_wait_for_one_run_and_all_are_told() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("m", &format!("{gate} exit:6"));
    let all: Vec<_> = (0..20).map(|_| home.runcast("wait m").start()).collect();
    gate.open();
    for waiter in all {
        waiter.finish().exited(6);
    }
}

#[test]
fn a_wait_that_runs_out_is_124_and_the_run_goes_on() {
    let home = Home::new();
    let gate = Gate::new();
    home.start("t", &format!("{gate} say:end"));
    for timeout in ["1ms", "200ms"] {
        let ran = home.runcast(&format!("wait --timeout {timeout} t")).run().exited(124);
        assert_eq!(ran.out(), "");
    }
    assert_eq!(home.state("t"), "running");
    gate.open();
    home.runcast("wait --timeout 60 t").run().exited(0);
}

#[test]
fn a_run_that_was_forgotten_while_somebody_waited_is_unknown_and_not_lost() {
    let home = Home::new();
    home.start("f", "sleep");
    let waiter = home.runcast("wait f").start();
    until_connected(waiter.pid());
    waiter.signal(nix::sys::signal::Signal::SIGSTOP);
    home.runcast("signal f KILL").run().exited(0);
    home.wait("f").exited(137);
    home.runcast("forget f").run().exited(0);
    waiter.signal(nix::sys::signal::Signal::SIGCONT);
    let ran = waiter.finish();
    failed_with(&ran, "run_unknown");
    assert!(
        lines(&ran)[0]["error"]["message"].as_str().is_some_and(|text| text.contains("forgotten")),
        "{ran}"
    );
}
