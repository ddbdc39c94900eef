//! Other users of the machine, and whoever exchanges what stands in a path while it is used: they get nothing, reach
//! nothing, and have nothing deleted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::{Home, lines};
use crate::harness::{
    LIMIT, Ran, alive, copies_for_everyone, let_pass, root, runcast, shared_folder,
};

/// Another user, who knows where everything is.
struct Other {
    puppet: PathBuf,
}

impl Other {
    fn new(home: &Home) -> Self {
        let [_, puppet] = copies_for_everyone(home.folder.path());
        Self { puppet }
    }

    /// What this user gets done.
    fn does(&self, home: &Home, script: &str) -> Ran {
        let steps = ["user:4321", "exec", "sh", "-c", script];
        let words = [self.puppet.as_os_str()].into_iter().chain(steps.iter().map(AsRef::as_ref));
        let ran = runcast("").env("RUNCAST_DIR", &home.runs).within("/").command(words).run();
        assert!(ran.code().is_some(), "{ran}");
        ran
    }
}

/// Everything below a folder.
fn all_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn another_user_sees_reaches_and_stops_nothing_of_a_run() {
    let Some(()) = root() else { return };
    let home = Home::new();
    let other = Other::new(&home);
    home.start_with("r", "--stdin open", "say:secret sleep");
    home.reader("", "r").line();
    let run = home.path("r");
    let (keeper, command) = (home.keeper("r"), home.command("r"));
    // What would get through would say so.
    let script = format!(
        "cd {run} && echo in
         ls {runs} {run} && echo listed
         for file in run lock control journal-00000000000000000001; do
             cat {run}/$file && echo read; echo x >{run}/$file && echo written; rm -f {run}/$file && echo removed
         done
         mv {run} {run}2 && echo moved; rmdir {runs}; ln -s /etc {run}/more && echo linked
         kill -9 {keeper} {command} && echo killed
         cat /proc/{keeper}/environ /proc/{keeper}/fd/* && echo seen
         for words in 'attach r' 'wait r' 'send r' 'signal r KILL' 'forget r' runs '-d --id s true'; do
             {program} $words >/dev/null && echo done
         done",
        run = run.display(),
        runs = home.runs.display(),
        program = home.folder.path().join("runcast").display(),
    );
    let ran = other.does(&home, &script);
    assert_eq!(ran.out(), "", "{ran}");
    assert!(alive(keeper) && alive(command));
    home.runcast("signal r KILL").run().exited(0);
    assert_eq!(home.result("r")["signal"], "SIGKILL");
}

#[test]
fn in_a_folder_that_all_may_write_in_nobody_is_trusted_who_came_first() {
    let Some(()) = root() else { return };
    for plant in
        ["mkdir -m 777 $R", "mkdir -m 700 $R", "ln -s /root $R", "ln -s . $R", "mkfifo $R", ": >$R"]
    {
        let mut home = Home::new();
        let other = Other::new(&home);
        home.runs = shared_folder(home.folder.path()).join("runs");
        other.does(&home, &format!("R=$RUNCAST_DIR; {plant}")).exited(0);
        let before = fs::symlink_metadata(&home.runs).expect("it was planted");
        for words in ["-d --id x -- true", "runs", "attach x", "forget x", "forget --finished"] {
            home.runcast(words).run().exited(125).said_one_line("runs");
        }
        let after = fs::symlink_metadata(&home.runs).expect("it is there");
        assert_eq!((before.uid(), before.ino()), (after.uid(), after.ino()), "{plant}");
        if after.is_dir() {
            assert_eq!(all_in(&home.runs), [""; 0], "{plant}");
        }
    }
    // Ours stays ours, though all may write beside it.
    let mut home = Home::new();
    let other = Other::new(&home);
    home.runs = shared_folder(home.folder.path()).join("runs");
    home.start("x", "say:x exit:3");
    home.wait("x").exited(3);
    let ran =
        other.does(&home, "mv $RUNCAST_DIR ${RUNCAST_DIR}2 && echo moved; rm -rf $RUNCAST_DIR");
    assert_eq!(ran.out(), "", "{ran}");
    assert_eq!(home.attach("", "x").exited(3).out(), "x\n");
}

#[test]
fn a_home_folder_of_another_user_s_holds_no_runs_of_root_s() {
    let Some(()) = root() else { return };
    let home = Home::new();
    let folder = home.folder.path().join("home");
    fs::create_dir_all(folder.join(".local/state")).expect("it can be made");
    for part in ["", ".local", ".local/state"] {
        chown(folder.join(part), Some(4321), Some(4321)).expect("root may");
    }
    let runs = folder.join(".local/state/runcast");
    let at_home = |words: &str| runcast(words).env("HOME", &folder).marked(&home.mark);
    fs::create_dir(&runs).expect("it can be made");
    chown(&runs, Some(4321), Some(4321)).expect("root may");
    for words in ["runs", "-d --id x -- true", "forget x"] {
        at_home(words).run().exited(125).said_one_line("another user");
    }
    assert_eq!(all_in(&runs), [""; 0]);
}

/// Exchanges two names, again and again, for as long as it lives.
struct Exchange {
    is_over: Arc<AtomicBool>,
    count: Option<thread::JoinHandle<u32>>,
}

impl Exchange {
    fn of(one: PathBuf, other: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let count = thread::spawn(move || {
            let begun = std::time::Instant::now();
            let mut count = 0;
            while !seen.load(Ordering::Relaxed) {
                // One of them may just have been taken away.
                count += u32::from(
                    renameat2(AT_FDCWD, &one, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE)
                        .is_ok(),
                );
                // Long enough for whoever looks to get through now and then, also where all takes longer.
                let_pass(u64::from(count % 4) + 20 * begun.elapsed().as_secs());
            }
            count
        });
        Self { is_over, count: Some(count) }
    }

    /// How often they were exchanged.
    fn end(mut self) -> u32 {
        self.is_over.store(true, Ordering::Relaxed);
        self.count.take().expect("it is ended once").join().expect("it only renames")
    }
}

#[test]
fn a_run_that_is_exchanged_for_a_link_while_it_is_looked_at_or_forgotten_has_nothing_else_deleted()
{
    let home = Home::new();
    // As like a run as can be.
    home.start("outside", "say:outside");
    home.wait("outside").exited(0);
    home.is_quiet();
    let outside = home.folder.path().join("outside");
    fs::rename(home.path("outside"), &outside).expect("it can be moved");
    let before = all_in(&outside);
    let mut exchanged = 0;
    for turn in 0..25 {
        let id = format!("x{turn}");
        home.start(&id, "say:inside");
        home.wait(&id).exited(0);
        let link = home.folder.path().join(format!("link{turn}"));
        symlink(&outside, &link).expect("it can be made");
        let exchange = Exchange::of(home.path(&id), link);
        let begun = std::time::Instant::now();
        loop {
            let shown = home.attach("", &id);
            assert!(!shown.out().contains("outside"), "{shown}");
            home.runcast("runs").run().exited(0);
            let forgotten = home.runcast(&format!("forget {id}")).run();
            // One whose name led elsewhere in the middle of that is no run any more, and cannot be forgotten again.
            if forgotten.code() == Some(0) || forgotten.err().contains("no such run") {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "it is never forgotten: {forgotten}");
        }
        exchanged += exchange.end();
        assert_eq!(all_in(&outside), before);
    }
    assert!(exchanged > 25, "hardly anything was exchanged");
}

#[test]
fn a_folder_of_runs_that_is_exchanged_for_a_link_while_it_is_used_leads_nowhere() {
    let mut home = Home::new();
    let shared = home.folder.path().join("shared");
    let outside = home.folder.path().join("outside");
    for folder in [&shared, &outside] {
        fs::create_dir(folder).expect("it can be made");
    }
    fs::set_permissions(&outside, Permissions::from_mode(0o700)).expect("the folder is ours");
    fs::write(outside.join("file"), "").expect("it can be written");
    home.runs = shared.join("runs");
    home.start("x", "say:x");
    home.wait("x").exited(0);
    symlink(&outside, shared.join("link")).expect("it can be made");
    let exchange = Exchange::of(home.runs.clone(), shared.join("link"));
    for turn in 0..40 {
        for words in ["runs".to_owned(), "attach x".to_owned(), format!("forget y{turn}")] {
            let ran = home.runcast(&words).run();
            assert!(matches!(ran.code(), Some(0 | 125)), "{words}: {ran}");
        }
        let ran = home.runcast(&format!("-d --id y{turn}")).puppet("exit:0").run();
        assert!(matches!(ran.code(), Some(0 | 125)), "{ran}");
    }
    assert!(exchange.end() > 40, "hardly anything was exchanged");
    assert_eq!(all_in(&outside), ["file"]);
    if fs::symlink_metadata(&home.runs).is_ok_and(|found| found.is_symlink()) {
        home.runs = shared.join("link");
    }
    // What was started before and after an exchange is in one place.
    let ran = home.runcast("runs -f ndjson").run().exited(0);
    assert!(lines(&ran).iter().any(|run| run["id"] == "x"), "{ran}");
}
