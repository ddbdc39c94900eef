//! Signals: what runcast receives goes on to the command, and the command starts without a trace of ours.

use std::fs;

use nix::sys::signal::Signal;

use crate::harness::{
    Gate, Live, alive, children, let_pass, missing, ndjson, pid_in, result_in, root, runcast,
    scratch, send_signal, tool, until_continued, until_stopped, wait_until,
};

const FORWARDED: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTERM,
];

fn name(signal: Signal) -> &'static str {
    &signal.as_str()[3..]
}

fn traps() -> String {
    FORWARDED.map(|signal| format!("trap:{} ", name(signal))).concat()
}

/// The pid that a `started` event tells.
fn started(live: &mut Live) -> i32 {
    let pid = live.event_of("started")["pid"].as_i64();
    pid.and_then(|pid| i32::try_from(pid).ok()).expect("started tells the command's pid")
}

#[test]
fn received_signals_go_on_to_the_command() {
    let mut live = runcast("-k 30").puppet(&format!("{} say:ready sleep", traps())).start();
    assert_eq!(live.line(), "ready");
    for signal in FORWARDED {
        live.signal(signal);
        assert_eq!(live.line(), name(signal));
    }
}

#[test]
fn they_go_to_the_commands_group_and_not_beyond() {
    let steps =
        format!("{} fork {{ setsid say:away sleep }} fork {{ say:child sleep }} sleep", traps());
    let mut live = runcast("").puppet(&steps).start();
    let mut ready = [live.line(), live.line()];
    ready.sort();
    assert_eq!(ready, ["away", "child"]);
    live.signal(Signal::SIGUSR1);
    assert_eq!([live.line(), live.line()], ["USR1", "USR1"]);
    live.signal(Signal::SIGUSR2);
    assert_eq!(
        [live.line(), live.line()],
        ["USR2", "USR2"],
        "a third USR1 went to the one in another session"
    );
}

#[test]
fn many_signals_at_once_are_survived() {
    let mut live =
        ndjson("").puppet(&format!("{} say:ready wait-file:/no/such/file", traps())).start();
    live.shows("ready");
    for _ in 0..500 {
        live.signal(Signal::SIGUSR1);
        live.signal(Signal::SIGWINCH);
    }
    live.signal(Signal::SIGUSR2);
    live.shows("USR2");
    live.signal(Signal::SIGKILL);
}

#[test]
fn a_term_ends_the_run_and_the_result_says_why() {
    let live = ndjson("").puppet("fork { setsid sleep } say:up sleep").up();
    live.signal(Signal::SIGTERM);
    let ran = live.finish().exited(143).left_nothing();
    let result = ran.result();
    assert_eq!((result.text("stopped_by"), result.text("received")), ("signal", "SIGTERM"));
    assert_eq!(result.text("signal"), "SIGTERM");
}

#[test]
fn a_command_that_handles_the_term_ends_with_its_own_status() {
    for code in [0, 5] {
        let live = ndjson("").puppet(&format!("trap:TERM:{code} say:up sleep")).up();
        live.signal(Signal::SIGTERM);
        let ran = live.finish().exited(code);
        assert_eq!(
            (ran.result().text("stopped_by"), ran.result().text("received")),
            ("signal", "SIGTERM")
        );
    }
}

#[test]
fn a_term_that_is_ignored_is_followed_by_kill() {
    let live = ndjson("-k 0.3").puppet("ignore:TERM fork { setsid sleep } say:up sleep").up();
    live.signal(Signal::SIGTERM);
    let ran = live.finish().exited(137).left_nothing();
    assert_eq!(
        (ran.result().text("stopped_by"), ran.result().text("received")),
        ("signal", "SIGTERM")
    );
    let stops = ran.of("stop");
    let last = stops.last().expect("the kill is told");
    assert_eq!((last.text("reason"), last.text("signal")), ("signal", "SIGKILL"));
}

#[test]
fn text_has_no_word_for_a_signal_that_was_received() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let live = runcast("-k 0.3").puppet("say:up sleep").up();
        live.signal(signal);
        assert_eq!(live.finish().exited(code).err(), "");
    }
}

#[test]
fn a_term_leaves_more_time_than_a_stop_of_runcasts_own() {
    let live = runcast("").puppet("ignore:TERM say:up sleep").up();
    let command = children(live.pid());
    live.signal(Signal::SIGTERM);
    // Longer than a stop of its own would leave.
    let_pass(2500);
    assert!(command.iter().all(|&pid| alive(pid)), "the 2 s are not for this stop");
}

#[test]
fn a_term_ends_the_waiting_for_survivors() {
    for options in ["--drain 20", "--leftover wait"] {
        let steps = "fork { setsid ignore:TERM say:up sleep } sleep:100 exit:3";
        let mut live = ndjson(options).arg("-k").arg("0.3").puppet(steps).start();
        live.event_of("exited");
        live.signal(Signal::SIGTERM);
        let ran = live.finish().exited(3).left_nothing();
        assert_eq!(ran.result()["exit_code"], 3, "{options}");
    }
}

#[test]
fn a_second_term_is_forwarded_and_moves_nothing() {
    let mut live = ndjson("-k 1").puppet("trap:TERM say:up sleep").up();
    for _ in 0..3 {
        live.signal(Signal::SIGTERM);
        live.shows("TERM\\n");
    }
    let ran = live.finish().exited(137).left_nothing();
    assert_eq!(ran.contents("stdout"), ["up\n", "TERM\n", "TERM\n", "TERM\n"]);
}

#[test]
fn an_int_a_quit_or_a_hup_that_ends_the_command_is_named() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGQUIT, 131), (Signal::SIGHUP, 129)] {
        let live = ndjson("-r core=0").puppet("say:up sleep").up();
        live.signal(signal);
        let ran = live.finish().exited(code);
        let result = ran.result();
        assert_eq!(
            (result.text("stopped_by"), result.text("received")),
            ("signal", signal.as_str())
        );
    }
}

#[test]
fn one_that_ended_the_command_is_named_whatever_came_after_it() {
    for later in [Signal::SIGCONT, Signal::SIGWINCH, Signal::SIGUSR1] {
        let live = ndjson("").puppet("ignore:USR1 say:up sleep").up();
        live.signal(Signal::SIGHUP);
        live.signal(later);
        let ran = live.finish().exited(129);
        assert_eq!(ran.result().text("received"), "SIGHUP", "{later}");
    }
}

#[test]
fn a_term_is_why_what_was_left_behind_is_stopped_if_it_comes_then() {
    let (_unread, output) = std::io::pipe().expect("a pipe can be had");
    let folder = scratch();
    let [result, log, up] = ["result", "log", "up"].map(|name| folder.path().join(name));
    let run = runcast("--leftover kill -k 0.5 --result").arg(&result);
    // What is left says in a file that it is being stopped, and floods a copy of its standard output.
    let steps = format!(
        "fork {{ dup:1:9 open:{}:1 trap:TERM touch:{} flood:9 }} wait-file:{1} exit:3",
        log.display(),
        up.display()
    );
    let mut live = run.puppet(&steps).stdout(output).start();
    wait_until("the stop", || fs::read_to_string(&log).is_ok_and(|log| log == "TERM\n"));
    live.signal(Signal::SIGTERM);
    assert_eq!(live.ends_unread().code(), Some(3));
    assert_eq!(result_in(&result).text("received"), "SIGTERM");
}

#[test]
fn a_cont_right_behind_it_takes_a_stop_back() {
    for stop in [Signal::SIGTSTP, Signal::SIGTTIN] {
        for _ in 0..10 {
            let run = runcast("").launched("setpgid").puppet("say:up sleep:100 say:end");
            let live = run.up();
            live.signal(stop);
            live.signal(Signal::SIGCONT);
            live.finish().exited(0);
        }
    }
}

#[test]
fn an_int_that_the_command_handles_stops_nothing() {
    let gate = Gate::new();
    let mut live = ndjson("").puppet(&format!("trap:INT trap:HUP say:up {gate} exit:3")).up();
    for signal in [Signal::SIGINT, Signal::SIGHUP] {
        live.signal(signal);
        live.shows(name(signal));
    }
    gate.open();
    let ran = live.finish().exited(3);
    assert!(ran.result()["stopped_by"].is_null() && ran.result()["received"].is_null(), "{ran}");
}

#[test]
fn map_signal_changes_what_is_forwarded() {
    let options = "--map-signal USR1=USR2 --map-signal sigint=none --map-signal 1=QUIT";
    let mut live = runcast(options).puppet(&format!("{} say:ready sleep", traps())).start();
    assert_eq!(live.line(), "ready");
    live.signal(Signal::SIGINT);
    for (sent, seen) in
        [(Signal::SIGUSR1, "USR2"), (Signal::SIGHUP, "QUIT"), (Signal::SIGUSR2, "USR2")]
    {
        live.signal(sent);
        assert_eq!(live.line(), seen);
    }
}

#[test]
fn a_mapped_term_still_begins_a_stop() {
    let live =
        ndjson("--map-signal TERM=INT -k 0.3").puppet("trap:TERM trap:INT say:up sleep").up();
    live.signal(Signal::SIGTERM);
    let ran = live.finish().exited(137).left_nothing();
    assert_eq!(ran.contents("stdout"), ["up\n", "INT\n"]);
    assert_eq!(ran.result().text("received"), "SIGTERM");
}

#[test]
fn map_signal_that_makes_no_sense_is_a_usage_error() {
    for text in [
        "",
        "USR1",
        "USR1=",
        "=USR1",
        "NOSIG=USR1",
        "USR1=NOSIG",
        "KILL=TERM",
        "STOP=TERM",
        "none=USR1",
    ] {
        let run = runcast("--map-signal").arg(text).puppet("say:started");
        run.run().refused_usage("map-signal");
    }
}

#[test]
fn the_kill_of_runcast_kills_the_command() {
    let mut live = runcast("").puppet("ignore:TERM ignore:HUP say:up sleep").start();
    assert_eq!(live.line(), "up");
    let command = children(live.pid());
    assert!(!command.is_empty());
    live.signal(Signal::SIGKILL);
    wait_until("the end of the command", || !command.iter().any(|&pid| alive(pid)));
}

#[test]
fn the_command_starts_clean() {
    let report = "report:mask report:ignored report:session report:terminal report:descriptors";
    // Without the descriptors that the test runner has.
    let launched = "close-above:2 ";
    let clean = "none\nnone\nleader leader\nnone\n0 1 2\n";
    assert_eq!(runcast("").puppet(report).launched(launched).run().out(), clean);
    assert_eq!(
        ndjson("").puppet(report).launched(launched).run().contents("stdout").concat(),
        clean
    );
    let all_blocked: String =
        (1..32).filter(|n| ![9, 19].contains(n)).map(|n| format!("block:{n} ")).collect();
    assert_eq!(
        runcast("").puppet(report).launched(&(launched.to_owned() + &all_blocked)).run().out(),
        clean
    );
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let run = runcast("")
        .puppet("report:ignored")
        .launched("ignore:HUP ignore:PIPE ignore:USR1 ignore:XFSZ");
    assert_eq!(run.run().out(), "HUP USR1 PIPE XFSZ\n");
}

#[test]
fn one_that_was_ignored_does_nothing_to_the_run() {
    let gate = Gate::new();
    let steps = format!("say:up {gate} exit:3");
    let live = ndjson("").puppet(&steps).launched("ignore:HUP ignore:INT ignore:TERM").up();
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        live.signal(signal);
    }
    // Long enough for a stop to begin, if one did.
    let_pass(100);
    gate.open();
    assert!(live.finish().exited(3).result()["stopped_by"].is_null());
}

#[test]
fn an_inherited_ignored_sigchld_hides_no_status() {
    for options in ["", "--leftover wait", "-t 20"] {
        runcast(options).puppet("fork { exit:1 } exit:3").launched("ignore:CHLD").run().exited(3);
        runcast(options)
            .puppet("fork { exit:4 } reap-exit")
            .launched("ignore:CHLD block:CHLD")
            .run()
            .exited(4);
    }
}

#[test]
fn a_child_inherited_over_exec_is_not_of_the_run() {
    let folder = scratch();
    let pid_file = folder.path().join("pid");
    // One that ends meanwhile, with a status of its own.
    runcast("-t 20")
        .puppet("sleep:300 exit:4")
        .launched("fork { sleep:100 exit:9 }")
        .run()
        .exited(4);
    // One that goes on; it is neither awaited nor stopped.
    let launched = format!(
        "fork {{ close:0 close:1 close:2 pid-file:{} sleep }} wait-file:{0}",
        pid_file.display()
    );
    for (options, code) in [("--leftover wait", 3), ("--leftover kill", 3), ("-t 0.3", 124)] {
        let steps = if code == 3 { "exit:3" } else { "sleep" };
        let ran = ndjson(options).puppet(steps).launched(&launched).run().exited(code);
        assert!(ran.left().contains(&pid_in(&pid_file)), "{options}: it was killed");
        fs::remove_file(&pid_file).expect("it is there");
    }
}

#[test]
fn tstp_stops_the_run_as_a_shells_job_and_cont_goes_on_with_it() {
    for stop in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
        let gate = Gate::new();
        let mut live =
            ndjson("").puppet(&format!("say:up {gate} exit:3")).started_as_a_job().start();
        let command = started(&mut live);
        live.shows("up");
        let own = live.child_pid();
        for _ in 0..2 {
            send_signal(own, stop);
            until_stopped(own);
            until_stopped(command);
            send_signal(own, Signal::SIGCONT);
            until_continued(own);
            until_continued(command);
        }
        gate.open();
        live.finish().exited(3);
    }
}

#[test]
fn a_tstp_that_is_mapped_stops_nothing_and_goes_on_as_what_it_is_mapped_to() {
    let run = ndjson("--map-signal TSTP=USR1").puppet("trap:USR1:3 say:up sleep");
    let mut live = run.started_as_a_job().start();
    live.shows("up");
    send_signal(live.child_pid(), Signal::SIGTSTP);
    live.finish().exited(3);
}

#[test]
fn where_nobody_could_continue_it_a_tstp_leaves_nothing_stopped() {
    let gate = Gate::new();
    let steps = format!("trap:CONT say:up {gate} exit:3");
    // The leader of a session: its group is orphaned, and the kernel then discards such a stop.
    let mut live = ndjson("").puppet(&steps).launched("setsid").up();
    live.signal(Signal::SIGTSTP);
    // The command was stopped and continued. What is still stopped now would never end.
    live.shows("CONT");
    gate.open();
    live.finish().exited(3);
}

#[test]
fn a_command_that_handles_tstp_gets_it() {
    let folder = scratch();
    let log = folder.path().join("log");
    // To a file, since runcast shows nothing while it is stopped.
    let steps = format!("trap:TSTP trap:CONT:3 open:{}:1 say:up sleep", log.display());
    let live = runcast("").puppet(&steps).started_as_a_job().start();
    let logged = |text: &str| fs::read_to_string(&log).is_ok_and(|log| log == text);
    wait_until("the command", || logged("up\n"));
    let own = live.child_pid();
    send_signal(own, Signal::SIGTSTP);
    wait_until("the command's TSTP", || logged("up\nTSTP\n"));
    until_stopped(own);
    send_signal(own, Signal::SIGCONT);
    live.finish().exited(3);
    assert!(logged("up\nTSTP\nCONT\n"));
}

#[test]
fn a_command_that_stops_itself_is_waited_for() {
    let mut live = ndjson("").puppet("say:up raise:STOP exit:3").start();
    let command = started(&mut live);
    until_stopped(command);
    // Long enough to take the stop for an end.
    let_pass(100);
    assert!(live.ended().is_none());
    send_signal(command, Signal::SIGCONT);
    live.finish().exited(3);
}

#[test]
fn a_pipeline_in_the_command_ends_by_sigpipe() {
    let Some(bash) = tool("bash") else { return };
    let ran = runcast("")
        .command([bash.as_os_str(), "-c".as_ref(), "yes | head -1; echo ${PIPESTATUS[0]}".as_ref()])
        .run();
    assert_eq!((ran.out(), ran.err()), ("y\n141\n".to_owned(), String::new()));
}

#[test]
fn as_process_1_it_forwards_and_reaps_every_orphan() {
    let (Some(unshare), Some(())) = (tool("unshare"), root()) else { return };
    let words =
        [unshare.as_os_str(), "-pf".as_ref(), "--kill-child".as_ref(), "--mount-proc".as_ref()];
    let trial = std::process::Command::new(words[0]).args(&words[1..]).arg("true").output();
    if !trial.is_ok_and(|trial| trial.status.success()) {
        return missing("no process namespace can be made here");
    }
    let steps = "repeat:5 { fork { fork { exit:0 } } } reap say:up report:ppid sleep:300 report:zombies exit:3";
    let ran = runcast("").puppet(steps).through(words).run().exited(3);
    assert_eq!(ran.out(), "up\n1\n0\n");
    let ran = runcast("").puppet("raise:TERM").through(words).run().exited(143);
    assert_eq!(ran.err(), "");
    // Where /proc shows other processes than those that it sees, none of them is taken for one of the run.
    let words = &words[..3];
    let options = "--leftover kill --result -";
    let ran = runcast(options).puppet("fork { sleep:100 } exit:3").through(words).run().exited(3);
    assert!(ran.result()["leftover"].is_null(), "{ran}");
    let ran = runcast("-f ndjson --max-memory 1G").puppet("say:x").through(words).run();
    ran.failed(125, "limit_not_set", "--max-memory: /proc does not show");
}
