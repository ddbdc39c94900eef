//! What the command finds around it: variables, arguments, standard input, folder, mask and priority.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::harness::{PUPPET, ndjson, runcast, scratch, script};

#[test]
fn the_environment_is_inherited_as_it_is() {
    let odd = OsStr::from_bytes(b"\xff=\n'x'");
    let ran = runcast("")
        .env("ODD", odd)
        .env("EMPTY", "")
        .puppet("report:env:ODD report:env:EMPTY report:env:NONE")
        .run();
    assert_eq!(ran.out(), "\\xff=\\n\\'x\\'\n\nis not set\n");
}

#[test]
fn env_sets_and_takes_over() {
    let run = runcast("-e A=1 --env B=x=y -e C= -e A=2").env("A", "0");
    assert_eq!(run.puppet("report:env:A report:env:B report:env:C").run().out(), "2\nx=y\n\n");
    let run = runcast("").arg("-e").arg(OsStr::from_bytes(b"RAW=\xff \n"));
    assert_eq!(run.puppet("report:env:RAW").run().out(), "\\xff \\n\n");
}

#[test]
fn clear_env_leaves_only_what_programs_cannot_do_without() {
    let run = runcast("--clear-env -e A=1 -e KEEP")
        .env("KEEP", "k")
        .env("SECRET", "s")
        .env("LANG", "C")
        .env("LC_TIME", "C");
    let ran = run.puppet("report:environment report:env:KEEP").run().exited(0);
    let out = ran.out();
    let (names, keep) = out.trim_end().split_once('\n').expect("two lines");
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    assert_eq!((names, keep), (vec!["A", "HOME", "KEEP", "LANG", "LC_ALL", "PATH"], "k"));
}

#[test]
fn the_order_is_clear_unset_file_env_whatever_the_order_on_the_line() {
    let folder = scratch();
    let file = folder.path().join("env");
    fs::write(&file, "A=file\nB=file\n").expect("the scratch folder is ours");
    let report = "report:env:A report:env:B report:env:C report:env:HOME";
    let run = runcast("-e A=env --env-file")
        .arg(&file)
        .arg("--unset=A")
        .arg("--unset=B")
        .arg("--unset=C")
        .arg("--unset=HOME")
        .arg("--clear-env");
    assert_eq!(
        run.env("C", "own").puppet(report).run().out(),
        "env\nfile\nis not set\nis not set\n"
    );
    let run = runcast("--unset C --unset A -e A=env").env("C", "own").env("A", "own");
    assert_eq!(run.puppet("report:env:A report:env:C").run().out(), "env\nis not set\n");
}

#[test]
fn an_env_file_has_lines_comments_and_no_expansion() {
    let folder = scratch();
    let file = folder.path().join("env");
    fs::write(&file, b"# comment\nONE=1\n\nTWO=a b $HOME\nTHREE=\"q\" # no comment\nEMPTY=\nRAW=\xff\nEQ=a=b\nLAST=end").expect("the scratch folder is ours");
    let names = ["ONE", "TWO", "THREE", "EMPTY", "RAW", "EQ", "LAST"];
    let report: String = names.iter().map(|name| format!("report:env:{name} ")).collect();
    let ran = runcast("--env-file").arg(&file).puppet(&report).run().exited(0);
    assert_eq!(ran.out(), "1\na b $HOME\n\\\"q\\\" # no comment\n\n\\xff\na=b\nend\n");
}

#[test]
fn variables_that_make_no_sense_fail_before_the_command_starts() {
    for text in ["=x", "", "="] {
        runcast("-e").arg(text).puppet("say:started").run().refused_usage("env");
    }
    let folder = scratch();
    let file = folder.path().join("env");
    for content in [&b"NOVALUE\n"[..], b"=x\n", b"A=1\nB=a\0b\n"] {
        fs::write(&file, content).expect("the scratch folder is ours");
        let ran = runcast("--env-file").arg(&file).puppet("say:started").run();
        ran.refused(&file.to_string_lossy());
    }
    let ran = ndjson("--env-file /no/such/file").puppet("say:started").run();
    ran.failed(125, "file_failed", "/no/such/file");
}

#[test]
fn arguments_pass_untouched() {
    let words =
        ["", " a b ", "*", "$HOME", "--timeout", "-t", "--", "-", "a\nb", "\\", "'\"", "runs", "é"];
    let mut command: Vec<OsString> =
        [PUPPET, "args"].into_iter().chain(words).map(OsString::from).collect();
    command.push(OsStr::from_bytes(b"\xff\xfe").to_owned());
    let ran = runcast("").command(command).run().exited(0);
    let expected: String =
        words.iter().map(|word| format!("{}\n", word.as_bytes().escape_ascii())).collect();
    assert_eq!(ran.out(), expected + "\\xff\\xfe\n");
}

#[test]
fn options_end_at_the_first_word_that_is_not_one() {
    let ran = runcast("-t 20")
        .arg(PUPPET)
        .arg("args")
        .arg("-t")
        .arg("--color")
        .arg("--help")
        .arg("--")
        .arg("-q")
        .run()
        .exited(0);
    assert_eq!(ran.out(), "-t\n--color\n--help\n--\n-q\n");
    let ran = runcast("--timeout=20 -qf ndjson").arg(PUPPET).arg("exit:3").run().exited(3);
    assert_eq!(ran.events().len(), 2);
}

#[test]
fn after_two_hyphens_the_name_of_a_subcommand_is_a_command() {
    let folder = scratch();
    for name in ["runs", "wait", "attach", "--help", "-t"] {
        script(&folder.path().join(name), b"#!/bin/sh\necho own; exit 6\n");
        let path = format!("{}:/bin:/usr/bin", folder.path().display());
        assert_eq!(runcast("").env("PATH", path).command([name]).run().exited(6).out(), "own\n");
    }
}

#[test]
fn standard_input_is_what_was_asked_for() {
    let folder = scratch();
    let file = folder.path().join("in");
    fs::write(&file, "from a file\n").expect("the scratch folder is ours");
    assert_eq!(runcast("").puppet("cat").input("typed").run().out(), "typed");
    assert_eq!(runcast("--stdin inherit").puppet("cat").input("typed").run().out(), "typed");
    assert_eq!(runcast("--stdin null").puppet("cat").input("typed").run().out(), "");
    assert_eq!(
        runcast("--stdin").arg(&file).puppet("cat").input("typed").run().out(),
        "from a file\n"
    );
    assert_eq!(
        runcast("--stdin in").puppet("cat").within(folder.path()).run().out(),
        "from a file\n"
    );
}

#[test]
fn much_input_comes_through_and_unread_input_is_no_fault() {
    let much: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    assert!(runcast("").puppet("cat").input(much.clone()).run().exited(0).stdout == much);
    runcast("").puppet("exit:3").input(much).run().exited(3);
}

#[test]
fn a_file_for_standard_input_that_is_not_there_is_named() {
    for file in ["/no/such/file", "/no\nsuch"] {
        let ran = ndjson("--stdin").arg(file).puppet("say:started").run();
        ran.failed(125, "file_failed", "--stdin");
        assert_eq!(ran.events().len(), 1);
    }
}

#[test]
fn the_folder_is_where_the_command_starts_and_is_looked_for() {
    let folder = scratch();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).expect("the scratch folder is ours");
    let inside = inside.canonicalize().expect("it was just made");
    let ran = ndjson("-C").arg(&inside).puppet("report:directory").run().exited(0);
    assert_eq!(ran.contents("stdout"), [format!("{}\n", inside.display())]);
    assert_eq!(ran.events()[0]["cwd"], inside.to_string_lossy().as_ref());
    script(&inside.join("tool"), b"#!/bin/sh\nexit 6\n");
    runcast("-C inside").command(["./tool"]).within(folder.path()).run().exited(6);
    runcast("-C inside -e PATH=.:/bin:/usr/bin")
        .command(["tool"])
        .within(folder.path())
        .run()
        .exited(6);
    runcast("-C inside").command(["inside/tool"]).within(folder.path()).run().exited(127);
}

#[test]
fn file_arguments_of_runcasts_own_are_relative_to_where_it_was_started() {
    let folder = scratch();
    let within = folder.path();
    fs::create_dir(within.join("inside"))
        .and_then(|()| fs::write(within.join("in"), "text"))
        .expect("the scratch folder is ours");
    fs::write(within.join("env"), "A=1\n").expect("the scratch folder is ours");
    let run =
        runcast("-C inside --stdin in --env-file env --result result").puppet("cat report:env:A");
    assert_eq!(run.within(within).run().exited(0).out(), "text1\n");
    assert!(within.join("result").exists());
}

#[test]
fn umask_nice_and_no_new_privs_are_as_the_system_calls_of_those_names() {
    let report = "report:umask report:nice report:no-new-privs";
    let base = runcast("").puppet(report).run().out();
    let [umask, nice, "0"] = base.lines().collect::<Vec<_>>()[..] else { panic!("{base}") };
    let nice: i32 = nice.parse().expect("a number");
    let ran = runcast("--umask 027 --nice 5 --no-new-privs").puppet(report).run().exited(0);
    assert_eq!(ran.out(), format!("027\n{}\n1\n", (nice + 5).min(19)));
    let ran = runcast("--umask 0 --nice 0").puppet(report).run().exited(0);
    assert_eq!(ran.out(), format!("000\n{nice}\n0\n"));
    assert_ne!(umask, "027", "the test proves nothing with this mask of its own");
}

#[test]
fn the_umask_is_the_commands_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let modes = ["000", "777"].map(|umask| {
        let result = folder.path().join(umask);
        runcast(&format!("--umask {umask} --result")).arg(&result).puppet("exit:0").run().exited(0);
        fs::metadata(&result).expect("it was written").permissions().mode()
    });
    assert_eq!(modes[0], modes[1]);
}

#[test]
fn masks_and_priorities_that_make_no_sense_are_usage_errors() {
    for (option, text) in [
        ("--umask", "8"),
        ("--umask", "abc"),
        ("--umask", ""),
        ("--umask", "-1"),
        ("--umask", "77777"),
        ("--nice", "x"),
        ("--nice", ""),
        ("--nice", "1.5"),
    ] {
        let run = runcast("").arg(format!("{option}={text}")).puppet("say:started");
        run.run().refused_usage(option);
    }
}
