//! What is no broken connection is told at once, and only what is one is tried again.

use super::Machine;
use crate::harness::{Gate, runcast, script};

/// What ssh says, and what of it is told.
const PERMANENT: [(&str, &str); 7] = [
    ("Host key verification failed.", "Host key verification failed."),
    ("Warning: x\\nme@box: Permission denied (publickey).", "Permission denied"),
    (
        "ssh: Could not resolve hostname box: Name or service not known",
        "Could not resolve hostname",
    ),
    ("ssh: connect to host box port 22: Connection refused", "Connection refused"),
    ("ssh: connect to host box port 22: No route to host", "No route to host"),
    ("/root/.ssh/config: line 1: Bad configuration option: x", "Bad configuration option"),
    ("Cannot execute command-line and remote command.", "Cannot execute"),
];

#[test]
fn a_failure_of_sshs_own_is_told_at_once_in_one_line() {
    let Some(machine) = Machine::new() else { return };
    for (count, (said, told)) in PERMANENT.into_iter().enumerate() {
        machine.plan(&[format!("fail 255 {said}")]);
        let ran = machine.ndjson("").puppet("say:x").run();
        ran.failed(125, "remote_failed", told);
        assert!(ran.err().starts_with("runcast: --host me@box: "), "{ran}");
        machine.plan(&[format!("fail 255 {said}")]);
        let ran = machine.run("").puppet("say:x").run();
        ran.refused(told);
        machine.plan(&[format!("fail 255 {said}")]);
        let asked = machine.ask("runs", "").run();
        asked.refused(told);
        assert_eq!(machine.connections(), 3 * (count + 1), "it was tried again");
    }
    assert_eq!(machine.folders(), [""; 0]);
}

#[test]
fn a_connection_that_did_not_come_to_be_for_now_is_tried_again() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&[
        "fail 255 kex_exchange_identification: Connection closed by remote host",
        "fail 255",
        "fail 255 Connection reset by 192.0.2.1 port 22",
    ]);
    let ran = machine.run("").puppet("say:x").run().exited(0);
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("x\n", ""));
    assert_eq!((machine.plans(), machine.connections()), (0, 4));
}

#[test]
fn one_that_never_comes_to_be_is_told_with_the_last_that_was_heard() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["fail 255 kex_exchange_identification: read: x"; 50]);
    let ran = machine.ndjson("--retry-timeout 0.5 --id far").puppet("say:x").run();
    ran.failed(125, "disconnected", "kex_exchange_identification: read: x");
    assert!(ran.err().contains("the run far was not started there"), "{ran}");
}

#[test]
fn an_end_that_is_no_other_end_of_this_version_is_told() {
    let Some(machine) = Machine::new() else { return };
    let there = machine.path("bin/runcast");
    let replaced = |content: &str| {
        std::fs::remove_file(&there).expect("it was there");
        script(&there, content.as_bytes());
        machine.ndjson("").puppet("say:x").run()
    };
    let old =
        "#!/bin/sh\necho \"runcast: unexpected argument '--remote-end' found\" >&2\nexit 125\n";
    replaced(old).failed(125, "remote_failed", "the runcast there is too old for this");
    let newer = "#!/bin/sh\necho runcast-remote-end 2\nread line\n";
    replaced(newer).failed(125, "remote_failed", "another version, 2");
    let nothing = "#!/bin/sh\necho 'This account is currently not available.'\nexit 1\n";
    replaced(nothing).failed(125, "remote_failed", "This account is currently not available.");
    std::fs::remove_file(&there).expect("it was there");
    std::fs::write(&there, "x").expect("the folder is ours");
    let ran = machine.ndjson("--remote-runcast").arg(&there).puppet("say:x").run();
    ran.failed(125, "remote_failed", "cannot be executed");
    machine.set("noise", "x".repeat(3 << 20));
    let ran = machine.ndjson("").puppet("say:x").run();
    ran.failed(125, "remote_failed", "prints without end");
    assert_eq!(machine.connections(), 5, "it was tried again");
}

#[test]
fn an_ssh_that_is_not_there_or_not_to_be_understood_is_told() {
    for (value, told) in [
        ("/no/such/ssh -v", "/no/such/ssh: No such file or directory"),
        ("ssh 'x", "RUNCAST_SSH ssh 'x: a quote is missing"),
        ("'' x", "its first word is empty"),
        ("  ", "it holds no word"),
    ] {
        let run = || runcast("--host box").env("RUNCAST_SSH", value);
        run().puppet("say:x").run().refused(told);
        run().arg("-fndjson").puppet("say:x").run().failed(125, "remote_failed", told);
    }
    let ran = runcast("--host box -f ndjson").env("PATH", "/no/such").puppet("say:x").run();
    ran.failed(125, "remote_failed", "ssh: No such file or directory");
}

#[test]
fn a_name_that_ssh_would_take_for_an_option_is_refused() {
    for name in ["-oProxyCommand=x", "-", "", "a b"] {
        let ran = runcast("").arg(format!("--host={name}")).puppet("say:x").run();
        assert_eq!(ran.code(), Some(125), "{ran}");
        assert!(ran.err().contains("--host"), "{ran}");
    }
}

#[test]
fn being_turned_away_later_tells_how_to_see_the_run_that_goes_on() {
    let Some(machine) = Machine::new() else { return };
    let turned_away = "fail 255 me@box: Permission denied (publickey).";
    machine.plan(&["after \"seq\":1", turned_away]);
    let gate = Gate::new();
    let ran = machine.ndjson("--id far").puppet(&format!("say:out {gate} say:end")).run();
    ran.failed(125, "disconnected", "Permission denied");
    assert!(ran.err().contains("the run far goes on there; runcast attach --host me@box"), "{ran}");
    gate.open();
    assert_eq!(machine.ask("attach", "far").run().exited(0).out(), "out\nend\n");
}
