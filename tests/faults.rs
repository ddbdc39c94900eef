//! System calls that fail: one clear line and 125, or the true outcome; no panic, no hang, nothing left.

use std::fs;
use std::path::Path;

use crate::harness::{Ran, Runcast, ndjson, runcast, scratch, strace};

/// What the command does unless a test says otherwise: output on both streams and an exit status of its own.
const STEPS: &str = "fork { say:child } reap say:out err:err exit:7";

/// Runs it with faults in runcast and in what is between fork and exec, but not in the command.
fn with_faults(strace: &Path, calls: &str, fault: &str, run: Runcast) -> Ran {
    let inject = format!("inject={calls}:{fault}");
    let words = ["-f", "-qq", "-b", "execve", "-o", "/dev/null", "-e", &inject].map(str::to_owned);
    run.through([strace.as_os_str()].into_iter().chain(words.iter().map(AsRef::as_ref))).run()
}

/// Checks that the run told the truth about itself: the true outcome with all the output, or a failure.
fn told_the_truth(ran: Ran, what: &str) -> Ran {
    let err = ran.err();
    assert!(!err.contains("panicked") && !err.contains("RUST_BACKTRACE"), "{what}: {ran}");
    if err.contains("error while loading shared libraries") {
        return ran;
    }
    let ran = ran.left_nothing();
    match ran.code() {
        Some(7) if ran.out().starts_with('{') => {
            assert_eq!(ran.contents("stdout"), ["child\n", "out\n"], "{what}: {ran}");
            assert_eq!(ran.contents("stderr"), ["err\n"], "{what}: {ran}");
        }
        Some(7) => {
            assert_eq!((ran.out(), err), ("child\nout\n".to_owned(), "err\n".to_owned()), "{what}")
        }
        Some(125) => {
            let own: Vec<&str> = err.lines().filter(|line| *line != "err").collect();
            assert!(own.len() == 1 && own[0].starts_with("runcast: "), "{what}: {ran}");
        }
        _ => panic!("{what}: {ran}"),
    }
    ran
}

#[test]
fn a_write_that_fails_is_125_and_told() {
    let Some(strace) = strace() else { return };
    for format in ["text", "ndjson"] {
        for error in ["ENOSPC", "EIO"] {
            let mut failed = 0;
            for when in 1..=6 {
                let run = runcast(&format!("-f {format}")).puppet(STEPS);
                let what = format!("{format} {error} {when}");
                let ran = with_faults(
                    &strace,
                    "write,writev",
                    &format!("error={error}:when={when}"),
                    run,
                );
                failed += i32::from(told_the_truth(ran, &what).code() == Some(125));
            }
            assert!(failed > 0, "{format} {error}: no fault was met");
        }
    }
}

#[test]
fn when_nothing_can_be_written_any_more_it_still_ends_with_125() {
    let Some(strace) = strace() else { return };
    for format in ["text", "ndjson"] {
        for when in 1..=3 {
            let steps = "say:a sleep:20 say:b sleep:20 say:c exit:0";
            let run = runcast(&format!("-f {format}")).puppet(steps);
            let fault = format!("error=ENOSPC:when={when}+");
            let ran = with_faults(&strace, "write,writev", &fault, run).left_nothing();
            // On a busy machine so few writes may do that none of them fails.
            let is_whole = ran.out() == "a\nb\nc\n" || ran.out().contains("\"op\":\"result\"");
            assert_eq!(ran.code(), Some(if is_whole { 0 } else { 125 }), "{format} {when}: {ran}");
        }
    }
}

#[test]
fn calls_that_are_interrupted_or_must_wait_are_made_again() {
    let Some(strace) = strace() else { return };
    for (calls, error) in [
        ("write,writev", "EINTR"),
        ("write,writev", "EAGAIN"),
        ("read,readv", "EINTR"),
        ("poll,ppoll,epoll_wait,epoll_pwait,select,pselect6", "EINTR"),
        ("rename,renameat,renameat2", "EINTR"),
    ] {
        for format in ["text", "ndjson"] {
            for when in ["1", "2", "3", "1+2"] {
                // The first reads are the program loader's own, which does not try again.
                let when = if calls.starts_with("read") && when.len() == 1 {
                    format!("{when}+6")
                } else {
                    when.to_owned()
                };
                let run = runcast(&format!("-f {format}")).puppet(STEPS);
                let what = format!("{format} {calls} {error} {when}");
                let ran = with_faults(&strace, calls, &format!("error={error}:when={when}"), run);
                if ran.err().contains("error while loading shared libraries") {
                    continue;
                }
                assert_eq!(told_the_truth(ran, &what).code(), Some(7), "{what}");
            }
        }
    }
}

#[test]
fn any_call_that_fails_once_is_told_or_does_not_matter() {
    let Some(strace) = strace() else { return };
    let calls = [
        ("read,readv", "EIO"),
        ("poll,ppoll", "ENOMEM"),
        ("epoll_wait,epoll_pwait,epoll_create1,epoll_ctl", "ENOMEM"),
        ("pipe,pipe2", "EMFILE"),
        ("socketpair", "EMFILE"),
        ("eventfd2,timerfd_create,signalfd4", "EMFILE"),
        ("dup,dup2,dup3", "EMFILE"),
        ("fcntl", "EMFILE"),
        ("openat", "EMFILE"),
        ("getdents64", "EIO"),
        ("fork,vfork,clone,clone3", "EAGAIN"),
        ("clone,clone3", "ENOMEM"),
        ("setsid", "EPERM"),
        ("setpgid", "EPERM"),
        ("prctl", "EINVAL"),
        ("pidfd_open", "ENOSYS"),
        ("pidfd_send_signal", "ENOSYS"),
        ("kill,tgkill", "EPERM"),
        ("close", "EIO"),
        ("getcwd", "ENOENT"),
        ("getrandom", "ENOSYS"),
    ];
    for (calls, error) in calls {
        for when in 1..=4 {
            for format in ["text", "ndjson"] {
                let what = format!("{format} {calls} {error} {when}");
                let run = runcast(&format!("-f {format} -t 20")).puppet(STEPS);
                told_the_truth(
                    with_faults(&strace, calls, &format!("error={error}:when={when}"), run),
                    &what,
                );
            }
        }
    }
}

#[test]
fn a_thread_or_a_process_that_cannot_be_made_is_told() {
    let Some(strace) = strace() else { return };
    let ran =
        with_faults(&strace, "fork,vfork,clone,clone3", "error=EAGAIN", ndjson("").puppet(STEPS));
    ran.failed(125, "spawn_failed", "Resource temporarily unavailable");
    assert!(ran.left().is_empty() && ran.of("chunk").is_empty(), "{ran}");
}

#[test]
fn a_thread_that_cannot_be_made_leaves_nothing_of_a_command_that_was_started() {
    let Some(strace) = strace() else { return };
    for when in 1..=6 {
        let run = ndjson("-t 1 -k 0.3").puppet("fork { setsid fork { sleep } } sleep");
        let ran = with_faults(&strace, "clone,clone3", &format!("error=EAGAIN:when={when}"), run);
        assert!(matches!(ran.code(), Some(124 | 125)), "{when}: {ran}");
        assert_eq!(ran.result()["error"].is_null(), ran.code() == Some(124), "{when}: {ran}");
        ran.left_nothing();
    }
}

#[test]
fn a_limit_that_the_kernel_refuses_is_told() {
    let Some(strace) = strace() else { return };
    let run = ndjson("-r nofile=64").puppet("say:started");
    let ran = with_faults(&strace, "prlimit64,setrlimit", "error=EPERM", run);
    ran.failed(125, "limit_not_set", "nofile");
    assert!(ran.of("chunk").is_empty(), "{ran}");
}

#[test]
fn what_the_kernel_refuses_between_fork_and_exec_is_told_before_the_command_starts() {
    let Some(strace) = strace() else { return };
    for (call, options) in [("chdir,fchdir", "-C /"), ("setsid", ""), ("setpriority", "--nice 3")] {
        let ran = with_faults(&strace, call, "error=EPERM", ndjson(options).puppet("say:started"));
        assert_eq!(ran.code(), Some(125), "{call}: {ran}");
        ran.said_one_line("Operation not permitted");
        assert_eq!(ran.events().len(), 1, "{call}: {ran}");
    }
}

#[test]
fn a_result_that_cannot_be_put_in_its_place_is_told_and_leaves_nothing() {
    let Some(strace) = strace() else { return };
    let folder = scratch();
    let result = folder.path().join("result");
    for (calls, fault) in [
        ("rename,renameat,renameat2", "error=EACCES"),
        ("rename,renameat,renameat2,link,linkat", "error=EIO"),
        ("fsync,fdatasync", "error=EIO"),
    ] {
        let run = runcast("-q --result").arg(&result).puppet("exit:7");
        let ran = with_faults(&strace, calls, fault, run);
        if ran.code() == Some(7) {
            assert!(calls.starts_with("fsync"), "{calls}: {ran}");
            fs::remove_file(&result).expect("it was written");
        } else {
            ran.exited(125).said_one_line("result");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "{calls}");
    }
}

#[test]
fn the_kill_works_where_processes_cannot_be_listed_or_opened() {
    let Some(strace) = strace() else { return };
    for (calls, error) in [
        ("pidfd_open", "ENOSYS"),
        ("pidfd_send_signal", "EPERM"),
        ("pidfd_open,pidfd_send_signal", "EMFILE"),
    ] {
        let run = ndjson("-t 0.5 -k 0.3").puppet("fork { ignore:TERM sleep } ignore:TERM sleep");
        let ran = with_faults(&strace, calls, &format!("error={error}"), run).exited(124);
        assert_eq!(ran.result()["signal"], "SIGKILL", "{calls}: {ran}");
    }
}

#[test]
fn descriptors_that_run_out_are_told_of() {
    let mut outcomes = Vec::new();
    for limit in 3..=40 {
        let run =
            ndjson("").puppet(STEPS).launched(&format!("close-above:2 limit:nofile:{limit}:40"));
        let ran = run.run();
        let loader = ran.err().contains("error while loading shared libraries");
        if !loader {
            outcomes.push(told_the_truth(ran, &format!("{limit} descriptors")).code());
        }
    }
    assert!(outcomes.contains(&Some(125)) && outcomes.last() == Some(&Some(7)), "{outcomes:?}");
}
