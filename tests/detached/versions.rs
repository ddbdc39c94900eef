//! What earlier versions wrote is read: runs and recordings in `tests/data`, which are never made anew.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Home;
use crate::harness::runcast;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_run_of_the_first_layout_is_shown_waited_for_and_listed() {
    let home = Home::new();
    let run = home.path("old");
    fs::create_dir_all(&run).expect("there is room");
    let runs = run.parent().expect("it is in one");
    fs::set_permissions(runs, fs::Permissions::from_mode(0o700)).expect("it is ours");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).expect("it is ours");
    for entry in fs::read_dir(data("run-1")).expect("it is there") {
        let entry = entry.expect("a folder can be read");
        let copy = run.join(entry.file_name());
        fs::copy(entry.path(), &copy).expect("there is room");
        fs::set_permissions(copy, fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    fs::write(run.join("lock"), "").expect("there is room");
    let shown = home.runcast("attach old").run().exited(6);
    assert_eq!((&*shown.stdout, &*shown.stderr), (&b"out\ntail"[..], &b"b\xff"[..]));
    let rest = home.runcast("attach -f ndjson --after 2 old").writes_no_events().run().exited(6);
    assert!(rest.out().contains("\"seq\":3,") && !rest.out().contains("\"seq\":2,"), "{rest}");
    assert!(home.runcast("wait old").run().exited(6).out().contains("\"stdout\":\"out\\ntail\""));
    assert!(home.runcast("runs").run().exited(0).out().contains("exited 6"));
    home.runcast("forget old").run().exited(0);
}

#[test]
fn recordings_of_the_first_version_are_played() {
    let played = runcast("replay --speed max").arg(data("recording-1.ndjson")).run().exited(6);
    assert_eq!((&*played.stdout, &*played.stderr), (&b"out\ntail"[..], &b"b\xff"[..]));
    let played = runcast("replay --speed max").arg(data("recording-1.cast")).run().exited(6);
    assert_eq!(played.out(), "out\r\nb\u{fffd}tail");
}
