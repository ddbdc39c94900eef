//! Recordings, and playing them.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::{Event, events_in, ndjson, result_in, root, runcast, scratch, shared_folder};

/// Records `sh -c script` in a file, and returns what was shown meanwhile.
fn record(file: &Path, options: &str, script: &str) -> crate::harness::Ran {
    runcast(options).arg("--record").arg(file).command(["sh", "-c", script]).run()
}

fn replay(options: &str, file: &Path) -> crate::harness::Ran {
    runcast(&format!("replay {options}")).arg(file).run()
}

#[test]
fn it_has_the_events_that_ndjson_has_whatever_is_shown() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    let script = r"echo a; printf 'b\377' >&2; exit 6";
    for options in ["", "-q", "-f snapshot", "-f ndjson"] {
        let ran = record(&file, options, script).exited(6);
        let recorded = fs::read_to_string(&file).expect("it is there");
        let events = events_in(&file);
        let ops: Vec<&str> = events.iter().filter_map(|event| event["op"].as_str()).collect();
        assert_eq!(ops, ["started", "chunk", "chunk", "result"], "{options}");
        let of = |kind| events.iter().filter(move |event| event["kind"] == kind);
        assert!(of("stdout").all(|chunk| chunk["content"] == "a\n"));
        assert!(of("stderr").all(|chunk| chunk["base64"] == "Yv8="));
        if options == "-f ndjson" {
            assert_eq!(ran.out(), recorded);
        }
    }
}

#[test]
fn on_our_own_standard_output_it_stands_between_the_lines_and_writes_over_none() {
    let folder = scratch();
    let out = folder.path().join("out");
    for place in ["/dev/stdout", "/proc/self/fd/1"] {
        let file = File::create(&out).expect("the folder is ours");
        let run = runcast("--record").arg(place).puppet("say:one say:two exit:3").stdout(file);
        run.run().exited(3);
        let all = fs::read_to_string(&out).expect("it is there");
        let (events, lines): (Vec<&str>, Vec<&str>) =
            all.lines().partition(|line| line.starts_with('{'));
        assert_eq!(lines, ["one", "two"], "{all}");
        let events = Event::lines((events.join("\n") + "\n").as_bytes());
        let ops: Vec<&str> = events.iter().map(|event| event.text("op")).collect();
        assert_eq!(ops, ["started", "chunk", "chunk", "result"]);
    }
    let file = File::open("/dev/null").expect("there is one");
    let run = runcast("--record /dev/stdin").puppet("say:x").stdin(file);
    run.run().refused("--record /dev/stdin: Bad file descriptor");
}

#[test]
fn an_unfinished_line_goes_into_it_though_it_does_not_where_it_is_shown() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    record(&file, "-f cri --partial-after 1ms", "printf a; sleep 0.3; echo b").exited(0);
    let recorded = fs::read_to_string(&file).expect("it is there");
    assert!(recorded.contains(r#""content":"a","partial":true"#), "{recorded}");
}

#[test]
fn it_is_for_its_owner_alone_and_made_anew() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    fs::write(&file, "x".repeat(100_000)).expect("there is room");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    record(&file, "", "echo a").exited(0);
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).expect("text").lines().count(), 3);
}

#[test]
fn one_of_another_user_s_is_not_written_to_and_keeps_what_is_in_it() {
    let Some(()) = root() else { return };
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    fs::write(&file, "theirs").expect("there is room");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("it is ours");
    std::os::unix::fs::chown(&file, Some(1234), Some(1234)).expect("root may");
    let ran = record(&file, "", "echo a");
    ran.refused("it belongs to another user");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "theirs");
    // Nor is a link of theirs followed where all may lay one.
    let (shared, target) = (shared_folder(folder.path()), folder.path().join("target"));
    fs::write(&target, "ours").expect("there is room");
    let link = shared.join("link");
    std::os::unix::fs::symlink(&target, &link).expect("it can be made");
    std::os::unix::fs::lchown(&link, Some(1234), Some(1234)).expect("root may");
    for mode in [0o1777, 0o777] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("it is ours");
        record(&link, "", "echo a").refused("another user's, in a folder that all may write in");
        assert_eq!(fs::read_to_string(&target).expect("it is there"), "ours");
    }
}

#[test]
fn one_that_is_the_result_or_the_input_too_is_refused_before_the_command_starts() {
    let folder = scratch();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::os::unix::fs::symlink(&file, &link).expect("the place is free");
    for option in ["--result", "--stdin"] {
        for other in [&file, &link] {
            fs::write(&file, "mine").expect("there is room");
            let run = runcast(option).arg(other).arg("--record").arg(&file);
            run.puppet("say:started").run().refused(option);
            let content = fs::read_to_string(&file).expect("it is there");
            assert!(option == "--result" || content == "mine", "{content}");
        }
    }
}

#[test]
fn one_that_cannot_be_made_is_told_before_the_command_starts() {
    let folder = scratch();
    let mark = folder.path().join("started");
    let run = |options: &str| {
        runcast(options).arg("--record").arg("/no/such/file").command(["touch"]).arg(&mark).run()
    };
    run("-f ndjson").failed(125, "file_failed", "--record /no/such/file");
    run("").refused("--record /no/such/file: No such file or directory");
    assert!(!mark.exists());
}

#[test]
fn the_recorded_result_is_the_last_word_also_where_its_reader_was_lost_on_it() {
    let folder = scratch();
    let (file, cast, result) = (
        folder.path().join("run.ndjson"),
        folder.path().join("run.cast"),
        folder.path().join("result"),
    );
    for recording in [&file, &cast] {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let files = format!("--record {} --result {}", recording.display(), result.display());
        // Its last record is all that it writes.
        let ran =
            runcast(&format!("-q -f log {files}")).puppet("say:one exit:3").stdout(full).run();
        ran.exited(125);
    }
    let recorded = events_in(&file);
    let (last, result) = (recorded.last().expect("it is there"), result_in(&result));
    assert_eq!((&last["status"], &last["error"]), (&result["status"], &result["error"]));
    assert_eq!(last["error"]["code"], "output_failed");
    let header = fs::read_to_string(&cast).expect("it is text");
    assert!(header.starts_with("{\"version\":2"), "{header}");
    assert!(header.contains("\"runcast\":{\"status\":125"), "{header}");
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let ran = ndjson("--record /dev/full").puppet("lines:stdout:100000 exit:4").run().exited(4);
    assert_eq!(ran.result().number("stdout_lines"), 100_000);
    let error = ran.result().text("record_error");
    assert_eq!(error, "--record /dev/full: No space left on device");
    ran.said_one_line(error);
}

#[test]
fn it_is_written_on_when_nobody_looks_any_more() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    let mut live = runcast("--on-disconnect continue")
        .arg("--record")
        .arg(&file)
        .command(["sh", "-c", "echo a; sleep 0.3; echo b; echo c"])
        .start();
    live.shows("a");
    live.close_stdout();
    live.finish().exited(0);
    let recorded = fs::read_to_string(&file).expect("it is there");
    assert!(recorded.contains(r#""content":"c\n""#), "{recorded}");
}

#[test]
fn playing_shows_each_stream_and_ends_with_the_recorded_status() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    let script = r"echo a; printf 'b\377\n' >&2; printf end; exit 6";
    record(&file, "", script).exited(6);
    let played = replay("--speed max", &file).exited(6);
    assert_eq!((&*played.stdout, &*played.stderr), (&b"a\nend"[..], &b"b\xff\n"[..]));
    let recorded = fs::read_to_string(&file).expect("it is there");
    assert_eq!(replay("--speed max -f ndjson", &file).exited(6).out(), recorded);
    let quiet = replay("--speed max -f ndjson -q", &file).exited(6);
    assert_eq!(quiet.events().len(), 2);
    let tagged = replay("--speed max -f ndjson --meta k=v", &file).exited(6);
    assert!(tagged.of("chunk").iter().all(|chunk| chunk["metadata"]["k"] == "v"));
    assert_eq!(tagged.bytes("stderr"), b"b\xff\n");
    let grown = replay("--speed max -f snapshot", &file).exited(6);
    assert_eq!(grown.of("snapshot").len(), 1);
}

#[test]
fn it_is_played_in_its_own_time_or_faster() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    let event = |t: f64, text: &str| {
        format!(r#"{{"op":"chunk","kind":"stdout","seq":1,"t":{t},"content":"{text}\n"}}"#)
    };
    record(&file, "-q", "true").exited(0);
    let recorded = fs::read_to_string(&file).expect("it is there");
    let (started, result) = recorded.split_once('\n').expect("two lines");
    let lines = [started, &event(0.1, "a"), &event(1000.4, "b"), result.trim_end()];
    fs::write(&file, lines.join("\n") + "\n").expect("there is room");
    for options in ["--idle-limit 300ms", "--speed 3000", "--idle-limit 3 --speed 10"] {
        let begin = std::time::Instant::now();
        assert_eq!(replay(options, &file).exited(0).out(), "a\nb\n");
        // A thousand seconds, shortened to about 0.3 s.
        assert!(begin.elapsed().as_secs_f64() > 0.25, "{options}");
    }
}

#[test]
fn one_that_was_cut_off_is_shown_as_far_as_it_is_whole_and_the_line_is_named() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    record(&file, "", "echo a; echo b").exited(0);
    let whole = fs::read(&file).expect("it is there");
    let mut told = 0;
    for length in 1..whole.len() {
        fs::write(&file, &whole[..length]).expect("there is room");
        let played = replay("--speed max", &file);
        assert_eq!(played.code(), Some(125), "{length}");
        let line = whole[..length].iter().filter(|&&byte| byte == b'\n').count() + 1;
        played.said_one_line(&format!("line {line}: "));
        assert!("a\nb\n".starts_with(&played.out()));
        told += usize::from(played.out() == "a\nb\n");
        if length % 40 == 0 {
            let events = replay("--speed max -f ndjson", &file);
            assert_eq!(events.result()["error"]["code"], "file_failed");
        }
    }
    assert!(told > 100, "both lines were shown before the result was cut");
}

#[test]
fn what_is_no_recording_is_refused_by_its_line() {
    let folder = scratch();
    let file = folder.path().join("f");
    let cast = "{\"version\":2,\"width\":80,\"height\":24}\n";
    for (content, named) in [
        ("", "line 1: the file is empty"),
        ("hello\n", "line 1: "),
        ("{}\n", "line 1: "),
        ("[1]\n", "line 1: "),
        ("{\"version\":1}\n", "line 1: an asciicast of version 1"),
        (&format!("{cast}x\n"), "line 2: "),
        (&format!("{cast}[1,\"o\",5]\n"), "line 2: "),
        (&format!("{cast}[-1,\"o\",\"\"]\n"), "line 2: "),
    ] {
        fs::write(&file, content).expect("there is room");
        replay("--speed max", &file).refused(named);
    }
    // What stands behind its first lines is looked at when it is its turn, and told in the one result that comes.
    let whole = folder.path().join("whole");
    record(&whole, "", "echo x").exited(0);
    let whole = fs::read_to_string(&whole).expect("it was made above");
    let (begin, result) = whole.trim_end().rsplit_once('\n').expect("there are several lines");
    for (content, named) in [
        (format!("{whole}{whole}"), "it stands behind the result"),
        (format!("{whole}{result}\n"), "it stands behind the result"),
        (format!("{whole}x"), "it stands behind the result"),
        (format!("{result}\n{begin}\n"), "it stands behind the result"),
    ] {
        fs::write(&file, &content).expect("there is room");
        let ran = replay("--speed max -f ndjson", &file);
        ran.said_one_line(named);
        let (lines, code) = (Event::lines(ran.out().as_bytes()), ran.code());
        let results = lines.iter().filter(|line| line.text("op") == "result").count();
        let last = lines.last().expect("there is the result");
        assert_eq!(
            (code, results, last["error"]["code"].as_str()),
            (Some(125), 1, Some("file_failed"))
        );
    }
    replay("", Path::new("/no/such/file")).refused("/no/such/file: No such file or directory");
    replay("", folder.path()).refused("it is a directory");
}

#[test]
fn a_foreign_asciicast_is_played_and_ends_with_0() {
    let folder = scratch();
    let file = folder.path().join("f");
    let cast = "{\"version\": 2, \"width\": 80, \"height\": 24, \"env\": {}}\n\
        [0.1, \"o\", \"a\\r\\n\"]\n[0.2, \"i\", \"x\"]\n[0.2, \"m\", \"\"]\n[0.3, \"r\", \"90x30\"]\n\
        [0.4, \"o\", \"\\u00e4\"]\n";
    fs::write(&file, cast).expect("there is room");
    assert_eq!(replay("--speed max", &file).exited(0).out(), "a\r\nä");
}

#[test]
fn an_asciicast_is_played_in_any_format_line_by_line_wherever_it_was_cut() {
    let folder = scratch();
    let file = folder.path().join("f");
    let cast = "{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"a\\nb\\nc\"]\n\
        [0.2,\"o\",\"\"]\n[0.2,\"o\",\"d\\ne\"]\n[5,\"o\",\"f\\n\"]\n[5,\"o\",\"g\"]\n";
    fs::write(&file, cast).expect("there is room");
    let shown = |options: &str| replay(&format!("--speed max {options}"), &file).exited(0).out();
    let lines = ["a", "b", "cd", "ef", "g"];
    assert_eq!(shown("-p"), lines.map(|line| format!("stdout | {line}")).join("\n"));
    let chunks: Vec<(f64, String, bool)> = shown("-f ndjson")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|chunk| {
            let content = chunk["content"].as_str().expect("text").to_owned();
            (chunk["t"].as_f64().expect("a time"), content, chunk["partial"] == true)
        })
        .collect();
    let expected = [
        (0.1, "a\n", false),
        (0.1, "b\n", false),
        (0.2, "cd\n", false),
        (0.4, "e", true),
        (5.0, "f\n", false),
        (5.0, "g", false),
    ];
    assert_eq!(chunks, expected.map(|(t, content, partial)| (t, content.to_owned(), partial)));
    let record = |line: &str| line.split(' ').skip(2).collect::<Vec<_>>().join(" ");
    let records = shown("-f cri").lines().map(record).collect::<Vec<_>>();
    assert_eq!(records, ["F a", "F b", "F cd", "P e", "F f", "F g"]);
    let messages: Vec<String> = shown("-f log")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|record| record["message"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(messages, ["a", "b", "cd", "e", "f", "g"]);
}

#[test]
fn a_player_whose_reader_goes_away_ends_with_141() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    let cast =
        "{\"version\":2,\"width\":80,\"height\":24}\n[0,\"o\",\"a\\n\"]\n[9999,\"o\",\"b\"]\n";
    fs::write(&file, cast).expect("there is room");
    let mut live = runcast("replay").arg(&file).start();
    live.shows("a");
    live.close_stdout();
    assert_eq!(live.finish().code(), Some(141));
}

#[test]
fn an_asciicast_has_the_exit_status_too_and_one_that_was_cut_off_says_so() {
    let folder = scratch();
    let file = folder.path().join("r.cast");
    record(&file, "-q", "echo a; exit 6").exited(6);
    assert_eq!(replay("--speed max", &file).exited(6).out(), "a\r\n");
    let whole = fs::read_to_string(&file).expect("text");
    let header: serde_json::Value =
        serde_json::from_str(whole.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&header["version"], &header["runcast"]["status"]), (&2.into(), &6.into()));
    fs::write(&file, whole.replace("\"status\":6   ", "\"status\":null")).expect("there is room");
    let cut = replay("--speed max", &file);
    assert_eq!((cut.code(), cut.out()), (Some(125), "a\r\n".to_owned()));
    cut.said_one_line("line 3: the recording was cut off here");
}

#[test]
fn lines_that_nul_ended_are_lines_again_where_that_is_said() {
    let folder = scratch();
    let file = folder.path().join("r.ndjson");
    record(&file, "-q --split nul", r"printf 'a\0b\0'").exited(0);
    let played = replay("--speed max --split nul -f cri", &file).exited(0);
    let records: Vec<String> = played
        .out()
        .lines()
        .map(|line| line.split_once(' ').map_or(line, |(_, record)| record).to_owned())
        .collect();
    assert_eq!(records, ["stdout F a", "stdout F b"]);
    let prefixed = replay("--speed max --split nul -p", &file).exited(0);
    assert_eq!(prefixed.out(), "stdout | a\0stdout | b\0");
}
