//! What is installed lies where `man` and Debian's shells look for it, and works from there: by the Debian package, and
//! by the lines of the README. The archive of a release holds the same.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{BASH, PUPPET, Prompt, RUNCAST, Shell, ZSH, files, scratch, tool};

/// Where a file goes, and what it is made of.
type Place = (&'static str, &'static str);

/// What the Debian package installs but the program.
const PACKAGED: [Place; 10] = [
    ("usr/share/bash-completion/completions/runcast", "completions/runcast.bash"),
    ("usr/share/doc/runcast/README.md", "README.md"),
    ("usr/share/doc/runcast/changelog.Debian.gz", ".ci/deb/changelog"),
    ("usr/share/doc/runcast/changelog.gz", "CHANGELOG.md"),
    ("usr/share/doc/runcast/copyright", ".ci/deb/copyright"),
    ("usr/share/fish/vendor_completions.d/runcast.fish", "completions/runcast.fish"),
    ("usr/share/lintian/overrides/runcast", ".ci/deb/lintian-overrides"),
    ("usr/share/man/man1/runcast.1.gz", "man/runcast.1"),
    ("usr/share/man/man5/runcast-events.5.gz", "man/runcast-events.5"),
    ("usr/share/runcast/runcast-events.schema.json", "man/runcast-events.schema.json"),
];

/// Where Debian's own packages of completions go.
const PACKAGED_FOR_ZSH: Place =
    ("usr/share/zsh/vendor-completions/_runcast", "completions/_runcast");

/// What the lines of the README install.
const BY_HAND: [Place; 6] = [
    ("usr/local/share/bash-completion/completions/runcast", "completions/runcast.bash"),
    ("usr/local/share/fish/vendor_completions.d/runcast.fish", "completions/runcast.fish"),
    ("usr/local/share/man/man1/runcast.1", "man/runcast.1"),
    ("usr/local/share/man/man5/runcast-events.5", "man/runcast-events.5"),
    ("usr/local/share/runcast/runcast-events.schema.json", "man/runcast-events.schema.json"),
    ("usr/local/share/zsh/site-functions/_runcast", "completions/_runcast"),
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a program writes, which has to end well.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Looks at each of these files below a root: its mode, its owner, and that it is what it is made of.
#[track_caller]
fn holds(root: &Path, places: &[Place]) {
    let own = nix::unistd::geteuid().as_raw();
    for (place, made_of) in places {
        let path = root.join(place);
        let status = path.symlink_metadata().unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!((status.mode(), status.uid()), (0o100_644, own), "{place}");
        let expected = read(&source(made_of));
        if path.extension().is_some_and(|extension| extension == "gz") {
            let unpacked = Command::new("gzip").arg("-dc").arg(&path).output();
            assert!(unpacked.expect("gzip can be started").stdout == expected, "{place}");
        } else {
            assert!(read(&path) == expected, "{place}");
        }
    }
    for folder in files(root).values().filter_map(|path| path.parent()) {
        let mode = folder.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{}", folder.display());
    }
}

/// `man` finds both pages there and shows them.
#[track_caller]
fn man_shows_the_pages(share: &Path) {
    let Some(man) = tool("man") else { return };
    for (number, page) in [("1", "runcast"), ("5", "runcast-events")] {
        let mut command = Command::new(&man);
        command.arg("-M").arg(share.join("man")).args([number, page]).env("LC_ALL", "C.UTF-8");
        let shown = output(&mut command);
        assert!(shown.contains(&format!("\n       {page} - ")), "{shown}");
    }
}

/// The shells find the completions there by themselves, when runcast is completed for the first time.
#[track_caller]
fn shells_complete(share: &Path, programs: &Path, for_zsh: &str) {
    let home = scratch();
    let environment = [("XDG_DATA_DIRS", share)];
    let loader = "/usr/share/bash-completion/bash_completion";
    if tool(loader).is_some() {
        completes(&BASH, home.path(), programs, &environment, &format!("source {loader}\n"));
    }
    let folder = share.join(for_zsh);
    let setup =
        format!("fpath=({} $fpath)\nautoload -U compinit && compinit -u -D\n", folder.display());
    completes(&ZSH, home.path(), programs, &environment, &setup);
    if let Some(zsh) = tool("zsh") {
        let looks = output(Command::new(zsh).args(["-fc", "print -l $fpath"]));
        let asks =
            |line: &str| line.starts_with("/usr/") && line.ends_with(&format!("share/{for_zsh}"));
        assert!(looks.lines().any(asks), "{looks}");
    }
    let Some(fish) = tool("fish") else { return };
    let mut command = Command::new(fish);
    command.args(["-c", "complete -C 'runcast --strip'"]).env_clear().envs(environment);
    command.env("HOME", home.path()).env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let offered = output(&mut command);
    assert!(offered.starts_with("--strip-ansi\t"), "{offered}");
}

#[track_caller]
fn completes(
    shell: &Shell,
    home: &Path,
    programs: &Path,
    environment: &[(&str, &Path)],
    setup: &str,
) {
    let prompt = Prompt::start(shell, home, programs, environment, setup);
    let Some(mut prompt) = prompt else { return };
    assert_eq!(prompt.completed("runcast --strip"), "runcast --strip-ansi");
}

/// Makes the files of a release with the program under test in place of the optimized one.
fn release(folder: &Path) -> Option<PathBuf> {
    for program in ["cargo-deb", "dpkg-shlibdeps", "strip", "tar"] {
        tool(program)?;
    }
    let (target, made) = (folder.join("target"), folder.join("release"));
    fs::create_dir_all(target.join("release")).expect("the folder is ours");
    let built = target.join("release/runcast");
    fs::copy(RUNCAST, &built).expect("it can be copied");
    // As in a release, and most of it is symbols.
    output(Command::new("strip").arg(&built));
    let mut command = Command::new(source(".ci/release"));
    command
        .arg(&made)
        .arg("--fast")
        .env("CARGO_TARGET_DIR", target)
        .env("SOURCE_DATE_EPOCH", "1000000000");
    output(&mut command);
    Some(made)
}

/// The one file in a folder whose name ends so.
fn only(folder: &Path, end: &str) -> PathBuf {
    let found = files(folder).into_iter().filter(|(name, _)| name.ends_with(end));
    let found: Vec<_> = found.map(|(_, path)| path).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap_or_default()
}

/// dpkg, with a root of its own in place of the system's, and without the system's settings for which files are left
/// out.
fn dpkg(root: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let option = |name: &str, end: &str| format!("--{name}={}{end}", root.display());
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(option("root", "")).arg(option("log", ".log")).arg("--path-include=*");
    // Nothing else is installed there, and what others own cannot be made.
    dpkg.args(["--force-depends", "--force-not-root"]).env("PATH", path + ":/usr/sbin:/sbin");
    dpkg
}

#[test]
fn the_debian_package_installs_what_works_and_removes_all_of_it() {
    let Some(_) = tool("dpkg") else { return };
    let folder = scratch();
    let Some(made) = release(folder.path()) else { return };
    let package = only(&made, ".deb");
    let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&package));
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") && line.contains(" 2001-09-09 ")));
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("the folder is ours");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("the folder is ours");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("the folder is ours");

    output(dpkg(&root).arg("--install").arg(&package));
    let places = [&PACKAGED[..], &[PACKAGED_FOR_ZSH]].concat();
    let mut expected: Vec<&str> = places.iter().map(|(place, _)| *place).collect();
    expected.push("usr/bin/runcast");
    expected.sort_unstable();
    let installed = |root: &Path| {
        let names = files(root).into_keys();
        names.filter(|name| !name.starts_with("var/lib/dpkg/")).collect::<Vec<_>>()
    };
    assert_eq!(installed(&root), expected);
    holds(&root, &places);
    let program = root.join("usr/bin/runcast");
    let status = program.metadata().expect("it is there");
    assert_eq!(status.mode(), 0o100_755);
    let version = output(Command::new(&program).arg("--version"));
    assert_eq!(version, concat!("runcast ", env!("CARGO_PKG_VERSION"), "\n"));
    let ran = Command::new(&program).args(["--", PUPPET, "say:up", "exit:3"]).output();
    let ran = ran.expect("it can be started");
    assert_eq!((ran.stdout.as_slice(), ran.status.code()), (&b"up\n"[..], Some(3)));
    let depends = output(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
    let headers = output(Command::new("readelf").arg("--program-headers").arg(&program));
    assert_eq!(depends.contains("libc6"), headers.contains("INTERP"), "{depends}{headers}");
    man_shows_the_pages(&root.join("usr/share"));
    shells_complete(&root.join("usr/share"), &root.join("usr/bin"), "zsh/vendor-completions");

    output(dpkg(&root).args(["--purge", "runcast"]));
    assert_eq!(installed(&root), [""; 0]);
    assert!(!root.join("usr").exists(), "no folder is left either");
}

#[test]
fn the_debian_package_is_of_this_version_and_names_all_licences() {
    let log = String::from_utf8(read(&source(".ci/deb/changelog"))).expect("it is text");
    assert!(log.starts_with(concat!("runcast (", env!("CARGO_PKG_VERSION"), "-1) ")), "{log}");
    let words = |text: &str| {
        let words = text.split_whitespace().filter(|word| *word != ".").map(str::to_owned);
        words.collect::<Vec<_>>().join(" ")
    };
    let copyright = String::from_utf8(read(&source(".ci/deb/copyright"))).expect("it is text");
    let licence = String::from_utf8(read(&source("LICENSE-MIT"))).expect("it is text");
    let (_, grant) = licence.split_once("Permission is").expect("it grants something");
    assert!(words(&copyright).contains(&words(grant)), "{copyright}");
    let both = env!("CARGO_PKG_LICENSE").replace("OR", "or");
    assert!(copyright.contains(&format!("\nLicense: {both}\n")), "{copyright}");
    let allowed = String::from_utf8(read(&source("deny.toml"))).expect("it is text");
    let (_, allowed) = allowed.split_once("\nallow = [").expect("it has a list");
    let allowed: Vec<_> = allowed.split(']').next().unwrap_or_default().split('"').collect();
    let dependencies: Vec<_> = allowed.into_iter().skip(1).step_by(2).collect();
    assert!(dependencies.contains(&"MIT"), "{dependencies:?}");
    for licence in dependencies {
        assert!(words(&copyright).contains(licence), "{licence}");
    }
}

#[test]
fn the_archive_of_a_release_has_the_program_where_binstall_looks_and_all_to_install_by_hand() {
    let folder = scratch();
    let Some(made) = release(folder.path()) else { return };
    let archive = only(&made, ".tar.gz");
    output(Command::new("tar").arg("xzf").arg(&archive).current_dir(&folder));
    let name = archive.file_name().expect("it has one").to_string_lossy().into_owned();
    let (start, version) = ("runcast-", env!("CARGO_PKG_VERSION"));
    let target = name.strip_prefix(&format!("{start}{version}-")).expect("its version");
    let target = target.strip_suffix(".tar.gz").expect("its kind");
    let manifest = String::from_utf8(read(&source("Cargo.toml"))).expect("it is text");
    let (_, rest) = manifest.split_once("\nbin-dir = \"").expect("binstall is told");
    let mut place = rest.split('"').next().unwrap_or_default().to_owned();
    let values =
        [("name", "runcast"), ("version", version), ("target", target), ("bin", "runcast")];
    for (variable, value) in values.into_iter().chain([("binary-ext", "")]) {
        place = place.replace(&format!("{{ {variable} }}"), value);
    }
    let program = folder.path().join(place);
    let said = output(Command::new(&program).arg("--version"));
    assert_eq!(said, format!("runcast {version}\n"));
    let unpacked = program.parent().expect("it is in a folder");
    for (_, made_of) in BY_HAND {
        assert!(read(&unpacked.join(made_of)) == read(&source(made_of)), "{made_of}");
    }
    let sums = made.join("SHA256SUMS");
    output(Command::new("sha256sum").args(["--check", "--strict"]).arg(&sums).current_dir(&made));
    let listed = String::from_utf8(read(&sums)).expect("it is text");
    assert_eq!(listed.lines().count(), files(&made).len() - 1);
}

#[test]
fn the_lines_of_the_readme_install_the_manual_and_the_completions() {
    let folder = scratch();
    let readme = String::from_utf8(read(&source("README.md"))).expect("it is text");
    let (_, section) = readme.split_once("\n## Install\n").expect("it has the section");
    let (_, lines) = section.split_once("```sh\n").expect("it has lines for a shell");
    let lines = lines.split("```").next().unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-euc", lines]).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(output(shell.env("DESTDIR", folder.path())), "");
    let installed: Vec<String> = files(folder.path()).into_keys().collect();
    assert_eq!(installed, BY_HAND.map(|(place, _)| place));
    holds(folder.path(), &BY_HAND);
    let share = folder.path().join("usr/local/share");
    man_shows_the_pages(&share);
    let programs = Path::new(RUNCAST).parent().expect("it is in a folder");
    shells_complete(&share, programs, "zsh/site-functions");
}
