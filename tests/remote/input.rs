//! Standard input arrives there, each byte once and in order.

use std::io::Write;
use std::process::Stdio;

use super::{Machine, cut};
use crate::harness::{CTRL_C, CTRL_D, PUPPET, RUNCAST, Terminal, wait_until};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|number| u8::try_from(number % 251).expect("it is less")).collect()
}

#[test]
fn large_input_arrives_whole_though_the_connection_breaks() {
    let Some(machine) = Machine::new() else { return };
    let sent = pattern(3 << 20);
    machine.plan(&[
        "in 100000",
        "in 700000",
        "out 500000",
        "in 65600",
        "before \"end\"",
        "after \"end\"",
    ]);
    let ran = machine.run("").puppet("cat").input(sent.clone()).run().exited(0);
    assert!(ran.stdout == sent, "{} bytes came", ran.stdout.len());
    assert_eq!(machine.plans(), 0);
    machine.keeps_nothing();
}

#[test]
fn no_input_is_none() {
    let Some(machine) = Machine::new() else { return };
    for run in [machine.run(""), machine.run("--stdin null"), machine.run("--stdin /dev/null")] {
        assert_eq!(run.puppet("cat say:end").run().exited(0).out(), "end\n");
    }
    assert_eq!(machine.run("").puppet("cat").input("x").run().exited(0).out(), "x");
}

#[test]
fn a_file_for_standard_input_is_one_here() {
    let Some(machine) = Machine::new() else { return };
    machine.set("input", pattern(300_000));
    let option = format!("--stdin={}", machine.path("input").display());
    let ran = machine.run("").arg(&option).puppet("cat").run().exited(0);
    assert!(ran.stdout == pattern(300_000));
    machine.run("--stdin /no/such").puppet("cat").run().refused("--stdin /no/such");
    let ran = machine.run("-d").arg(&option).puppet("cat").run();
    assert_eq!(ran.code(), Some(125), "{ran}");
    assert_eq!(machine.connections(), 1, "what cannot be is known before it connects");
}

#[test]
fn a_command_that_reads_no_more_ends_though_input_goes_on() {
    let Some(machine) = Machine::new() else { return };
    let (read, write) = std::io::pipe().expect("a pipe can be made");
    let mut endless = write.try_clone().expect("a descriptor is free");
    let writer = std::thread::spawn(move || while endless.write_all(b"line\n").is_ok() {});
    let run = machine.run("").puppet("read-line close:0 sleep:300 exit:4").stdin(read);
    assert_eq!(run.run().exited(4).out(), "read line\n");
    drop(write);
    writer.join().expect("nobody reads any more");
    machine.keeps_nothing();
}

#[test]
fn input_comes_as_it_is_typed_over_whatever_connection_there_is() {
    let Some(machine) = Machine::new() else { return };
    let (read, mut write) = std::io::pipe().expect("a pipe can be made");
    let mut run = machine.run("").puppet("say:up repeat:4 { read-line } cat").stdin(read).up();
    for number in 0..4 {
        if number % 2 == 1 {
            let before = machine.connections();
            cut(machine.newest().expect("there is a connection"));
            wait_until("another connection", || machine.connections() > before);
        }
        writeln!(write, "{number}").expect("it is read");
        run.until(&format!("read {number}\n"));
    }
    drop(write);
    run.finish().exited(0);
    machine.keeps_nothing();
}

#[test]
fn a_pipe_that_does_not_block_is_waited_for() {
    let Some(machine) = Machine::new() else { return };
    let (read, mut write) = std::io::pipe().expect("a pipe can be made");
    let run = machine.run("").puppet("say:up cat").launched("nonblock:0").stdin(read).up();
    write.write_all(b"later\n").expect("it is read");
    drop(write);
    assert_eq!(run.finish().exited(0).out(), "up\nlater\n");
}

#[test]
fn values_for_a_command_are_read_here() {
    let Some(machine) = Machine::new() else { return };
    let long = format!("[\"{}\"]", "x".repeat(300 << 10));
    machine
        .set("value", &long)
        .set("main.py", format!("# {}\ndef main(x): return len(x[0])\n", "y".repeat(300 << 10)));
    let module = format!("@{}", machine.path("main.py").display());
    let from_file = format!("--input=@{}", machine.path("value").display());
    for run in [
        machine.ndjson("--input -").input(long.clone()),
        machine.ndjson("").arg(&from_file),
        machine.ndjson("--input [\"abc\"]"),
    ] {
        let ran = run.arg("--backend=python").command([&module]).run().exited(0);
        let length = ran.result()["result"].as_u64();
        assert!(matches!(length, Some(3 | 307_200)), "{ran}");
    }
    let ran = machine.ndjson("--backend python --input 1").command(["@/no/such"]).run();
    ran.failed(125, "file_failed", "/no/such");
    machine.keeps_nothing();
}

#[test]
fn a_terminal_in_the_background_is_not_read_and_stops_nothing() {
    let Some(machine) = Machine::new() else { return };
    // A shell that controls jobs starts one in the background, which would be stopped if it read.
    let line = format!(
        "set -m; {} --host me@box -- {PUPPET} say:up sleep:300 say:end & wait $!; echo status $?",
        RUNCAST
    );
    let mut terminal = Terminal::new();
    let run = machine
        .local("")
        .through(["setsid", "-c", "-w", "bash", "-c", &line, "bash"])
        .stdin(terminal.stream())
        .stdout(terminal.stream())
        .stderr(Stdio::null())
        .start();
    terminal.until("up");
    terminal.until("end");
    terminal.until("status 0");
    drop(run);
}

#[test]
fn what_is_typed_while_ssh_asks_for_a_password_is_for_ssh() {
    let Some(machine) = Machine::new() else { return };
    machine.plan(&["ask", "ask"]);
    let mut terminal = Terminal::new();
    let run = machine.run("--id far").puppet("say:up read-line read-line").on(&terminal).start();
    terminal.until("Password: ");
    terminal.press("opensesame\n");
    terminal.until("up");
    terminal.press("first\n");
    terminal.until("read first");
    cut(machine.newest().expect("there is a connection"));
    terminal.until("Password: ");
    terminal.press("again\n");
    wait_until("the answer", || {
        std::fs::read(machine.path("answers")).is_ok_and(|all| all == b"opensesame\nagain\n")
    });
    terminal.press("second\n");
    terminal.until("read second");
    run.finish().exited(0);
}

#[test]
fn ctrl_c_is_one_interrupt_and_ctrl_d_is_the_end_of_input() {
    let Some(machine) = Machine::new() else { return };
    let mut terminal = Terminal::new();
    let run = machine.run("--id far").puppet("trap:INT say:up cat say:end").up_on(&mut terminal);
    terminal.press(CTRL_C);
    terminal.until("INT");
    terminal.press(&format!("line\n{CTRL_D}"));
    terminal.until("end");
    run.finish().exited(0);
    let shown = machine.ask("attach", "far").run().exited(0).out();
    assert_eq!(shown, "up\nINT\nline\nend\n");
}
