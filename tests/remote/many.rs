//! The examples for many machines do what they say.

use std::path::{Path, PathBuf};

use super::Machine;
use crate::harness::{RUNCAST, Runcast, result_in, scratch, script, tool};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// An example with its words, with runcast on its PATH and this machine for all others.
fn run(machine: &Machine, name: &str, words: &[&str]) -> Runcast {
    let own = Path::new(RUNCAST).parent().expect("it is in a folder").display();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
    let words = words.iter().map(|word| (*word).to_owned());
    let example = example(name).display().to_string();
    machine.local("").through(["sh".to_owned(), example].into_iter().chain(words)).env("PATH", path)
}

/// The lines of a text, in the order of the alphabet: several write it at once.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn gnu_parallel_runs_a_job_for_each_line_on_the_machine_that_is_free() {
    // Another program is called parallel too, and comes without this one.
    let (Some(machine), Some(_), Some(_)) = (Machine::new(), tool("sem"), tool("parallel")) else {
        return;
    };
    // The harness adds the path of runcast to the words; the line is behind it.
    let command = ["one two", "sh", "-c", "echo \"got $2\"; test \"$2\" != 'a b'", "sh"];
    let parallel = run(&machine, "parallel.sh", &command).within(machine.path("local"));
    let ran = parallel.input("a b\nc$x\nd'e\n").run().exited(1);
    assert_eq!(sorted(&ran.out()), ["1| got a b", "2| got c$x", "3| got d'e"], "{ran}");
    let log = std::fs::read_to_string(machine.path("local/jobs.log")).expect("it is written");
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(machine.log().iter().any(|(_, to)| to.starts_with("one\t")));
    assert!(machine.log().iter().any(|(_, to)| to.starts_with("two\t")));
    machine.keeps_nothing();
}

#[test]
fn clush_runs_a_command_on_every_node() {
    let (Some(machine), Some(_)) = (Machine::new(), tool("clush")) else { return };
    let command = "echo \"it's $((1 + 1))\" | tr 2 3; exit 3";
    let ran = run(&machine, "clush.sh", &["box[1-3]", command]).run().exited(3);
    assert_eq!(sorted(&ran.out()), ["box1: it's 3", "box2: it's 3", "box3: it's 3"], "{ran}");
    machine.keeps_nothing();
}

#[test]
fn a_slurm_job_runs_each_task_and_has_its_result() {
    let Some(machine) = Machine::new() else { return };
    let folder = scratch();
    let srun = "#!/bin/sh\nshift\nfor SLURM_PROCID in 0 1; do export SLURM_PROCID; \"$@\"; done\n";
    script(&folder.path().join("srun"), srun.as_bytes());
    let own = Path::new(RUNCAST).parent().expect("it is in a folder").display();
    let path = format!("{}:{own}:/usr/bin:/bin", folder.path().display());
    let job =
        run(&machine, "slurm.sh", &["sh", "-c", "echo \"task $SLURM_PROCID\"; exit $SLURM_PROCID"]);
    let job = job.env("PATH", path).env("SLURM_SUBMIT_DIR", folder.path()).env("SLURM_JOB_ID", "7");
    let ran = job.env("SLURM_JOB_NAME", "build").run().exited(1);
    assert_eq!(ran.out(), "0| task 0\n1| task 1\n");
    for number in 0..2 {
        let result = result_in(&folder.path().join(format!("build-7-{number}.json")));
        assert_eq!(result["exit_code"], number);
    }
}

#[test]
fn the_kubernetes_job_is_well_formed_and_uses_options_that_there_are() {
    let Some(python) = tool("python3") else { return };
    let file = example("kubernetes-job.yaml").display().to_string();
    let read = "import sys\ntry:\n    import yaml\nexcept ImportError:\n    sys.exit(9)\n\
                job = yaml.safe_load(open(sys.argv[1]))\n\
                print('\\n'.join(job['spec']['template']['spec']['containers'][0]['command']))";
    let loaded = std::process::Command::new(python).args(["-c", read, &file]).output();
    let loaded = loaded.expect("it is there");
    if loaded.status.code() == Some(9) {
        return crate::harness::missing("this needs PyYAML");
    }
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let words = String::from_utf8(loaded.stdout).expect("it is text");
    let words = words.lines().skip(1).chain(["echo", "x"]);
    let ran = words.fold(crate::harness::runcast(""), Runcast::arg).run().exited(0);
    assert!(ran.out().contains("\"message\":\"x\""), "{ran}");
}
