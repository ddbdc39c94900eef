//! Who reads the output: one that goes away, one that stalls, one that is slow.

use crate::harness::{
    Gate, alive, children, let_pass, ndjson, parent, peak_rss_bytes, pid_in, result_in, runcast,
    scratch, until_full, wait_until,
};

#[test]
fn one_that_goes_away_stops_the_run_without_a_word() {
    let folder = scratch();
    let result = folder.path().join("result");
    for format in ["text", "ndjson"] {
        let run = runcast(&format!("-f {format} -k 0.3 --result")).arg(&result);
        let mut live = run.puppet("fork { setsid ignore:TERM flood:stdout } flood:stdout").start();
        live.shows("y");
        live.close_stdout();
        let ran = live.finish().exited(141).left_nothing();
        assert_eq!(ran.err(), "", "{format}");
        let result = result_in(&result);
        assert_eq!(
            (result.text("stopped_by"), &result["status"]),
            ("disconnect", &141.into()),
            "{format}"
        );
    }
}

#[test]
fn it_is_missed_while_the_command_is_silent() {
    for format in ["text", "ndjson"] {
        let mut live = runcast(&format!("-f {format}")).puppet("say:up sleep").up();
        live.close_stdout();
        assert_eq!(live.finish().exited(141).left_nothing().err(), "", "{format}");
    }
}

#[test]
fn one_that_was_never_there_stops_the_run() {
    for steps in ["sleep", "flood:stdout"] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be had");
        drop(reader);
        runcast("").puppet(steps).stdout(writer).run().exited(141).left_nothing();
    }
}

#[test]
fn the_one_of_standard_error_counts_as_much_in_text() {
    let mut live = runcast("").puppet("flood:stderr").start();
    live.error_line();
    live.close_stderr();
    assert_eq!(live.finish().exited(141).left_nothing().out(), "");
    let mut live = runcast("").puppet("err:up sleep").start();
    live.error_line();
    live.close_stderr();
    live.finish().exited(141).left_nothing();
}

#[test]
fn with_both_gone_the_run_ends_all_the_same() {
    let mut live = runcast("-k 0.3")
        .puppet("fork { ignore:TERM flood:stderr } ignore:TERM flood:stdout")
        .start();
    live.shows("y");
    live.close_stdout();
    live.close_stderr();
    live.finish().exited(141).left_nothing();
}

#[test]
fn standard_error_does_not_matter_where_the_output_goes_elsewhere() {
    let gate = Gate::new();
    let mut live = ndjson("").puppet(&format!("say:up {gate} err:end exit:3")).up();
    live.close_stderr();
    // Long enough to be missed.
    let_pass(100);
    gate.open();
    assert_eq!(live.finish().exited(3).contents("stderr"), ["end\n"]);
}

#[test]
fn the_run_goes_on_without_it_where_that_was_asked_for() {
    let folder = scratch();
    let result = folder.path().join("result");
    for format in ["text", "ndjson"] {
        let run = runcast(&format!("-f {format} --on-disconnect continue --result")).arg(&result);
        let mut live = run.puppet("lines:stdout:100000 err:end exit:3").start();
        live.shows("0000000");
        live.close_stdout();
        live.close_stderr();
        live.finish().exited(3);
        let result = result_in(&result);
        assert_eq!((&result["exit_code"], result.text("stderr")), (&3.into(), "end\n"), "{format}");
        assert_eq!(
            (result.number("stdout_lines"), result["stopped_by"].is_null()),
            (100_000, true),
            "{format}"
        );
    }
}

#[test]
fn the_other_stream_is_still_shown_where_the_run_goes_on() {
    let mut live =
        runcast("--on-disconnect continue").puppet("say:up lines:stdout:20000 err:end exit:3").up();
    live.close_stdout();
    assert_eq!(live.finish().exited(3).err(), "end\n");
}

#[test]
fn one_that_goes_away_at_the_very_end_is_no_success_that_was_not_seen() {
    for _ in 0..10 {
        let mut live = ndjson("").puppet("say:up say:end").up();
        live.close_stdout();
        let ran = live.finish();
        // Either all of it was in the pipe before, or the loss was seen.
        assert!(matches!(ran.code(), Some(0 | 141)), "{ran}");
    }
}

#[test]
fn a_slow_one_holds_the_command_back_and_loses_nothing() {
    let live =
        ndjson("--partial-after never --max-output 1K").puppet("lines:stdout:200000").start();
    wait_until("the command", || !children(live.pid()).is_empty());
    // Long enough for the command to end, were it not held back.
    let_pass(700);
    let peak = peak_rss_bytes(live.pid());
    assert!(peak < 40 << 20, "{peak} bytes");
    assert!(!children(live.pid()).is_empty(), "the command waits, as on any pipe");
    let ran = live.finish().exited(0);
    assert_eq!(ran.contents("stdout").len(), 200_000);
}

#[test]
fn one_stream_that_nobody_reads_does_not_hold_up_the_end_of_a_stopped_run() {
    let folder = scratch();
    let result = folder.path().join("result");
    let (_unread, writer) = std::io::pipe().expect("a pipe can be had");
    let run = runcast("-t 0.5 -k 0.3 --result").arg(&result);
    let run = run.puppet("lines:stdout:100 sleep:200 flood:stderr").stderr(writer);
    let ran = run.run().exited(124).left_nothing();
    assert_eq!(ran.out().lines().count(), 100, "the other stream is whole");
    assert!(result_in(&result)["undelivered_bytes"].as_u64() > Some(0));
}

#[test]
fn a_term_ends_a_run_that_nobody_reads() {
    for format in ["text", "ndjson"] {
        let mut live =
            runcast(&format!("-f {format} -k 0.3")).puppet("ignore:TERM flood:stdout").start();
        live.until_held_up(1);
        let command = children(live.pid());
        live.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(live.ends_unread().code(), Some(137), "{format}");
        assert!(!command.into_iter().any(alive), "{format}");
    }
}

#[test]
fn a_command_that_ended_0_unseen_after_a_term_is_no_success() {
    let mut live = runcast("-k 0.3").puppet("trap:TERM:0 flood:stderr").start();
    live.until_held_up(2);
    live.signal(nix::sys::signal::Signal::SIGTERM);
    assert_ne!(live.ends_unread().code(), Some(0));
}

#[test]
fn a_result_on_standard_output_that_nobody_reads_any_more_keeps_nobody() {
    for (options, code) in [("", 141), ("--on-disconnect continue", 0)] {
        let mut live = runcast(&format!("{options} --max-output 1M --result -"))
            .puppet("say:up lines:stdout:50000")
            .up();
        live.close_stdout();
        live.finish().exited(code);
    }
}

#[test]
fn a_stream_held_by_a_silent_process_is_let_go_also_after_its_reader_was_slow() {
    // The pipe to us is full, the buffers are used up one by one, and then nothing more comes. The reader is slow enough
    // for the stream to be let go meanwhile.
    for writes in 2..7 {
        let folder = scratch();
        let pid_file = folder.path().join("pid");
        let steps = format!(
            "pattern:stdout:65536 sleep:60 repeat:{writes} {{ lines:stdout:100 sleep:60 }} fork {{ pid-file:{} sleep }}",
            pid_file.display()
        );
        let live = runcast("").puppet(&steps).start();
        wait_until("the command's end", || {
            pid_file.exists() && parent(pid_in(&pid_file)) == Some(live.pid())
        });
        let_pass(500);
        live.finish().exited(0);
    }
}

#[test]
fn a_result_is_given_to_a_reader_of_its_own_though_nobody_reads_the_output() {
    let (mut results, writer) = std::io::pipe().expect("a pipe can be had");
    let (_unread, output) = std::io::pipe().expect("a pipe can be had");
    let run = runcast("-t 0.4 -k 0.3 --max-output 1K --result /dev/stderr").puppet("flood:stdout");
    run.stdout(output).stderr(writer).run().exited(124);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut results, &mut text).expect("it is a text");
    assert!(text.contains("\"op\":\"result\"") && text.ends_with("}\n"), "{text}");
}

#[test]
fn one_that_goes_away_after_a_timeout_does_not_change_why_the_run_was_stopped() {
    let mut live = ndjson("-t 0.3 -k 5").puppet("trap:TERM:0 say:up sleep").start();
    live.event_of("stop");
    live.close_stdout();
    live.finish().exited(124);
}

#[test]
fn an_int_that_ended_the_command_gives_a_reader_that_stalls_only_so_long() {
    for format in ["text", "ndjson"] {
        let options = format!("-f {format} -k 0.3");
        let folder = scratch();
        let written = folder.path().join("written");
        let steps = format!("pattern:stdout:74000 touch:{} sleep", written.display());
        let mut live = runcast(&options).puppet(&steps).start();
        wait_until("all its output", || written.exists());
        // That is more than the pipe to us holds.
        until_full(live.pid(), 1);
        live.signal(nix::sys::signal::Signal::SIGINT);
        assert_eq!(live.ends_unread().code(), Some(130), "{format}");
    }
}

#[test]
fn a_result_that_its_reader_does_not_take_is_told_of_on_standard_output_too() {
    let ran = ndjson("--result /dev/full").puppet("say:up").run().exited(125);
    assert_eq!(ran.result()["error"]["code"], "output_failed");
}
