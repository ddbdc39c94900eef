//! What any program and any reader may rely on: the checks, the errors, the list.

use std::fs;

use serde_json::{Value, json};

use super::{callable, is_empty, python, value, without_value, write};
use crate::harness::{PUPPET, ndjson, result_in, runcast, scratch};

#[test]
fn an_unknown_backend_is_told_in_a_result_and_nothing_starts() {
    let folder = scratch();
    for name in ["perl6", "", "Node", "exec,shell"] {
        let run = ndjson("--backend").arg(name).puppet("touch:started").within(folder.path()).run();
        run.failed(125, "backend_unknown", "exec, shell, node, python");
        assert!(run.of("started").is_empty());
    }
    runcast("--backend perl6").puppet("touch:started").within(folder.path()).run().refused("perl6");
    is_empty(folder.path());
}

#[test]
fn input_for_what_is_not_callable_is_told_in_a_result_and_nothing_starts() {
    let folder = scratch();
    for options in ["--backend exec", "--backend shell", "", "--shell"] {
        let ran = ndjson(&format!("{options} --input 1")).command(["touch", "started"]);
        let ran = ran.within(folder.path()).run();
        let name = if options.contains("shell") { "backend shell" } else { "backend exec" };
        ran.failed(125, "backend_not_callable", name);
    }
    is_empty(folder.path());
}

#[test]
fn input_that_is_not_one_value_is_told_with_its_place_and_nothing_starts() {
    let folder = scratch();
    let file = format!("@{}", write(folder.path(), "i.json", "{\n  \"a\": 1,\n}"));
    let run = |input: &str| {
        let run = ndjson("--callable --input").arg(input).command(["touch", "started"]);
        run.within(folder.path())
    };
    for (input, place) in [
        ("", "line 1 column 0"),
        ("{\"a\":", "line 1 column 5"),
        ("1 2", "line 1 column 3"),
        ("NaN", "line 1 column 1"),
        ("'x'", "line 1 column 1"),
        (&file, "line 3 column 1"),
        ("-", "line 1 column 0"),
    ] {
        let ran = run(input).run();
        ran.failed(125, "input_invalid", "--input");
        assert!(ran.err().contains(place), "{ran}");
        assert!(!input.starts_with('@') || ran.err().contains(input), "{ran}");
    }
    run("@/no/such/file").run().failed(125, "file_failed", "/no/such/file");
    run("@/").run().failed(125, "file_failed", "directory");
    runcast("--callable --input @").puppet("exit:0").run().exited(125);
    ndjson("--backend node").command(["@/no/such.js"]).run().failed(
        125,
        "file_failed",
        "/no/such.js",
    );
    assert!(!folder.path().join("started").exists());
}

#[test]
fn a_missing_interpreter_is_not_found_by_its_name() {
    let folder = scratch();
    for (backend, interpreter) in [("node", "node"), ("python", "python3"), ("shell", "sh")] {
        let run = ndjson(&format!("--backend {backend} -e PATH=/no/such/folder")).command(["1"]);
        let ran = run.env("TMPDIR", folder.path()).run();
        ran.failed(127, "not_found", &format!("{interpreter}: command not found"));
    }
    is_empty(folder.path());
}

#[test]
fn what_is_returned_and_is_not_one_value_is_told_and_all_else_stays() {
    let folder = scratch();
    for (script, why) in [
        ("echo '{not json' > F", "line 1 column 2"),
        ("echo 1 2 > F", "line 1 column 3"),
        ("echo > F", "EOF"),
        ("printf '\"\\377\"' > F", "unicode"),
        ("ln -sf /etc/hostname F", "link"),
        ("rm F; mkfifo F", "no regular file"),
        ("rm F; mkdir F", "no regular file"),
    ] {
        let script = format!("echo before; {}", script.replace('F', "\"$RUNCAST_RESULT\""));
        let ran = callable("", &script).env("TMPDIR", folder.path()).run();
        ran.failed(125, "result_invalid", why);
        let result = ran.result();
        assert_eq!((&result["exit_code"], result.text("stdout")), (&json!(0), "before\n"), "{ran}");
        assert_eq!(ran.contents("stdout"), ["before\n"]);
    }
    is_empty(folder.path());
}

#[test]
fn a_value_that_is_too_large_is_told_and_never_read() {
    let fill = |bytes: u32| {
        format!(
            "{{ printf '\"'; head -c {} /dev/zero | tr '\\0' x; printf '\"'; }} > \"$RUNCAST_RESULT\"",
            bytes - 2
        )
    };
    let ran = callable("--max-result 1K", &fill(1024)).run().exited(0);
    assert_eq!(value(&ran).as_str().map(str::len), Some(1022));
    let ran = callable("--max-result 1K", &fill(1025)).run();
    ran.failed(125, "result_too_large", "--max-result 1024");
    assert_eq!(ran.result()["exit_code"], 0);
    let ran = callable("", &fill(8 << 20)).run().exited(0);
    assert_eq!(value(&ran).as_str().map(str::len), Some((8 << 20) - 2));
    callable("", &fill((8 << 20) + 1)).run().failed(125, "result_too_large", "8388608");
    callable("--max-result unlimited", &fill((8 << 20) + 1)).run().exited(0);
    callable("", "truncate -s 1T \"$RUNCAST_RESULT\"").run().failed(
        125,
        "result_too_large",
        "8388608",
    );
}

#[test]
fn a_command_that_fails_or_is_stopped_returns_nothing() {
    let write = "echo 5 > \"$RUNCAST_RESULT\"";
    without_value(callable("", &format!("{write}; exit 9")).run(), 9);
    without_value(callable("", &format!("{write}; kill -KILL $$")).run(), 137);
    without_value(callable("-t 0.2", &format!("{write}; exec sleep 60")).run(), 124);
    let calm = format!("trap 'exit 0' TERM; {write}; while :; do sleep 0.05; done");
    without_value(callable("-t 0.3", &calm).run(), 124);
    without_value(callable("--output-limit 10", &format!("{write}; yes")).run(), 143);
    // What is wrong with it is no matter then.
    without_value(callable("", "echo x > \"$RUNCAST_RESULT\"; exit 9").run(), 9);
    for untouched in ["exit 0", "rm \"$RUNCAST_RESULT\"", ": > \"$RUNCAST_RESULT\""] {
        without_value(callable("", untouched).run(), 0);
    }
    let moved =
        "echo 5 > \"$RUNCAST_RESULT.new\" && mv \"$RUNCAST_RESULT.new\" \"$RUNCAST_RESULT\"";
    assert_eq!(value(&callable("", moved).run().exited(0)), &json!(5));
}

#[test]
fn text_shows_a_value_only_in_the_result() {
    let folder = scratch();
    let path = folder.path().join("result");
    let script = ["sh", "-c", "echo out; echo 5 > \"$RUNCAST_RESULT\""];
    let ran = runcast("--callable --result").arg(&path).command(script).run().exited(0);
    assert_eq!((ran.out(), ran.err()), ("out\n".into(), String::new()));
    assert_eq!(result_in(&path)["result"], 5);
    let ran = runcast("--callable").command(script).run().exited(0);
    assert_eq!(ran.out(), "out\n");
    let ran = runcast("-q --callable --result -").command(script).run().exited(0);
    assert_eq!(value(&ran), &json!(5));
    let script = ["sh", "-c", "echo x > \"$RUNCAST_RESULT\""];
    let ran = runcast("--callable").command(script).run().exited(125);
    ran.said_one_line("RUNCAST_RESULT");
}

#[test]
fn snapshots_and_recordings_have_the_value_too() {
    let folder = scratch();
    let path = folder.path().join("recording");
    let script = ["sh", "-c", "echo out; printf '{\\n\"b\":1e400}' > \"$RUNCAST_RESULT\""];
    let ran = runcast("-f snapshot --callable --record").arg(&path).command(script).run().exited(0);
    let played = runcast("replay -f snapshot --speed max").arg(&path).run().exited(0);
    let recorded = fs::read_to_string(&path).expect("it was written");
    for lines in [ran.out(), played.out(), recorded] {
        assert!(lines.ends_with(",\"result\":{\"b\":1e400}}\n"), "{lines}");
    }
}

#[test]
fn what_outlives_the_command_does_not_hold_its_value_up() {
    let script = "sleep 60 & echo 5 > \"$RUNCAST_RESULT\"";
    let ran = callable("", script).run().exited(0);
    assert_eq!((value(&ran), &ran.result()["leaked"]), (&json!(5), &json!(true)));
    let py = "import os, time\ndef main():\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n        os._exit(0)\n    return 6";
    if let Some(run) = python("", py) {
        assert_eq!(value(&run.run().exited(0)), &json!(6));
    }
}

#[test]
fn the_shell_takes_one_string_and_its_arguments() {
    for options in ["--shell", "--backend shell", "--backend exec --shell"] {
        let command = ["echo \"$0 $1-$2\"; exit 4", "one", "two words"];
        let ran = ndjson(options).command(command).run().exited(4);
        assert_eq!(ran.contents("stdout"), ["sh one-two words\n"]);
        assert_eq!(ran.events()[0]["argv"], json!(command), "as it was given");
    }
    let ran = ndjson("--shell --backend exec").command([PUPPET, "say:hi"]).run().exited(0);
    assert_eq!(ran.contents("stdout"), ["hi\n"]);
}

#[test]
fn the_list_is_what_the_program_knows() {
    let listed = runcast("--list-backends -f ndjson").run().exited(0);
    let lines: Vec<Value> = listed
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect();
    let table = runcast("--list-backends").run().exited(0).out();
    assert_eq!(table.lines().count(), lines.len() + 1);
    let none = runcast("--list-backends -f ndjson").env("PATH", "/no/such/folder").run().out();
    let names: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["exec", "shell", "node", "python"]);
    for (line, without) in lines.iter().zip(none.lines()) {
        let name = line["name"].as_str().expect("a name");
        let run = ndjson(&format!("--backend {name} --input 1 -e PATH=/no/such/folder"));
        let code = &run.command(["x"]).run().result()["error"]["code"].clone();
        let refused = if line["callable"] == true { "not_found" } else { "backend_not_callable" };
        assert_eq!(code, refused, "{line}");
        let row = table.lines().find(|row| row.starts_with(name)).expect("it has a row");
        assert_eq!(row.contains(" yes  "), line["callable"] == true, "{row}");
        let without: Value = serde_json::from_str(without).expect("an object");
        assert_eq!(without["found"], line["interpreter"].is_null(), "{without}");
        if let Some(interpreter) = line["interpreter"].as_str() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let is_there = std::env::split_paths(&path).any(|at| at.join(interpreter).is_file());
            assert_eq!(line["found"], is_there, "{line}");
        }
    }
    let help = runcast("--help").run().exited(0).out();
    assert!(names.iter().all(|name| help.contains(name)), "{help}");
}

#[test]
fn a_secret_in_a_returned_value_is_masked_and_it_stays_json() {
    for (value, masked) in [
        (r#"{"a":"x hunter2"}"#, r#"{"a":"x ***"}"#),
        ("[1234567]", r#""[***]""#),
        (r#"{"a":1}"#, r#"{"a":1}"#),
    ] {
        let ran = ndjson("--callable --mask-env ONE --mask-env TWO")
            .env("ONE", "hunter2")
            .env("TWO", "1234567")
            .command(["sh", "-c", &format!("printf '%s' '{value}' > $RUNCAST_RESULT")])
            .run()
            .exited(0);
        assert!(ran.out().contains(&format!(r#""result":{masked}}}"#)), "{}", ran.out());
    }
}
