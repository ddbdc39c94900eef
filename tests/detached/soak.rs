//! Many runs with sudden deaths of everybody: to be run by hand, with `RUNCAST_SOAK` runs.
//!
//! ```text
//! RUNCAST_SOAK=1000 cargo test --test main detached::soak -- --ignored --nocapture
//! ```

use std::env;
use std::fs;
use std::io::{self, Write};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Home, content, in_order, lines};
use crate::harness::{alive, let_pass, parent, wait_until};

/// How many run at a time.
const AT_ONCE: usize = 8;

/// A number that looks random and is the same each time.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17
}

fn kill_at_once(pid: i32) {
    // It may have ended meanwhile.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

#[test]
#[ignore = "takes long"]
fn whoever_dies_when_ever_no_process_no_socket_and_no_wrong_result_is_left() {
    let count: u64 =
        env::var("RUNCAST_SOAK").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let home = Home::new();
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE as u64 {
            let home = &home;
            scope.spawn(move || {
                (worker..count).step_by(AT_ONCE).for_each(|number| one(home, number))
            });
        }
    });
    home.is_quiet();
    home.runcast("forget --finished").run().exited(0);
    let left: Vec<_> = fs::read_dir(&home.runs).expect("it is there").collect();
    // Of a start that was killed, until it is old.
    let is_new = |name: &str| name.starts_with(".new-");
    for entry in left {
        let name = entry.expect("it can be read").file_name().to_string_lossy().into_owned();
        assert!(is_new(&name), "{name} is left");
    }
}

fn one(home: &Home, number: u64) {
    let random = mix(number + 1);
    let (id, code) = (format!("soak{number}"), random % 50);
    let lines_of = 200 + random % 3000;
    let steps =
        format!("repeat:{lines_of} {{ say:out%i err:err%i }} sleep:{} exit:{code}", random % 20);
    let mut starter = home.runcast(&format!("-d --id {id} --journal 256K")).puppet(&steps).start();
    if random & 0x100 != 0 {
        let_pass(random >> 9 & 3);
        kill_at_once(starter.pid());
    }
    starter.close_stdout();
    starter.ends_unread();
    // Whatever became of the first, now there is one.
    home.runcast(&format!("-d --id {id} --journal 256K")).puppet(&steps).run().exited(0);
    let command = home.command(&id);
    let keeper = parent(command);
    let mut readers: Vec<_> = (0..3).map(|_| home.reader("-f ndjson", &id)).collect();
    let_pass(random >> 12 & 15);
    let is_keeper_killed = random & 0x2000 != 0;
    if let Some(keeper) = keeper.filter(|&pid| is_keeper_killed && is_runcast(pid)) {
        kill_at_once(keeper);
    }
    kill_at_once(readers.remove(0).pid());
    for reader in readers {
        let ran = reader.finish();
        let events = lines(&ran);
        let seen = in_order(&events, 0);
        let result = events.last().expect("there is a result");
        if i64::from(ran.code().unwrap_or(-1)) == code as i64 && result["error"].is_null() {
            assert_eq!(seen, 2 * lines_of, "{id}: not all of it");
            assert_eq!(result["exit_code"].as_u64(), Some(code), "{id}");
        } else {
            assert!(is_keeper_killed, "{id} was lost for no reason: {ran}");
            assert_eq!(
                (ran.code(), &result["error"]["code"]),
                (Some(125), &"run_lost".into()),
                "{id}"
            );
        }
        for line in content(&events, "stderr").lines() {
            assert!(
                line.strip_prefix("err").is_some_and(|number| number.parse::<u32>().is_ok()),
                "{line}"
            );
        }
    }
    wait_until("the end of the command", || !alive(command));
    home.runcast(&format!("forget {id}")).run().exited(0);
    assert!(!home.path(&id).exists());
    if number.is_multiple_of(100) {
        // For whoever watches.
        let _ = writeln!(io::stderr(), "soak: {number}");
    }
}

fn is_runcast(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "runcast")
}
