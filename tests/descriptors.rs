//! Descriptors: closed, full, shared, non-blocking or inherited, they do no harm and are left as they were.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::harness::{LINE_BYTES, children, ndjson, result_in, runcast, scratch, tool, wait_until};

const CLOSED: [&str; 8] = ["", "0", "1", "2", "0 1", "0 2", "1 2", "0 1 2"];

fn closing(descriptors: &str) -> String {
    descriptors.split_ascii_whitespace().map(|number| format!("close:{number} ")).collect()
}

#[test]
fn closed_standard_descriptors_count_as_dev_null() {
    let folder = scratch();
    let (result, report) = (folder.path().join("result"), folder.path().join("report"));
    for format in ["text", "ndjson"] {
        for closed in CLOSED {
            let run =
                runcast(&format!("-f {format} --result")).arg(&result).launched(&closing(closed));
            let ran = run.puppet("say:out err:err cat exit:5").input("in\n").run().exited(5);
            let result = result_in(&result);
            let input = if closed.contains('0') { "" } else { "in\n" };
            assert_eq!(result.text("stdout"), format!("out\n{input}"), "{closed}: {ran}");
            assert_eq!(
                (result.text("stderr"), &result["error"]),
                ("err\n", &serde_json::Value::Null),
                "{closed}: {ran}"
            );
        }
    }
    for closed in CLOSED {
        let steps = format!("open:{}:1 report:descriptors exit:5", report.display());
        runcast("").launched(&closing(closed)).puppet(&steps).run().exited(5);
        let seen = fs::read_to_string(&report).expect("the command wrote it");
        assert!(seen.starts_with("0 1 2"), "{closed}: {seen}");
    }
}

#[test]
fn what_was_inherited_passes_and_nothing_of_runcasts_own_does() {
    let folder = scratch();
    for options in ["", "-t 20", "--merge", "--stdin null", "--max-memory 1G"] {
        let run = runcast(options)
            .arg("--result")
            .arg(folder.path().join("result"))
            .launched("close-above:2 dup:2:7 dup:2:250");
        let ran = run.puppet("report:descriptors print:7:through").run().exited(0);
        assert_eq!(
            (ran.out(), ran.err()),
            ("0 1 2 7 250\n".to_owned(), "through".to_owned()),
            "{options}"
        );
    }
}

#[test]
fn makes_job_server_passes_through() {
    let Some(make) = tool("make") else { return };
    let folder = scratch();
    fs::write(folder.path().join("inner.mk"), "all: a b\na b:\n\t@echo $@\n")
        .expect("the scratch folder is ours");
    fs::write(
        folder.path().join("Makefile"),
        format!("all:\n\t+@{} -- $(MAKE) -f inner.mk\n", crate::harness::RUNCAST),
    )
    .expect("the scratch folder is ours");
    let ran = runcast("")
        .command([make.as_os_str(), "-j2".as_ref(), "--no-print-directory".as_ref()])
        .within(folder.path())
        .run();
    let ran = ran.exited(0);
    assert_eq!((ran.out().lines().count(), ran.err()), (2, String::new()), "{ran}");
}

#[test]
fn a_full_disk_is_one_clear_line_and_125() {
    for format in ["text", "ndjson"] {
        for steps in ["say:x exit:3", "lines:stdout:100000 exit:3", "say:x sleep"] {
            let full =
                OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
            let ran = runcast(&format!("-f {format} -k 0.3"))
                .puppet(steps)
                .stdout(full)
                .run()
                .exited(125)
                .left_nothing();
            ran.said_one_line("No space left on device");
            assert!(ran.err().contains("standard output"), "{ran}");
        }
    }
}

#[test]
fn a_full_disk_is_no_matter_where_nothing_is_written() {
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    runcast("-q").puppet("say:x exit:3").stdout(full()).run().exited(3);
    runcast("").puppet("err:x exit:3").stdout(full()).run().exited(3);
    ndjson("").puppet("err:x exit:3").stderr(full()).run().exited(3);
}

#[test]
fn a_full_disk_for_standard_error_is_no_success() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    let ran = runcast("").puppet("say:out err:x exit:0").stderr(full).run().exited(125);
    assert!(ran.out().is_empty() || ran.out() == "out\n", "{ran}");
}

#[test]
fn a_full_disk_shows_in_the_result_that_still_can_be_written() {
    let folder = scratch();
    let result = folder.path().join("result");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    runcast("--result").arg(&result).puppet("say:x exit:3").stdout(full).run().exited(125);
    let result = result_in(&result);
    assert_eq!(
        (&result["status"], &result["error"]["code"]),
        (&125.into(), &"output_failed".into())
    );
}

#[test]
fn a_file_to_append_to_is_appended_to() {
    let folder = scratch();
    let path = folder.path().join("log");
    fs::write(&path, "before\n").expect("the scratch folder is ours");
    for format in ["text", "ndjson"] {
        let file = OpenOptions::new().append(true).open(&path).expect("it was just written");
        runcast(&format!("-f {format}")).puppet("say:one say:two").stdout(file).run().exited(0);
    }
    let log = fs::read_to_string(&path).expect("it is there");
    assert!(log.starts_with("before\none\ntwo\n{\"op\":\"started\""), "{log}");
    assert_eq!(log.lines().count(), 3 + 4);
}

#[test]
fn one_file_for_both_streams_loses_nothing() {
    let folder = scratch();
    let path = folder.path().join("log");
    let file = File::create(&path).expect("the scratch folder is ours");
    let both = file.try_clone().expect("a descriptor is free");
    runcast("")
        .puppet("fork { lines:stderr:5000 } lines:stdout:5000 reap")
        .stdout(file)
        .stderr(both)
        .run()
        .exited(0);
    assert_eq!(fs::read_to_string(&path).expect("it is there").len(), 10000 * LINE_BYTES);
}

#[test]
fn a_socket_will_do_as_standard_output() {
    for format in ["text", "ndjson"] {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair can be had");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            (&ours).read_to_end(&mut all).expect("the socket can be read");
            all
        });
        let run = runcast(&format!("-f {format}")).puppet("lines:stdout:20000 exit:3");
        run.stdout(OwnedFd::from(theirs)).run().exited(3);
        let all = reader.join().expect("the reader does not panic");
        assert!(all.ends_with(b"}\n") || all.len() == 20000 * LINE_BYTES);
    }
}

#[test]
fn a_socket_whose_reader_is_gone_stops_the_run() {
    for steps in ["flood:stdout", "sleep"] {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair can be had");
        let live = runcast("").puppet(steps).stdout(OwnedFd::from(theirs)).start();
        wait_until("the command", || !children(live.pid()).is_empty());
        drop(ours);
        assert_eq!(live.finish().exited(141).left_nothing().err(), "");
    }
}

#[test]
fn an_inherited_non_blocking_standard_output_loses_nothing_and_stays_as_it_was() {
    for flag in [OFlag::O_NONBLOCK, OFlag::empty()] {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair can be had");
        let shared = theirs.try_clone().expect("a descriptor is free");
        fcntl(theirs.as_fd(), FcntlArg::F_SETFL(flag)).expect("the flag can be set");
        let flags = || {
            OFlag::from_bits_truncate(fcntl(shared.as_fd(), FcntlArg::F_GETFL).expect("it is open"))
        };
        let live =
            ndjson("").puppet("lines:stdout:30000 exit:3").stdout(OwnedFd::from(theirs)).start();
        wait_until("more output than is taken", || {
            let mut fds = [PollFd::new(shared.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::ZERO) == Ok(0)
        });
        assert_eq!(flags() & OFlag::O_NONBLOCK, flag, "while it runs");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            (&ours).read_to_end(&mut all).expect("the socket can be read");
            all
        });
        live.finish().exited(3);
        assert_eq!(flags() & OFlag::O_NONBLOCK, flag, "after it");
        drop(shared);
        let all = reader.join().expect("the reader does not panic");
        assert_eq!(
            all.split(|&byte| byte == b'\n')
                .filter(|line| line.ends_with(b"on the line\\n\"}"))
                .count(),
            30000
        );
    }
}

#[test]
fn standard_input_is_the_very_one_and_runcast_reads_nothing_of_it() {
    let folder = scratch();
    let path = folder.path().join("in");
    fs::write(&path, "one\ntwo\nthree\n").expect("the scratch folder is ours");
    let mut file = File::open(&path).expect("it was just written");
    for (line, position) in [("one", 4), ("two", 8)] {
        let shared = file.try_clone().expect("a descriptor is free");
        let ran = ndjson("").puppet("read-line").stdin(shared).run().exited(0);
        assert_eq!(ran.contents("stdout"), [format!("read {line}\n")]);
        assert_eq!(file.stream_position().expect("a file has a position"), position);
    }
}

#[test]
fn a_result_descriptor_is_not_passed_on() {
    let ran = runcast("--result fd:9")
        .puppet("report:descriptors")
        .launched("close-above:2 dup:2:9 dup:2:7")
        .run()
        .exited(0);
    assert_eq!(ran.out(), "0 1 2 7\n");
    assert!(ran.err().starts_with("{\"op\":\"result\""), "{ran}");
}
