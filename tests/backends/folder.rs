//! The private folder: who can open it, where it is, and that nothing of it stays.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use super::{callable, is_empty, node, python, value};
use crate::harness::{Runcast, ndjson, root, scratch, shared_folder, wait_until};

#[test]
fn nothing_is_left_in_the_temporary_folder_on_any_way_out() {
    let folder = scratch();
    let temporary = |run: Runcast| run.env("TMPDIR", folder.path());
    for (options, script, code) in [
        ("", "exit 0", 0),
        ("", "exit 3", 3),
        ("", "kill -KILL $$", 137),
        ("-t 0.2", "exec sleep 60", 124),
        ("-k 0 -t 0.2", "exec sleep 60", 124),
        ("", "echo x > \"$RUNCAST_RESULT\"", 125),
        ("-C /no/such/folder", "exit 0", 125),
        ("--result /dev/full", "exit 0", 125),
        ("", "d=${RUNCAST_RESULT%/*}; mkdir $d/more; touch $d/more/x; chmod 500 $d", 0),
    ] {
        let ran = temporary(callable(&format!("--input 1 {options}"), script)).run();
        assert_eq!(ran.code(), Some(code), "{script}: {ran}");
        is_empty(folder.path());
    }
    for run in [node("", "process.kill(process.pid, 'SIGKILL')"), python("", "1/0")] {
        if let Some(run) = run {
            temporary(run).run();
        }
        is_empty(folder.path());
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let live = temporary(callable("", "echo up; exec sleep 60")).up();
        assert!(fs::read_dir(folder.path()).is_ok_and(|entries| entries.count() == 1));
        live.signal(signal);
        live.finish();
        is_empty(folder.path());
    }
}

#[test]
fn what_is_handed_in_is_private_and_any_child_can_open_it() {
    let script = "cd /; d=${RUNCAST_INPUT%/*}; stat -c %a $d; stat -c %a $d/* | sort -u; \
         sh -c 'setsid cat \"$RUNCAST_INPUT\"'; printenv RUNCAST_INPUT RUNCAST_RESULT";
    let folder = scratch();
    for mask in ["", "--umask 777"] {
        let run = callable(&format!("{mask} --input [1,2]"), script).env("TMPDIR", folder.path());
        let ran = run.run().exited(0);
        let out = ran.result().text("stdout").to_owned();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(&lines[..2], ["700", "600"], "{ran}");
        assert!(lines[2].starts_with("[1,2]") && lines.len() >= 4, "{ran}");
    }
    // No descriptor of ours goes with it.
    let ran = ndjson("--callable --input 1").puppet("report:descriptors").run().exited(0);
    let plain = ndjson("").puppet("report:descriptors").run().exited(0);
    assert_eq!(ran.contents("stdout"), plain.contents("stdout"));
}

#[test]
fn the_temporary_folder_may_be_anywhere_and_what_is_wrong_with_it_is_told() {
    let (folder, elsewhere) = (scratch(), scratch());
    fs::create_dir(folder.path().join("tmp")).expect("there is room");
    let copy = "cp \"$RUNCAST_INPUT\" \"$RUNCAST_RESULT\"";
    // Relative to where runcast is started, though the command starts elsewhere.
    let run = ndjson("--shell --callable --input 1 -C").arg(elsewhere.path()).command([copy]);
    let ran = run.env("TMPDIR", "tmp").within(folder.path()).run().exited(0);
    assert_eq!(value(&ran), &json!(1));
    is_empty(&folder.path().join("tmp"));
    let ran = callable("--input 1", copy).env("TMPDIR", "").run().exited(0);
    assert_eq!(value(&ran), &json!(1));
    for wrong in ["/no/such/folder", "/dev/null"] {
        let ran = callable("--input 1", copy).env("TMPDIR", wrong).run();
        ran.failed(125, "file_failed", &format!("TMPDIR {wrong}"));
        assert!(ran.of("started").is_empty());
    }
    // One that takes no value needs no folder.
    ndjson("").puppet("exit:0").env("TMPDIR", "/no/such/folder").run().exited(0);
}

#[test]
fn a_killed_runcast_takes_the_command_along_and_a_later_one_removes_its_folder() {
    let folder = scratch();
    let mut live = callable("", "echo up; exec sleep 60").env("TMPDIR", folder.path()).up();
    live.signal(Signal::SIGKILL);
    live.ends_unread();
    wait_until("the command's end", || live.processes().is_empty());
    let mut entries = fs::read_dir(folder.path()).expect("it is there").flatten();
    let left = entries.next().expect("nobody could remove it").path();
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&left).and_then(|left| left.set_modified(then)).expect("it is ours");
    assert_eq!(fs::metadata(&left).expect("it is there").permissions().mode() & 0o777, 0o700);
    callable("", "exit 0").env("TMPDIR", folder.path()).run().exited(0);
    is_empty(folder.path());
}

#[test]
fn what_another_user_laid_in_the_temporary_folder_is_neither_entered_nor_removed() {
    let Some(()) = root() else { return };
    let folder = scratch();
    let shared = shared_folder(folder.path());
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).expect("there is room");
    fs::write(outside.join("input"), "").expect("there is room");
    symlink(&outside, shared.join("runcast-call-link")).expect("it can be made");
    let theirs = shared.join("runcast-call-theirs");
    fs::create_dir(&theirs).expect("there is room");
    fs::write(theirs.join("input"), "").expect("there is room");
    mkfifo(&shared.join("runcast-call-fifo"), Mode::S_IRWXU).expect("it can be made");
    for planted in [&theirs, &outside] {
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        fs::File::open(planted).and_then(|planted| planted.set_modified(then)).expect("it is ours");
    }
    for planted in ["runcast-call-link", "runcast-call-theirs", "runcast-call-fifo"] {
        lchown(shared.join(planted), Some(1234), Some(1234)).expect("root may");
    }
    let copy = "cp \"$RUNCAST_INPUT\" \"$RUNCAST_RESULT\"";
    let ran = callable("--input 1", copy).env("TMPDIR", &shared).run().exited(0);
    assert_eq!(value(&ran), &json!(1));
    assert!(outside.join("input").exists() && theirs.join("input").exists());
    assert_eq!(fs::read_dir(&shared).expect("it is there").count(), 3);
}
