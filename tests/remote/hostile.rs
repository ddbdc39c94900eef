//! A machine that says whatever it likes: what is shown here is lines and nothing else, and no failure there is a
//! success here.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tempfile::TempDir;

use runcast::model::recorded::MOST_COUNT;

use crate::harness::{Runcast, is_plain, peak_rss_bytes, runcast, scratch, script, wait_until};

/// What steers a terminal, or ends a line without being a line's end.
const STEERING: &str = "\x1b]0;x\x07\r\x08\u{9b}2J\u{85}\u{2028}\u{202e}\x1b[31m";

/// What such a machine answers to the first line that it hears.
struct Liar {
    folder: TempDir,
}

impl Liar {
    fn new(answer: impl AsRef<[u8]>) -> Self {
        let liar = Self { folder: scratch() };
        liar.says(answer);
        // It stays until nothing more is said to it.
        let content = "#!/bin/sh\nprintf '\\nruncast-remote-end 1\\n'\nread -r _\ncat \"${0%/*}/answer\"\ncat >/dev/null\n";
        script(&liar.folder.path().join("ssh"), content.as_bytes());
        liar
    }

    fn says(&self, answer: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join("answer"), answer).expect("the folder is ours");
    }

    /// runcast with these options, which are to name the machine.
    fn runcast(&self, options: &str) -> Runcast {
        runcast(options)
            .env("RUNCAST_SSH", self.folder.path().join("ssh"))
            .env("RUNCAST_DIR", self.folder.path().join("runs"))
            .env("RUNCAST_TEST_SILENCE_MS", "2000")
            .writes_no_events()
    }
}

fn json(text: &str) -> String {
    Value::from(text).to_string()
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Its result, without which nothing would end.
fn result(status: u8) -> String {
    format!(
        "{{\"op\":\"result\",\"exit_code\":{status},\"signal\":null,\"status\":{status},\"timed_out\":false,\
         \"stopped_by\":null,\"stdout\":\"\",\"stderr\":\"\",\"stdout_truncated\":false,\
         \"stderr_truncated\":false,\"stdout_bytes\":0,\"stderr_bytes\":0,\"stdout_lines\":0,\
         \"stderr_lines\":0,\"leaked\":false,\"limit\":null,\"duration\":1.0,\
         \"usage\":{{\"user\":0.0,\"system\":0.0,\"max_rss\":0}}}}\n"
    )
}

fn chunk(seq: u64, content: &str) -> String {
    let content = json(content);
    format!(
        "{{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":{seq},\"t\":0.1,\"content\":{content}}}\n"
    )
}

#[test]
fn what_it_says_of_failures_and_runs_steers_no_terminal() {
    let failed = format!(
        "{{\"op\":\"failed\",\"code\":\"run_unknown\",\"status\":125,\"message\":{}}}\n",
        json(STEERING)
    );
    let done = format!(
        "{{\"op\":\"done\",\"status\":0,\"stdout\":\"{0}\",\"stderr\":\"{0}\"}}\n",
        base64(&format!("a{STEERING}\nb\n"))
    );
    for answer in [failed, done] {
        let liar = Liar::new(answer);
        for words in ["runs --host x", "forget --host x far", "runs -f ndjson --host x"] {
            let ran = liar.runcast(words).run();
            is_plain(&ran.out());
            is_plain(&ran.err());
            assert!(!ran.err().is_empty() || !ran.out().is_empty(), "{words}: {ran}");
        }
    }
    let liar = Liar::new("");
    let content = format!("#!/bin/sh\nprintf '%b' '{STEERING}\\n' >&2\nexit 255\n");
    script(&liar.folder.path().join("ssh"), content.as_bytes());
    let ran = liar.runcast("--host x --retry-timeout 0").puppet("say:x").run().exited(125);
    is_plain(&ran.err());
    let content = format!("#!/bin/sh\necho '{STEERING}'\nexit 1\n");
    script(&liar.folder.path().join("ssh"), content.as_bytes());
    let ran = liar.runcast("--host x --retry-timeout 0").puppet("say:x").run().exited(125);
    is_plain(&ran.err());
}

#[test]
fn a_failure_there_is_no_success_here() {
    let failed = "{\"op\":\"failed\",\"code\":\"no such code\",\"status\":0,\"message\":\"m\"}\n";
    let liar = Liar::new(failed);
    for words in [
        "attach --host x far",
        "runs --host x",
        "wait --host x far",
        "signal --host x far",
        "send --host x far",
        "forget --host x far",
    ] {
        let ran = liar.runcast(words).run();
        assert_eq!(ran.code(), Some(125), "{words}: {ran}");
    }
    liar.runcast("--host x").puppet("say:x").run().exited(125);
    liar.runcast("--host x -d").puppet("say:x").run().exited(125);
}

#[test]
fn answers_that_are_no_objects_are_not_handed_to_a_program() {
    for said in ["not JSON\n", "[1]\n", "{\"a\":1}\n\x1b[2J\n", "{\"a\":\n1}\n"] {
        let done = format!(
            "{{\"op\":\"done\",\"status\":0,\"stdout\":\"{}\",\"stderr\":\"\"}}\n",
            base64(said)
        );
        let liar = Liar::new(done);
        for words in ["runs -f ndjson --host x", "wait --host x far"] {
            liar.runcast(words).run().failed(125, "remote_failed", "makes no sense");
        }
    }
}

#[test]
fn lines_that_are_no_events_are_passed_over_and_chunks_come_in_order() {
    let mut answer =
        b"{\"op\":\"begun\",\"id\":\"../../x\",\"existing\":false,\"started\":\"\"}\n".to_vec();
    answer.extend(chunk(3, "three\n").bytes());
    answer.extend(chunk(1, "one\n").bytes());
    for broken in [
        &b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":4,\"t\":0.1,\"content\":\"\x1b[2J\"}\n"[..],
        b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":4,\"t\":0.1,\"content\":\"a\"\n",
        b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":4,\"t\":0.1,\"content\":\"\xff\"}\n",
        b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":4} {\"op\":\"chunk\"}\n",
        b"{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":44444444444444444444,\"t\":0.1,\"content\":\"a\"}\n",
        b"{\"op\":\"later\",\"x\":\"\xff\"}\n",
        b"\0\n",
        b"\n",
        b"{\"op\":\"done\",\"status\":0,\"stdout\":\"\",\"stderr\":\"\"}\n",
        b"{\"op\":\"received\"}\n",
        b"{\"op\":\"input\",\"offset\":18446744073709551615,\"closed\":false}\n",
    ] {
        answer.extend_from_slice(broken);
    }
    answer.extend(chunk(4, "four\n").bytes());
    answer.extend(chunk(4, "once more\n").bytes());
    answer.extend(result(7).bytes());
    answer.extend(chunk(5, "behind the end\n").bytes());
    let liar = Liar::new(&answer);
    let ran = liar.runcast("attach -f ndjson --host x far").run().exited(7);
    let out = ran.out();
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let shown: Vec<&Value> = lines.iter().filter(|line| line["op"] == "chunk").collect();
    assert_eq!(
        shown.iter().map(|chunk| chunk["content"].as_str()).collect::<Vec<_>>(),
        [Some("three\n"), Some("four\n")],
        "{ran}"
    );
    assert_eq!(lines.last().expect("there is a result")["op"], "result");
    let text = liar.runcast("--host x").puppet("say:x").run().exited(7);
    assert_eq!(text.out(), "three\nfour\n");
    let names = fs::read_dir(liar.folder.path()).expect("it is there").count();
    assert_eq!(names, 2, "something was made here");
}

#[test]
fn numbers_of_any_size_are_no_trouble() {
    let huge = MOST_COUNT;
    let answer = [
        chunk(1, "one\n"),
        format!("{{\"op\":\"heartbeat\",\"t\":1.8e19,\"idle\":1.8e19,\"stdout_bytes\":{huge},\"stderr_bytes\":1}}\n"),
        format!("{{\"op\":\"stop\",\"t\":{huge}.0,\"reason\":\"timeout\",\"signal\":\"\\u001b\"}}\n"),
        format!("{{\"op\":\"dropped\",\"t\":1.8e19,\"after_seq\":{huge},\"chunks\":{huge},\"bytes\":{huge}}}\n"),
        chunk(huge, "last\n"),
        "{\"op\":\"exited\",\"t\":1e300,\"exit_code\":0,\"signal\":null}\n".to_owned(),
        result(3)
            .replace("\"duration\":1.0", "\"duration\":1.8e19")
            .replace("_bytes\":0", &format!("_bytes\":{huge}"))
            .replace("_lines\":0", &format!("_lines\":{huge}")),
        "{\"op\":\"received\"}\n".to_owned(),
    ]
    .concat();
    let liar = Liar::new(&answer);
    for options in [
        "-f text",
        "-f text -p -Telapsed",
        "-f ndjson -T",
        "-f snapshot",
        "-f cri",
        "-f log",
        "-f logfmt",
    ] {
        let ran = liar.runcast(&format!("attach --host x {options} far")).run().exited(3);
        assert!(!ran.err().contains("internal error"), "{options}: {ran}");
        let record = liar.folder.path().join("r.cast");
        let run = liar.runcast(&format!("--host x {options} --heartbeat 1s --record"));
        let ran = run.arg(&record).puppet("say:x").run().exited(3);
        assert!(!ran.err().contains("internal error"), "{options}: {ran}");
    }
}

#[test]
fn a_place_for_input_that_is_as_far_off_as_can_be_is_no_trouble() {
    let input = |closed: bool| {
        format!("{{\"op\":\"input\",\"offset\":18446744073709551615,\"closed\":{closed}}}\n")
    };
    let failed = "{\"op\":\"failed\",\"code\":\"run_ended\",\"status\":125,\"message\":\"m\"}\n";
    let over = result(0) + "{\"op\":\"received\"}\n";
    for told in [input(false), input(false).repeat(3), input(false) + &input(true), input(true)] {
        for (words, end) in [
            ("send --host x far", failed),
            ("send --eof --host x far", failed),
            ("--host x -- true", over.as_str()),
        ] {
            let liar = Liar::new(told.clone() + end);
            let ran = liar.runcast(words).input("x").run();
            assert!(matches!(ran.code(), Some(0 | 125)), "{words}: {ran}");
            assert!(!ran.err().contains("internal error"), "{words}: {ran}");
        }
    }
}

#[test]
fn a_start_that_tells_of_another_run_is_refused() {
    let started = |id: &str| {
        format!(
            "{{\"op\":\"started\",\"v\":1,\"id\":\"{id}\",\"pid\":1,\"cwd\":null,\
             \"time\":\"2026-11-30T12:00:00.000000Z\"}}"
        )
    };
    for told in [
        started("other") + "\n",
        started("far").replace(',', ",\n") + "\n",
        "\x1b[2J\n".to_owned(),
        String::new(),
    ] {
        let begun = format!(
            "{{\"op\":\"begun\",\"id\":\"far\",\"existing\":true,\"started\":{}}}\n",
            json(&told)
        );
        let liar = Liar::new(begun);
        let ran = liar.runcast("--host x -d --id far -f ndjson").puppet("say:x").run();
        ran.failed(125, "remote_failed", "makes no sense");
    }
}

#[test]
fn events_without_end_take_little_memory() {
    let mut answer = Vec::new();
    for number in 0..150_000 {
        answer
            .extend(format!("{{\"op\":\"later\",\"n\":{number},\"x\":\"{:0600}\"}}\n", 0).bytes());
    }
    let liar = Liar::new(&answer);
    let live = liar.runcast("attach -q --host x far").start();
    let is_read = || {
        let children = crate::harness::children(live.pid());
        // It has handed all of it over once it waits for more from here.
        children.iter().any(|&ssh| {
            let cats = crate::harness::children(ssh);
            cats.iter().any(|&cat| {
                let words = fs::read(format!("/proc/{cat}/cmdline")).unwrap_or_default();
                words == b"cat\0"
            })
        })
    };
    wait_until("the end of what it says", is_read);
    assert!(peak_rss_bytes(live.pid()) < 48 << 20, "{}", peak_rss_bytes(live.pid()));
    live.signal(nix::sys::signal::Signal::SIGINT);
    live.finish();
}

#[test]
fn the_other_end_takes_no_name_for_a_path_and_no_nonsense_for_a_request() {
    let folder = scratch();
    let runs = folder.path().join("runs");
    let outside = folder.path().join("outside");
    for place in [&runs, &outside] {
        fs::create_dir(place).expect("the folder is ours");
        fs::set_permissions(place, fs::Permissions::from_mode(0o700)).expect("it is ours");
    }
    fs::write(outside.join("lock"), "").expect("the folder is ours");
    let word = |text: &str| format!("\"{}\"", base64(text));
    let deep = "[".repeat(100_000);
    let absolute = outside.display().to_string();
    for id in ["../outside", &absolute, "..", ".", "", "a/../../outside", "x\n", "\u{202e}x", "-x"]
    {
        let (id, typed) = (json(id), word(id));
        for request in [
            format!("{{\"op\":\"attach\",\"id\":{id},\"after\":0}}"),
            format!("{{\"op\":\"feed\",\"id\":{id},\"alone\":true}}"),
            format!("{{\"op\":\"signal\",\"id\":{id},\"once\":\"x\"}}"),
            format!(
                "{{\"op\":\"do\",\"words\":[{},\"LS0=\",{typed}],\"again\":false}}",
                word("forget")
            ),
            format!(
                "{{\"op\":\"do\",\"words\":[{},\"LS0=\",{typed}],\"again\":true}}",
                word("forget")
            ),
            format!(
                "{{\"op\":\"start\",\"words\":[{},{},{typed},\"LS0=\",{}],\"uncounted\":[],\"secrets\":[]}}",
                word("-d"),
                word("--id"),
                word("true")
            ),
        ] {
            let run = runcast("--remote-end").env("RUNCAST_DIR", &runs).writes_no_events();
            let ran = run.input(request.clone() + "\n").run();
            assert!(matches!(ran.code(), Some(0 | 125)), "{request}: {ran}");
            assert!(!ran.err().contains("internal error"), "{request}: {ran}");
            let is_refused = |line: &str| {
                let told: Value = serde_json::from_str(line).expect("it is JSON");
                told["op"] == "failed" || (told["op"] == "done" && told["status"] == 125)
            };
            let out = ran.out();
            let told: Vec<&str> = out.lines().filter(|line| line.starts_with('{')).collect();
            assert!(
                ran.code() == Some(125) || told.iter().all(|line| is_refused(line)),
                "{request}: {ran}"
            );
            assert!(ran.code() == Some(125) || !told.is_empty(), "{request}: {ran}");
        }
    }
    for nonsense in [
        "\0",
        "{}",
        "[]",
        &deep,
        "{\"op\":\"part\",\"bytes\":1e999,\"offset\":0}",
        "{\"op\":\"attach\"}",
    ] {
        let run = runcast("--remote-end").env("RUNCAST_DIR", &runs).writes_no_events();
        let ran = run.input(nonsense.to_owned() + "\n").run();
        assert!(matches!(ran.code(), Some(0 | 125)), "{ran}");
        assert_eq!(ran.out(), "\nruncast-remote-end 1\n");
    }
    assert_eq!(fs::read_dir(&runs).expect("it is there").count(), 0);
    assert!(outside.join("lock").exists());
}

#[test]
fn a_line_without_end_is_given_up() {
    let liar = Liar::new("");
    let answer = fs::File::create(liar.folder.path().join("answer"));
    answer.and_then(|answer| answer.set_len(1 << 40)).expect("a file may have holes");
    for words in ["attach -f ndjson --host x far", "runs -f ndjson --host x"] {
        let ran = liar.runcast(words).env("RUNCAST_TEST_LINE_BYTES", "8000000").run();
        ran.failed(125, "remote_failed", "a line that comes from there has no end");
    }
}
