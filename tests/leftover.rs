//! What the command leaves behind: streams that are still held, and processes that go on.

use std::fs;
use std::process::Stdio;

use crate::harness::{
    Gate, alive, children, let_pass, ndjson, result_in, runcast, scratch, state, wait_until,
};

#[test]
fn a_background_server_does_not_hold_the_run_up() {
    let ran = ndjson("").puppet("fork { report:pid sleep } sleep:50 exit:3").run().exited(3);
    let server = ran.contents("stdout")[0].trim().parse().expect("it told its pid");
    assert_eq!(ran.result()["leaked"], true);
    assert_eq!(ran.result()["leftover"], serde_json::json!([server]));
    assert!(alive(server), "it is left alone");
    let [exited] = ran.of("exited")[..] else { panic!("{ran}") };
    assert_eq!((&exited["exit_code"], exited["signal"].is_null()), (&3.into(), true));
    let ran = ndjson("").puppet("fork { sleep } raise:USR1").run().exited(138);
    let [exited] = ran.of("exited")[..] else { panic!("{ran}") };
    assert_eq!((exited["exit_code"].is_null(), exited.text("signal")), (true, "SIGUSR1"));
}

#[test]
fn without_survivors_nothing_is_leaked_and_no_exited_comes() {
    let ran = ndjson("").puppet("fork { say:a } reap say:b").run().exited(0).left_nothing();
    assert_eq!(ran.result()["leaked"], false);
    assert!(ran.result()["leftover"].is_null() && ran.of("exited").is_empty(), "{ran}");
}

#[test]
fn a_survivor_without_our_streams_is_no_leak_and_does_not_delay_the_end() {
    let ran = ndjson("--drain 20")
        .puppet("fork { setsid close:0 close:1 close:2 sleep } sleep:200 exit:3")
        .run()
        .exited(3);
    assert_eq!((&ran.result()["leaked"], ran.of("exited").len()), (&false.into(), 0));
    assert_eq!(ran.left().len(), 1);
}

#[test]
fn what_the_pipes_hold_is_always_read() {
    for drain in ["--drain 0", "--drain 0.1", ""] {
        let ran = ndjson(drain)
            .puppet("fork { sleep } fill:stdout:60000:x say:end err:reason exit:1")
            .run()
            .exited(1);
        assert_eq!(ran.result().number("stdout_bytes"), 60004, "{drain}");
        assert_eq!(ran.result().text("stderr"), "reason\n", "{drain}");
    }
}

#[test]
fn the_tail_written_just_before_the_end_is_there() {
    for _ in 0..30 {
        let ran = ndjson("")
            .puppet("fill:stdout:60000:x print:stderr:the\\sreason exit:1")
            .run()
            .exited(1);
        assert_eq!(ran.result().number("stdout_bytes"), 60000);
        assert_eq!(
            (ran.result().text("stderr"), &ran.result()["leaked"]),
            ("the reason", &false.into())
        );
    }
}

#[test]
fn the_duration_is_the_commands_without_the_drain() {
    let ran = ndjson("--drain 1").puppet("fork { sleep } exit:3").run().exited(3);
    assert!(ran.result()["duration"].as_f64() < Some(0.9), "{ran}");
}

#[test]
fn what_survivors_write_within_the_drain_is_shown() {
    let ran = ndjson("--drain 20")
        .puppet("fork { sleep:300 say:late } exit:3")
        .run()
        .exited(3)
        .left_nothing();
    assert_eq!((ran.contents("stdout"), &ran.result()["leaked"]), (vec!["late\n"], &false.into()));
    assert_eq!(
        ran.events().iter().map(|event| event.text("op")).collect::<Vec<_>>(),
        ["started", "exited", "chunk", "result"]
    );
}

#[test]
fn a_survivor_that_goes_on_writing_does_not_renew_the_drain() {
    let folder = scratch();
    let result = folder.path().join("result");
    for steps in ["fork { forever { say:tick sleep:10 } } exit:3", "fork { flood:stdout } exit:3"] {
        let run = runcast("--drain 0.3 --max-output 1K --result").arg(&result).puppet(steps);
        run.stdout(Stdio::null()).run().exited(3);
        assert_eq!(result_in(&result)["leaked"], true);
    }
}

#[test]
fn a_survivor_that_is_left_can_go_on_writing() {
    let (gate, folder) = (Gate::new(), scratch());
    let done = folder.path().join("done");
    let steps = format!(
        "fork {{ setsid {gate} fill:stdout:1M:x fill:stderr:1M:x touch:{} }} exit:3",
        done.display()
    );
    let ran = runcast("").puppet(&steps).run().exited(3);
    gate.open();
    wait_until("the survivor's last write", || done.exists());
    wait_until("the end of all that the run left", || ran.left().is_empty());
}

#[test]
fn the_helper_that_empties_the_pipes_holds_nothing_else_and_is_not_listed() {
    let folder = scratch();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).expect("the scratch folder is ours");
    // An extra descriptor of the launcher's, whose end `finish` would wait for if the helper held it.
    let run =
        ndjson("").puppet("fork { close:7 report:pid sleep } sleep:50 exit:3").launched("dup:1:7");
    let ran = run.within(&inside).run().exited(3);
    let server: i32 = ran.contents("stdout")[0].trim().parse().expect("it told its pid");
    assert_eq!(ran.result()["leftover"], serde_json::json!([server]));
    for pid in ran.left().into_iter().filter(|&pid| pid != server) {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).expect("the helper is there");
        assert_eq!(cwd, std::path::Path::new("/"), "it keeps no folder busy");
    }
}

#[test]
fn leftover_kill_stops_survivors_as_a_timeout_would() {
    let cases = [
        "fork { sleep }",
        "fork { setsid close:0 close:1 close:2 sleep }",
        "fork { setsid fork { ignore:TERM sleep } }",
        "fork { raise:STOP }",
    ];
    for steps in cases {
        let ran = ndjson("--leftover kill -k 0.3")
            .puppet(&format!("{steps} sleep:50 exit:3"))
            .run()
            .exited(3)
            .left_nothing();
        assert!(
            ran.result()["stopped_by"].is_null() && ran.result()["leftover"].is_null(),
            "{steps}: {ran}"
        );
    }
    let ran = ndjson("--leftover kill -k 20")
        .puppet("fork { trap:TERM:0 sleep } sleep:50 exit:3")
        .run()
        .exited(3)
        .left_nothing();
    assert_eq!(ran.bytes("stdout"), b"TERM\n", "what they write while they are stopped is shown");
}

#[test]
fn leftover_wait_waits_for_all_of_them() {
    let folder = scratch();
    let done = folder.path().join("done");
    let run = ndjson("--leftover wait").puppet("fork { sleep:500 say:late } exit:3");
    let ran = run.run().exited(3).left_nothing();
    assert_eq!((ran.contents("stdout"), &ran.result()["leaked"]), (vec!["late\n"], &false.into()));
    let steps = format!(
        "fork {{ setsid close:0 close:1 close:2 sleep:400 touch:{} }} exit:3",
        done.display()
    );
    runcast("--leftover wait").puppet(&steps).run().exited(3).left_nothing();
    assert!(done.exists());
    let ran = ndjson("--leftover wait")
        .puppet("fork { setsid fork { sleep:300 fork { sleep:200 say:later } } } exit:3")
        .run();
    assert_eq!(ran.exited(3).left_nothing().contents("stdout"), ["later\n"]);
}

#[test]
fn a_command_that_only_closes_its_streams_is_waited_for() {
    let gate = Gate::new();
    let mut live = ndjson("").puppet(&format!("say:x close:1 close:2 {gate} exit:7")).start();
    live.shows("x\\n");
    // Long enough to take the end of its streams for its own.
    let_pass(400);
    assert!(live.ended().is_none());
    gate.open();
    let ran = live.finish().exited(7);
    assert_eq!(
        (&ran.result()["leaked"], ran.result()["duration"].as_f64() > Some(0.3)),
        (&false.into(), true)
    );
}

#[test]
fn a_timeout_still_works_on_a_command_that_closed_its_streams() {
    let ran = ndjson("-t 0.3").puppet("close:1 close:2 sleep").run().exited(124).left_nothing();
    assert_eq!(ran.result()["timed_out"], true);
}

#[test]
fn orphans_are_reaped_while_the_run_goes_on() {
    let mut live = runcast("")
        .puppet("repeat:20 { fork { fork { setsid sleep:30 } } } reap say:up sleep")
        .start();
    assert_eq!(live.line(), "up");
    let runcast = live.pid();
    wait_until("the end of every orphan", || children(runcast).len() == 1);
    assert!(children(runcast).iter().all(|&pid| state(pid) != Some('Z')));
}

#[test]
fn a_descendant_that_took_over_the_name_of_the_run_is_seen() {
    let ran = ndjson("").puppet("hop:3:5 say:daemon sleep").run();
    assert_eq!(ran.code(), Some(0));
    assert!(
        ran.left().len() <= 2 && !ran.left().is_empty(),
        "the last of the chain goes on: {ran}"
    );
}
