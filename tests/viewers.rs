//! Programs that read what the formats write, as their users call them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::harness::{PUPPET, RUNCAST, program, runcast, scratch, tool};

/// Steps that write what readers stumble over: controls, quotes, bytes that are no text, long lines, no lines.
const HARD: &str = "say:\\x01\\x7f\"\\\\\\\\\\u2028 pattern:stdout:3000 err:\\xff\\xe2\\x82 say: \
    fill:stdout:70K:\\x02 err:a\\r print:stdout:end";

/// What a program writes when it is given this input.
#[track_caller]
fn output(command: &mut Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a tool can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("a tool ends");
    assert!(output.status.success(), "{command:?}: {output:?}");
    writer.join().expect("no panic").expect("a tool reads all of its input");
    String::from_utf8(output.stdout).expect("it is text")
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

#[test]
fn jq_reads_every_line_of_each_json_format() {
    let Some(jq) = tool("jq") else { return };
    for format in ["ndjson", "snapshot", "log"] {
        let ran = runcast(&format!("-f {format}")).puppet(HARD).run().exited(0);
        let read = output(Command::new(&jq).args(["-c", "type"]), &ran.stdout);
        assert!(read.lines().all(|line| line == "\"object\""), "{format}: {read}");
        assert_eq!(read.lines().count(), ran.stdout.iter().filter(|byte| **byte == b'\n').count());
    }
}

#[test]
fn jq_finds_the_messages_of_a_stream_and_how_the_run_ended() {
    let Some(jq) = tool("jq") else { return };
    let ran = runcast("-f log").puppet("say:one err:two say:three exit:3").run().exited(3);
    let filter = "if .stream then select(.stream == \"stdout\").message else .exit_code end";
    assert_eq!(output(Command::new(jq).args(["-r", filter]), &ran.stdout), "one\nthree\n3\n");
}

#[test]
fn lnav_shows_time_level_stream_and_run_of_a_log() {
    let Some(lnav) = tool("lnav") else { return };
    let folder = scratch();
    let home = folder.path();
    let file = home.join("run.log");
    let run = runcast("-f log --stderr-level warn --max-line 8");
    let ran = run.puppet("say:one err:two say:\"12345678\"9 print:stdout:\\xff exit:3").run();
    fs::write(&file, &ran.exited(3).stdout).expect("the folder is ours");
    let mut install = Command::new(&lnav);
    output(install.arg("-i").arg(example("lnav/runcast_log.json")).env("HOME", home), b"");
    let query = |sql: &str| {
        let mut lnav = Command::new(&lnav);
        lnav.args(["-n", "-c", &format!(";{sql}"), "-c", ":write-json-to -"]).arg(&file);
        let written = output(lnav.env("HOME", home), b"");
        serde_json::from_str::<Value>(&written).unwrap_or_else(|error| panic!("{error}: {written}"))
    };
    let lines = query(
        "SELECT log_time, log_level, stream, run, seq, partial, log_body FROM runcast_log WHERE stream IS NOT NULL",
    );
    let records = fs::read_to_string(&file).expect("it was written above");
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let lines = lines.as_array().expect("there are rows");
    assert_eq!(lines.len(), records.len() - 1, "{lines:?}");
    for (line, record) in lines.iter().zip(&records) {
        let time = record["time"].as_str().expect("it is text").replace('T', " ");
        assert!(time.starts_with(line["log_time"].as_str().expect("it is text")), "{line}");
        let level = record["level"].as_str().expect("it is text").replace("warn", "warning");
        assert_eq!(line["log_level"], level);
        assert_eq!(line["log_body"], record["message"]);
        for name in ["stream", "run", "seq"] {
            assert_eq!(line[name], record[name], "{line}");
        }
    }
    let last = query("SELECT log_level, exit_code, log_body FROM runcast_log WHERE status = 3");
    assert_eq!((&last[0]["log_level"], &last[0]["exit_code"]), (&"error".into(), &3.into()));
}

#[test]
fn lnav_knows_logfmt_by_itself() {
    let Some(lnav) = tool("lnav") else { return };
    let folder = scratch();
    let file = folder.path().join("run.log");
    let ran = runcast("-f logfmt").puppet("say:one err:\"two\"\\s=\\\\\\\\ exit:3").run().exited(3);
    fs::write(&file, &ran.stdout).expect("the folder is ours");
    let sql = ";SELECT json_extract(fields, '$.stream') AS stream, \
        json_extract(fields, '$.status') AS status FROM logfmt_log ORDER BY stream";
    let mut lnav = Command::new(lnav);
    lnav.args(["-n", "-c", sql, "-c", ":write-json-to -"]).arg(&file).env("HOME", folder.path());
    let rows: Value = serde_json::from_str(&output(&mut lnav, b"")).expect("it is JSON");
    let told = |row: &Value| (row["stream"].clone(), row["status"].clone());
    let told: Vec<_> = rows.as_array().expect("there are rows").iter().map(told).collect();
    let expected =
        [(Value::Null, 3.into()), ("stderr".into(), Value::Null), ("stdout".into(), Value::Null)];
    assert_eq!(told, expected, "{}", ran.out());
}

#[test]
fn fblog_shows_a_log() {
    let Some(fblog) = tool("fblog") else { return };
    let ran = runcast("-f log --stderr-level error").puppet("say:one err:\"two\" exit:3").run();
    let shown = output(Command::new(fblog).args(["-a", "stream"]), &ran.exited(3).stdout);
    for text in ["INFO", "one", "ERROR", "\"two\"", "exited with code 3", "stderr"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn asciinema_plays_a_recording() {
    let (Some(script), Some(_)) = (tool("script"), tool("asciinema")) else { return };
    let folder = scratch();
    let path = folder.path().join("run.cast");
    runcast("--record")
        .arg(&path)
        .puppet("say:one err:two say:\\xe2\\x82\\xac exit:3")
        .run()
        .exited(3);
    for verb in ["cat", "play --speed 100"] {
        // It wants a terminal.
        let line = format!("asciinema {verb} {}", path.display());
        let mut script = program(&script);
        let shown = output(script.args(["-qec", &line, "/dev/null"]).env("LC_ALL", "C.UTF-8"), b"");
        let orders = ["one\r\ntwo\r\n€\r\n", "one\r\n€\r\ntwo\r\n", "two\r\none\r\n€\r\n"];
        assert!(orders.contains(&&*shown), "{verb}: {shown:?}");
    }
}

/// The parser `cri` of Fluent Bit's documentation. jq has the same engine for expressions, of a newer name.
const FLUENT_BIT_CRI: &str =
    r"^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>[^ ]*) (?<message>.*)$";

#[test]
fn fluent_bits_parser_reads_every_cri_line() {
    let Some(jq) = tool("jq") else { return };
    let ran = runcast("-f cri --max-line 1000 --split nul").puppet(HARD).run().exited(0);
    // It has time as %Y-%m-%dT%H:%M:%S.%L%z.
    let filter = "capture($cri) | select((.time | sub(\"\\\\.[0-9]+Z$\"; \"Z\") | fromdate) > 0) \
        | select(.logtag == \"F\" or .logtag == \"P\") | .stream";
    let mut jq = Command::new(jq);
    let read = output(jq.args(["-rR", "--arg", "cri", FLUENT_BIT_CRI, filter]), &ran.stdout);
    assert_eq!(read.lines().count(), ran.stdout.iter().filter(|byte| **byte == b'\n').count());
    assert!(read.contains("stdout") && read.contains("stderr"), "{read}");
}

/// Runs a program of Node, with runcast and the puppet as its first two arguments.
#[track_caller]
fn node(source: &str, options: &str, steps: &str) -> Option<String> {
    let mut node = program(tool("node")?);
    node.args(["-e", source, RUNCAST, PUPPET, options, steps]);
    Some(output(&mut node, b""))
}

#[test]
fn a_node_program_shares_its_own_pipe_which_does_not_block() {
    // Node makes a pipe that it writes to non-blocking; runcast then writes more than fits into it.
    let source = r#"
        const [runcast, puppet, options, steps] = process.argv.slice(1);
        process.stdout.write("begin\n", () => {
            const run = require("child_process").spawn(
                runcast, [...options.split(" "), "--", puppet, ...steps.split(" ")],
                { stdio: ["ignore", "inherit", "inherit"] });
            run.on("exit", (code) => process.stdout.write(`end ${code}\n`));
        });
    "#;
    for format in ["cri", "log", "logfmt", "ndjson"] {
        let options = format!("-f {format} --max-output 0");
        let Some(read) = node(source, &options, "lines:stdout:100000 exit:3") else { return };
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!((lines[0], lines.last()), ("begin", Some(&"end 3")), "{format}");
        let shown = lines.iter().filter(|line| line.contains("some text on the line"));
        let in_order = shown.zip(0..).filter(|(line, n)| line.contains(&format!("{n:07} some")));
        assert_eq!(in_order.count(), 100_000, "{format}");
    }
}

#[test]
fn a_node_program_that_takes_lines_of_64_kib_can_be_given_no_longer_ones() {
    let source = r#"
        const [runcast, puppet, options, steps] = process.argv.slice(1);
        const run = require("child_process").spawn(
            runcast, [...options.split(" "), "--", puppet, ...steps.split(" ")],
            { stdio: ["ignore", "pipe", "inherit"] });
        const limit = 64 * 1024;
        let held = Buffer.alloc(0), lines = 0, longest = 0;
        run.stdout.on("data", (data) => {
            held = Buffer.concat([held, data]);
            for (let end; (end = held.indexOf(10)) >= 0; held = held.subarray(end + 1)) {
                longest = Math.max(longest, end);
                lines += 1;
            }
            if (held.length > limit || longest > limit) {
                console.log(`too long: ${Math.max(longest, held.length)}`);
                process.exit();
            }
        });
        run.on("close", (code) => console.log(`${lines} ${code}`));
    "#;
    // The most that is made of a byte: an escape, and base64 since another one is no text.
    let steps = "print:stdout:\\xff fill:stdout:200K:\\x01 print:stdout:\\n fill:stderr:200K:\\xff";
    for (format, lines) in [("log", 51 + 1), ("logfmt", 51 + 1), ("ndjson", 51 + 2), ("cri", 51)] {
        let options = format!("-f {format} --max-line 8K --max-output 4K --partial-after never");
        let Some(read) = node(source, &options, steps) else { return };
        assert_eq!(read, format!("{lines} 0\n"), "{format}");
        let options = format!("-f {format} --max-output 4K --partial-after never");
        let read = node(source, &options, steps).expect("it was there just now");
        assert!(read.starts_with("too long"), "{format}: {read}");
    }
}
