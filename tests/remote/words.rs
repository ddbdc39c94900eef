//! What is typed here arrives there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{Machine, NAME};
use crate::harness::{PUPPET, runcast, tool};

/// Words that shells would make something else of.
fn words() -> Vec<OsString> {
    let words: [&[u8]; 12] = [
        b"",
        b"a b",
        b"'\"`$HOME $(id) \\",
        b"two\nlines\n",
        b"\xff\xfe not text",
        b"*",
        b"-x",
        b"!1 #2 ~ {a,b} [c]",
        b"a;b|c&d<e>f",
        "\u{fc}\u{1f600}".as_bytes(),
        b"\t",
        b"",
    ];
    words.iter().map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

fn command() -> Vec<OsString> {
    [PUPPET, "args"].into_iter().map(OsString::from).chain(words()).collect()
}

#[test]
fn the_words_of_a_command_arrive_unchanged_whatever_login_shell_there_is() {
    let Some(machine) = Machine::new() else { return };
    let here = runcast("").command(command()).run().exited(0).out();
    assert_eq!(here.lines().count(), words().len());
    for shell in ["sh", "bash", "zsh", "fish"] {
        if tool(shell).is_none() {
            continue;
        }
        machine.set("shell", format!("{shell} -c"));
        let there = machine.run("").command(command()).run().exited(0);
        assert_eq!((there.out(), there.err()), (here.clone(), String::new()), "{shell}");
    }
    let asked = machine.log();
    assert!(asked.len() > 1, "no shell is here");
    for (_, asked) in asked {
        assert_eq!(asked, format!("{NAME}\texec runcast --remote-end"), "always the same is asked");
    }
}

#[test]
fn long_words_arrive_though_no_ssh_could_take_them() {
    let Some(machine) = Machine::new() else { return };
    let long = ["x", "y", "z"].map(|text| text.repeat(100 << 10));
    let there = machine
        .run("")
        .command([PUPPET, "args"].into_iter().chain(long.iter().map(String::as_str)));
    assert_eq!(there.run().exited(0).out(), long.join("\n") + "\n");
}

#[test]
fn what_a_login_shell_prints_first_is_passed_over() {
    let Some(machine) = Machine::new() else { return };
    let many = "a line of many\n".repeat(10_000);
    for noise in
        ["welcome\n", "no end", "\n\n", "\u{1b}]0;title\u{7}\r\n", "{\"op\":\"alive\"}\n", &many]
    {
        machine.set("noise", noise);
        let ran = machine.run("").puppet("say:out err:err exit:3").run().exited(3);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("out\n", "err\n"), "{noise:?}");
    }
    machine.keeps_nothing();
}

#[test]
fn a_runcast_that_is_not_on_the_path_there_is_named() {
    let Some(machine) = Machine::new() else { return };
    machine.set("path", "/usr/bin:/bin");
    machine.ndjson("").puppet("say:x").run().failed(125, "remote_failed", "--remote-runcast");
    let folder = machine.path("home/my $bin");
    std::fs::create_dir(&folder).expect("the folder is ours");
    std::os::unix::fs::symlink(crate::harness::RUNCAST, folder.join("run cast"))
        .expect("the folder is ours");
    for path in [folder.join("run cast"), "my $bin/run cast".into()] {
        let option = format!("--remote-runcast={}", path.display());
        let ran = machine.run("").arg(option).puppet("say:x").run().exited(0);
        assert_eq!(ran.out(), "x\n", "{}", path.display());
    }
    for wrong in ["a'b", "a\\b", "a!b", "a\nb", ""] {
        let ran = machine.run("").arg(format!("--remote-runcast={wrong}")).puppet("say:x").run();
        assert_eq!(ran.code(), Some(125), "{ran}");
        assert!(ran.err().contains("--remote-runcast"), "{ran}");
    }
}
