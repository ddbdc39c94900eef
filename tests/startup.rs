//! Signals at every moment of the start: never a hang, a process left, or a success that was not seen.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;

use crate::harness::{Mark, Ran, let_pass, ndjson, wait_until};

/// A run that gets this signal so long after its start.
fn signalled(signal: Signal, milliseconds: u64, steps: &str) -> Ran {
    let live = ndjson("-k 1").puppet(steps).start();
    let_pass(milliseconds);
    live.signal(signal);
    live.finish()
}

#[test]
fn a_signal_at_any_moment_ends_the_run_and_leaves_nothing() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        for milliseconds in (0..=40).step_by(2) {
            let ran = signalled(signal, milliseconds, "fork { sleep } say:up sleep").left_nothing();
            let number = signal as i32;
            let when = format!("{signal} after {milliseconds} ms: {ran}");
            if ran.status.signal() == Some(number) {
                assert_eq!(ran.out(), "", "it had begun, so the result was due; {when}");
            } else {
                assert_eq!(ran.code(), Some(128 + number), "{when}");
                assert_eq!(ran.result()["received"], signal.as_str(), "{when}");
            }
        }
    }
}

#[test]
fn the_kill_at_any_moment_leaves_no_command() {
    for milliseconds in (0..=40).step_by(2) {
        let ran = signalled(Signal::SIGKILL, milliseconds, "ignore:TERM say:up sleep");
        assert_eq!(ran.status.signal(), Some(9), "after {milliseconds} ms: {ran}");
        assert!(!ran.out().contains("\"result\""), "after {milliseconds} ms: {ran}");
        wait_until("the end of the command", || ran.left().is_empty());
    }
}

#[test]
fn a_success_is_told_only_if_it_was_seen() {
    let mark = Mark::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        for milliseconds in 0..=16 {
            let live = ndjson("").puppet("say:up exit:0").marked(&mark).start();
            let_pass(milliseconds);
            live.signal(signal);
            let ran = live.finish();
            if ran.code() == Some(0) {
                assert_eq!(
                    (ran.contents("stdout"), &ran.result()["exit_code"]),
                    (vec!["up\n"], &0.into())
                );
            } else if ran.code().is_some() {
                assert_ne!(ran.result()["exit_code"], 0, "{ran}");
            }
            wait_until("the end of the command", || mark.processes().is_empty());
        }
    }
}

#[test]
fn the_shortest_timeout_is_never_lost() {
    for _ in 0..40 {
        let ran = ndjson("-t 1ms").puppet("sleep").run().exited(124).left_nothing();
        assert_eq!(ran.result()["stopped_by"], "timeout");
    }
}
