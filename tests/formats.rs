//! The formats for log viewers and the asciicast: what a record holds, and that nothing is lost on the way to it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::test_runner::Config;
use proptest::{collection, proptest};
use serde_json::{Value, json};

use crate::harness::{
    Event, Gate, RUNCAST, Ran, events_in, program, result_in, runcast, scratch, text, tool,
    wait_until,
};

/// What stands in the lines of `cri`: time, stream, tag and content.
type Line = (String, String, String, Vec<u8>);

fn cri_lines(bytes: &[u8]) -> Vec<Line> {
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "{}", bytes.escape_ascii());
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
    lines
        .map(|line| {
            let mut fields = line[..line.len() - 1].splitn(4, |&byte| byte == b' ');
            let mut next = || fields.next().unwrap_or_else(|| panic!("{}", line.escape_ascii()));
            (text(next()), text(next()), text(next()), next().to_vec())
        })
        .collect()
}

/// The same without the time, as text.
fn told(ran: &Ran) -> Vec<String> {
    let lines = cri_lines(&ran.stdout);
    let line =
        |(_, stream, tag, content): &Line| format!("{stream} {tag} {}", content.escape_ascii());
    lines.iter().map(line).collect()
}

/// The pairs of a logfmt record, read as its usual readers do: a value in quotes is a JSON string.
fn pairs(line: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=').unwrap_or_else(|| panic!("no pair: {rest}"));
        let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(!key.is_empty() && key.chars().all(is_key), "no key: {key} in {line}");
        let length = if value.starts_with('"') {
            let is_escaped = |at: usize| {
                value[1..at].bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
            };
            let mut quotes = value.match_indices('"').skip(1).map(|(at, _)| at);
            quotes.find(|&at| !is_escaped(at)).unwrap_or_else(|| panic!("no end: {line}")) + 1
        } else {
            let length = value.find(' ').unwrap_or(value.len());
            let is_bare = !value[..length].contains(['"', '=']);
            assert!(is_bare, "not a bare value: {value} in {line}");
            length
        };
        let (value, after) = value.split_at(length);
        let read = if value.starts_with('"') {
            serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {value}"))
        } else {
            value.to_owned()
        };
        found.push((key.to_owned(), read));
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    found
}

/// The records of `log` or `logfmt`: all of them have a time, a level and a message.
fn records(format: &str, ran: &Ran) -> Vec<Event> {
    let lines = ran.out();
    assert!(lines.ends_with('\n'), "{ran}");
    lines
        .lines()
        .map(|line| match format {
            "log" => serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")),
            _ => Event::of_pairs(pairs(line)),
        })
        .collect()
}

/// The name that the format has for a message.
fn message_in(format: &str) -> &'static str {
    if format == "log" { "message" } else { "msg" }
}

#[test]
fn a_cri_line_is_time_stream_tag_and_the_exact_bytes() {
    let ran = runcast("-f cri").puppet("print:stdout:a\\r\\n\\xff\\0\\tb\\n\\n\\send").run();
    assert_eq!(
        told(&ran.exited(0)),
        ["stdout F a\\r", "stdout F \\xff\\x00\\tb", "stdout F ", "stdout F  end"]
    );
    let ran = runcast("-f cri").puppet("err:warn exit:3").run().exited(3);
    assert_eq!(told(&ran), ["stderr F warn"]);
    let time = &cri_lines(&ran.stdout)[0].0;
    assert!(time.len() == "2026-11-30T12:00:00.000000Z".len() && time.ends_with('Z'), "{time}");
}

#[test]
fn a_longer_line_is_cri_pieces_and_the_rest_of_it() {
    let ran = runcast("-f cri --max-line 4").puppet("say:1234567890 say:1234 say:12345678").run();
    let lines = ["P 1234", "P 5678", "F 90", "F 1234", "P 1234", "F 5678"];
    assert_eq!(told(&ran), lines.map(|line| format!("stdout {line}")));
}

#[test]
fn a_cri_line_stays_one_where_something_else_ends_lines() {
    let ran = runcast("-f cri --split nul").puppet("print:stdout:a\\nb\\0\\n\\0c\\r\\nd").run();
    assert_eq!(told(&ran), ["a", "b", "", "", "c\\r", "d"].map(|text| format!("stdout F {text}")));
    let ran = runcast("-f cri --split nul --max-line 4").puppet("print:stdout:ab\\ncd\\0").run();
    assert_eq!(told(&ran), ["stdout F ab", "stdout P c", "stdout F d"]);
    let ran = runcast("-f cri --split cr").puppet("print:stdout:a\\rb\\r\\nc\\n\\rd").run();
    assert_eq!(told(&ran), ["a", "b", "c", "", "d"].map(|text| format!("stdout F {text}")));
}

#[test]
fn an_unfinished_cri_line_is_ended_with_the_run() {
    let ran = runcast("-f cri --partial-after 0").puppet("print:stdout:prompt sleep:50").run();
    assert_eq!(told(&ran), ["stdout P prompt", "stdout F "]);
    let ran = runcast("-f cri").puppet("print:stdout:prompt sleep:300 say:-yes").run();
    assert_eq!(told(&ran), ["stdout F prompt-yes"], "nobody asked for pieces");
}

#[test]
fn cri_has_nothing_but_lines() {
    let ran = runcast("-f cri").command(["/no/such/command"]).run().exited(127);
    assert_eq!(ran.out(), "");
    ran.said_one_line("/no/such/command");
    assert_eq!(runcast("-f cri -q").puppet("say:a err:b").run().exited(0).out(), "");
    assert_eq!(runcast("-f cri -t 0.1").puppet("sleep").run().exited(124).out(), "");
}

#[test]
fn a_log_record_has_its_fields_in_their_order() {
    let ran = runcast("-f log --max-line 4").puppet("say:12345 print:stdout:\\xffa\\0").run();
    let records = records("log", &ran.exited(0));
    let basic = ["time", "level", "message", "stream", "run", "seq"];
    assert_eq!(records[0].names(), [&basic[..], &["partial"]].concat());
    assert_eq!(records[1].names(), basic);
    assert_eq!(records[2].names(), [&basic[..], &["base64"]].concat());
    let lines: Vec<_> = records[..3].iter().map(|record| record.text("message")).collect();
    assert_eq!(lines, ["1234", "5", "\u{fffd}a\0"]);
    assert_eq!(records[2]["base64"], "/2EA");
    for (seq, record) in (1..).zip(&records[..3]) {
        assert_eq!((record.text("level"), record.text("stream")), ("info", "stdout"));
        assert_eq!((record.number("seq"), record.text("run")), (seq, records[0].text("run")));
    }
}

#[test]
fn a_logfmt_record_is_its_pairs_with_the_message_in_quotes() {
    let ran = runcast("-f logfmt --max-line 40")
        .puppet(
            "print:stdout:say\\s\"hi\"\\sa=b\\s\\\\\\\\\\t\\x01\\n print:stdout:\\xffa sleep:20",
        )
        .run()
        .exited(0);
    let out = ran.out();
    let lines: Vec<&str> =
        out.lines().map(|line| line.split_once(' ').expect("a time").1).collect();
    assert_eq!(lines[0], r#"level=info msg="say \"hi\" a=b \\\\\t\u0001" stream=stdout seq=1"#);
    assert_eq!(lines[1], "level=info msg=\"\u{fffd}a\" stream=stdout seq=2 base64=\"/2E=\"");
    assert!(out.lines().all(|line| line.starts_with("time=20")), "{out}");
}

#[test]
fn standard_error_has_the_level_that_was_asked_for() {
    for format in ["log", "logfmt"] {
        for (option, level) in [("", "info"), ("--stderr-level error", "error")] {
            let run = runcast(&format!("-f {format} {option}"));
            let records = records(format, &run.puppet("say:out err:err").run().exited(0));
            let levels: Vec<_> = ["stdout", "stderr"]
                .iter()
                .map(|stream| records.iter().find(|record| record["stream"] == **stream))
                .map(|record| record.expect("it wrote a line").text("level"))
                .collect();
            assert_eq!(levels, ["info", level], "{format}");
        }
    }
}

/// Options, steps, the status, the last record's level, what its message begins with, and fields of it.
type EndCase<'a> = (&'a str, &'a str, i32, &'a str, &'a str, &'a [(&'a str, &'a str)]);

#[test]
fn the_last_record_tells_how_the_run_ended() {
    let cases: [EndCase<'_>; 5] = [
        ("", "exit:0", 0, "info", "exited with code 0 after ", &[("exit_code", "0")]),
        ("", "exit:3", 3, "error", "exited with code 3 after ", &[("exit_code", "3")]),
        (
            "-t 0.1",
            "sleep",
            124,
            "error",
            "ended by SIGTERM after ",
            &[("timed_out", "true"), ("stopped_by", "timeout")],
        ),
        ("", "raise:KILL", 137, "error", "ended by SIGKILL", &[("signal", "SIGKILL")]),
        ("--drain 0", "fork { sleep } exit:0", 0, "warn", "exited with", &[("leaked", "true")]),
    ];
    for format in ["log", "logfmt"] {
        for (options, steps, code, level, message, fields) in &cases {
            let ran = runcast(&format!("-f {format} {options}")).puppet(steps).run().exited(*code);
            let records = records(format, &ran);
            let last = records.last().expect("there is at least that one");
            assert_eq!(records.len(), 1, "{ran}");
            assert_eq!(last.text("level"), *level, "{ran}");
            assert!(last.text(message_in(format)).starts_with(message), "{ran}");
            let status = code.to_string();
            for (name, value) in fields.iter().chain(&[("status", &*status)]) {
                assert_eq!(last[*name].to_string().trim_matches('"'), *value, "{ran}");
            }
            assert!(last["stream"].is_null() && last["stdout"].is_null(), "{ran}");
        }
    }
}

#[test]
fn a_run_that_never_started_has_a_last_record_with_the_error() {
    let message = "/no/such/command: command not found";
    let failed =
        |format: &str| runcast(&format!("-f {format}")).command(["/no/such/command"]).run();
    let ran = failed("log").exited(127);
    let record = &records("log", &ran)[0];
    assert_eq!((record.text("level"), record.text("message")), ("error", message));
    assert_eq!(record["error"], json!({"code": "not_found", "message": message}));
    assert!(record["exit_code"].is_null() && record["status"] == 127, "{ran}");
    let ran = failed("logfmt").exited(127);
    let record = &records("logfmt", &ran)[0];
    assert_eq!((record.text("level"), record.text("msg")), ("error", message));
    assert_eq!((record.text("error_code"), record.text("error")), ("not_found", message));
    assert_eq!(ran.out().lines().count(), 1);
}

#[test]
fn a_quiet_log_is_its_last_record() {
    for format in ["log", "logfmt"] {
        let ran = runcast(&format!("-f {format} -q")).puppet("say:a err:b exit:4").run().exited(4);
        let records = records(format, &ran);
        assert_eq!(records.len(), 1, "{ran}");
        assert!(records[0].text(message_in(format)).contains("code 4"), "{ran}");
    }
}

#[test]
fn what_was_dropped_for_a_slow_reader_is_told_in_its_place() {
    let folder = scratch();
    for format in ["log", "logfmt"] {
        let gate = Gate::new();
        let written = folder.path().join("written");
        let steps = format!("lines:stdout:50000 touch:{} {gate} say:end", written.display());
        let result = folder.path().join(format);
        let run = runcast(&format!("-f {format} --on-lag drop:64K --result")).arg(&result);
        let mut live = run.puppet(&steps).start();
        wait_until("all lines", || written.exists());
        live.shows("dropped");
        gate.open();
        let ran = live.finish().exited(0);
        fs::remove_file(written).expect("it was made above");
        let records = records(format, &ran);
        let told = |record: &&Event| record.text("level") == "warn" && record["status"].is_null();
        let told: Vec<&Event> = records.iter().filter(told).collect();
        let lines = records.iter().filter(|record| !record["stream"].is_null()).count() as u64;
        let dropped = result_in(&result).number("dropped_chunks");
        assert!(!told.is_empty() && lines + dropped == 50001, "{lines} and {dropped}: {ran}");
        let last = records.last().expect("there is at least the last");
        assert_eq!((last.text("level"), last["dropped_chunks"].is_null()), ("warn", false));
    }
}

#[test]
fn what_a_stalled_reader_did_not_get_whole_is_counted_exactly() {
    let folder = scratch();
    let result = folder.path().join("result");
    for (format, steps) in [
        ("cri", "lines:stdout:40000 sleep"),
        ("log", "repeat:300 { fill:stdout:999:a fill:stdout:1:\\n fill:stdout:40000:b\\n } sleep"),
        (
            "logfmt",
            "err:a fill:stderr:300K:x print:stderr:\\n fill:stderr:300K:\\xff\\xff\\n sleep",
        ),
        (
            "ndjson",
            "repeat:300 { fill:stdout:999:a fill:stdout:1:\\n fill:stdout:40000:b\\n } sleep",
        ),
        ("ndjson", "repeat:300 { fill:stdout:70001:a fill:stdout:1:\\n } sleep"),
        ("ndjson --split cr", "lines:stdout:40000 sleep"),
        ("ndjson --split cr", "fill:stdout:300K:\\xff\\n fill:stdout:300K:\\n sleep"),
    ] {
        let (mut reader, writer) = std::io::pipe().expect("a pipe can be had");
        let run = runcast(&format!("-f {format} -t 0.5 -k 0.3 --result")).arg(&result);
        run.puppet(steps).stdout(writer).run().exited(124);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).expect("what was written can be read");
        let whole = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines = written[..whole].split_inclusive(|&byte| byte == b'\n');
        let carried: usize = lines
            .map(|line| match format {
                "cri" => cri_lines(line)[0].3.len() + 1,
                "log" => serde_json::from_slice::<Value>(line).expect("it is JSON")["message"]
                    .as_str()
                    .map_or(0, |message| message.len() + 1),
                "ndjson" | "ndjson --split cr" => {
                    let event: Event = serde_json::from_slice(line).expect("it is JSON");
                    if event.text("op") == "chunk" { event.bytes().len() } else { 0 }
                }
                _ => {
                    let line = String::from_utf8_lossy(line);
                    let record = Event::of_pairs(pairs(line.trim_end()));
                    record.text("msg").chars().count() + 1
                }
            })
            .sum();
        let result = result_in(&result);
        let all = result.number("stdout_bytes") + result.number("stderr_bytes");
        let told = all - result.number("undelivered_bytes");
        assert_eq!(told, carried as u64, "{format}");
        assert!(told < all, "{format} was read to its end");
    }
}

/// Writes to either stream.
fn writes() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        3 => prop_oneof![Just(b'\n'), Just(b'\r'), Just(0), Just(b'"'), Just(b'\\'), Just(b' ')],
        2 => prop_oneof![Just(0xe2), Just(0x82), Just(0xac)],
    ];
    collection::vec((any::<bool>(), collection::vec(byte, 1..40)), 0..10)
}

/// What the lines of `cri` should be for these chunks of a recording.
fn expected_cri<'a>(
    chunks: &'a [Event],
    split: &str,
) -> Vec<(&'a Event, &'a str, &'a str, Vec<u8>)> {
    let mut lines = Vec::new();
    for chunk in chunks {
        let partial = chunk["partial"] == true;
        let bytes = chunk.bytes();
        let content = if partial { &bytes[..] } else { without_end(&bytes, split) };
        let mut parts = content.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let tag = if partial && parts.peek().is_none() { "P" } else { "F" };
            lines.push((chunk, chunk.text("kind"), tag, part.to_vec()));
        }
    }
    lines
}

fn without_end<'a>(line: &'a [u8], split: &str) -> &'a [u8] {
    let ends: &[&[u8]] = match split {
        "lf" => &[b"\n"],
        "nul" => &[b"\0"],
        _ => &[b"\r\n", b"\n", b"\r"],
    };
    ends.iter().find_map(|end| line.strip_suffix(*end)).unwrap_or(line)
}

/// Whether that is the time of day of a recorded chunk, which has it in two parts, each cut to microseconds.
fn is_time_of(time: &str, chunk: &Event, started: &str) -> bool {
    let parsed = |time: &str| time.parse::<jiff::Timestamp>().expect("it is a time");
    let t = chunk["t"].as_f64().expect("it is a number");
    let since = parsed(time).duration_since(parsed(started)).as_secs_f64();
    (since - t).abs() < 4e-6
}

proptest! {
    #![proptest_config(Config { cases: 24, failure_persistence: None, ..Config::default() })]

    #[test]
    fn records_carry_exactly_what_a_recording_of_the_run_has(
        writes in writes(),
        split in prop_oneof![Just("lf"), Just("cr"), Just("nul")],
        max_line in prop_oneof![Just("4"), Just("16"), Just("1M")],
        format in prop_oneof![Just("cri"), Just("log"), Just("logfmt")],
    ) {
        let steps: Vec<String> = writes.iter().map(|(error, bytes)| {
            format!("print:{}:{}", if *error { "stderr" } else { "stdout" }, text(bytes))
        }).collect();
        let folder = scratch();
        let path = folder.path().join("recording");
        let options = format!("-f {format} --split {split} --max-line {max_line} --partial-after never --record");
        let ran = runcast(&options).arg(&path).puppet(&steps.join(" ")).run().exited(0);
        let mut events = events_in(&path);
        let started = events.remove(0).text("time").to_owned();
        let run_id = events_in(&path)[0].text("id").to_owned();
        events.pop();
        if format == "cri" {
            let (lines, expected) = (cri_lines(&ran.stdout), expected_cri(&events, split));
            prop_assert_eq!(lines.len(), expected.len());
            for ((time, stream, tag, content), (chunk, kind, expected_tag, bytes)) in lines.iter().zip(expected) {
                prop_assert_eq!((&**stream, &**tag, content), (kind, expected_tag, &bytes));
                prop_assert!(is_time_of(time, chunk, &started), "{} {}", time, chunk);
            }
            return Ok(());
        }
        let mut records = records(format, &ran);
        records.pop();
        prop_assert_eq!(records.len(), events.len());
        for (record, chunk) in records.iter().zip(&events) {
            let bytes = chunk.bytes();
            let partial = chunk["partial"] == true;
            let content = if partial { &bytes[..] } else { without_end(&bytes, split) };
            prop_assert_eq!(record.exact(message_in(format), "base64"), content);
            prop_assert_eq!(record.text("stream"), chunk.text("kind"));
            prop_assert_eq!(record["seq"].to_string().replace('"', ""), chunk["seq"].to_string());
            prop_assert_eq!(!record["partial"].is_null(), partial);
            prop_assert!(is_time_of(record.text("time"), chunk, &started), "{} {}", record, chunk);
            if format == "log" {
                prop_assert_eq!(record.text("run"), &run_id);
            }
        }
    }
}

/// A recorded asciicast: its header and its events.
fn cast(path: &Path) -> (Value, Vec<Value>) {
    let content = fs::read_to_string(path).expect("it is a text");
    let mut lines = content.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    (lines.next().expect("it has a header"), lines.collect())
}

/// What its events show.
fn shown(events: &[Value]) -> Vec<&str> {
    let text = |event: &'_ Value| event[1] == "o" && event[0].is_f64() && event[2].is_string();
    assert!(events.iter().all(text), "{events:?}");
    events.iter().filter_map(|event| event[2].as_str()).collect()
}

#[test]
fn an_asciicast_has_an_event_for_each_read_with_lines_as_a_terminal_has_them() {
    let folder = scratch();
    let path = folder.path().join("run.cast");
    let ran = runcast("--record").arg(&path).puppet("say:a sleep:100 err:b\\\"\\x1b exit:3").run();
    assert_eq!(ran.exited(3).out(), "a\n");
    let (header, events) = cast(&path);
    assert_eq!(shown(&events), ["a\r\n", "b\"\u{1b}\r\n"]);
    let times: Vec<f64> = events.iter().filter_map(|event| event[0].as_f64()).collect();
    assert!(times[1] - times[0] > 0.05, "{times:?}");
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&json!(2), &json!(80), &json!(24))
    );
    let command = header["command"].as_str().expect("it has a command");
    let words = shlex::split(command).expect("a shell takes it");
    assert_eq!(words[1..], ["say:a", "sleep:100", r#"err:b\"\x1b"#, "exit:3"], "{command}");
    assert!(header["timestamp"].as_i64() > Some(1_700_000_000), "{header}");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_asciicast_keeps_characters_whole_over_two_reads() {
    let folder = scratch();
    let path = folder.path().join("run.cast");
    let steps = "print:stdout:\\xe2\\x82 sleep:100 print:stderr:- print:stdout:\\xac! sleep:100 print:stdout:\\xff\\xe2";
    runcast("--record").arg(&path).puppet(steps).run().exited(0);
    let text = shown(&cast(&path).1).concat();
    assert!(["-€!\u{fffd}\u{fffd}", "€!-\u{fffd}\u{fffd}"].contains(&&*text), "{text}");
}

#[test]
fn an_asciicast_tells_where_it_was_made_and_no_command_line_that_is_to_stay_hidden() {
    let folder = scratch();
    let path = folder.path().join("run.cast");
    let run =
        runcast("--no-argv --record").arg(&path).env("TERM", "vt100").env("SHELL", "/bin/zsh");
    run.puppet("say:secret").run().exited(0);
    let (header, events) = cast(&path);
    assert_eq!(header["env"], json!({"TERM": "vt100", "SHELL": "/bin/zsh"}));
    assert!(header["command"].is_null() && shown(&events) == ["secret\r\n"], "{header}");
}

#[test]
fn an_asciicast_has_the_size_of_the_terminal() {
    let Some(script) = tool("script") else { return };
    let folder = scratch();
    let path = folder.path().join("run.cast");
    let line = format!("stty cols 101 rows 37; {} --record {} -- true", RUNCAST, path.display());
    let status = program(script)
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("script can be started");
    assert!(status.success());
    let header = cast(&path).0;
    assert_eq!((&header["width"], &header["height"]), (&json!(101), &json!(37)));
}

#[test]
fn an_asciicast_of_a_run_that_never_started_is_one_without_output() {
    let folder = scratch();
    let path = folder.path().join("run.cast");
    runcast("--record").arg(&path).command(["/no/such/command"]).run().exited(127);
    let (header, events) = cast(&path);
    assert_eq!((&header["version"], events.len()), (&json!(2), 0));
}
