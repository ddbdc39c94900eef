//! Full-screen programs and shells through `--pty`, on a screen as people see it.

use std::fs;

use crate::harness::{PUPPET, RUNCAST, Tmux, scratch, tool};

/// A file with numbered lines.
fn numbered(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("numbered");
    let lines: String = (1..=200).map(|number| format!("line {number}\n")).collect();
    fs::write(&path, lines).expect("the scratch folder is ours");
    path.display().to_string()
}

#[test]
fn a_pager_fills_the_screen_takes_keys_and_follows_the_window() {
    if tool("less").is_none() {
        return;
    }
    let Some(screen) = Tmux::start(80, 20) else { return };
    let folder = scratch();
    screen.say(&format!(
        "clear; stty -a > {0}/before; {RUNCAST} --pty -- less {1}",
        folder.path().display(),
        numbered(&folder)
    ));
    screen.shows("the first page", |lines| lines[0] == "line 1" && lines[18] == "line 19");
    screen.press(&["Space"]);
    screen.shows("the second page", |lines| lines[0] == "line 20" && lines[18] == "line 38");
    screen.resize(60, 30);
    screen.shows("the larger page", |lines| lines.len() == 30 && lines[28] == "line 48");
    screen.press(&["q"]);
    screen.until("shell>");
    screen.say(&format!("stty -a > {0}/after; stty size; echo status:$?", folder.path().display()));
    screen.until("status:0");
    let modes = ["before", "after"].map(|name| {
        let modes = fs::read_to_string(folder.path().join(name)).expect("stty wrote it");
        // The first line has the window's size.
        modes.split_once('\n').map(|(_, rest)| rest.to_owned())
    });
    assert_eq!(modes[0], modes[1]);
}

#[test]
fn an_editor_edits() {
    if tool("vim").is_none() {
        return;
    }
    let Some(screen) = Tmux::start(80, 20) else { return };
    let folder = scratch();
    let path = numbered(&folder);
    screen.say(&format!("clear; {RUNCAST} --pty -- vim -u NONE -N {path}"));
    screen.shows("the file", |lines| lines[0] == "line 1" && lines[17] == "line 18");
    screen.press(&["G", "o", "the last", "Escape"]);
    screen.until("the last");
    screen.press(&[":wq", "Enter"]);
    screen.until("shell>");
    screen.say("echo status:$?");
    screen.until("status:0");
    assert!(fs::read_to_string(&path).is_ok_and(|text| text.ends_with("line 200\nthe last\n")));
}

#[test]
fn a_shell_has_its_jobs_its_lines_and_its_keys() {
    let Some(screen) = Tmux::start(80, 20) else { return };
    screen.say(&format!("{RUNCAST} --pty -- bash --norc --noprofile -i; echo outer:$?"));
    screen.until("bash");
    screen.say("PS1='inner> '");
    screen.until("inner>");
    screen.say(&format!("{PUPPET} trap:CONT say:up sleep"));
    screen.until("up");
    screen.press(&["C-z"]);
    screen.until("[1]+  Stopped");
    screen.say("clear; fg");
    screen.until("CONT");
    screen.press(&["C-c"]);
    screen.until("inner>");
    screen.say("seq 3; exit 7");
    screen.until("outer:7");
    screen.shows("lines that begin at the left", |lines| {
        ["1", "2", "3"].iter().all(|line| lines.iter().any(|shown| shown == line))
    });
}

#[test]
fn without_a_terminal_of_its_own_a_shell_works_all_the_same() {
    let Some(screen) = Tmux::start(80, 20) else { return };
    screen.say(&format!("{RUNCAST} -- bash --norc --noprofile -i; echo outer:$?"));
    screen.until("bash");
    screen.say(&format!("{PUPPET} say:up sleep"));
    // What the shell echoes is of the other stream than what its commands write, and may come later.
    let shows = |text: &str| {
        screen.shows(text, |lines| lines.iter().any(|line| line.ends_with(text)));
    };
    shows("up");
    screen.press(&["C-z"]);
    screen.shows("the stop", |lines| lines.iter().any(|line| line.contains("[1]+  Stopped")));
    // For a job that was stopped bash's wait may not wait, and then says once that there are such jobs.
    screen.say("kill -9 %1; fg; echo inner:$((6*7))");
    shows("inner:42");
    screen.say("exit 5");
    shows("outer:5");
}
