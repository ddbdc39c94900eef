//! The list of runs, for people and for programs.

use std::fs;
use std::time::{Duration, SystemTime};

use super::{Home, lines};
use crate::harness::{is_plain, tool};

#[test]
fn it_tells_the_state_of_each_run_newest_first() {
    let home = Home::new();
    home.start("ok", "say:x err:yy");
    home.start("code", "exit:4");
    home.start("signal", "raise:USR1");
    home.start_with("time", "-t 50ms", "sleep");
    home.start("lost", "say:x sleep");
    home.start("live", "say:four sleep");
    home.reader("", "live").line();
    home.reader("", "lost").line();
    for id in ["ok", "code", "signal", "time"] {
        home.wait(id);
    }
    home.kill_keeper("lost");
    let ran = home.runcast("runs -f ndjson").run().exited(0);
    let runs = lines(&ran);
    let states: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| (run["id"].as_str().expect("text"), run["state"].as_str().expect("text")))
        .collect();
    assert_eq!(
        states,
        [
            ("live", "running"),
            ("lost", "lost"),
            ("time", "timed out"),
            ("signal", "SIGUSR1"),
            ("code", "exited 4"),
            ("ok", "exited 0"),
        ]
    );
    let names: Vec<&str> =
        runs[0].as_object().expect("an object").keys().map(String::as_str).collect();
    for name in
        ["id", "state", "started", "duration", "stdout_bytes", "stderr_bytes", "argv", "host"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let bytes = |at: usize| {
        [&runs[at]["stdout_bytes"], &runs[at]["stderr_bytes"]].map(|bytes| bytes.as_u64())
    };
    assert_eq!((bytes(0), bytes(5)), ([Some(5), Some(0)], [Some(2), Some(3)]));
    assert!(runs[1]["duration"].is_null());
    assert_eq!(runs[0]["argv"][1], "say:four");
    let table = home.runcast("runs").run().exited(0).out();
    assert_eq!(table.lines().count(), 7);
    assert!(
        table.contains("timed out") && table.contains("say:four") && !table.contains('\x1b'),
        "{table}"
    );
}

#[test]
fn a_command_line_that_steers_the_terminal_stays_one_plain_line() {
    let home = Home::new();
    let words = ["sh", "-c", "true", "\x1b[2J\n\r\x07\u{202e}"];
    home.runcast("-d --id t").command(words).run().exited(0);
    home.wait("t").exited(0);
    let table = home.runcast("runs").run().exited(0).out();
    assert_eq!(table.lines().count(), 2, "{table}");
    is_plain(&table);
    home.runcast("-d --id hidden --no-argv").puppet("exit:0").run().exited(0);
    assert!(home.listed("hidden").expect("it is there")["argv"].is_null());
}

#[test]
fn a_run_that_cannot_be_read_is_told_and_the_others_are_listed() {
    let home = Home::new();
    home.start("good", "exit:0");
    home.wait("good").exited(0);
    for (id, file, content) in
        [("a", "run", "nonsense"), ("b", "run", "{}\n{}\n"), ("c", "result", "{}\n")]
    {
        home.start(id, "exit:0");
        home.wait(id).exited(0);
        fs::write(home.path(id).join(file), content).expect("it can be written");
    }
    let ran = home.runcast("runs -f ndjson").run().exited(0);
    assert_eq!(lines(&ran).len(), 1, "{ran}");
    assert_eq!(ran.err().lines().count(), 3, "{ran}");
    for id in ["a", "b", "c"] {
        home.runcast(&format!("attach {id}")).run().exited(125);
    }
    home.runcast("wait c").run().exited(125);
}

#[test]
fn a_clock_that_is_set_back_or_on_ends_nothing_and_confuses_nobody() {
    let home = Home::new();
    home.start("c", "say:up sleep");
    home.reader("", "c").line();
    // As it looks when the clock was set since: the start lies in the future, or far back.
    let about = home.path("c").join("run");
    let text = fs::read_to_string(&about).expect("it is there");
    let at = text.find("\"time\":\"").expect("it has a time") + 8;
    for year in ["2001", "2999"] {
        let changed = format!("{}{year}{}", &text[..at], &text[at + 4..]);
        fs::write(&about, changed).expect("it can be written");
        assert_eq!(home.state("c"), "running");
        assert!(
            home.listed("c").expect("it is there")["duration"]
                .as_f64()
                .is_some_and(|time| time >= 0.0)
        );
        home.runcast("runs").run().exited(0);
        home.runcast("forget --older-than 1s").run().exited(0);
        home.runcast("wait -t 10ms c").run().exited(124);
    }
    for age in [Duration::ZERO, Duration::from_secs(90 * 365 * 86_400)] {
        let then = SystemTime::UNIX_EPOCH + age;
        for file in ["lock", "run", "."] {
            fs::File::open(home.path("c").join(file))
                .and_then(|file| file.set_modified(then))
                .expect("it is ours");
        }
        home.start(&format!("other{}", age.as_secs()), "exit:0");
        assert_eq!(home.state("c"), "running");
    }
    home.runcast("signal c KILL").run().exited(0);
    home.wait("c").exited(137);
}

#[test]
fn a_reader_and_a_keeper_whose_steady_clocks_differ_agree() {
    let Some(unshare) = tool("unshare") else { return };
    let shifted = [
        unshare.as_os_str(),
        "-T".as_ref(),
        "--monotonic".as_ref(),
        "100000".as_ref(),
        "--fork".as_ref(),
    ];
    if !std::process::Command::new(shifted[0])
        .args(&shifted[1..])
        .arg("true")
        .output()
        .is_ok_and(|trial| trial.status.success())
    {
        return crate::harness::missing("no time namespace can be made here");
    }
    let home = Home::new();
    home.start("r", "say:one sleep:300 say:two");
    let ran = home.runcast("attach -f snapshot r").through(shifted).run().exited(0);
    assert_eq!(ran.result()["stdout"], "one\ntwo\n");
    let run = home.runcast("-d --id s -t 300ms").through(shifted);
    run.puppet("say:up sleep").run().exited(0);
    home.wait("s").exited(124);
}
