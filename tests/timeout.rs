//! Timeouts and how a run is stopped: every process of it, whatever it does and whoever reads.

use nix::sys::signal::Signal;

use crate::harness::{
    Gate, PUPPET, RUNCAST, Ran, alive, let_pass, ndjson, result_in, runcast, scratch, send_signal,
    until_continued, until_stopped, wait_until,
};

/// The reason and signal of each `stop` event.
fn stops(ran: &Ran) -> Vec<(&str, &str)> {
    ran.of("stop").into_iter().map(|stop| (stop.text("reason"), stop.text("signal"))).collect()
}

#[test]
fn a_timeout_stops_the_run_and_the_result_says_so() {
    let ran = ndjson("-t 0.3").puppet("say:before sleep").run().exited(124).left_nothing();
    let result = ran.result();
    assert_eq!((&result["stopped_by"], &result["timed_out"]), (&"timeout".into(), &true.into()));
    assert_eq!((&result["signal"], result["exit_code"].is_null()), (&"SIGTERM".into(), true));
    assert_eq!((ran.contents("stdout"), result.text("stdout")), (vec!["before\n"], "before\n"));
    assert_eq!(stops(&ran), [("timeout", "SIGTERM")]);
}

#[test]
fn one_that_ends_in_time_is_not_timed_out() {
    let ran = ndjson("-t 20 --idle-timeout 20").puppet("exit:3").run().exited(3);
    assert_eq!(
        (&ran.result()["timed_out"], ran.result()["stopped_by"].is_null()),
        (&false.into(), true)
    );
}

#[test]
fn text_tells_in_one_line_that_and_why_it_stopped_unless_quiet() {
    let ran = runcast("-t 0.2").puppet("sleep").run().exited(124);
    assert!(ran.err().contains("timeout"), "{ran}");
    ran.said_one_line("--timeout");
    let ran = runcast("-t 0.2 -k 0.2").puppet("ignore:TERM say:x sleep").run().exited(124);
    ran.said_one_line("");
    let ran = runcast("--idle-timeout 0.2").puppet("sleep").run().exited(124);
    ran.said_one_line("idle");
    assert_eq!(runcast("-q -t 0.2").puppet("sleep").run().exited(124).err(), "");
}

#[test]
fn a_command_that_ignores_the_signal_is_killed_after_the_grace() {
    let ran =
        ndjson("-t 0.5 -k 0.3").puppet("ignore:TERM say:up sleep").run().exited(124).left_nothing();
    assert_eq!(ran.result()["signal"], "SIGKILL");
    assert_eq!(stops(&ran), [("timeout", "SIGTERM"), ("timeout", "SIGKILL")]);
}

#[test]
fn the_commands_own_status_after_the_signal_still_means_timed_out() {
    for code in [0, 7] {
        let ran = ndjson("-t 0.5").puppet(&format!("trap:TERM:{code} sleep")).run().exited(124);
        assert_eq!(
            (&ran.result()["exit_code"], &ran.result()["timed_out"]),
            (&code.into(), &true.into())
        );
    }
}

#[test]
fn what_it_writes_during_the_grace_is_shown_and_kept() {
    // The helper ends by the signal, and that is what the command waits for.
    let steps = "trap:TERM fork { default:TERM sleep } reap fill:stdout:200K:z say:end exit:5";
    let ran = ndjson("-t 0.5 -k 20").puppet(steps).run().exited(124);
    assert_eq!(ran.result()["exit_code"], 5);
    let out = ran.bytes("stdout");
    assert!(out.starts_with(b"TERM\n") && out.ends_with(b"zend\n"), "{ran}");
    assert_eq!(ran.result().number("stdout_bytes"), out.len() as u64);
}

#[test]
fn kill_after_0_kills_at_once_without_the_first_signal() {
    let ran = ndjson("-t 0.3 -k 0").puppet("trap:TERM sleep").run().exited(124).left_nothing();
    assert_eq!((stops(&ran), ran.bytes("stdout")), (vec![("timeout", "SIGKILL")], Vec::new()));
}

#[test]
fn the_first_signal_is_the_one_asked_for_by_any_name() {
    for name in ["INT", "SIGINT", "int", "sigint", "2"] {
        let ran = ndjson("-t 0.2 -s").arg(name).puppet("sleep").run().exited(124);
        assert_eq!(
            (&ran.result()["signal"], stops(&ran)),
            (&"SIGINT".into(), vec![("timeout", "SIGINT")]),
            "{name}"
        );
    }
    let ran = ndjson("-t 0.2 --signal KILL").puppet("sleep").run().exited(124);
    assert_eq!(stops(&ran), [("timeout", "SIGKILL")]);
    let ran = ndjson("-t 0.5 --signal USR1")
        .puppet("fork { trap:USR1:0 sleep } trap:USR1 reap exit:4")
        .run()
        .exited(124);
    assert_eq!(ran.bytes("stdout"), b"USR1\nUSR1\n", "every process of the run gets it: {ran}");
}

#[test]
fn every_process_of_the_run_is_stopped() {
    let cases = [
        ("a child in the group", "fork { sleep }"),
        ("one in a group of its own", "fork { setpgid sleep }"),
        ("one in a session of its own", "fork { setsid sleep }"),
        ("a daemon forked twice", "fork { setsid fork { sleep } }"),
        ("a daemon without our streams", "fork { setsid fork { close:0 close:1 close:2 sleep } }"),
        ("one that ignores the signal", "fork { ignore:TERM setsid sleep }"),
        ("one that blocks it", "fork { block:TERM sleep }"),
        ("many", "repeat:30 { fork { setsid fork { ignore:TERM sleep } } }"),
    ];
    for (who, steps) in cases {
        let ran =
            ndjson("-t 0.5 -k 0.3").puppet(&format!("{steps} say:up sleep")).run().exited(124);
        assert_eq!((ran.left(), ran.contents("stdout")), (vec![], vec!["up\n"]), "{who}");
    }
}

#[test]
fn survivors_are_killed_though_the_command_itself_went_at_once() {
    let ran = ndjson("-t 0.5 -k 0.3")
        .puppet("fork { ignore:TERM setsid sleep } say:up sleep")
        .run()
        .exited(124)
        .left_nothing();
    assert_eq!(ran.result()["signal"], "SIGTERM");
    assert_eq!(stops(&ran), [("timeout", "SIGTERM"), ("timeout", "SIGKILL")]);
    assert_eq!(ran.result()["leaked"], false);
}

#[test]
fn a_child_that_the_command_makes_on_the_signal_is_killed_too() {
    // The helper ends by the signal, and that is what the command waits for.
    let steps =
        "ignore:TERM fork { default:TERM sleep } reap repeat:20 { fork { setsid sleep } } sleep";
    ndjson("-t 0.5 -k 0.3").puppet(steps).run().exited(124).left_nothing();
}

#[test]
fn a_process_that_keeps_forking_itself_away_is_caught() {
    ndjson("-t 0.4 -k 0.2")
        .puppet("fork { ignore:TERM hop:600:3 } sleep")
        .run()
        .exited(124)
        .left_nothing();
}

#[test]
fn a_stopped_process_gets_to_handle_the_signal() {
    let ran =
        ndjson("-t 0.5 -k 20").puppet("trap:TERM:6 say:up raise:STOP sleep").run().exited(124);
    assert_eq!(
        (ran.result()["exit_code"].as_u64(), ran.bytes("stdout")),
        (Some(6), b"up\nTERM\n".to_vec())
    );
    let steps = "fork { setsid trap:TERM:0 say:up raise:STOP sleep } ignore:TERM reap exit:3";
    let ran = ndjson("-t 0.5 -k 20").puppet(steps).run().exited(124);
    assert_eq!(ran.result()["exit_code"], 3, "a descendant is continued too");
}

#[test]
fn the_kill_works_while_nobody_reads() {
    let folder = scratch();
    let result = folder.path().join("result");
    for format in ["text", "ndjson"] {
        let run = runcast(&format!("-f {format} -t 0.5 -k 0.3 --result")).arg(&result);
        let mut live =
            run.puppet("fork { ignore:TERM flood:stderr } ignore:TERM flood:stdout").start();
        assert_eq!(live.ends_unread().code(), Some(124), "{format}");
        assert!(live.processes().is_empty(), "{format}");
        let result = result_in(&result);
        assert_eq!(result["stopped_by"], "timeout");
        assert!(
            result["undelivered_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
            "{format}: {result}"
        );
    }
}

#[test]
fn a_reader_that_comes_back_within_kill_after_gets_everything() {
    let mut live = ndjson("-t 0.3 -k 20").puppet("lines:stdout:5000 sleep").start();
    let command = live.event()["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok())
        .expect("started tells the pid");
    wait_until("the end of the command", || !alive(command));
    let ran = live.finish().exited(124);
    assert!(ran.result()["undelivered_bytes"].is_null());
    assert_eq!(ran.bytes("stdout").len() as u64, ran.result().number("stdout_bytes"));
}

#[test]
fn one_that_ended_by_itself_is_not_timed_out_however_late_it_is_read() {
    for format in ["text", "ndjson"] {
        let live = runcast(&format!("-f {format} -t 0.4 --idle-timeout 0.4"))
            .puppet("fill:stdout:90K:abc\\n exit:3")
            .start();
        // Longer than both timeouts.
        let_pass(900);
        let ran = live.finish().exited(3);
        if format == "text" {
            assert_eq!(ran.stdout.len(), 90 << 10);
        } else {
            assert_eq!(ran.result()["timed_out"], false);
        }
    }
}

#[test]
fn the_idle_clock_starts_again_with_every_byte_of_either_stream() {
    let steps = "repeat:4 { sleep:250 print:stdout:o sleep:250 print:stderr:e } sleep";
    let ran = ndjson("--idle-timeout 1").puppet(steps).run().exited(124).left_nothing();
    assert_eq!(
        (&ran.result()["stopped_by"], &ran.result()["timed_out"]),
        (&"idle_timeout".into(), &true.into())
    );
    assert_eq!((ran.result().text("stdout"), ran.result().text("stderr")), ("oooo", "eeee"));
    assert_eq!(stops(&ran), [("idle_timeout", "SIGTERM")]);
}

#[test]
fn the_idle_clock_rests_while_nobody_reads() {
    let mut live = ndjson("--idle-timeout 0.3").puppet("lines:stdout:100000 exit:3").start();
    // Several times as long as it may be idle.
    let_pass(1200);
    assert!(live.ended().is_none());
    let ran = live.finish().exited(3);
    assert_eq!(ran.of("chunk").iter().filter(|chunk| chunk["partial"].is_null()).count(), 100_000);
}

#[test]
fn of_two_limits_the_one_that_acted_first_is_the_reason() {
    let ran =
        ndjson("-t 0.3 --idle-timeout 0.6 -k 0.6").puppet("ignore:TERM sleep").run().exited(124);
    assert_eq!(ran.result()["stopped_by"], "timeout");
    let ran =
        ndjson("-t 0.6 --idle-timeout 0.3 -k 0.6").puppet("ignore:TERM sleep").run().exited(124);
    assert_eq!(ran.result()["stopped_by"], "idle_timeout");
}

#[test]
fn the_timeout_covers_the_waiting_for_survivors() {
    for steps in ["fork { sleep } exit:3", "fork { setsid close:0 close:1 close:2 sleep } exit:3"] {
        let ran = ndjson("-t 0.5 --leftover wait").puppet(steps).run().exited(124).left_nothing();
        assert_eq!(
            (&ran.result()["exit_code"], &ran.result()["stopped_by"]),
            (&3.into(), &"timeout".into())
        );
    }
}

#[test]
fn the_clock_rests_while_the_run_is_stopped_by_job_control() {
    let gate = Gate::new();
    let mut live =
        ndjson("-t 2").puppet(&format!("say:up {gate} exit:3")).started_as_a_job().start();
    live.event_of("chunk");
    let own = live.child_pid();
    send_signal(own, Signal::SIGTSTP);
    until_stopped(own);
    // Longer than the timeout.
    let_pass(2500);
    send_signal(own, Signal::SIGCONT);
    until_continued(own);
    // Long enough to be stopped for that, if it was counted.
    let_pass(200);
    gate.open();
    live.finish().exited(3);
}

#[test]
fn a_run_inside_a_run_is_stopped_with_it() {
    let inner = format!("fork {{ sleep }} exec {} -t 30 -- {} trap:TERM sleep", RUNCAST, PUPPET);
    let ran = ndjson("-t 0.7 -k 0.5").puppet(&inner).run().exited(124).left_nothing();
    assert_eq!(ran.result()["timed_out"], true);
}

#[test]
fn durations_are_what_people_write() {
    let never = [
        "20",
        "20.5",
        "2e1",
        "20s",
        "1m",
        "1h30m",
        "1d",
        "20000ms",
        "0",
        "0s",
        "1e300",
        "99999999999999999999",
        "2.34e5d",
        "99999999999999999999d",
        "1d12h30m15s500ms",
    ];
    for text in never {
        assert_eq!(runcast("-t").arg(text).puppet("exit:0").run().code(), Some(0), "{text}");
        assert_eq!(
            runcast("--idle-timeout").arg(text).puppet("exit:0").run().code(),
            Some(0),
            "{text}"
        );
    }
    for text in ["1e-300", "1e-400", "0.000000001", "1ms", "0.5ms", "0.0001s"] {
        assert_eq!(runcast("-t").arg(text).puppet("sleep").run().code(), Some(124), "{text}");
    }
}

#[test]
fn no_timeout_is_what_0_means() {
    runcast("-t 0 --idle-timeout 0").puppet("sleep:300 exit:3").run().exited(3);
}

#[test]
fn durations_that_make_no_sense_are_usage_errors() {
    for option in ["--timeout", "--idle-timeout", "--kill-after", "--drain"] {
        for text in [
            "", "-1", "-1s", "abc", "nan", "inf", "infinity", "-inf", "10x", "1h-30m", "s",
            "5 m x", "1,5", "\u{661}s",
        ] {
            let run = runcast("").arg(format!("{option}={text}")).puppet("say:started");
            run.run().refused_usage(option);
        }
    }
}

#[test]
fn a_tiny_timeout_stops_the_run_as_any_other() {
    for _ in 0..20 {
        let ran =
            ndjson("-t 1ms").puppet("fork { setsid sleep } sleep").run().exited(124).left_nothing();
        assert_eq!(ran.result()["stopped_by"], "timeout");
    }
}
