//! Signals to a run, and stopping it as a timeout would.

use std::fs;

use super::{Home, failed_with};
use crate::harness::{alive, wait_until};

#[test]
fn a_signal_goes_to_all_processes_of_the_run() {
    let home = Home::new();
    let folder = home.folder.path();
    let steps = format!(
        "fork {{ setsid pid-file:{0}/daemon sleep }} wait-file:{0}/daemon trap:USR1 say:up sleep",
        folder.display()
    );
    home.start("s", &steps);
    let mut reader = home.reader("", "s");
    assert_eq!(reader.line(), "up");
    home.runcast("signal s USR1").run().exited(0);
    assert_eq!(reader.line(), "USR1");
    let daemon: i32 = fs::read_to_string(folder.join("daemon"))
        .expect("it is there")
        .trim()
        .parse()
        .expect("a number");
    wait_until("the daemon's end", || !alive(daemon));
    for (name, status) in [("sigint", 130), ("9", 137), ("", 143)] {
        let id = format!("n{status}");
        home.start(&id, "say:up sleep");
        home.reader("", &id).line();
        assert_eq!(home.runcast(&format!("signal {id} {name}")).run().exited(0).out(), "");
        home.wait(&id).exited(status);
    }
    home.runcast("signal s NOSUCH").run().refused_usage("NOSUCH");
    home.runcast("signal s --stop KILL").run().refused_usage("--stop");
}

#[test]
fn a_stop_is_what_a_timeout_does_and_has_a_reason_of_its_own() {
    let home = Home::new();
    home.start_with("s", "-s INT -k 100ms", "ignore:INT say:up sleep");
    let mut reader = home.reader("-f ndjson", "s");
    reader.shows("up");
    home.runcast("signal --stop s").run().exited(0);
    let stop = reader.event_of("stop");
    assert_eq!((&stop["reason"], &stop["signal"]), (&"signal".into(), &"SIGINT".into()));
    assert_eq!(reader.event_of("stop")["signal"], "SIGKILL");
    reader.finish().exited(137);
    let result = home.result("s");
    assert_eq!((&result["stopped_by"], &result["signal"]), (&"signal".into(), &"SIGKILL".into()));
    assert!(result["received"].is_null(), "nobody sent it one");
    home.is_quiet();
}

#[test]
fn a_run_that_is_over_or_unknown_is_not_signalled() {
    let home = Home::new();
    home.start("e", "exit:0");
    home.wait("e").exited(0);
    failed_with(&home.runcast("signal -f ndjson e").run(), "run_ended");
    failed_with(&home.runcast("signal -f ndjson --stop e").run(), "run_ended");
    failed_with(&home.runcast("signal -f ndjson none").run(), "run_unknown");
}

#[test]
fn a_run_whose_command_has_ended_but_that_waits_for_others_can_still_be_signalled_and_stopped() {
    for words in ["signal w TERM", "signal --stop w"] {
        let home = Home::new();
        home.start_with("w", "--leftover wait", "fork { setsid sleep } say:up exit:3");
        let mut reader = home.reader("", "w");
        assert_eq!(reader.line(), "up");
        let command = home.command("w");
        wait_until("the command's end", || !alive(command));
        assert_eq!(home.state("w"), "running");
        home.runcast(words).run().exited(0);
        reader.finish();
        assert_eq!(home.result("w")["exit_code"], 3, "{words}");
        home.is_quiet();
    }
}
