//! The result and the events around it: where they go and what stands in them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::harness::{
    PUPPET, RUNCAST, ndjson, result_in, root, runcast, scratch, shared_folder, tool, wait_until,
};

#[test]
fn one_that_is_read_is_whole_though_nobody_reads_the_output_of_a_run_that_is_stopped() {
    let (unread, stdout) = nix::unistd::pipe().expect("there are descriptors");
    let ran = runcast("-t 0.5 -k 0.2 --result fd:7 --max-output 4M")
        .puppet("fill:stdout:4M:\\0")
        .stdout(stdout)
        .launched("dup:2:7")
        .run()
        .exited(124);
    drop(unread);
    let (said, err) = (ran.err(), "it is there, and whole");
    let line = said.lines().find(|line| line.starts_with('{')).expect(err);
    let result: serde_json::Value = serde_json::from_str(line).expect(err);
    assert_eq!((&result["status"], &result["stopped_by"]), (&124.into(), &"timeout".into()));
    // More than a pipe takes at once, as JSON has it.
    assert!(result["stdout_bytes"].as_u64() > Some(60_000), "{line}");
}

#[test]
fn it_goes_to_a_file_whole_and_leaves_nothing_beside() {
    let folder = scratch();
    let path = folder.path().join("result");
    let ran = runcast("--result").arg(&path).puppet("say:hi exit:4").run().exited(4);
    assert_eq!((ran.out(), ran.err()), ("hi\n".to_owned(), String::new()));
    let result = result_in(&path);
    assert_eq!((result.text("stdout"), &result["exit_code"]), ("hi\n", &4.into()));
    assert_eq!(
        fs::read_dir(folder.path()).expect("it is there").count(),
        1,
        "something was left beside the result"
    );
}

#[test]
fn it_goes_to_a_descriptor() {
    let ran = runcast("--result fd:7").puppet("say:hi exit:4").launched("dup:2:7").run().exited(4);
    let result: serde_json::Value =
        serde_json::from_slice(&ran.stderr).expect("the result alone is there");
    assert_eq!(
        (&result["op"], &result["exit_code"], ran.out()),
        (&"result".into(), &4.into(), "hi\n".to_owned())
    );
}

#[test]
fn it_goes_to_standard_output_last() {
    let ran = runcast("--result -").puppet("say:hi err:warn exit:4").run().exited(4);
    let out = ran.out();
    let (shown, result) = out.split_once('\n').expect("two lines");
    assert_eq!((shown, ran.err()), ("hi", "warn\n".to_owned()));
    let result: serde_json::Value =
        serde_json::from_str(result).expect("the result is the last line");
    assert_eq!(result["stderr"], "warn\n");
    let ran = runcast("-q --result -").puppet("say:hi exit:4").run().exited(4);
    assert_eq!(ran.events().len(), 1);
}

#[test]
fn with_events_on_standard_output_there_is_one_result_there() {
    let ran = ndjson("--result -").puppet("say:hi").run().exited(0);
    assert_eq!(ran.of("result").len(), 1);
}

#[test]
fn it_goes_through_a_fifo_and_into_a_device() {
    let folder = scratch();
    let path = folder.path().join("fifo");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a fifo can be made");
    let live = runcast("--result").arg(&path).puppet("exit:4").start();
    let content = fs::read_to_string(&path).expect("the fifo can be read");
    live.finish().exited(4);
    assert!(content.starts_with("{\"op\":\"result\"") && content.ends_with("}\n"), "{content}");
    runcast("--result /dev/null").puppet("exit:4").run().exited(4);
    assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()));
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let folder = scratch();
    let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
    symlink("target", &link).expect("a link can be made");
    for before in ["", "old"] {
        if !before.is_empty() {
            fs::write(&target, before).expect("the scratch folder is ours");
        }
        runcast("--result").arg(&link).puppet("exit:4").run().exited(4);
        assert_eq!(result_in(&target)["exit_code"], 4);
        assert!(fs::symlink_metadata(&link).is_ok_and(|link| link.is_symlink()));
    }
}

#[test]
fn a_link_to_one_of_our_descriptors_is_that_descriptor() {
    let folder = scratch();
    let (out, link) = (folder.path().join("out"), folder.path().join("link"));
    symlink("/dev/stdout", &link).expect("the place is free");
    for place in [Path::new("/dev/stdout"), Path::new("/proc/self/fd/1"), &link] {
        let stdout = File::create(&out).expect("there is room");
        runcast("--result").arg(place).puppet("say:hi exit:4").stdout(stdout).run().exited(4);
        let all = fs::read_to_string(&out).expect("it is there");
        let result = all.strip_prefix("hi\n").expect("the output is there, and first");
        assert!(result.starts_with('{') && result.ends_with("}\n"), "{place:?}: {all}");
    }
}

#[test]
fn a_file_that_is_mounted_is_written_in_place() {
    let (Some(unshare), Some(())) = (tool("unshare"), root()) else { return };
    let folder = scratch();
    let (target, place) = (folder.path().join("target"), folder.path().join("result"));
    for path in [&target, &place] {
        fs::write(path, "old").expect("there is room");
    }
    let script = "mount --bind \"$1\" \"$2\"; shift; exec \"$0\" --result \"$@\"";
    let status = Command::new(unshare)
        .args(["--mount", "sh", "-ec", script, RUNCAST])
        .args([&target, &place])
        .args([PUPPET, "exit:4"])
        .status()
        .expect("unshare is there");
    assert_eq!((status.code(), result_in(&target)["exit_code"].clone()), (Some(4), 4.into()));
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2);
}

#[test]
fn an_old_one_stays_until_the_new_one_is_whole() {
    let folder = scratch();
    let path = folder.path().join("result");
    fs::write(&path, "old").expect("the scratch folder is ours");
    let mut live = runcast("--result").arg(&path).puppet("say:up sleep").start();
    assert_eq!(live.line(), "up");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "old");
    live.signal(Signal::SIGKILL);
    live.ends_unread();
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "old");
}

#[test]
fn a_place_that_cannot_be_written_fails_before_the_command_starts() {
    let folder = scratch();
    let inside = folder.path().to_string_lossy().into_owned();
    let all = [
        "/no/such/folder/result",
        "/",
        &inside,
        &format!("{PUPPET}/x"),
        "fd:77",
        "fd:x",
        "fd:",
        "fd:-1",
        "fd:99999999999999",
        "",
    ];
    for destination in all {
        runcast("--result").arg(destination).puppet("say:started").run().refused_usage("result");
    }
    ndjson("--result /no/such/folder/result").puppet("say:started").run().failed(
        125,
        "file_failed",
        "/no/such/folder/result",
    );
}

#[test]
fn one_that_cannot_be_written_in_the_end_is_125() {
    runcast("--result /dev/full").puppet("say:hi").run().exited(125).said_one_line("/dev/full");
    runcast("--result fd:7")
        .puppet("say:hi")
        .launched("open:/dev/full:7")
        .run()
        .exited(125)
        .said_one_line("fd:7");
}

#[test]
fn a_command_that_never_started_has_one_too() {
    let folder = scratch();
    let path = folder.path().join("result");
    runcast("--result").arg(&path).command(["no-such-command"]).run().exited(127);
    let result = result_in(&path);
    assert_eq!((&result["status"], &result["error"]["code"]), (&127.into(), &"not_found".into()));
    assert!(result["exit_code"].is_null() && result["signal"].is_null());
    assert!(
        result["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("no-such-command"))
    );
}

#[test]
fn a_timeout_and_a_leak_show_in_a_result_file_of_a_text_run() {
    let folder = scratch();
    let path = folder.path().join("result");
    runcast("-t 0.2 --result").arg(&path).puppet("err:x sleep").run().exited(124);
    assert_eq!(
        (&result_in(&path)["timed_out"], result_in(&path).text("stderr")),
        (&true.into(), "x\n")
    );
    runcast("--result").arg(&path).puppet("fork { sleep } exit:3").run().exited(3);
    assert_eq!(result_in(&path)["leaked"], true);
}

#[test]
fn started_tells_who_what_where_and_when() {
    let before = Timestamp::now();
    let ran = ndjson("").puppet("report:pid").within("/").run().exited(0);
    let started = &ran.events()[0];
    assert_eq!((&started["v"], started.text("cwd")), (&1.into(), "/"));
    assert_eq!(started["argv"], serde_json::json!([PUPPET, "report:pid"]));
    assert_eq!(ran.contents("stdout"), [format!("{}\n", started["pid"])]);
    let time = started.text("time");
    assert!(time.len() == "2026-11-30T12:00:00.000000Z".len() && time.ends_with('Z'), "{time}");
    let time: Timestamp = time.parse().expect("it is RFC 3339");
    // A microsecond for what is cut off.
    assert!(
        time.as_microsecond() + 1 >= before.as_microsecond() && time <= Timestamp::now(),
        "{time}"
    );
}

#[test]
fn each_run_has_an_id_of_its_own() {
    let ids: std::collections::BTreeSet<String> = (0..20)
        .map(|_| ndjson("").puppet("exit:0").run().events()[0].text("id").to_owned())
        .filter(|id| !id.is_empty())
        .collect();
    assert_eq!(ids.len(), 20);
}

#[test]
fn no_argv_leaves_the_command_line_out() {
    let folder = scratch();
    let path = folder.path().join("result");
    let run = ndjson("--no-argv --result").arg(&path).command([PUPPET, "args", "secret"]);
    let ran = run.run().exited(0);
    assert!(ran.events()[0]["argv"].is_null() && ran.events()[0]["argv_base64"].is_null());
    assert_eq!(ran.out().matches("secret").count(), 2, "once in the chunk, once in the result");
}

#[test]
fn values_of_variables_are_never_shown() {
    let ran = ndjson("-e TOKEN=s3cr3t").puppet("exit:0").run().exited(0);
    assert!(!ran.out().contains("s3cr3t"), "{ran}");
    let ran = ndjson("-e TOKEN=s3cr3t").command(["no-such-command"]).run();
    assert!(!ran.out().contains("s3cr3t") && !ran.err().contains("s3cr3t"), "{ran}");
}

#[test]
fn meta_is_in_every_chunk_at_its_end_in_the_order_given() {
    let run = ndjson("--meta job=7 --meta").arg("a key=x \"=\u{e9}\n").arg("--meta").arg("empty=");
    let ran = run.puppet("say:one err:two print:stdout:x").run().exited(0);
    let chunks = ran.of("chunk");
    assert_eq!(chunks.len(), 3);
    for chunk in chunks {
        assert_eq!(chunk.names().last(), Some(&"metadata"));
        assert_eq!(
            chunk["metadata"],
            serde_json::json!({"job": "7", "a key": "x \"=\u{e9}\n", "empty": ""})
        );
    }
    let line = ran.out().lines().nth(1).expect("there is a chunk").to_owned();
    assert!(
        line.find("\"job\"") < line.find("\"a key\"")
            && line.find("\"a key\"") < line.find("\"empty\""),
        "{line}"
    );
    assert!(ndjson("").puppet("say:one").run().of("chunk")[0]["metadata"].is_null());
}

#[test]
fn meta_that_makes_no_sense_is_a_usage_error() {
    for text in ["", "x", "=x"] {
        ndjson("--meta").arg(text).puppet("say:started").run().refused_usage("meta");
    }
}

#[test]
fn usage_and_duration_are_those_of_the_command_and_what_it_waited_for() {
    let ran = ndjson("").puppet("fork { resident:60M burn:300 } reap").run().exited(0);
    let usage = &ran.result()["usage"];
    let spent = usage["user"]
        .as_f64()
        .zip(usage["system"].as_f64())
        .map_or(0.0, |(user, system)| user + system);
    assert!(usage["max_rss"].as_u64() > Some(60 << 20) && (0.25..20.0).contains(&spent), "{ran}");
    assert!(ran.result()["duration"].as_f64() > Some(0.25), "{ran}");
}

#[test]
fn a_run_that_nobody_stopped_says_so_in_every_field() {
    let ran = ndjson("").puppet("exit:0").run().exited(0);
    let result = ran.result();
    for name in [
        "signal",
        "stopped_by",
        "limit",
        "error",
        "received",
        "undelivered_bytes",
        "leftover",
        "core_dumped",
    ] {
        assert!(result[name].is_null(), "{name}: {ran}");
    }
    assert_eq!(
        (&result["timed_out"], &result["leaked"], &result["status"]),
        (&false.into(), &false.into(), &0.into())
    );
}

#[test]
fn two_runs_may_write_to_one_place_and_one_of_them_wins_whole() {
    let folder = scratch();
    let path = folder.path().join("result");
    let lives: Vec<_> = (0..8)
        .map(|code| {
            runcast("-q --result")
                .arg(&path)
                .puppet(&format!("lines:stdout:2000 exit:{code}"))
                .start()
        })
        .collect();
    wait_until("the first result", || path.exists());
    for live in lives {
        assert!(live.finish().code().is_some_and(|code| code < 8));
        result_in(&path);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
}

#[test]
fn what_another_user_laid_where_all_may_write_is_neither_followed_nor_written_to() {
    let Some(()) = root() else { return };
    let folder = scratch();
    let shared = shared_folder(folder.path());
    let target = folder.path().join("target");
    fs::write(&target, "ours").expect("the scratch folder is ours");
    let [link, fifo, file] = ["link", "fifo", "file"].map(|name| shared.join(name));
    symlink(&target, &link).expect("a link can be made");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a fifo can be made");
    fs::write(&file, "theirs").expect("it can be written");
    for path in [&link, &fifo, &file] {
        lchown(path, Some(1234), Some(1234)).expect("root may");
    }
    let ours = shared.join("ours");
    symlink(&link, &ours).expect("a link can be made");
    for path in [&link, &fifo, &file, &ours] {
        let ran = runcast("--result").arg(path).puppet("say:hi").run();
        ran.refused("another user's, in a folder that all may write in");
    }
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "ours");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "theirs");
    // Our own are followed and replaced there, and in a folder of one's own so are all.
    for path in [&link, &file] {
        lchown(path, Some(0), Some(0)).expect("root may");
        runcast("--result").arg(path).puppet("exit:4").run().exited(4);
    }
    assert_eq!(result_in(&target)["exit_code"], 4);
    assert_eq!(result_in(&file)["exit_code"], 4);
    lchown(&link, Some(1234), Some(1234)).expect("root may");
    fs::set_permissions(&shared, Permissions::from_mode(0o755)).expect("it is ours");
    runcast("--result").arg(&link).puppet("exit:5").run().exited(5);
    assert_eq!(result_in(&target)["exit_code"], 5);
}

#[test]
fn it_takes_over_the_rights_of_our_file_that_was_there_and_nothing_else() {
    let folder = scratch();
    let path = folder.path().join("result");
    let mode_after = |mode: u32, owner: Option<u32>| {
        fs::write(&path, "old").expect("the scratch folder is ours");
        chown(&path, owner, owner).expect("root may");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        runcast("--result").arg(&path).puppet("exit:4").run().exited(4);
        let found = fs::metadata(&path).expect("it is there");
        assert_eq!(found.uid(), nix::unistd::geteuid().as_raw());
        fs::remove_file(&path).expect("it is ours");
        found.mode() & 0o7777
    };
    assert_eq!(mode_after(0o640, None), 0o640);
    assert_eq!(mode_after(0o6777, None), 0o777);
    // Who had the old one has no say in who may write to ours, or run it as us.
    let Some(()) = root() else { return };
    assert_eq!(mode_after(0o6777, Some(1234)) & 0o7022, 0);
}
