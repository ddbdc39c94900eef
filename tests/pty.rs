//! `--pty`: the command on a terminal of its own, whatever runcast itself runs on.

use nix::sys::signal::Signal;

use crate::harness::{
    CTRL_C, LINE_BYTES, Ran, Terminal, ndjson, result_in, runcast, scratch, send_signal, tool,
    wait_until,
};

#[test]
fn full_is_a_session_with_a_terminal_that_controls_it() {
    let report = "report:terminals report:session report:terminal report:mask report:ignored";
    let ran = ndjson("--pty").puppet(report).launched("close-above:2").run();
    let said = ran.contents("stdout").concat();
    assert_eq!(said, "0 1 2\nleader leader\nyes\nnone\nnone\n");
    assert_eq!(ran.exited(0).of("started").len(), 1);
}

#[test]
fn no_descriptor_of_runcasts_reaches_the_command() {
    for pty in ["--pty", "--pty=split"] {
        let ran = runcast(pty).puppet("report:descriptors").launched("close-above:2").run();
        assert_eq!(ran.out(), "0 1 2\n", "{pty}");
    }
}

#[test]
fn its_streams_are_one_and_its_lines_end_in_lf() {
    let ran = ndjson("--pty=full").puppet("say:one err:two say:three").run().exited(0);
    assert_eq!(ran.contents("stdout"), ["one\n", "two\n", "three\n"]);
    assert_eq!(runcast("--pty").puppet("say:one err:two").run().out(), "one\ntwo\n");
    assert_eq!(runcast("--pty --merge").puppet("say:one err:two").run().out(), "one\ntwo\n");
}

#[test]
fn split_keeps_the_streams_apart_and_standard_input_as_it_is() {
    let steps = "report:terminals report:terminal read-line err:two";
    let ran = ndjson("--pty=split").puppet(steps).input("hello\n").run().exited(0);
    assert_eq!(ran.contents("stdout"), ["1 2\n", "none\n", "read hello\n"]);
    assert_eq!(ran.contents("stderr"), ["two\n"]);
    let ran = runcast("--pty=split").puppet("say:one err:two").run();
    assert_eq!((ran.out(), ran.err()), ("one\n".to_owned(), "two\n".to_owned()));
}

#[test]
fn split_and_merged_they_are_one_terminal_beside_standard_input() {
    let ran = ndjson("--pty=split --merge").puppet("report:terminals say:one err:two say:3").run();
    assert_eq!(ran.contents("stdout"), ["1 2\n", "one\n", "two\n", "3\n"]);
}

#[test]
fn every_format_and_the_result_have_its_output() {
    for (format, expected) in [("snapshot", "\"stdout\":\"one\\n\""), ("text", "one\n")] {
        let ran = runcast(&format!("-f {format} --pty")).puppet("say:one").run().exited(0);
        assert!(ran.out().contains(expected), "{ran}");
    }
    let folder = scratch();
    let path = folder.path().join("result");
    runcast("--pty -q --result").arg(&path).puppet("say:one err:two exit:3").run().exited(3);
    assert_eq!(result_in(&path).text("stdout"), "one\ntwo\n");
}

#[test]
fn limits_hold_as_without() {
    for pty in ["--pty", "--pty=split"] {
        let run = ndjson(&format!("{pty} -t 0.5 -k 0.2"));
        let steps = "ignore:TERM ignore:HUP fork { setsid sleep } sleep";
        run.puppet(steps).run().exited(124).left_nothing();
        let ran = ndjson(&format!("{pty} --output-limit 10K")).puppet("flood:stdout").run();
        assert_eq!(ran.result().text("stopped_by"), "output");
        let ran = ndjson(&format!("{pty} --idle-timeout 0.3")).puppet("say:x sleep").run();
        assert_eq!(ran.exited(124).result().text("stopped_by"), "idle_timeout");
    }
}

#[test]
fn the_size_is_what_was_asked_for_else_that_of_our_terminal_else_80_by_24() {
    let size = |options: &str| runcast(options).puppet("report:size:1").run().out();
    assert_eq!(size("--pty"), "80 24\n");
    assert_eq!(size("--pty --size 132x43"), "132 43\n");
    assert_eq!(size("--pty=split --size 132x43"), "132 43\n");
    let mut terminal = Terminal::of_size(101, 33);
    runcast("--pty").puppet("report:size:1").on(&terminal).run();
    assert_eq!(terminal.rest(), "101 33\r\n");
    runcast("--pty --size 40x10").puppet("report:size:1").on(&terminal).run();
    assert_eq!(terminal.rest(), "40 10\r\n");
}

#[test]
fn a_size_that_makes_no_sense_is_a_usage_error() {
    for size in
        ["", "80", "x24", "80x", "0x24", "80x0", "80X24", "65536x1", "-1x1", "+8x2", "8x2x1"]
    {
        runcast("--pty --size").arg(size).puppet("say:started").run().refused_usage("--size");
    }
    runcast("--pty=half").puppet("say:started").run().refused_usage("--pty");
}

#[test]
fn changes_of_our_window_are_passed_on() {
    for pty in ["--pty", "--pty=split"] {
        let mut terminal = Terminal::new();
        let run = runcast(pty).puppet("trap:WINCH say:up sleep:200 wait-file:/no/such/file");
        let live = run.up_on(&mut terminal);
        terminal.resize(90, 30);
        terminal.until("WINCH\r\n");
        // Without a change it is a signal as any other.
        live.signal(Signal::SIGWINCH);
        terminal.until("WINCH\r\n");
        live.signal(Signal::SIGTERM);
        live.finish().exited(143);
        assert_eq!(terminal.rest(), "", "{pty}: once for each");
    }
    let mut terminal = Terminal::new();
    let run = runcast("--pty").puppet("trap:WINCH say:up read-line report:size:1");
    let live = run.up_on(&mut terminal);
    terminal.resize(91, 31);
    terminal.until("WINCH\r\n");
    terminal.press("go\r");
    terminal.until("91 31\r\n");
    live.finish().exited(0);
}

#[test]
fn a_recording_for_players_has_the_size_and_its_changes() {
    let folder = scratch();
    let path = folder.path().join("run.cast");
    let mut terminal = Terminal::of_size(70, 20);
    let run = runcast("--pty --record").arg(&path).puppet("trap:WINCH:3 say:up sleep");
    let live = run.up_on(&mut terminal);
    terminal.resize(90, 30);
    live.finish().exited(3);
    let recorded = std::fs::read_to_string(&path).expect("it was written");
    let mut lines = recorded
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("every line is JSON"));
    let header = lines.next().expect("there is a header");
    assert_eq!((&header["width"], &header["height"]), (&70.into(), &20.into()));
    let events: Vec<_> = lines.map(|event| (event[1].clone(), event[2].clone())).collect();
    let event = |kind: &str, data: &str| (kind.into(), data.into());
    assert_eq!(events, [event("o", "up\r\n"), event("r", "90x30"), event("o", "WINCH\r\n")]);
}

#[test]
fn what_runcast_reads_is_typed_and_its_end_is_the_end_as_often_as_it_is_looked_for() {
    let cats = "cat say:end cat say:again";
    for (input, seen) in [("one\ntwo\n", "one\ntwo\n"), ("unfinished", "unfinished"), ("", "")] {
        let ran = runcast("--pty -t 20").puppet(cats).input(input).run().exited(0);
        assert_eq!(ran.out(), format!("{seen}end\nagain\n"), "{input:?}");
    }
}

#[test]
fn a_command_that_reads_key_by_key_is_told_the_end_too() {
    let steps = "raw read-line say:end";
    let ran = runcast("--pty -t 20").puppet(steps).input("key\n").run().exited(0);
    assert_eq!(ran.out(), "read key\nend\n");
    let Some(bash) = tool("bash") else { return };
    let words = [bash.as_os_str(), "--norc".as_ref(), "-i".as_ref()];
    let run = runcast("--pty -t 20").command(words).input("echo sum:$((40+2))\n");
    assert!(run.run().exited(0).out().contains("sum:42"));
}

#[test]
fn standard_input_is_chosen_as_without() {
    let folder = scratch();
    let path = folder.path().join("input");
    std::fs::write(&path, "of the file\n").expect("the scratch folder is ours");
    let run = runcast("--pty --stdin").arg(&path).puppet("cat").input("not this\n");
    assert_eq!(run.run().exited(0).out(), "of the file\n");
    let run = runcast("--pty --stdin null").puppet("cat say:end").input("not this\n");
    assert_eq!(run.run().exited(0).out(), "end\n");
}

#[test]
fn long_input_arrives_whole() {
    let lines: String = (0..50_000).map(|i| format!("{i:07} some text on the line\n")).collect();
    assert_eq!(lines.len(), 50_000 * LINE_BYTES);
    let ran = runcast("--pty -t 60").puppet("cat").input(lines.clone()).run().exited(0);
    assert!(ran.out() == lines, "{} bytes of {}", ran.stdout.len(), lines.len());
}

#[test]
fn a_line_that_a_terminal_cannot_take_is_refused_and_never_cut() {
    let line = |bytes: usize| "x".repeat(bytes) + "\n";
    let fits = format!("first\n{}last\n", line(4095));
    assert_eq!(runcast("--pty -t 20").puppet("cat").input(fits.clone()).run().out(), fits);
    let ran = ndjson("--pty -t 20").puppet("cat").input(format!("first\n{}", line(4096))).run();
    assert_eq!(ran.code(), Some(125));
    assert_eq!(ran.result()["error"]["code"], "file_failed");
    ran.said_one_line("--pty standard input: line 2 is longer than the 4095 bytes");
    ran.left_nothing();
    // Key by key there are no lines.
    let keys = runcast("--pty -t 20").puppet("raw read-line").input(line(20_000)).run();
    assert_eq!(keys.exited(0).stdout.len(), "read \n".len() + 20_000);
}

#[test]
fn the_output_is_read_to_the_last_byte() {
    for pty in ["--pty", "--pty=split"] {
        for _ in 0..50 {
            let ran = runcast(&format!("{pty} -t 20")).puppet("lines:stdout:3000").run().exited(0);
            assert_eq!(ran.stdout.len(), 3000 * LINE_BYTES, "{pty}");
        }
    }
}

#[test]
fn a_command_that_closes_its_streams_and_opens_the_terminal_again_is_heard() {
    let steps = "close:0 close:1 close:2 sleep:200 open:/dev/tty:1 say:again exit:3";
    assert_eq!(runcast("--pty -t 20").puppet(steps).run().exited(3).out(), "again\n");
}

#[test]
fn one_that_is_left_behind_on_the_terminal_does_not_hold_the_run_up() {
    let steps = "ignore:HUP fork { sleep } say:up exit:3";
    for pty in ["--pty", "--pty=split"] {
        let ran = ndjson(&format!("{pty} -t 20")).puppet(steps).run().exited(3);
        assert_eq!(ran.result()["leaked"], true, "{pty}");
        assert_eq!(ran.result()["leftover"].as_array().map(Vec::len), Some(1), "{ran}");
    }
}

#[test]
fn keys_and_their_echo_pass_and_every_mode_is_put_back() {
    let mut terminal = Terminal::new();
    let before = terminal.modes();
    let live = runcast("--pty").puppet("say:up read-line exit:3").up_in_a_script_on(&mut terminal);
    assert!(terminal.modes() != before);
    terminal.press("hello\r");
    terminal.until("hello\r\nread hello\r\n");
    live.finish().exited(3);
    assert_eq!(terminal.modes(), before);
    let ran = runcast("--pty").command(["/no/such/command"]).on_in_a_script(&terminal).run();
    assert_eq!(terminal.modes(), before);
    ran.exited(127);
}

/// A run whose runcast, on a terminal that it changed, was sent this signal and put every mode back.
#[track_caller]
fn signalled_on_a_raw_terminal(kind: Signal) -> Ran {
    let mut terminal = Terminal::new();
    let before = terminal.modes();
    let live = runcast("--pty").puppet("say:up sleep").up_in_a_script_on(&mut terminal);
    assert!(terminal.modes() != before);
    send_signal(live.child_pid(), kind);
    let ran = live.finish().exited(128 + kind as i32);
    assert_eq!(terminal.modes(), before, "{kind}");
    ran
}

#[test]
fn they_are_put_back_after_every_signal_that_ends_the_run() {
    for kind in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGALRM, Signal::SIGUSR1]
    {
        signalled_on_a_raw_terminal(kind);
    }
}

#[test]
fn they_are_put_back_where_a_signal_ends_runcast_itself() {
    let ran = signalled_on_a_raw_terminal(Signal::SIGVTALRM);
    wait_until("the command's end", || ran.left().is_empty());
}

#[test]
fn ctrl_c_is_a_key() {
    let mut terminal = Terminal::new();
    let live = runcast("--pty").puppet("trap:INT:7 say:up sleep").up_in_a_script_on(&mut terminal);
    terminal.press(CTRL_C);
    terminal.until("INT\r\n");
    live.finish().exited(7);
}

#[test]
fn runcasts_own_lines_begin_at_the_left_of_a_raw_terminal() {
    let mut terminal = Terminal::new();
    runcast("--pty -t 0.3").puppet("print:stdout:part sleep").on(&terminal).run().exited(124);
    let shown = terminal.rest();
    assert!(shown.starts_with("part\r\nruncast: run stopped: "), "{shown:?}");
    assert!(shown.ends_with("\r\n") && !shown.contains("\r\r"), "{shown:?}");
}

#[test]
fn where_output_goes_elsewhere_a_raw_terminal_still_shows_lines_of_others_as_lines() {
    let mut terminal = Terminal::new();
    let before = terminal.modes();
    let steps = format!("setsid open:{}:0 dup:0:2", terminal.path());
    let mut live = runcast("--pty").puppet("say:up read-line").launched(&steps).start();
    assert_eq!(live.line(), "up");
    let during = terminal.modes();
    assert_eq!(during.output_flags, before.output_flags);
    assert!(during.local_flags != before.local_flags);
    terminal.press("x\r");
    // Typed by hand, so what is typed is shown, and there by the command's terminal.
    assert_eq!([live.line(), live.line()], ["x", "read x"]);
    live.finish().exited(0);
    assert_eq!(terminal.rest(), "");
}
