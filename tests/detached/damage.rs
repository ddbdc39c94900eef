//! Files of a run that are damaged, of any size, or something else than files: that is told, or passed over, and nobody
//! waits, crashes or takes memory for it.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{geteuid, mkfifo};

use super::{Home, content, failed_with, lines};
use crate::harness::is_plain;

const JOURNAL: &str = "journal-00000000000000000001";

/// All that there may be in the folder of a run.
const FILES: [&str; 6] = ["lock", "run", "result", JOURNAL, "totals", "control"];

/// A length that no disk has, nor memory.
const TERABYTE: u64 = 1 << 40;

/// How much memory whoever looks may have.
const LITTLE: &str = "limit:as:268435456:268435456";

fn ended(home: &Home, id: &str) {
    home.start(id, "say:x exit:3");
    home.wait(id).exited(3);
    home.is_quiet();
}

/// Puts something of each kind in place of a file.
fn replace(kind: &str, file: &Path) {
    // The socket of a run that is over is gone.
    let _ = fs::remove_file(file);
    match kind {
        "fifo" => mkfifo(file, Mode::S_IRWXU).expect("it can be made"),
        "folder" => fs::create_dir(file).expect("it can be made"),
        "socket" => drop(UnixListener::bind(file).expect("it can be made")),
        "link" => symlink("/nonexistent/place", file).expect("it can be made"),
        "device" => mknod(file, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).expect("root may"),
        "nothing" => {}
        "empty file" => drop(File::create(file).expect("it can be made")),
        _ => {
            fs::write(file, "{}\n").expect("it can be made");
            fs::set_permissions(file, fs::Permissions::from_mode(0o000)).expect("it is ours");
        }
    }
}

#[test]
fn anything_in_place_of_a_file_is_told_or_does_not_matter_and_holds_up_nobody() {
    let mut kinds =
        vec!["fifo", "folder", "socket", "link", "nothing", "empty file", "locked file"];
    if geteuid().is_root() {
        kinds.push("device");
    }
    for file in FILES {
        for kind in &kinds {
            let home = Home::new();
            ended(&home, "good");
            ended(&home, "x");
            replace(kind, &home.path("x").join(file));
            for words in
                ["attach x", "attach -f ndjson --after 1 x", "wait x", "send x", "signal x"]
            {
                let ran = home.runcast(words).writes_no_events().run();
                assert!(matches!(ran.code(), Some(3 | 125)), "{kind} for {file}: {words}: {ran}");
                assert!(!ran.err().contains("internal error"), "{kind} for {file}: {words}: {ran}");
            }
            let ran = home.runcast("runs -f ndjson").run().exited(0);
            assert!(lines(&ran).iter().any(|run| run["id"] == "good"), "{kind} for {file}: {ran}");
            home.runcast("-d --id y").puppet("exit:0").run().exited(0);
            let ran = home.runcast("forget x good").run();
            assert!(!home.path("good").exists(), "{kind} for {file}: {ran}");
            assert!(ran.code() != Some(0) || !home.path("x").exists(), "{kind} for {file}: {ran}");
        }
    }
}

#[test]
fn a_length_that_no_disk_has_takes_no_memory() {
    for file in ["run", "result", JOURNAL, "totals", "lock"] {
        let home = Home::new();
        ended(&home, "x");
        let damaged = File::options().write(true).open(home.path("x").join(file));
        damaged.and_then(|file| file.set_len(TERABYTE)).expect("a file may have holes");
        for words in ["attach x", "attach -f ndjson --from stdout=0,stderr=0 x", "wait x", "runs"] {
            let ran = home.runcast(words).launched(LITTLE).writes_no_events().run();
            assert!(matches!(ran.code(), Some(0 | 3 | 125)), "{file}: {words}: {ran}");
            if words == "attach x" && [JOURNAL, "lock"].contains(&file) {
                assert_eq!(ran.exited(3).out(), "x\n", "{file}");
            }
        }
    }
    // Nor where nothing but the journal tells what there was.
    let home = Home::new();
    home.start("l", "say:x sleep");
    home.reader("", "l").line();
    home.kill_keeper("l");
    let journal = File::options().write(true).open(home.path("l").join(JOURNAL));
    journal.and_then(|file| file.set_len(TERABYTE)).expect("a file may have holes");
    assert_eq!(home.runcast("runs").launched(LITTLE).run().exited(0).out().lines().count(), 2);
    let ran = home.runcast("attach -f ndjson l").launched(LITTLE).run();
    failed_with(&ran, "run_lost");
    assert_eq!(content(&lines(&ran), "stdout"), "x\n");
}

#[test]
fn numbers_of_any_size_in_a_journal_are_no_trouble() {
    let huge = u64::MAX;
    let segment = format!(
        "{{\"op\":\"segment\",\"seq\":{huge},\"lines\":[{huge},{huge}],\"bytes\":[{huge},{huge}]}}\n"
    );
    let first = "{\"op\":\"segment\",\"seq\":0,\"lines\":[18446744073709551615,0],\"bytes\":[18446744073709551615,9]}\n";
    let chunk = |seq: u64| {
        format!(
            "{{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":{seq},\"t\":1.8e19,\"content\":\"c\\n\"}}\n"
        )
    };
    let dropped = format!(
        "{{\"op\":\"dropped\",\"t\":1.8e19,\"after_seq\":{huge},\"chunks\":{huge},\"bytes\":{huge}}}\n"
    );
    let start = first.to_owned() + &chunk(1);
    for journal in [
        start.clone() + &chunk(huge) + &chunk(2),
        start.clone() + &dropped + &chunk(2),
        start.clone() + &segment + &chunk(2) + &chunk(huge),
        segment.clone() + &chunk(huge),
        chunk(0) + &chunk(huge),
    ] {
        let home = Home::new();
        ended(&home, "x");
        let about = fs::read(home.path("x").join("run")).expect("it is there");
        for has_result in [true, false] {
            fs::write(home.path("x").join(JOURNAL), &journal).expect("it can be written");
            if !has_result {
                fs::remove_file(home.path("x").join("result")).expect("it is there");
            }
            for words in [
                "attach x",
                "attach -f ndjson x",
                "attach -f ndjson --after 18446744073709551615 x",
                "attach -f snapshot --from stdout=18446744073709551615,stderr=1 x",
                "attach -f log --from stdout=1,stderr=0 x",
                "attach -p -Tdelta x",
                "runs",
                "runs -f ndjson",
            ] {
                let ran = home.runcast(words).writes_no_events().run();
                assert!(matches!(ran.code(), Some(0 | 3 | 125)), "{words}: {journal}: {ran}");
                let is_sound = !ran.err().contains("internal error");
                assert!(is_sound, "{words}: {journal}: {ran}");
            }
            fs::write(home.path("x").join("run"), &about).expect("it can be written");
        }
    }
}

#[test]
fn what_is_nested_without_end_is_refused() {
    let deep = "[".repeat(3_000_000);
    let closed = deep.clone() + &"]".repeat(deep.len());
    for nested in [deep, closed] {
        let home = Home::new();
        for file in ["run", "result", JOURNAL, "totals"] {
            ended(&home, file);
            let path = home.path(file).join(file);
            let old = fs::read_to_string(&path).unwrap_or_default();
            // In place of all of it, and as the value of a field.
            let line = old.lines().last().unwrap_or("{}").trim_end_matches('}').to_owned();
            for content in [format!("{nested}\n"), format!("{line},\"result\":{nested}}}\n")] {
                fs::write(&path, content).expect("it can be written");
                for words in [format!("attach {file}"), format!("wait {file}"), "runs".to_owned()] {
                    let ran = home.runcast(&words).writes_no_events().run();
                    assert!(
                        matches!(ran.code(), Some(0 | 3 | 125)),
                        "{file}: {words}: {:?}",
                        ran.status
                    );
                }
            }
        }
        let recording = home.folder.path().join("r.ndjson");
        for before in ["", "{\"op\":\"later\",\"x\":", "{\"version\":2}\n"] {
            fs::write(&recording, format!("{before}{nested}\n")).expect("it can be written");
            let ran = home.runcast("replay --speed max").arg(&recording).run();
            assert!(matches!(ran.code(), Some(0 | 125)), "{before}: {:?}", ran.status);
        }
    }
}

#[test]
fn a_state_that_steers_the_terminal_stays_plain() {
    let home = Home::new();
    ended(&home, "x");
    let result = home.path("x").join("result");
    let text = fs::read_to_string(&result).expect("it is there");
    let text = text
        .replace("\"exit_code\":3", "\"exit_code\":null")
        .replace("\"signal\":null", "\"signal\":\"\\u001b[2J\\n\\u0007\"");
    fs::write(&result, text).expect("it can be written");
    let table = home.runcast("runs").run().exited(0).out();
    assert_eq!(table.lines().count(), 2, "{table}");
    is_plain(&table);
}

#[test]
fn folders_that_are_no_runs_are_left_alone() {
    let home = Home::new();
    ended(&home, "x");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let others = [".old-papers", ".new-papers", ".old-0123456789ABCDEF", "papers"];
    for name in others {
        let folder = home.runs.join(name);
        fs::create_dir(&folder).expect("it can be made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
        for file in ["lock", "thesis"] {
            fs::write(folder.join(file), "").expect("it can be written");
        }
        File::open(&folder).and_then(|folder| folder.set_modified(long_ago)).expect("it is ours");
    }
    home.runcast("-d --id y").puppet("exit:0").run().exited(0);
    home.runcast("runs").run().exited(0);
    home.runcast("forget --finished").run().exited(0);
    home.runcast("forget papers").run().exited(125).said_one_line("papers");
    home.runcast("-d --id papers").puppet("exit:0").run().exited(125).said_one_line("papers");
    for name in others {
        assert!(home.runs.join(name).join("thesis").exists(), "{name}");
    }
}
