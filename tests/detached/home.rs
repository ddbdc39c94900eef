//! The folder that the runs live in: the user's own, wherever it is, and nothing that leads out of it is followed.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use super::{Home, failed_with, lines};
use crate::harness::{copies_for_everyone, root, runcast, scratch, tool};

/// Every subcommand that looks for a run, and a start.
const ALL: [&str; 7] =
    ["attach x", "wait x", "send x", "signal x", "runs", "forget x", "-d --id y -- true"];

#[track_caller]
fn all_refuse(home: &Home, named: &str) {
    for words in ALL {
        let ran = home.runcast(words).run();
        assert_eq!(ran.code(), Some(125), "{words}: {ran}");
        ran.said_one_line(named);
    }
}

#[test]
fn it_is_where_the_variables_say() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let start = || runcast("-d --id x").puppet("say:x");
    for (variables, place) in [
        (vec![("RUNCAST_DIR", at("a"))], at("a/x")),
        (vec![("RUNCAST_DIR", at("deep/er/a"))], at("deep/er/a/x")),
        (vec![("XDG_STATE_HOME", at("b"))], at("b/runcast/x")),
        (vec![("HOME", at("c"))], at("c/.local/state/runcast/x")),
        (
            vec![("HOME", at("d")), ("XDG_STATE_HOME", "relative".into())],
            at("d/.local/state/runcast/x"),
        ),
        (
            vec![("HOME", at("e")), ("XDG_STATE_HOME", "".into()), ("RUNCAST_DIR", "".into())],
            at("e/.local/state/runcast/x"),
        ),
    ] {
        let with = |run| {
            variables
                .iter()
                .fold(run, |run: crate::harness::Runcast, (name, value)| run.env(name, value))
        };
        let started = with(start()).run().exited(0);
        assert_eq!(with(runcast("attach x")).run().exited(0).out(), "x\n");
        assert!(place.join("result").exists(), "{}", place.display());
        drop(started);
    }
    runcast("runs").env("HOME", "").run().exited(125).said_one_line("RUNCAST_DIR");
    let relative = runcast("-d --id x").env("RUNCAST_DIR", "rel").within(folder.path());
    let _started = relative.puppet("say:x").run().exited(0);
    assert!(at("rel/x").exists());
}

#[test]
fn where_there_is_none_nothing_is_made_for_who_only_looks() {
    let home = Home::new();
    assert_eq!(home.runcast("runs").run().exited(0).out(), "");
    assert_eq!(home.runcast("runs -f ndjson").run().exited(0).out(), "");
    home.runcast("forget --finished").run().exited(0);
    home.runcast("wait x").run().exited(125);
    assert!(!home.runs.exists());
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let home = Home::new();
    let real = home.folder.path().join("real");
    let inside = Home { runs: real.clone(), ..Home::new() };
    inside.start("x", "say:x");
    symlink(&real, &home.runs).expect("it can be made");
    all_refuse(&home, "runs");
    for ending in ["runs/", "runs/.", "runs//"] {
        let home = Home {
            runs: home.folder.path().join(ending),
            folder: scratch(),
            mark: home.mark.clone(),
        };
        all_refuse(&home, "runs");
    }
    let dangling = Home::new();
    symlink("/nonexistent/place", &dangling.runs).expect("it can be made");
    all_refuse(&dangling, "runs");
    let file = Home::new();
    fs::write(&file.runs, "").expect("it can be written");
    all_refuse(&file, "runs");
}

#[test]
fn one_that_others_may_write_in_is_not_trusted() {
    for mode in [0o777, 0o770, 0o1777, 0o702] {
        let home = Home::new();
        home.start("x", "say:x");
        fs::set_permissions(&home.runs, Permissions::from_mode(mode)).expect("it is ours");
        all_refuse(&home, "other users");
    }
    let home = Home::new();
    home.start("x", "say:x");
    fs::set_permissions(&home.runs, Permissions::from_mode(0o755)).expect("it is ours");
    assert_eq!(home.attach("", "x").exited(0).out(), "x\n");
}

#[test]
fn one_of_another_user_s_is_not_trusted() {
    let Some(()) = root() else { return };
    let home = Home::new();
    home.start("x", "say:x");
    home.wait("x").exited(0);
    chown(&home.runs, Some(1234), None).expect("root may");
    all_refuse(&home, "another user");
    chown(&home.runs, Some(0), None).expect("root may");
    // Nor is a run of another user's in one's own.
    chown(home.path("x"), Some(1234), None).expect("root may");
    for words in ["attach x", "wait x", "send x", "signal x", "forget x", "-d --id x -- true"] {
        home.runcast(words).run().exited(125).said_one_line("x");
    }
    let ran = home.runcast("runs -f ndjson").run().exited(0);
    assert_eq!(ran.out(), "");
    ran.said_one_line("x");
}

#[test]
fn files_of_another_user_s_in_a_run_are_not_trusted() {
    let Some(()) = root() else { return };
    for file in ["result", "run", "journal-00000000000000000001"] {
        let home = Home::new();
        home.start("x", "say:x");
        home.wait("x").exited(0);
        chown(home.path("x").join(file), Some(1234), None).expect("root may");
        home.attach("", "x").exited(125).said_one_line("x");
    }
}

#[test]
fn a_user_s_own_runs_are_the_user_s_alone() {
    let Some(()) = root() else { return };
    let home = Home::new();
    let [runcast, puppet] = copies_for_everyone(home.folder.path());
    let mine = home.folder.path().join("mine");
    fs::create_dir(&mine).expect("it can be made");
    chown(&mine, Some(1234), Some(1234)).expect("root may");
    let as_user = |words: &str| {
        let words = format!("user:1234 exec {} {words}", runcast.display());
        let command = std::iter::once(puppet.display().to_string())
            .chain(words.split(' ').map(str::to_owned));
        crate::harness::runcast("")
            .env("RUNCAST_DIR", mine.join("runs"))
            .marked(&home.mark)
            .command(command.collect::<Vec<_>>())
    };
    as_user(&format!("-d --id u -- {} say:mine", puppet.display())).run().exited(0);
    assert_eq!(as_user("attach u").run().exited(0).out(), "mine\n");
    // Not even root's, since what is in there is not root's.
    let root_s = Home { runs: mine.join("runs"), ..Home::new() };
    root_s.attach("", "u").exited(125).said_one_line("another user");
    let as_other = format!("user:4321 exec {} attach u", runcast.display());
    let words =
        std::iter::once(puppet.display().to_string()).chain(as_other.split(' ').map(str::to_owned));
    let ran = crate::harness::runcast("")
        .env("RUNCAST_DIR", mine.join("runs"))
        .command(words.collect::<Vec<_>>())
        .run();
    assert_eq!((ran.code(), ran.out()), (Some(125), String::new()), "{ran}");
    // One that may only be read is looked at; nothing is started in it.
    fs::set_permissions(mine.join("runs"), Permissions::from_mode(0o500)).expect("root may");
    assert_eq!(as_user("attach u").run().exited(0).out(), "mine\n");
    as_user("-d --id v -- true").run().exited(125).said_one_line("Permission denied");
    as_user("forget u").run().exited(125).said_one_line("Permission denied");
    fs::set_permissions(mine.join("runs"), Permissions::from_mode(0o700)).expect("root may");
    as_user("forget u").run().exited(0);
    assert_eq!(fs::metadata(mine.join("runs")).expect("it is there").uid(), 1234);
}

#[test]
fn on_a_disk_that_is_read_only_runs_are_looked_at_and_none_is_started() {
    let (Some(unshare), Some(())) = (tool("unshare"), root()) else { return };
    let home = Home::new();
    home.start("x", "say:x exit:2");
    home.wait("x").exited(2);
    let runs = home.runs.display();
    let binary = env!("CARGO_BIN_EXE_runcast");
    let script = format!(
        "mount --bind '{runs}' '{runs}' && mount -o remount,bind,ro '{runs}' || exit 99
         {binary} attach x; echo $?; {binary} wait x >/dev/null; echo $?; {binary} runs -f ndjson | wc -l
         {binary} -d --id y -- true; echo $?; {binary} forget x; echo $?"
    );
    let words = [unshare.as_os_str(), "-m".as_ref(), "sh".as_ref(), "-c".as_ref(), script.as_ref()];
    let ran = home.runcast("").command(words).run();
    if ran.code() == Some(99) {
        return crate::harness::missing("no mount namespace can be made here");
    }
    assert_eq!(ran.out(), "x\n2\n2\n1\n125\n125\n");
    assert_eq!(ran.err().matches("Read-only file system").count(), 2, "{ran}");
}

#[test]
fn a_run_s_folder_that_is_a_link_is_not_followed() {
    let home = Home::new();
    home.start("real", "say:x");
    home.wait("real").exited(0);
    symlink("real", home.path("x")).expect("it can be made");
    symlink("/etc", home.path("etc")).expect("it can be made");
    fs::write(home.path("file"), "x").expect("it can be written");
    for id in ["x", "etc", "file"] {
        for words in ["attach", "wait", "send", "signal", "forget"] {
            home.runcast(&format!("{words} {id}")).run().exited(125).said_one_line(id);
        }
    }
    let ran = home.runcast("runs -f ndjson").run().exited(0);
    assert_eq!(lines(&ran).len(), 1);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn a_folder_of_somebody_else_s_that_has_the_name_of_a_run_is_none_and_stays() {
    let home = Home::new();
    let start = |id: &str| home.runcast(&format!("-d -f ndjson --id {id}")).puppet("say:x").run();
    start("first").exited(0);
    for (id, file) in [("other", "notes"), ("piece", "journal-00000000000000000001")] {
        DirBuilder::new().mode(0o700).create(home.path(id)).expect("it is ours");
        fs::write(home.path(id).join(file), "x").expect("it is ours");
        start(id).failed(125, "file_failed", id);
        failed_with(&home.attach("-f ndjson", id), "run_unknown");
        failed_with(&home.wait(id), "run_unknown");
        failed_with(&home.runcast(&format!("forget -f ndjson {id}")).run(), "run_unknown");
        assert!(home.path(id).join(file).exists());
    }
    // One without anything in it is nobody's loss.
    DirBuilder::new().mode(0o700).create(home.path("empty")).expect("it is ours");
    failed_with(&home.wait("empty"), "run_unknown");
    start("empty").exited(0);
    home.wait("empty").exited(0);
}

#[test]
fn links_in_a_run_s_folder_are_not_followed() {
    for file in ["result", "run", "lock", "journal-00000000000000000001"] {
        let home = Home::new();
        let outside = home.folder.path().join("outside");
        home.start("x", "say:x");
        home.wait("x").exited(0);
        home.is_quiet();
        fs::rename(home.path("x").join(file), &outside).expect("it can be moved");
        symlink(&outside, home.path("x").join(file)).expect("it can be made");
        let ran = home.attach("", "x");
        // The lock is of no matter to a run that has its result.
        assert_eq!(ran.code(), Some(if file == "lock" { 0 } else { 125 }), "{file}: {ran}");
    }
}

#[test]
fn a_path_longer_than_a_socket_s_is_no_obstacle() {
    let long = "d".repeat(100);
    let home = Home::at(&format!("{long}/{long}/{long}"));
    home.start_with("x", "--stdin open", "cat");
    assert_eq!(
        home.send("--eof", "x", b"through a long path\n").exited(0).out(),
        "{\"op\":\"stdin\",\"offset\":20}\n"
    );
    assert_eq!(home.attach("", "x").exited(0).out(), "through a long path\n");
    home.start("y", "sleep");
    home.runcast("signal y").run().exited(0);
    assert_eq!(home.result("y")["signal"], "SIGTERM");
}

#[test]
fn what_starts_and_forgets_left_behind_is_cleared_away_when_it_is_old() {
    let home = Home::new();
    home.start("x", "say:x");
    let [new, old] =
        [".new-0123456789abcdef", ".old-0123456789abcdef"].map(|name| home.runs.join(name));
    for left in [&new, &old] {
        fs::create_dir(left).expect("it can be made");
        fs::set_permissions(left, Permissions::from_mode(0o700)).expect("it is ours");
        fs::write(left.join("lock"), "").expect("it can be written");
        fs::write(left.join("run"), "").expect("it can be written");
    }
    home.start("y", "say:y");
    assert!(new.exists(), "somebody may be about to start in it");
    assert!(!old.exists());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&new).and_then(|folder| folder.set_modified(long_ago)).expect("it is ours");
    home.start("z", "say:z");
    assert!(!new.exists());
    assert_eq!(home.attach("", "x").exited(0).out(), "x\n");
}
