//! What is shown, kept and limited is as if the command ran here.

use std::fs::File;

use crate::harness::{
    Event, Gate, LINE_BYTES, Ran, Runcast, Terminal, alive, events_in, result_in, runcast,
    wait_until,
};

use super::Machine;

/// The same run, here and there.
fn both(machine: &Machine, options: &str, how: impl Fn(Runcast) -> Runcast) -> [Ran; 2] {
    let run = |run: Runcast| how(run).run();
    [run(runcast(options)), run(machine.run(options))]
}

#[test]
fn text_is_the_bytes_of_the_command() {
    let Some(machine) = Machine::new() else { return };
    let steps = "pattern:stdout:100000 err:two print:stdout:no\\send exit:7";
    for options in
        ["", "-q", "-t 20", "--result -", "-p", "-p={stream}>", "--merge", "--strip-ansi"]
    {
        let [here, there] = both(&machine, options, |run| run.puppet(steps));
        assert_eq!((here.code(), there.code()), (Some(7), Some(7)), "{there}");
        let without_result = |ran: &Ran| {
            let out = ran
                .stdout
                .split(|&byte| byte == b'\n')
                .filter(|line| !line.starts_with(b"{\"op\""));
            out.collect::<Vec<_>>().concat()
        };
        assert!(without_result(&here) == without_result(&there), "{options}: {there}");
        assert_eq!(here.err(), there.err(), "{options}");
    }
}

#[test]
fn a_prompt_is_shown_at_once_in_text_and_whole_lines_in_formats_of_lines() {
    let Some(machine) = Machine::new() else { return };
    for option in ["", "--partial-after never", "--partial-after 1h"] {
        let gate = Gate::new();
        let steps = format!("print:stdout:prompt> {gate} say:end");
        let mut run = machine.run(option).puppet(&steps).start();
        run.until("prompt>");
        gate.open();
        assert_eq!(run.finish().exited(0).out(), "prompt>end\n");
    }
    for format in ["cri", "log", "logfmt"] {
        let steps = "print:stdout:one sleep:400 say:two";
        let [here, there] = both(&machine, &format!("-f {format}"), |run| run.puppet(steps));
        assert_eq!(here.out().lines().count(), there.out().lines().count(), "{there}");
        assert!(there.out().lines().any(|line| line.contains("onetwo")), "{there}");
    }
}

/// An event without what differs from one run to the next.
fn alike(event: &Event) -> Vec<(String, String)> {
    const OWN: [&str; 9] = ["id", "pid", "cwd", "time", "t", "duration", "usage", "run", "host"];
    let names = event.names().into_iter().filter(|name| !OWN.contains(name));
    names.map(|name| (name.to_owned(), event[name].to_string())).collect()
}

#[test]
fn events_results_and_recordings_are_those_of_a_run_here() {
    let Some(machine) = Machine::new() else { return };
    let steps = "say:one say:two print:stdout:\\xff\\xfe exit:3";
    let (result, record) = (machine.path("result"), machine.path("record"));
    let files = format!("--result {} --record {}", result.display(), record.display());
    for options in
        ["", "-q", "-T", "--meta a=b", "--no-argv", "--max-output 4", "--keep tail --max-output 5"]
    {
        let mut seen = Vec::new();
        for run in [runcast("-f ndjson"), machine.ndjson("")] {
            let run = options.split(' ').filter(|word| !word.is_empty()).fold(run, Runcast::arg);
            let run = files.split(' ').fold(run, Runcast::arg);
            let ran = run.puppet(steps).run().exited(3);
            let events: Vec<_> = ran.events().iter().map(alike).collect();
            let recorded: Vec<_> = events_in(&record).iter().map(alike).collect();
            seen.push((events, alike(&result_in(&result)), recorded));
        }
        assert_eq!(seen[0], seen[1], "{options}");
    }
    machine.keeps_nothing();
}

#[test]
fn a_result_after_the_output_has_all_that_one_in_a_file_has() {
    let Some(machine) = Machine::new() else { return };
    let steps = "say:\\xffone err:\\xfetwo burn";
    for format in ["text", "cri", "log", "logfmt"] {
        let options = format!("-f {format} --result - --keep both --max-output 3 -r cpu=1:2");
        let mut seen = Vec::new();
        for ran in both(&machine, &options, |run| run.puppet(steps)) {
            let result =
                ran.exited(152).out().lines().last().map(str::to_owned).expect("it is there");
            seen.push(alike(&Event::lines((result + "\n").as_bytes())[0]));
        }
        assert!(seen[1].iter().any(|(name, _)| name == "stdout_base64"), "{seen:?}");
        assert_eq!(seen[0], seen[1], "{format}");
    }
}

#[test]
fn a_recording_or_a_reader_here_that_fails_is_told_in_the_result() {
    let Some(machine) = Machine::new() else { return };
    let result = machine.path("result");
    let to_file = format!("--result {}", result.display());
    machine.ndjson(&format!("{to_file} --record /dev/full")).puppet("say:x").run().exited(0);
    assert!(result_in(&result).text("record_error").contains("/dev/full"));
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    machine.ndjson(&to_file).puppet("say:x").stdout(full).run().exited(125);
    let told = result_in(&result);
    assert_eq!((&told["error"]["code"], &told["status"]), (&"output_failed".into(), &125.into()));
    assert_eq!(told["stdout"], "x\n");
}

#[test]
fn a_recording_goes_on_to_the_end_when_the_reader_is_gone() {
    let Some(machine) = Machine::new() else { return };
    let (record, result) = (machine.path("record"), machine.path("result"));
    let files = format!("--record {} --result {}", record.display(), result.display());
    for format in ["text", "ndjson"] {
        let mut run = machine.run(&format!("-f {format} {files}"));
        run = run.puppet("trap:TERM:3 say:one forever { say:more sleep:10 }");
        let mut live = run.start();
        live.until("one");
        live.close_stdout();
        live.finish().exited(141);
        let recorded = events_in(&record);
        let last = recorded.last().expect("there is one");
        assert_eq!((&last["op"], &last["stopped_by"]), (&"result".into(), &"disconnect".into()));
        assert_eq!(alike(last), alike(&result_in(&result)));
        let text: String = recorded
            .iter()
            .filter(|event| event["op"] == "chunk")
            .map(|e| e.text("content"))
            .collect();
        assert_eq!(text, last.text("stdout"), "{format}");
    }
}

#[test]
fn one_stream_is_shown_to_the_end_when_the_reader_of_the_other_is_gone() {
    let Some(machine) = Machine::new() else { return };
    let command = "trap 'echo last >&2; exit 3' TERM; echo up; while :; do sleep 0.01; done";
    let mut live = machine.run("").command(["sh", "-c", command]).start();
    live.until("up");
    live.close_stdout();
    let ran = live.finish().exited(141);
    assert!(ran.err().ends_with("last\n"), "{ran}");
}

#[test]
fn what_a_slow_reader_did_not_get_is_told_at_the_end_as_here() {
    let Some(machine) = Machine::new() else { return };
    let (record, result) = (machine.path("record"), machine.path("result"));
    let files = format!("--record {} --result {}", record.display(), result.display());
    for format in ["text", "cri"] {
        let options = format!("-f {format} --on-lag drop:64K --max-output 1 {files}");
        for run in [runcast(&options), machine.run(&options)] {
            let gate = Gate::new();
            let live = run.puppet(&format!("lines:stdout:200000 say:written {gate}")).start();
            // The recording has all of it before any of it is read here.
            let is_written = || {
                std::fs::read_to_string(&record).is_ok_and(|text| text.contains(r#""written\n""#))
            };
            wait_until("all lines", is_written);
            gate.open();
            let ran = live.finish().exited(0);
            let result = result_in(&result);
            let [chunks, bytes] =
                ["dropped_chunks", "dropped_bytes"].map(|name| result.number(name));
            ran.said_one_line(&format!("{chunks} lines ({bytes} bytes) were dropped"));
            std::fs::remove_file(&record).expect("it was made above");
        }
    }
}

#[test]
fn every_format_shows_the_lines_and_how_it_ended() {
    let Some(machine) = Machine::new() else { return };
    for format in ["snapshot", "cri", "log", "logfmt"] {
        let options = format!("-f {format}");
        let [here, there] = both(&machine, &options, |run| run.puppet("say:one err:two exit:3"));
        assert_eq!((here.code(), there.code()), (Some(3), Some(3)));
        for text in ["one", "two"] {
            let count =
                |ran: &Ran| ran.out().lines().filter(|line| line.contains(text)).count() > 0;
            assert!(count(&here) && count(&there), "{format}: {there}");
        }
        let last = |ran: &Ran| ran.out().lines().last().map(str::len).expect("there is one") > 10;
        assert!(last(&here) && last(&there), "{there}");
    }
    let mut run = machine.run("-f snapshot --snapshot-every 50ms").puppet("say:one sleep").start();
    run.until("\"stdout\":\"one\\n\"");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    run.finish().exited(143);
}

#[test]
fn limits_hold_there_with_the_status_that_they_have_here() {
    let Some(machine) = Machine::new() else { return };
    for (options, steps) in [
        ("-t 0.3", "say:up sleep"),
        ("--idle-timeout 0.3 -s KILL", "say:up sleep"),
        ("--output-limit 10K", "flood:stdout"),
        ("--max-memory 20M", "resident:100M sleep"),
        ("-r cpu=1", "burn"),
        ("-r nofile=20", "report:limit:NOFILE"),
        ("--umask 027 --nice 3", "report:umask report:nice"),
    ] {
        let options = format!("-f ndjson {options}");
        let [here, there] = both(&machine, &options, |run| run.puppet(steps));
        assert_eq!(here.code(), there.code(), "{options}: {there}");
        for field in ["timed_out", "stopped_by", "limit", "signal", "exit_code"] {
            assert_eq!(here.result()[field], there.result()[field], "{options}: {there}");
        }
        if steps.starts_with("report") {
            assert_eq!(here.contents("stdout"), there.contents("stdout"), "{options}");
        }
    }
    let [here, there] = both(&machine, "-t 0.3", |run| run.puppet("sleep"));
    assert!(!here.err().is_empty());
    assert_eq!(here.err(), there.err(), "why it was stopped is told");
    machine.keeps_nothing();
}

#[test]
fn a_command_that_cannot_be_started_there_has_the_status_for_that() {
    let Some(machine) = Machine::new() else { return };
    machine.ndjson("").command(["/no/such"]).run().failed(127, "not_found", "/no/such");
    machine.ndjson("").command(["/"]).run().failed(126, "not_executable", "/");
    let ran = machine.ndjson("-C /no/such").command(["true"]).run();
    ran.failed(125, "chdir_failed", "/no/such");
    machine.keeps_nothing();
}

#[test]
fn the_environment_is_that_of_there_with_what_is_taken_along() {
    let Some(machine) = Machine::new() else { return };
    machine.set("env", "FROM_FILE=f\nBOTH=file\n");
    let steps = "report:directory report:env:MINE report:env:FROM_FILE report:env:BOTH report:env:HOME report:env:OTHER";
    let file = format!("--env-file={}", machine.path("env").display());
    let run = |run: Runcast| {
        run.arg(&file)
            .env("MINE", "a b\n'")
            .env("OTHER", "not taken")
            .env("BOTH", "env")
            .puppet(steps)
            .run()
    };
    let ran = run(machine.run("--env MINE --env BOTH --env ABSENT --unset OTHER").within("/"));
    let out = ran.exited(0).out();
    let home = machine.path("home");
    assert!(
        out.starts_with(&format!("{}\n", home.display())),
        "it starts in the home folder: {out}"
    );
    for line in ["a b", "f", "env", &home.display().to_string()] {
        assert!(out.lines().any(|found| found.contains(line)), "{line}: {out}");
    }
    std::fs::create_dir(home.join("sub")).expect("the folder is ours");
    for directory in ["sub", "/usr"] {
        let ran = machine.run("-C").arg(directory).puppet("report:directory").run().exited(0);
        let expected = home.join(directory);
        assert_eq!(ran.out(), format!("{}\n", expected.display()));
    }
}

#[test]
fn a_secret_is_hidden_and_never_written_there() {
    let Some(machine) = Machine::new() else { return };
    let secret = "s3cret/\"value\"";
    let gate = Gate::new();
    let steps = format!("report:env:TOKEN {gate} exit:3");
    let run = machine
        .ndjson("--mask-env TOKEN --env TOKEN --id far --record")
        .arg(machine.path("record"))
        .env("TOKEN", secret);
    let mut run = run.puppet(&steps).start();
    run.shows("***");
    let is_on_disk = || {
        let mut folders = vec![machine.path("runs"), machine.path("home"), machine.path("record")];
        while let Some(path) = folders.pop() {
            if let Ok(entries) = std::fs::read_dir(&path) {
                folders.extend(entries.map(|entry| entry.expect("it can be read").path()));
                continue;
            }
            let content = std::fs::read(&path).unwrap_or_default();
            if content.windows(6).any(|part| part == b"s3cret") {
                return true;
            }
        }
        false
    };
    assert!(!is_on_disk());
    for pid in machine.processes() {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!words.windows(6).any(|part| part == b"s3cret"), "every user could see it");
    }
    gate.open();
    let ran = run.finish().exited(3);
    assert!(!ran.out().contains("s3cret") && !is_on_disk(), "{ran}");
    let other = machine.run("--mask-env TOKEN --env TOKEN --id far").env("TOKEN", "another one");
    other.puppet(&steps).run().refused("another command");
}

#[test]
fn signs_of_life_are_shown_here_while_nothing_else_is() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("say:up {gate} say:end");
    let mut run = machine.ndjson("--heartbeat 0.1").puppet(&steps).up();
    for _ in 0..3 {
        let beat = run.event_of("heartbeat");
        assert_eq!(beat["stdout_bytes"], 3);
    }
    gate.open();
    run.finish().exited(0).events();
}

#[test]
fn two_foreground_runs_of_one_name_are_one() {
    let Some(machine) = Machine::new() else { return };
    let gate = Gate::new();
    let steps = format!("say:up {gate} say:end exit:3");
    let first = machine.run("--id far").puppet(&steps).up();
    let second = machine.run("--id far").puppet(&steps).up();
    machine.run("--id far").puppet("say:other").run().refused("another command");
    gate.open();
    for run in [first, second] {
        assert_eq!(run.finish().exited(3).out(), "up\nend\n");
    }
    assert_eq!(machine.run("--id far").puppet(&steps).run().exited(3).out(), "up\nend\n");
    wait_until("the run", || machine.folders() == ["far"]);
}

#[test]
fn a_terminal_there_has_the_size_of_ours() {
    let Some(machine) = Machine::new() else { return };
    let stty = ["stty", "size"];
    let ran = machine.run("--pty --size 90x30").command(stty).run().exited(0);
    assert_eq!(ran.out().trim_end(), "30 90");
    let mut terminal = Terminal::of_size(123, 24);
    machine.run("--pty").command(stty).on(&terminal).run().exited(0);
    assert_eq!(terminal.rest(), "24 123\r\n");
    machine.keeps_nothing();
}

#[test]
fn a_reader_that_is_slower_than_the_command_loses_nothing() {
    let Some(machine) = Machine::new() else { return };
    // More than a journal keeps else.
    const LINES: usize = 1_000_000;
    let done = machine.path("done");
    let steps = format!("lines:stdout:{LINES} touch:{}", done.display());
    let mut run = machine.run("").puppet(&steps).start();
    run.until("0000000");
    wait_until("the end of the command", || done.exists());
    let ran = run.finish().exited(0);
    let out = &ran.stdout;
    assert_eq!(out.len(), LINES * LINE_BYTES);
    let begins = |(at, line): (usize, &[u8])| line.starts_with(format!("{at:07}").as_bytes());
    assert!(out.chunks(LINE_BYTES).enumerate().all(begins));
    machine.keeps_nothing();
    // Where it is to be bounded, what is missing is told.
    let ran = machine.ndjson("--journal 64K").puppet("lines:stdout:100000").run().exited(0);
    let events = Event::lines(&ran.stdout);
    let of = |op: &'static str| events.iter().filter(move |event| event["op"] == op);
    let dropped: u64 = of("dropped").map(|dropped| dropped.number("chunks")).sum();
    let last = of("chunk").next_back().expect("there is one").number("seq");
    assert_eq!((of("chunk").count() as u64 + dropped, of("result").count()), (last, 1));
}

#[test]
fn a_reader_that_lags_is_told_what_it_missed_where_that_was_asked_for() {
    let Some(machine) = Machine::new() else { return };
    // All has come once the connection has ended.
    machine.plan(&["after \"op\":\"result\""]);
    let mut run = machine.ndjson("--on-lag drop:64K").puppet("lines:stdout:200000 exit:3").start();
    run.until("\"started\"");
    let ssh = machine.newest().expect("there is a connection");
    wait_until("the end of what comes", || !alive(ssh));
    let ran = run.finish().exited(3);
    let events = Event::lines(&ran.stdout);
    let of = |op: &'static str| events.iter().filter(move |event| event["op"] == op);
    let dropped: u64 = of("dropped").map(|dropped| dropped.number("chunks")).sum();
    assert!(dropped > 0, "it was to lag");
    assert_eq!(of("chunk").count() as u64 + dropped, 200_000);
    machine.keeps_nothing();
}
