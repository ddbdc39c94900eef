//! OpenSSH's own client and server, on this machine.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use nix::unistd::{User, geteuid};
use tempfile::TempDir;

use super::{cut, random};
use crate::harness::{
    Gate, LINE_BYTES, Mark, PUPPET, RUNCAST, Runcast, children, program, runcast, scratch, tool,
    wait_for, wait_until,
};

/// A server for this user, with keys of its own, and what its clients need.
struct Server {
    folder: TempDir,
    port: u16,
    sshd: PathBuf,
    ssh: PathBuf,
    process: Option<Child>,
    mark: Mark,
    /// All of them take processors and ports.
    _alone: MutexGuard<'static, ()>,
}

/// Server programs are where only their users look.
fn sshd() -> Option<PathBuf> {
    let usual = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].map(PathBuf::from);
    usual.into_iter().find(|path| path.is_file()).or_else(|| tool("sshd"))
}

impl Server {
    /// Starts it; none where a program is missing, and the test is to end.
    fn start() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let (sshd, ssh, keygen) = (sshd()?, tool("ssh")?, tool("ssh-keygen")?);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = scratch();
        let path = |name: &str| folder.path().join(name);
        for name in ["host", "user", "other"] {
            let mut make = Command::new(&keygen);
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(name)).stdin(Stdio::null());
            assert!(make.status().expect("it is there").success(), "no key was made");
        }
        fs::copy(path("user.pub"), path("authorized")).expect("the folder is ours");
        if geteuid().is_root() {
            // sshd wants an empty folder there, which services make that are not started here.
            fs::create_dir_all("/run/sshd").expect("root may make it");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let mut server =
            Self { folder, port, sshd, ssh, process: None, mark: Mark::new(), _alone: alone };
        server.configure();
        server.listen();
        Some(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self) {
        let (port, folder) = (self.port, self.folder.path().display());
        let user = User::from_uid(geteuid()).ok().flatten().expect("this user has a name").name;
        let write = |name: &str, text: String| {
            fs::write(self.path(name), text).expect("the folder is ours");
        };
        write(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nPidFile none\nUsePAM no\n\
                 StrictModes no\nAuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n\
                 AcceptEnv TEST_MARK\nSetEnv RUNCAST_DIR={folder}/runs BASH_ENV={folder}/rc\n"
            ),
        );
        let host_key = fs::read_to_string(self.path("host.pub")).expect("it was made");
        let other_key = fs::read_to_string(self.path("other.pub")).expect("it was made");
        write("known", format!("[127.0.0.1]:{port} {host_key}"));
        write("unknown", format!("[127.0.0.1]:{port} {other_key}"));
        write("rc", "echo welcome; printf 'no end'; echo more >&2\n".to_owned());
        write(
            "ssh_config",
            format!(
                "Host forged\nUserKnownHostsFile {folder}/unknown\n\
                 Host stranger\nIdentityFile {folder}/other\n\
                 Host closed\nPort 1\n\
                 Host nowhere\nHostName nowhere.invalid\n\
                 Host command\nRemoteCommand true\n\
                 Host shared\nControlMaster auto\nControlPath {folder}/control\n\
                 Host * !stranger\nIdentityFile {folder}/user\n\
                 Host *\nHostName 127.0.0.1\nPort {port}\nUser {user}\n\
                 IdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {folder}/known\n\
                 GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nSendEnv TEST_MARK\nBatchMode yes\n"
            ),
        );
        fs::set_permissions(self.path("ssh_config"), fs::Permissions::from_mode(0o600))
            .expect("the file is ours");
    }

    fn listen(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.path("log"));
        let mut sshd = program(&self.sshd);
        sshd.args(["-D", "-e", "-f"]).arg(self.path("sshd_config"));
        sshd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("the folder is ours"));
        let mut process = sshd.spawn().expect("it is there");
        wait_until("the server", || {
            if let Some(status) = process.try_wait().expect("it is ours") {
                let log = fs::read_to_string(self.path("log")).unwrap_or_default();
                panic!("sshd ended with {status}: {log}");
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        self.process = Some(process);
    }

    /// Ends it with all of its connections, as when its machine goes down and runs go on.
    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let listener = i32::try_from(process.id()).expect("a process id is an int");
            let connections = children(listener);
            cut(listener);
            process.wait().expect("it is ours");
            connections.into_iter().for_each(cut);
        }
    }

    /// runcast, from which it can be reached.
    fn local(&self, options: &str) -> Runcast {
        let ssh = format!("{} -F {}", self.ssh.display(), self.path("ssh_config").display());
        runcast(options).env("RUNCAST_SSH", ssh).marked(&self.mark)
    }

    /// The same, and there.
    fn run(&self, host: &str, options: &str) -> Runcast {
        self.local(&format!("--host {host} --remote-runcast {RUNCAST} {options}"))
    }

    /// Waits until nothing of a run is left there.
    fn keeps_nothing(&self) {
        wait_until("the end of all processes", || self.mark.processes().is_empty());
        let folders = fs::read_dir(self.path("runs")).map_or(0, Iterator::count);
        assert_eq!(folders, 0, "folders of runs are left");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_ssh(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ssh")
}

/// The ssh of a runcast that is not one of these.
fn another_ssh(runcast: i32, old: &[i32]) -> Option<i32> {
    children(runcast).into_iter().find(|pid| is_ssh(*pid) && !old.contains(pid))
}

fn has_all_lines(out: &str, count: usize) -> bool {
    let mut lines = out.lines().enumerate();
    out.len() == count * LINE_BYTES && lines.all(|(at, line)| line.starts_with(&format!("{at:07}")))
}

#[test]
fn a_run_over_ssh_is_as_one_here() {
    let Some(server) = Server::start() else { return };
    let words = ["args", "a b", "", "'\"$HOME`id`\\", "two\nlines", "\u{fc}"];
    let here = runcast("").command([PUPPET].into_iter().chain(words)).run().exited(0);
    let there = server.run("box", "").command([PUPPET].into_iter().chain(words)).run().exited(0);
    assert_eq!((there.out(), there.err()), (here.out(), String::new()));
    let input: Vec<u8> = (0..2_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let ran = server.run("box", "").puppet("cat exit:3").input(input.clone()).run().exited(3);
    assert!(ran.stdout == input, "{} bytes came", ran.stdout.len());
    let run = server.run("box", "-f ndjson").puppet("say:up sleep").up();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().exited(143).result()["received"], "SIGTERM");
    server.keeps_nothing();
    server.run("box", "-d --id far").puppet("say:x exit:4").run().exited(0);
    let ask = |subcommand: &str| {
        server.local(&format!("{subcommand} --host box --remote-runcast {RUNCAST} far")).run()
    };
    assert_eq!(ask("attach").exited(4).out(), "x\n");
    assert_eq!(ask("wait").exited(4).result()["exit_code"], 4);
    ask("forget").exited(0);
    server.keeps_nothing();
}

#[test]
fn fifty_connections_that_are_killed_at_random_cost_no_line() {
    let Some(server) = Server::start() else { return };
    const LINES: usize = 200_000;
    let mut run = server.run("box", "").puppet(&format!("lines:stdout:{LINES} exit:6")).start();
    let (mut cuts, mut state, mut read) = (Vec::new(), 7, 0);
    let mut out = String::new();
    let mut take = |run: &mut crate::harness::Live, count: usize| {
        for _ in 0..count.min(LINES - 1 - read) {
            out.push_str(&run.line());
            out.push('\n');
            read += 1;
        }
        read
    };
    while cuts.len() < 50 {
        let left = (LINES - take(&mut run, 0)) / (51 - cuts.len());
        let count = usize::try_from(random(&mut state, left as u64 * 2)).expect("it is small");
        take(&mut run, count);
        // What stalls since nobody reads connects only once there is room.
        let ssh = wait_for("another connection", || {
            take(&mut run, 50);
            another_ssh(run.pid(), &cuts)
        });
        cut(ssh);
        cuts.push(ssh);
    }
    let ran = run.finish().exited(6);
    assert!(has_all_lines(&ran.out(), LINES));
    drop(out);
    server.keeps_nothing();
}

#[test]
fn a_shared_connection_that_its_user_ends_costs_no_line() {
    let Some(server) = Server::start() else { return };
    const LINES: usize = 60_000;
    let control = server.path("control");
    let ssh = |words: &[&str]| {
        let mut ssh = Command::new(&server.ssh);
        ssh.arg("-F").arg(server.path("ssh_config")).args(words).stdin(Stdio::null());
        ssh.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it is there")
    };
    let mut run = server.run("shared", "").puppet(&format!("lines:stdout:{LINES} exit:6")).start();
    let mut read = 0;
    for _ in 0..6 {
        (0..6_000).for_each(|_| drop(run.line()));
        read += 6_000;
        // Another session over what is the master by now, or becomes one.
        wait_until("the shared connection", || {
            if read < LINES - 2_000 {
                (0..100).for_each(|_| drop(run.line()));
                read += 100;
            }
            control.exists()
        });
        ssh(&["-O", "exit", "shared"]);
    }
    let ran = run.finish().exited(6);
    assert!(has_all_lines(&ran.out(), LINES));
    server.keeps_nothing();
}

#[test]
fn a_machine_that_is_away_for_a_while_is_waited_for() {
    let Some(mut server) = Server::start() else { return };
    let gate = Gate::new();
    let steps = format!("say:up {gate} say:end exit:3");
    let run = server.run("box", "").puppet(&steps).up();
    server.stop();
    wait_until("an attempt", || another_ssh(run.pid(), &[]).is_none());
    gate.open();
    server.listen();
    assert_eq!(run.finish().exited(3).out(), "up\nend\n");
    server.keeps_nothing();
}

#[test]
fn what_ssh_fails_with_is_told_at_once() {
    let Some(server) = Server::start() else { return };
    for (host, told) in [
        ("forged", "HOST IDENTIFICATION HAS CHANGED"),
        ("stranger", "Permission denied"),
        ("closed", "Connection refused"),
        ("nowhere", "Could not resolve hostname"),
        ("command", "Cannot execute command-line and remote command"),
    ] {
        let ran = server.run(host, "-f ndjson").puppet("say:x").run();
        ran.failed(125, "remote_failed", told);
    }
    let ran =
        server.local("--host box -f ndjson").env("PATH", "/usr/bin:/bin").puppet("say:x").run();
    let is_installed =
        Path::new("/usr/bin/runcast").exists() || Path::new("/usr/local/bin/runcast").exists();
    if !is_installed {
        ran.failed(125, "remote_failed", "there is no runcast on its PATH");
    }
    server.keeps_nothing();
}
