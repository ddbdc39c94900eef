//! A disk that fills, and empties again: the run goes on, what is lost is counted, and the result comes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{Home, content, in_order, lines, of, wait_for_file};
use crate::harness::{LINE_BYTES, Live, Runcast, root, tool, wait_for};

/// Runs on a small disk of their own, which only those see who enter here.
struct SmallDisk {
    home: Home,
    nsenter: PathBuf,
    /// The process that holds the disk.
    holder: Live,
}

impl SmallDisk {
    /// `None`: this cannot be done here, and the test is to end.
    fn new(size: &str) -> Option<Self> {
        let (unshare, nsenter) = (tool("unshare")?, tool("nsenter")?);
        root()?;
        let may = Command::new(&unshare).args(["-m", "true"]).output();
        if !may.is_ok_and(|may| may.status.success()) {
            crate::harness::missing("no mount namespace can be made here");
            return None;
        }
        let home = Home::at("disk/runs");
        let disk = home.folder.path().join("disk");
        fs::create_dir(&disk).expect("it can be made");
        let script = format!(
            "mount -t tmpfs -o size={size},mode=700 none '{}' && echo up && exec sleep 600",
            disk.display()
        );
        let mut holder = home
            .runcast("")
            .command([
                unshare.as_os_str(),
                "-m".as_ref(),
                "sh".as_ref(),
                "-c".as_ref(),
                script.as_ref(),
            ])
            .start();
        assert_eq!(holder.line(), "up");
        Some(Self { home, nsenter, holder })
    }

    fn pid(&self) -> i32 {
        let inside = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
        };
        wait_for("its holder", || self.holder.processes().into_iter().find(inside))
    }

    fn runcast(&self, options: &str) -> Runcast {
        let pid = self.pid().to_string();
        self.home.runcast(options).through([
            self.nsenter.as_os_str(),
            "-m".as_ref(),
            "-t".as_ref(),
            pid.as_ref(),
        ])
    }

    /// The disk, as it is seen from outside.
    fn disk(&self) -> PathBuf {
        let disk = self.home.folder.path().join("disk");
        PathBuf::from(format!("/proc/{}/root", self.pid()))
            .join(disk.strip_prefix("/").expect("it is absolute"))
    }

    /// Leaves no room.
    fn fill(&self) {
        let path = self.disk().join("filler");
        let mut file =
            OpenOptions::new().append(true).create(true).open(path).expect("it can be made");
        while file.write_all(&[b'x'; 4096]).is_ok() {}
        while file.write_all(b"x").is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.disk().join("filler")).expect("it is there");
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.home.folder.path().join(name)
    }

    fn go(&self, name: &str) {
        fs::write(self.outside(name), "").expect("it can be written");
    }

    fn events(&self) -> Vec<Value> {
        lines(&self.runcast("attach -f ndjson r").run())
    }
}

/// All that is told to be missing: chunks and bytes.
fn missing(events: &[Value]) -> (u64, u64) {
    let sum =
        |field: &str| of(events, "dropped").iter().filter_map(|gap| gap[field].as_u64()).sum();
    (sum("chunks"), sum("bytes"))
}

#[test]
fn a_disk_that_fills_and_empties_again_costs_lines_that_are_counted_and_nothing_else() {
    let Some(disk) = SmallDisk::new("16m") else { return };
    let [go, done, end] = ["go", "done", "end"].map(|name| disk.outside(name));
    let steps = format!(
        "say:first wait-file:{} lines:stdout:50000 err:x touch:{} wait-file:{} say:last exit:3",
        go.display(),
        done.display(),
        end.display()
    );
    disk.runcast("-d --id r --partial-after never").puppet(&steps).run().exited(0);
    let mut reader = disk.runcast("attach -f ndjson r").start();
    reader.shows("first");
    disk.fill();
    disk.go("go");
    // The run is not held up.
    wait_for_file(&done);
    disk.empty();
    disk.go("end");
    let live = lines(&reader.finish().exited(3));
    let events = disk.events();
    assert_eq!(live, events, "who was there has seen something else than who came later");
    assert_eq!(in_order(&events, 0), 50_003);
    let (chunks, bytes) = missing(&events);
    assert!(chunks > 0, "nothing was lost");
    let result = events.last().expect("a result");
    assert_eq!((&result["exit_code"], &result["stdout_lines"]), (&3.into(), &50_002.into()));
    let shown = content(&events, "stdout").len() + content(&events, "stderr").len();
    assert_eq!(bytes as usize + shown, "first\nlast\nx\n".len() + 50_000 * LINE_BYTES);
    assert!(content(&events, "stdout").ends_with("last\n"));
    // By lines too, what is behind the loss has its right number.
    let ran = disk.runcast("attach -f ndjson --from stdout=50001,stderr=1 r").run();
    assert_eq!(content(&lines(&ran), "stdout"), "last\n");
}

#[test]
fn a_disk_that_stays_full_still_takes_how_the_run_ended_and_the_loss_is_told() {
    let Some(disk) = SmallDisk::new("1m") else { return };
    let go = disk.outside("go");
    let steps = format!("say:first wait-file:{} lines:stdout:50000 exit:3", go.display());
    disk.runcast("-d --id r --partial-after never").puppet(&steps).run().exited(0);
    disk.runcast("attach -f ndjson r").start().shows("first");
    disk.fill();
    disk.go("go");
    let ran = disk.runcast("wait r").run().exited(3);
    let result = lines(&ran).remove(0);
    let all = "first\n".len() as u64 + 50_000 * LINE_BYTES as u64;
    assert_eq!((&result["exit_code"], &result["stdout_bytes"]), (&3.into(), &all.into()));
    assert_eq!((&result["stdout"], &result["stdout_truncated"]), (&"".into(), &true.into()));
    let events = disk.events();
    assert_eq!(in_order(&events, 0), 50_001);
    let (_, bytes) = missing(&events);
    assert_eq!(bytes + content(&events, "stdout").len() as u64, all);
    let listed = lines(&disk.runcast("runs -f ndjson").run().exited(0)).remove(0);
    assert_eq!((&listed["state"], &listed["stdout_bytes"]), (&"exited 3".into(), &all.into()));
}

#[test]
fn the_limit_that_ended_a_run_is_told_on_a_full_disk_too() {
    let Some(disk) = SmallDisk::new("1m") else { return };
    let go = disk.outside("go");
    let steps = format!("wait-file:{} lines:stdout:20000 burn", go.display());
    disk.runcast("-d --id r -r cpu=1 --keep both --max-output 100").puppet(&steps).run().exited(0);
    disk.fill();
    disk.go("go");
    let result = lines(&disk.runcast("wait r").run()).remove(0);
    assert_eq!((&result["limit"], &result["signal"]), (&"cpu".into(), &"SIGXCPU".into()));
    assert_eq!(
        (&result["stdout_omitted"], &result["stdout"]),
        (&(20_000 * LINE_BYTES).into(), &"".into())
    );
}

#[test]
fn a_value_for_which_there_is_no_room_is_a_failure_that_says_so() {
    let Some(disk) = SmallDisk::new("1m") else { return };
    let go = disk.outside("go");
    let script = format!(
        "while ! [ -e '{}' ]; do sleep 0.01; done; (printf '\"'; head -c 500000 /dev/zero | tr '\\0' x; printf '\"') >\"$RUNCAST_RESULT\"",
        go.display()
    );
    disk.runcast("-d --id r --callable --input 1").command(["sh", "-c", &script]).run().exited(0);
    disk.fill();
    disk.go("go");
    let ran = disk.runcast("wait r").run().exited(125);
    let result = lines(&ran).remove(0);
    assert_eq!(
        (&result["exit_code"], &result["error"]["code"]),
        (&0.into(), &"output_failed".into())
    );
    assert!(result["result"].is_null());
}

#[test]
fn on_a_disk_that_is_full_before_it_starts_no_run_begins() {
    let Some(disk) = SmallDisk::new("100k") else { return };
    disk.runcast("-d --id first").puppet("say:x").run().exited(0);
    disk.runcast("wait first").run().exited(0);
    disk.fill();
    let ran = disk.runcast("-d --id r").puppet("sleep").run().exited(125);
    ran.said_one_line("No space left");
    disk.empty();
    let listed = lines(&disk.runcast("runs -f ndjson").run().exited(0));
    assert_eq!(listed.len(), 1, "{listed:?}");
    disk.runcast("-d --id r").puppet("say:now").run().exited(0);
    assert_eq!(disk.runcast("attach r").run().exited(0).out(), "now\n");
}

#[test]
fn many_losses_one_after_the_other_are_all_counted() {
    let Some(disk) = SmallDisk::new("1m") else { return };
    let outside = disk.home.folder.path().display().to_string();
    let steps: String = (0..4)
        .map(|turn| {
            format!("wait-file:{outside}/go{turn} lines:stdout:20000 touch:{outside}/done{turn} ")
        })
        .collect();
    disk.runcast("-d --id r --journal 128K --partial-after never").puppet(&steps).run().exited(0);
    let reader = disk.runcast("attach -f ndjson r").start();
    for turn in 0..4 {
        if turn % 2 == 0 {
            disk.fill();
        } else {
            disk.empty();
        }
        disk.go(&format!("go{turn}"));
        wait_for_file(&disk.outside(&format!("done{turn}")));
    }
    disk.empty_if_there();
    let all = 80_000 * LINE_BYTES as u64;
    for events in [lines(&reader.finish().exited(0)), disk.events()] {
        assert_eq!(in_order(&events, 0), 80_000);
        let (_, bytes) = missing(&events);
        assert_eq!(bytes + content(&events, "stdout").len() as u64, all);
    }
}

impl SmallDisk {
    fn empty_if_there(&self) {
        // It was emptied already, or is now.
        let _ = fs::remove_file(self.disk().join("filler"));
    }
}
