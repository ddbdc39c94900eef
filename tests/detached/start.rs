//! Starting: at once, once for each name, with nothing of the starter's, and nothing left where it fails.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{Home, failed_with, lines, wait_for_file};
use crate::harness::{Gate, LIMIT, PUPPET, alive, ndjson, parent, tool, wait_for, wait_until};

#[test]
fn it_prints_the_id_or_the_started_event_and_returns_while_the_command_runs() {
    let home = Home::new();
    home.start("one", "sleep");
    assert!(alive(home.command("one")));
    let ran = home.runcast("-d -f ndjson --id two").puppet("sleep").run().exited(0);
    let started = lines(&ran);
    assert_eq!(started.len(), 1, "{ran}");
    assert_eq!((&started[0]["op"], &started[0]["id"]), (&"started".into(), &"two".into()), "{ran}");
    assert!(started[0]["existing"].is_null(), "{ran}");
}

#[test]
fn without_a_name_it_has_one_of_its_own() {
    let home = Home::new();
    let ids: Vec<String> = (0..2)
        .map(|_| home.runcast("-d").puppet("say:here").run().exited(0).out().trim().to_owned())
        .collect();
    assert_ne!(ids[0], ids[1]);
    for id in &ids {
        assert_eq!(home.attach("", id).exited(0).out(), "here\n");
    }
}

#[test]
fn it_holds_nothing_of_its_starter_s() {
    let home = Home::new();
    let script = format!(
        "out=$({} -d --id x -- {PUPPET} report:descriptors report:session report:terminal wait-file:{}/go 2>&1); echo \"[$out]\"",
        env!("CARGO_BIN_EXE_runcast"),
        home.folder.path().display()
    );
    // Where the keeper or the command held the pipe, the substitution would wait for them.
    let ran = home.runcast("").command(["sh", "-c", &script]).run().exited(0);
    assert_eq!(ran.out(), "[x]\n");
    let keeper = home.keeper("x");
    let open = |name: &str| fs::read_link(format!("/proc/{keeper}/{name}")).expect("it is ours");
    assert_eq!(open("cwd").as_os_str(), "/");
    for fd in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(open(fd).as_os_str(), "/dev/null", "{fd}");
    }
    fs::write(home.folder.path().join("go"), "").expect("it can be written");
    let told = home.attach("", "x").exited(0).out();
    assert!(told.starts_with("0 1 2\n") && told.contains("\nnone\n"), "{told}");
}

#[test]
fn it_goes_on_when_its_starter_s_terminal_and_pipes_are_closed() {
    let Some(script) = tool("script") else { return };
    let home = Home::new();
    let gate = Gate::new();
    let steps = format!("-- {PUPPET} {gate} say:lived err:too exit:4");
    let command = format!("{} -d --id x {steps}", env!("CARGO_BIN_EXE_runcast"));
    // The terminal hangs up when script ends.
    home.runcast("")
        .command([script.as_os_str(), "-qec".as_ref(), command.as_ref(), "/dev/null".as_ref()])
        .run()
        .exited(0);
    let mut starter = home.runcast(&format!("-d --id y {steps}")).start();
    starter.close_stdout();
    starter.close_stderr();
    starter.ends_unread();
    gate.open();
    for id in ["x", "y"] {
        wait_until("the run", || home.path(id).join("run").exists());
        let ran = home.attach("", id).exited(4);
        assert_eq!((ran.out(), ran.err()), ("lived\n".to_owned(), "too\n".to_owned()));
    }
}

#[test]
fn a_hang_up_or_an_interrupt_of_its_starter_s_group_does_not_reach_it() {
    let home = Home::new();
    let pid_file = home.folder.path().join("pid");
    let script = format!(
        "{} -d --id x -- {PUPPET} sleep >/dev/null; echo $$ >{}; sleep 60",
        env!("CARGO_BIN_EXE_runcast"),
        pid_file.display()
    );
    let shell = home.runcast("").command(["sh", "-c", &script]).start();
    wait_for_file(&pid_file);
    wait_until("the number", || fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')));
    let group: i32 =
        fs::read_to_string(&pid_file).expect("it is there").trim().parse().expect("a number");
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM] {
        // It may have ended of the one before.
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), signal);
    }
    shell.finish();
    assert!(alive(home.command("x")) && alive(home.keeper("x")));
    assert_eq!(home.state("x"), "running");
}

#[test]
fn a_command_that_cannot_be_started_is_told_as_in_the_foreground_and_leaves_no_run() {
    let home = Home::new();
    let folder = home.folder.path();
    fs::write(folder.join("plain"), "").expect("it can be written");
    for (command, code, error) in [
        ("no-such-command", 127, "not_found"),
        (folder.join("plain").to_str().expect("text"), 126, "not_executable"),
    ] {
        let detached = home.runcast("-d --id n -f ndjson").command([command]).run();
        detached.failed(code, error, command);
        let foreground = ndjson("").command([command]).run();
        assert_eq!(detached.err(), foreground.err());
        assert!(!home.path("n").exists());
    }
    for options in ["-C /nonexistent", "--result /nonexistent/file", "--record /"] {
        let ran = home.runcast(&format!("-d --id n {options}")).puppet("sleep").run().exited(125);
        ran.said_one_line("");
        assert!(!home.path("n").exists(), "{options}");
        failed_with(&home.wait("n"), "run_unknown");
    }
    home.is_quiet();
    let left: Vec<_> = fs::read_dir(&home.runs).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_makes_no_sense_for_a_run_that_nobody_sees_is_refused() {
    let home = Home::new();
    for options in [
        "--result -",
        "--result fd:3",
        "--stdin inherit",
        "--on-lag block",
        "--on-disconnect stop",
        "--heartbeat 1",
    ] {
        let option = options.split(' ').next().expect("there is one");
        home.runcast(&format!("-d {options}")).puppet("say:no").run().refused_usage(option);
    }
    for options in ["--id x", "--journal 1M", "--stdin open"] {
        let option = options.split(' ').next().expect("there is one");
        home.runcast(options).puppet("say:no").run().refused_usage(option);
    }
    assert!(!home.runs.exists());
}

#[test]
fn a_name_that_is_none_is_refused() {
    let home = Home::new();
    let long = "x".repeat(65);
    for id in ["../up", "a/b", "", "-x", ".hid", &long, "a b", "ä", "."] {
        home.runcast("-d").arg(format!("--id={id}")).puppet("say:no").run().refused_usage("--id");
        for subcommand in ["attach", "wait", "send", "signal", "forget"] {
            assert_eq!(home.runcast(subcommand).arg("--").arg(id).run().code(), Some(125), "{id}");
        }
    }
    let longest = "A-Z._9".repeat(11)[..64].to_owned();
    home.start(&longest, "say:yes");
    assert_eq!(home.attach("", &longest).exited(0).out(), "yes\n");
}

#[test]
fn the_same_request_again_is_not_started_again_whatever_became_of_it() {
    let home = Home::new();
    let count = home.folder.path().join("count");
    let script = format!("echo x >>{}; exit 3", count.display());
    let start = || {
        home.runcast("-d -f ndjson --id k")
            .writes_no_events()
            .command(["sh", "-c", &script])
            .run()
            .exited(0)
    };
    let first = lines(&start()).remove(0);
    home.wait("k").exited(3);
    let mut again = lines(&start()).remove(0);
    assert_eq!(again["existing"], true);
    again.as_object_mut().expect("an object").remove("existing");
    assert_eq!(first, again);
    let text = home.runcast("-d --id k -f text").command(["sh", "-c", &script]).run().exited(0);
    assert_eq!(text.out(), "k\n");
    assert_eq!(fs::read_to_string(count).expect("it ran"), "x\n");
}

#[test]
fn another_request_of_that_name_is_refused() {
    let home = Home::new();
    let elsewhere = home.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("it can be made");
    let base = || home.runcast("-d --id k -f ndjson -t 60 -e A=1 -e B=2");
    base().puppet("sleep").run().exited(0);
    base().writes_no_events().puppet("sleep").run().exited(0);
    let others = [
        home.runcast("-d --id k -f ndjson -t 61 -e A=1 -e B=2").puppet("sleep"),
        home.runcast("-d --id k -f ndjson -t 60 -e B=2 -e A=1").puppet("sleep"),
        home.runcast("-d --id k -f ndjson -t 60 -e A=1").puppet("sleep"),
        base().puppet("sleep:1"),
        base().puppet("sleep sleep"),
        base().within(&elsewhere).puppet("sleep"),
        base().arg("--merge").puppet("sleep"),
    ];
    for other in others {
        other.run().failed(125, "run_exists", "k");
    }
    assert!(alive(home.command("k")));
}

#[test]
fn of_two_and_of_twenty_at_once_one_starts_and_all_succeed() {
    for starters in [2, 20] {
        let home = Home::new();
        let count = home.folder.path().join("count");
        let script = format!("echo x >>{}; exec sleep 60", count.display());
        let start = || {
            home.runcast("-d -f ndjson --id k")
                .writes_no_events()
                .command(["sh", "-c", &script])
                .start()
        };
        let all: Vec<_> = (0..starters).map(|_| start()).collect();
        let told: Vec<_> =
            all.into_iter().map(|starter| lines(&starter.finish().exited(0)).remove(0)).collect();
        assert_eq!(told.iter().filter(|started| started["existing"].is_null()).count(), 1);
        assert!(
            told.iter().all(|started| started["pid"] == told[0]["pid"] && started["id"] == "k")
        );
        // The shell makes the file first, and then writes into it.
        let has_run = || fs::read_to_string(&count).ok().filter(|text| !text.is_empty());
        assert_eq!(wait_for("the command", has_run), "x\n");
        let left = fs::read_dir(&home.runs).expect("it is there").count();
        assert_eq!(left, 1, "starts that came too late left something");
    }
}

#[test]
fn of_twenty_at_once_whose_command_cannot_be_started_each_is_told() {
    let home = Home::new();
    let all: Vec<_> =
        (0..20).map(|_| home.runcast("-d --id k").command(["no-such-command"]).start()).collect();
    for starter in all {
        starter.finish().exited(127).said_one_line("no-such-command");
    }
    assert_eq!(fs::read_dir(&home.runs).expect("it is there").count(), 0);
}

#[test]
fn a_starter_killed_at_any_moment_leaves_a_run_or_none_and_no_half_of_one() {
    let home = Home::new();
    for delay in 0..40_u64 {
        let id = format!("k{delay}");
        let starter = home.runcast(&format!("-d --id {id}")).puppet("say:up sleep:50").start();
        let moment = Instant::now() + Duration::from_micros(delay * 250);
        while Instant::now() < moment {}
        // It may have ended.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(starter.pid()), Signal::SIGKILL);
        starter.finish();
        // Whether it was started is found out by starting it again.
        home.start(&id, "say:up sleep:50");
        assert_eq!(home.attach("", &id).exited(0).out(), "up\n");
    }
    home.runcast("forget --finished").run().exited(0);
    home.is_quiet();
    for left in fs::read_dir(&home.runs).expect("it is there") {
        // What a start that was killed had not given a name yet is cleared away later.
        let name = left.expect("it can be read").file_name();
        assert!(name.to_string_lossy().starts_with(".new-"), "{name:?} is left");
    }
}

#[test]
fn paths_are_those_of_the_starter_s_folder() {
    let home = Home::new();
    let here = home.folder.path().join("here");
    fs::create_dir_all(here.join("sub")).expect("it can be made");
    fs::write(here.join("input"), "from the file\n").expect("it can be written");
    let run = home.runcast("-d --id p -C sub --stdin input --result result --record record");
    run.within(&here).puppet("report:directory cat").run().exited(0);
    let ran = home.attach("", "p").exited(0);
    let sub = here.join("sub");
    assert_eq!(ran.out(), format!("{}\nfrom the file\n", sub.display()));
    wait_until("the result file", || here.join("result").exists());
    let result: serde_json::Value =
        serde_json::from_slice(&fs::read(here.join("result")).expect("it is there")).expect("JSON");
    assert_eq!(result, home.result("p"));
    assert!(here.join("record").exists());
}

#[test]
fn standard_input_is_empty_unless_it_is_asked_for() {
    let home = Home::new();
    home.start("n", "cat say:end");
    assert_eq!(home.attach("", "n").exited(0).out(), "end\n");
}

#[test]
fn limits_and_backends_hold_as_in_the_foreground() {
    let home = Home::new();
    home.start_with("t", "-t 200ms", "ignore:TERM sleep");
    let result = home.result("t");
    assert_eq!((&result["status"], &result["stopped_by"]), (&124.into(), &"timeout".into()));
    home.start_with("o", "--output-limit 64K -k 0", "flood:stdout");
    assert_eq!(home.result("o")["stopped_by"], "output");
    let run = home.runcast("-d --id b --callable --input [1,2]");
    run.command(["sh", "-c", "cat $RUNCAST_INPUT >$RUNCAST_RESULT"]).run().exited(0);
    assert_eq!(home.result("b")["result"], serde_json::json!([1, 2]));
    home.start_with("m", "--merge --split nul --max-output 3", "print:stdout:a\\0b err:c");
    let events = home.events("m");
    assert_eq!(super::content(&events, "stdout"), "a\0bc\n");
    assert_eq!(events.last().expect("a result")["stdout"], "a\0b");
}

#[test]
fn values_of_the_environment_and_secrets_are_never_written_down() {
    let home = Home::new();
    let file = home.folder.path().join("env");
    fs::write(&file, "FROM_FILE=s3cr3t-file\n").expect("it can be written");
    let run = home.runcast("-d --id s -e GIVEN=s3cr3t-given --env TAKEN --mask-env TAKEN");
    run.arg("--env-file")
        .arg(&file)
        .env("TAKEN", "s3cr3t-taken")
        .command(["sh", "-c", "test $TAKEN = s3cr3t-taken && echo $TAKEN; : s3cr3t-taken"])
        .run()
        .exited(0);
    assert_eq!(home.attach("", "s").exited(0).out(), "***\n");
    for entry in fs::read_dir(home.path("s")).expect("it is there") {
        let entry = entry.expect("it can be read");
        if entry.metadata().expect("it is there").is_file() {
            let content = fs::read(entry.path()).expect("it is ours");
            let has = content.windows(6).any(|part| part == b"s3cr3t");
            assert!(!has, "{:?}: {}", entry.file_name(), content.escape_ascii());
        }
    }
}

#[test]
fn all_that_it_makes_is_its_owner_s_alone_whatever_the_umask_is() {
    let home = Home::new();
    let script = format!(
        "umask 0; exec {} -d --id p --stdin open -- {PUPPET} say:x cat",
        env!("CARGO_BIN_EXE_runcast")
    );
    home.runcast("").command(["sh", "-c", &script]).run().exited(0);
    let mut seen = 0;
    for folder in [home.runs.clone(), home.path("p")] {
        let mode = fs::metadata(&folder).expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", folder.display());
    }
    for entry in fs::read_dir(home.path("p")).expect("it is there") {
        let entry = entry.expect("it can be read");
        assert_eq!(entry.metadata().expect("it is there").mode() & 0o7777, 0o600, "{entry:?}");
        seen += 1;
    }
    assert!(seen >= 4, "{seen} files");
}

#[test]
fn inside_a_run_it_is_a_daemon_left_alone_when_that_ends_and_killed_when_that_is_stopped() {
    let home = Home::new();
    let inner =
        |id: &str| format!("{} -d --id {id} -- {PUPPET} sleep", env!("CARGO_BIN_EXE_runcast"));
    let ran = home.runcast("").command(["sh", "-c", &inner("in")]).run().exited(0);
    assert_eq!(ran.out(), "in\n");
    assert!(alive(home.command("in")));
    let keeper = home.keeper("in");
    assert_ne!(parent(keeper), None);
    let script = format!("{}; exec sleep 60", inner("stopped"));
    let mut outer = home.runcast("").command(["sh", "-c", &script]).start();
    assert_eq!(outer.line(), "stopped");
    let (keeper, command) = (home.keeper("stopped"), home.command("stopped"));
    outer.signal(Signal::SIGTERM);
    assert_eq!(outer.finish().code(), Some(143));
    wait_until("the end of the inner run", || !alive(keeper) && !alive(command));
}

#[test]
fn a_run_started_where_hang_ups_are_ignored_ignores_them_still() {
    let home = Home::new();
    let run = home.runcast("-d --id h").launched("ignore:HUP");
    run.puppet("report:ignored raise:HUP say:lived").run().exited(0);
    assert!(home.attach("", "h").exited(0).out().ends_with("lived\n"));
}

#[test]
fn standard_streams_that_are_closed_are_no_obstacle() {
    let home = Home::new();
    let script = format!(
        "exec {} -d --id c -- {PUPPET} say:x 0<&- 1>&- 2>&-",
        env!("CARGO_BIN_EXE_runcast")
    );
    let ran = home.runcast("").command(["sh", "-c", &script]).run().exited(0);
    assert_eq!(ran.out(), "");
    assert_eq!(home.attach("", "c").exited(0).out(), "x\n");
}

#[test]
fn an_id_that_cannot_be_printed_is_told_and_the_run_goes_on() {
    let home = Home::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let ran = home.runcast("-d --id f").stdout(Stdio::from(full)).puppet("say:x").run().exited(125);
    ran.said_one_line("standard output");
    assert_eq!(home.attach("", "f").exited(0).out(), "x\n");
}

#[test]
fn a_folder_of_its_own_name_that_is_no_run_is_told() {
    let home = Home::new();
    home.start("first", "exit:0");
    fs::write(home.path("file"), "").expect("it can be written");
    symlink("/tmp", home.path("link")).expect("it can be made");
    for id in ["file", "link"] {
        let begun = Instant::now();
        home.runcast(&format!("-d --id {id}")).puppet("say:no").run().exited(125).said_one_line(id);
        assert!(begun.elapsed() < LIMIT);
    }
}
