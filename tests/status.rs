//! How a run ends: the command's own status, its signal, or why it never started.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Gate, PUPPET, copies_for_everyone, ndjson, runcast, scratch, script, skip};

#[test]
fn every_exit_status_comes_through() {
    for code in
        [0, 1, 2, 3, 42, 77, 123, 124, 125, 126, 127, 128, 130, 137, 141, 143, 200, 254, 255]
    {
        runcast("").puppet(&format!("exit:{code}")).run().exited(code);
        let ran = ndjson("").puppet(&format!("exit:{code}")).run().exited(code);
        assert_eq!(ran.result()["exit_code"], code);
        assert!(ran.result()["stopped_by"].is_null() && ran.result()["error"].is_null());
    }
}

#[test]
fn death_by_a_signal_is_128_and_its_number_and_is_named() {
    let all = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("SYS", 31),
    ];
    for (name, number) in all {
        let ran = ndjson("-r core=0").puppet(&format!("raise:{name}")).run().exited(128 + number);
        assert_eq!(ran.result()["signal"], format!("SIG{name}"));
        assert!(ran.result()["stopped_by"].is_null(), "{name}: runcast stopped nothing");
        assert!(ran.result()["core_dumped"].is_null(), "{name}: cores are switched off");
    }
    ndjson("").puppet("raise:40").run().exited(168);
}

#[test]
fn a_core_is_told_of() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with('|') || pattern.contains('/') {
        return skip("cores do not go to the current folder here");
    }
    let folder = scratch();
    let run = ndjson("-r core=unlimited")
        .puppet("raise:SEGV")
        .launched("limit:core:0:unlimited")
        .within(folder.path());
    let ran = run.run().exited(139);
    let dumped = fs::read_dir(folder.path()).expect("it is there").count() > 0;
    assert_eq!(ran.result()["core_dumped"] == true, dumped, "{ran}");
}

#[test]
fn a_command_that_is_not_there_is_127() {
    let folder = scratch();
    let absent = folder.path().join("no-such-command");
    for command in [
        "no-such-command-here",
        "./no-such-command",
        &absent.to_string_lossy(),
        "no/such/folder/command",
    ] {
        let ran = ndjson("").command([command]).run();
        ran.failed(127, "not_found", command);
        assert_eq!(ran.events().len(), 1, "only the result: {ran}");
        let ran = runcast("").command([command]).run().exited(127);
        ran.said_one_line(command);
        assert_eq!(ran.out(), "");
    }
}

#[test]
fn one_that_is_there_but_cannot_be_executed_is_126() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(path("plain"), "text\n").expect("the scratch folder is ours");
    script(path("orphan").as_ref(), b"#!/no/such/interpreter\n");
    for command in [path("plain"), path("orphan"), path(""), "/".to_owned()] {
        let ran = ndjson("").command([&command]).run();
        ran.failed(126, "not_executable", command.trim_end_matches('/'));
        assert_eq!(ran.events().len(), 1, "only the result: {ran}");
        runcast("").command([&command]).run().exited(126).said_one_line("");
    }
}

#[test]
fn a_path_through_a_file_and_an_empty_command_are_one_clear_line() {
    for command in [&format!("{PUPPET}/x")[..], "", " ", "\n", "\u{1b}[31m"] {
        let ran = runcast("").command([command]).run();
        assert!(ran.code().is_some_and(|code| (125..=127).contains(&code)), "{ran}");
        ran.said_one_line("");
        assert!(!ran.err().contains('\u{1b}'), "{ran}");
    }
}

#[test]
fn the_search_goes_on_past_what_cannot_be_executed() {
    let folder = scratch();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for (place, name) in [(&first, "tool"), (&second, "tool"), (&first, "only")] {
        fs::create_dir_all(place)
            .and_then(|()| fs::write(place.join(name), ""))
            .expect("the scratch folder is ours");
    }
    script(&second.join("tool"), b"#!/bin/sh\nexit 5\n");
    let path = format!("PATH={}:{}:/bin:/usr/bin", first.display(), second.display());
    runcast("").arg("-e").arg(&path).command(["tool"]).run().exited(5);
    ndjson("").arg("-e").arg(&path).command(["only"]).run().failed(126, "not_executable", "only");
    ndjson("-e PATH=/no/such/folder").command(["true"]).run().failed(127, "not_found", "true");
}

#[test]
fn a_folder_of_the_path_that_may_not_be_searched_is_not_the_command() {
    let folder = scratch();
    let secret = folder.path().join("secret");
    fs::create_dir(&secret).expect("the scratch folder is ours");
    let [runcast_copy, _] = copies_for_everyone(folder.path());
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("it is ours");
    // Root may search everything, so it steps down; the first runcast only carries the second.
    let user = if nix::unistd::geteuid().is_root() { "user:65534 " } else { "" };
    let steps = format!("{user}exec {} -f ndjson -- no-such-command", runcast_copy.display());
    let path = format!("{}:/bin:/usr/bin", secret.display());
    let ran = runcast("").env("PATH", path).puppet(&steps).within("/").run();
    ran.failed(127, "not_found", "no-such-command");
}

#[test]
fn a_script_without_a_first_line_for_the_kernel_runs() {
    let folder = scratch();
    let path = folder.path().join("script");
    script(&path, b"echo \"from a script $1\"\nexit 4\n");
    let ran = runcast("").command([path.as_os_str(), "x".as_ref()]).run().exited(4);
    assert_eq!(ran.out(), "from a script x\n");
    let path = format!("PATH={}:/bin:/usr/bin", folder.path().display());
    runcast("").arg("-e").arg(path).command(["script"]).run().exited(4);
}

#[test]
fn a_folder_that_cannot_be_entered_is_not_taken_for_the_command() {
    for folder in ["/no/such/folder", PUPPET, "\n"] {
        let ran = ndjson("-C").arg(folder).puppet("say:started").run();
        ran.failed(125, "chdir_failed", folder.trim());
    }
    let ran = ndjson("-C").arg("").puppet("say:started").run();
    assert!(
        ran.code() == Some(125) && ran.err().contains("--chdir") && !ran.out().contains("chunk"),
        "{ran}"
    );
}

#[test]
fn a_deleted_current_folder_is_no_reason_to_fail() {
    let folder = scratch();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).expect("the scratch folder is ours");
    let (marker, gate) = (folder.path().join("in"), Gate::new());
    let launched = format!("touch:{} {gate}", marker.display());
    let live = ndjson("").puppet("say:ok exit:3").launched(&launched).within(&gone).start();
    crate::harness::wait_until("the launcher inside", || marker.exists());
    fs::remove_dir(&gone).expect("it is ours");
    gate.open();
    let ran = live.finish().exited(3);
    assert!(ran.events()[0]["cwd"].is_null(), "{ran}");
}

#[test]
fn an_environment_too_big_to_start_with_is_one_clear_line() {
    let folder = scratch();
    let file = folder.path().join("env");
    fs::write(&file, format!("BIG={}\n", "x".repeat(300 << 10)))
        .expect("the scratch folder is ours");
    let ran = ndjson("--env-file").arg(&file).puppet("say:started").run();
    assert!(
        ran.code().is_some_and(|code| code == 125 || code == 126) && ran.events().len() == 1,
        "{ran}"
    );
    ran.said_one_line("");
}

#[test]
fn shell_runs_one_string() {
    let ran =
        runcast("--shell").command(["echo \"$((1 + 2))\" $1; exit 7", "a b", "c"]).run().exited(7);
    assert_eq!(ran.out(), "3 a b\n");
    runcast("--shell").command(["kill -USR1 $$"]).run().exited(138);
}
