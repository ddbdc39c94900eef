//! Resource limits, memory and output: what stops a run besides time.

use std::fs;

use crate::harness::{copies_for_everyone, ndjson, root, runcast, scratch};

#[test]
fn processor_time_ends_the_command_by_xcpu_and_is_named() {
    let ran = ndjson("-r cpu=1").puppet("burn").run().exited(128 + 24);
    let result = ran.result();
    assert_eq!((result.text("limit"), result.text("signal")), ("cpu", "SIGXCPU"));
    assert_eq!((&result["timed_out"], result["stopped_by"].is_null()), (&false.into(), true));
}

#[test]
fn processor_time_is_named_also_where_the_hard_limit_killed() {
    let ran = ndjson("-r cpu=1").puppet("ignore:XCPU burn").run().exited(137);
    assert_eq!((ran.result().text("limit"), ran.result().text("signal")), ("cpu", "SIGKILL"));
    let ran = ndjson("-r cpu=1:1").puppet("burn").run().exited(137);
    assert_eq!(ran.result().text("limit"), "cpu");
}

#[test]
fn the_size_of_a_file_ends_the_command_by_xfsz_and_is_named() {
    let folder = scratch();
    let big = folder.path().join("big");
    let steps = format!("write-file:{}:1M", big.display());
    let ran = ndjson("-r fsize=64K").puppet(&steps).run().exited(128 + 25);
    assert_eq!((ran.result().text("limit"), ran.result().text("signal")), ("fsize", "SIGXFSZ"));
    assert_eq!(fs::metadata(&big).expect("it was begun").len(), 64 << 10);
}

#[test]
fn a_signal_that_no_limit_sent_names_none() {
    for signal in ["XCPU", "XFSZ", "KILL"] {
        let ran = ndjson("").puppet(&format!("raise:{signal}")).run();
        assert!(ran.result()["limit"].is_null(), "{signal}: {ran}");
    }
    let ran = ndjson("-r cpu=100").puppet("raise:KILL").run().exited(137);
    assert!(ran.result()["limit"].is_null(), "{ran}");
}

#[test]
fn the_command_sees_each_limit_as_it_was_given() {
    let all = [
        ("cpu=100", "cpu", "100 101"),
        ("cpu=100:200", "cpu", "100 200"),
        ("cpu=1m", "cpu", "60 61"),
        ("cpu=500ms", "cpu", "1 2"),
        ("as=512M", "as", "536870912 536870912"),
        ("as=512MB:1GiB", "as", "512000000 1073741824"),
        ("data=1G", "data", "1073741824 1073741824"),
        ("stack=1M", "stack", "1048576 1048576"),
        ("core=0", "core", "0 0"),
        ("fsize=10M:20M", "fsize", "10485760 20971520"),
        ("nofile=32:64", "nofile", "32 64"),
        ("nproc=500", "nproc", "500 500"),
        ("memlock=4K", "memlock", "4096 4096"),
        ("rss=1M", "rss", "1048576 1048576"),
        ("locks=7", "locks", "7 7"),
        ("sigpending=90", "sigpending", "90 90"),
        ("msgqueue=1K", "msgqueue", "1024 1024"),
        ("nice=0", "nice", "0 0"),
        ("rtprio=0", "rtprio", "0 0"),
        ("rttime=1s:2s", "rttime", "1000000 2000000"),
    ];
    for (given, name, seen) in all {
        let ran = runcast("-r").arg(given).puppet(&format!("report:limit:{name}")).run().exited(0);
        assert_eq!(ran.out(), format!("{seen}\n"), "{given}");
    }
    let joined = runcast("-r nofile=32:64,as=512M -r core=0")
        .puppet("report:limit:nofile report:limit:as report:limit:core");
    assert_eq!(joined.run().out(), "32 64\n536870912 536870912\n0 0\n");
}

#[test]
fn a_limit_may_be_lifted_as_far_as_the_hard_one() {
    let run =
        runcast("-r core=unlimited,as=1G:unlimited").puppet("report:limit:core report:limit:as");
    assert_eq!(
        run.launched("limit:core:0:unlimited").run().out(),
        "unlimited unlimited\n1073741824 unlimited\n"
    );
}

#[test]
fn limits_are_the_commands_and_runcast_does_not_suffer() {
    let folder = scratch();
    let result = folder.path().join("result");
    let run = ndjson("-r nofile=4,fsize=0,cpu=1,as=64M --result").arg(&result);
    run.puppet("lines:stdout:5000 exit:3").run().exited(3);
    assert!(fs::metadata(result).is_ok_and(|file| file.len() > 1000));
}

#[test]
fn limits_that_make_no_sense_fail_before_the_command_starts() {
    let all = [
        "nofile",
        "nofile=",
        "=1",
        "bogus=1",
        "nofile=x",
        "nofile=64:32",
        "as=10x",
        "cpu=-1",
        "nofile=1:2:3",
        "nofile=99999999999999999999999",
        "as=",
        "cpu=nan",
        ",",
        "nofile=32,,core=0",
        "nofile=1.5",
        "as=-1K",
    ];
    for text in all {
        runcast("-r").arg(text).puppet("say:started").run().refused_usage("rlimit");
    }
}

#[test]
fn a_limit_that_cannot_be_set_is_runcasts_own_failure() {
    if root().is_none() {
        return;
    }
    let folder = scratch();
    let copies = copies_for_everyone(folder.path());
    let launched = format!(
        "limit:nofile:256:256 user:65534 exec {} -f ndjson -r nofile=512 -- {} say:started",
        copies[0].display(),
        copies[1].display()
    );
    // The first runcast only carries the second, which runs without root's rights, to the harness.
    let ran = runcast("").puppet(&launched).within("/").run();
    ran.failed(125, "limit_not_set", "nofile");
    assert!(ran.of("chunk").is_empty() && ran.of("started").is_empty(), "{ran}");
}

#[test]
fn an_address_space_too_small_to_start_in_is_no_success_and_no_hang() {
    let ran = ndjson("-r as=4K").puppet("say:up").run();
    assert!(ran.code().is_some_and(|code| code >= 125), "{ran}");
    assert!(ran.of("chunk").is_empty(), "{ran}");
}

#[test]
fn resident_memory_over_the_limit_kills_the_run_at_once() {
    let ran = ndjson("--max-memory 64M")
        .puppet("trap:TERM resident:150M sleep")
        .run()
        .exited(137)
        .left_nothing();
    assert_eq!(
        (ran.result().text("stopped_by"), ran.result().text("signal")),
        ("memory", "SIGKILL")
    );
    let [stop] = ran.of("stop")[..] else { panic!("{ran}") };
    assert_eq!((stop.text("reason"), stop.text("signal")), ("memory", "SIGKILL"));
    runcast("--max-memory 64M")
        .puppet("resident:150M sleep")
        .run()
        .exited(137)
        .said_one_line("memory");
}

#[test]
fn memory_is_that_of_all_processes_together() {
    let steps = "repeat:3 { fork { setsid resident:40M sleep } } sleep";
    let ran = ndjson("--max-memory 100M").puppet(steps).run().exited(137).left_nothing();
    assert_eq!(ran.result()["stopped_by"], "memory");
}

#[test]
fn memory_that_processes_share_counts_once() {
    let ran = ndjson("--max-memory 150M")
        .puppet("shared:80M repeat:5 { fork { sleep:400 } } reap exit:3")
        .run()
        .exited(3);
    assert!(ran.result()["stopped_by"].is_null());
}

#[test]
fn memory_below_the_limit_stops_nothing() {
    runcast("--max-memory 200M").puppet("resident:50M sleep:200 exit:3").run().exited(3);
    runcast("--max-memory unlimited").puppet("resident:50M exit:3").run().exited(3);
}

#[test]
fn output_over_the_limit_stops_the_run() {
    let ran = ndjson("-q --output-limit 1M --max-output 1K")
        .puppet("flood:stdout")
        .run()
        .exited(143)
        .left_nothing();
    let result = ran.result();
    assert_eq!((result.text("stopped_by"), result.text("signal")), ("output", "SIGTERM"));
    assert!(result.number("stdout_bytes") > 1 << 20, "{ran}");
    let ran = runcast("--output-limit 1K").puppet("flood:stdout").run().exited(143);
    ran.said_one_line("output");
}

#[test]
fn the_output_limit_is_for_both_streams_together_and_must_be_passed() {
    ndjson("--output-limit 64K")
        .puppet("fill:stdout:32K:x fill:stderr:32K:x exit:3")
        .run()
        .exited(3);
    let ran = ndjson("--output-limit 64K")
        .puppet("fill:stdout:32K:x fill:stderr:32K:x print:stdout:x sleep")
        .run();
    assert_eq!(ran.exited(143).result()["stopped_by"], "output");
}

#[test]
fn more_than_the_output_limit_is_told_also_where_the_command_was_quicker() {
    for _ in 0..10 {
        let ran = ndjson("--output-limit 2").puppet("say:hi").run().exited(143).left_nothing();
        assert_eq!(ran.result()["stopped_by"], "output", "{ran}");
        runcast("--output-limit 2").puppet("say:hi").run().exited(143).said_one_line("output");
    }
}

#[test]
fn a_run_that_was_stopped_for_a_limit_never_ends_with_0() {
    let ran =
        ndjson("--output-limit 1K").puppet("trap:TERM:0 fill:stdout:2K:x sleep").run().exited(143);
    assert_eq!(
        (&ran.result()["exit_code"], &ran.result()["stopped_by"]),
        (&0.into(), &"output".into())
    );
    let ran = ndjson("--output-limit 1K -s INT")
        .puppet("trap:INT:0 fill:stdout:2K:x sleep")
        .run()
        .exited(130);
    assert_eq!(ran.result()["exit_code"], 0);
    ndjson("--output-limit 1K").puppet("trap:TERM:9 fill:stdout:2K:x sleep").run().exited(9);
}
