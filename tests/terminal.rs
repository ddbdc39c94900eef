//! runcast on a terminal, without one made for the command: everything at the keyboard is as without runcast.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;

use crate::harness::{
    CTRL_BACKSLASH, CTRL_C, CTRL_Z, Gate, JobShell, PUPPET, RUNCAST, Terminal, launch, let_pass,
    pid_in, result_in, runcast, scratch, send_signal, tool, until_taken, wait_until,
};

#[test]
fn the_command_stays_in_our_session_and_group_and_has_the_terminal() {
    let mut terminal = Terminal::new();
    runcast("").puppet("report:session report:terminal report:terminals").on(&terminal).run();
    assert_eq!(terminal.rest(), "member member\r\nyes\r\n0\r\n");
}

#[test]
fn one_stream_on_the_terminal_is_enough_and_none_is_not() {
    for stream in 0..=2 {
        let terminal = Terminal::new();
        let folder = scratch();
        let log = folder.path().join("log");
        let steps = format!("setsid open:{}:{stream}", terminal.path());
        let command = format!("open:{}:1 report:session", log.display());
        runcast("").puppet(&command).launched(&steps).run();
        assert_eq!(fs::read_to_string(&log).expect("it was written"), "member member\n");
    }
    let terminal = Terminal::new();
    let steps = format!("setsid open:{}:9", terminal.path());
    assert_eq!(
        runcast("").puppet("report:session").launched(&steps).run().out(),
        "leader leader\n"
    );
}

#[test]
fn it_reads_what_is_typed() {
    let mut terminal = Terminal::new();
    let live = runcast("").puppet("say:up read-line exit:3").up_on(&mut terminal);
    terminal.press("hello\r");
    terminal.until("read hello\r\n");
    live.finish().exited(3);
}

#[test]
fn ctrl_c_reaches_the_command_once_and_so_does_a_kill_of_runcast_alone() {
    let mut terminal = Terminal::new();
    let live =
        runcast("").puppet("trap:INT trap:USR1 trap:USR2:3 say:up sleep").up_on(&mut terminal);
    terminal.press(CTRL_C);
    terminal.until("INT\r\n");
    // Two of a kind that wait are one: the first has been taken when this is passed on.
    live.signal(Signal::SIGUSR1);
    terminal.until("USR1\r\n");
    live.signal(Signal::SIGINT);
    terminal.until("INT\r\n");
    // What is received is forwarded in turn, so a second INT would be shown before this.
    live.signal(Signal::SIGUSR2);
    live.finish().exited(3);
    assert_eq!(terminal.rest(), "USR2\r\n");
}

#[test]
fn a_command_that_the_terminals_signal_ended_ends_runcast_by_the_same() {
    for (key, signal, status) in [(CTRL_C, 2, 130), (CTRL_BACKSLASH, 3, 131)] {
        let mut terminal = Terminal::new();
        let folder = scratch();
        let path = folder.path().join("result");
        let run = runcast("-r core=0 --result").arg(&path).puppet("say:up sleep");
        let live = run.up_on(&mut terminal);
        terminal.press(key);
        let ran = live.finish();
        assert_eq!(ran.status.signal(), Some(signal), "{ran}");
        assert!(!ran.status.core_dumped(), "{ran}");
        let result = result_in(&path);
        assert_eq!((result.number("status"), result.text("stopped_by")), (status, "signal"));
    }
}

#[test]
fn one_that_a_kill_ended_does_not() {
    let mut terminal = Terminal::new();
    let live = runcast("").puppet("say:up sleep").up_on(&mut terminal);
    live.signal(Signal::SIGINT);
    live.finish().exited(130);
}

#[test]
fn a_command_that_handles_ctrl_c_ends_runcast_with_its_own_status() {
    let mut terminal = Terminal::new();
    let live = runcast("").puppet("trap:INT:7 say:up sleep").up_on(&mut terminal);
    terminal.press(CTRL_C);
    live.finish().exited(7);
}

#[test]
fn a_shell_script_that_is_interrupted_does_not_go_on() {
    let Some(bash) = tool("bash") else { return };
    let mut terminal = Terminal::new();
    let script = format!("{RUNCAST} -- {PUPPET} say:up sleep; echo went on");
    let words = [bash.as_os_str(), "-c".as_ref(), script.as_ref()];
    let live = launch(words).up_on(&mut terminal);
    terminal.press(CTRL_C);
    assert_eq!(live.finish().status.signal(), Some(2));
    assert!(!terminal.rest().contains("went on"));
}

#[test]
fn a_stop_reaches_every_descendant_and_nobody_else_in_the_group() {
    let mut terminal = Terminal::new();
    let steps = "fork { sleep } fork { setsid sleep } say:up sleep";
    let live = runcast("-t 0.5 -k 0.5").puppet(steps).up_in_a_script_on(&mut terminal);
    // The parent would have been stopped with its group, and not have told the status.
    live.finish().exited(124).left_nothing();
}

#[test]
fn children_that_runcast_inherited_are_not_stopped() {
    let terminal = Terminal::new();
    let folder = scratch();
    let pid_file = folder.path().join("pid");
    let launched = format!(
        "setsid open:{}:0 dup:0:1 dup:0:2 fork {{ ignore:HUP pid-file:{} sleep }} wait-file:{1}",
        terminal.path(),
        pid_file.display()
    );
    let ran = runcast("-t 0.3").puppet("sleep").launched(&launched).run().exited(124);
    assert_eq!(ran.left(), [pid_in(&pid_file)]);
}

#[test]
fn where_nobody_could_continue_it_ctrl_z_leaves_nothing_stopped() {
    let mut terminal = Terminal::new();
    let live = runcast("").puppet("say:up read-line exit:3").up_on(&mut terminal);
    terminal.press(CTRL_Z);
    // The terminal shows the key once it has sent its signal.
    terminal.until("^Z");
    until_taken(live.pid(), Signal::SIGTSTP);
    // What is stopped now would never end.
    terminal.press("on\r");
    terminal.until("read on\r\n");
    live.finish().exited(3);
}

#[test]
fn ctrl_z_stops_it_as_a_job_and_fg_and_bg_go_on_with_it() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.runs("", "say:up read-line exit:3");
    shell.stops_it();
    shell.brings_it_back("exit:3");
    shell.gives_it("word");
    shell.sees_it_end_with(3);
    let gate = Gate::new();
    shell.runs("", &format!("say:up {gate} exit:4"));
    shell.stops_it();
    shell.asks("bg");
    gate.open();
    shell.say("wait %1");
    shell.sees_it_end_with(4);
    shell.leave();
}

#[test]
fn timers_rest_while_it_is_stopped() {
    let Some(mut shell) = JobShell::start() else { return };
    let gate = Gate::new();
    shell.runs("-t 3", &format!("say:up {gate} exit:3"));
    shell.stops_it();
    // Longer than the timeout.
    let_pass(3500);
    gate.open();
    shell.say("fg");
    shell.sees_it_end_with(3);
    shell.leave();
}

#[test]
fn a_command_that_does_not_stop_at_ctrl_z_does_not_stop_runcast() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.runs("", "trap:TSTP say:up read-line exit:3");
    shell.terminal.press(CTRL_Z);
    shell.terminal.until("TSTP\r\n");
    shell.gives_it("word");
    shell.sees_it_end_with(3);
    shell.leave();
}

#[test]
fn started_in_the_background_it_runs_on_and_stops_when_the_command_reads() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.asks("stty tostop");
    shell.runs("", "say:up exit:3 & wait $!");
    shell.sees_it_end_with(3);
    shell.asks(&format!("{RUNCAST} -- {PUPPET} read-line exit:4 &"));
    // Not only to us: the shell has to know it too, or `fg` would not continue it.
    wait_until("the stop", || shell.asks("jobs").contains("Stopped"));
    shell.brings_it_back("exit:4");
    shell.gives_it("word");
    shell.sees_it_end_with(4);
    shell.leave();
}

#[test]
fn a_command_that_takes_the_terminal_is_stopped_and_continued_as_without_runcast() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.runs("", "take-terminal say:up read-line exit:3");
    shell.stops_it();
    shell.brings_it_back("exit:3");
    shell.gives_it("word");
    shell.sees_it_end_with(3);
    shell.leave();
}

#[test]
fn on_a_terminal_of_its_own_it_is_stopped_by_a_signal_and_gives_ours_back_meanwhile() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.runs("--pty", "say:up read-line exit:3");
    send_signal(shell.job(), Signal::SIGTSTP);
    shell.has_it_stopped();
    assert!(shell.asks("stty -a | grep -o ' icanon'").contains(" icanon\r\n"));
    shell.brings_it_back("exit:3");
    shell.gives_it("word");
    shell.sees_it_end_with(3);
    shell.leave();
}

#[test]
fn on_a_terminal_of_its_own_it_takes_ours_when_it_is_brought_to_the_foreground() {
    let Some(mut shell) = JobShell::start() else { return };
    shell.say(&format!("{RUNCAST} --pty -- {PUPPET} say:up read-line exit:3 &"));
    shell.terminal.until("up\r");
    // The shell still has its terminal.
    shell.say("echo here:$((2*3))");
    shell.terminal.until("here:6");
    shell.brings_it_back("exit:3");
    shell.gives_it("word");
    // What is typed before the prompt would still be the command's.
    shell.terminal.until("<4>");
    shell.say("echo status:$?");
    shell.terminal.until("status:3");
    shell.leave();
}

#[test]
fn modes_and_foreground_that_a_killed_command_left_changed_are_put_back() {
    for steps in ["raw say:up sleep", "take-terminal raw say:up sleep"] {
        let mut terminal = Terminal::new();
        let run = runcast("-q -t 0.5 -k 0").puppet(steps);
        let live = run.on_in_a_script_that_reads_then(&terminal).start();
        terminal.until("canonical echo\r\n");
        terminal.press("word\r");
        terminal.until("read word\r\n");
        live.finish().exited(0);
    }
}

#[test]
fn modes_that_a_command_changed_on_purpose_stay() {
    let mut terminal = Terminal::new();
    let live = runcast("").puppet("no-echo").on_in_a_script_that_reads_then(&terminal).start();
    terminal.until("canonical\r\n");
    terminal.press("word\r");
    live.finish().exited(0);
}

#[test]
fn when_the_window_is_closed_the_command_is_told_by_hup() {
    let mut terminal = Terminal::new();
    let folder = scratch();
    let path = folder.path().join("result");
    let run = runcast("--result").arg(&path).puppet("trap:HUP:5 say:up sleep");
    let mut live = run.up_on(&mut terminal);
    terminal.close();
    live.ends_unread();
    assert_eq!(result_in(&path).number("exit_code"), 5, "its handler did not come to its end");
}
