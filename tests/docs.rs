//! The help, the completions, the manual and the README say what the program does.
//!
//! All of them are compared with the one definition of the command line; no program is run but those that
//! format the manual.

mod compatibility;
mod completions;
mod events;
mod readme;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use runcast::cli::args::command;
use runcast::cli::parse::subcommands;
use runcast::model::{error, outcome, rlimits, signal};

const WIDTH: usize = 80;

/// The pages of the manual.
const PAGES: [&str; 2] = ["man/runcast.1", "man/runcast-events.5"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All definitions: of the command line that runs a command, and of the subcommands.
fn definitions() -> impl Iterator<Item = clap::Command> {
    std::iter::once(command()).chain(subcommands()).map(|mut definition| {
        definition.build();
        definition
    })
}

/// The long options of a definition, as `--timeout`.
fn options_of(definition: &clap::Command) -> BTreeSet<String> {
    let longs = definition.get_arguments().filter_map(|arg| arg.get_long());
    longs.map(|long| format!("--{long}")).collect()
}

/// The long options of all of them.
fn options() -> BTreeSet<String> {
    definitions().flat_map(|definition| options_of(&definition)).collect()
}

/// All that looks like a long option in a text.
fn long_options_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
    text.split(|c: char| c.is_whitespace() || "\"'`()[]|,.;:=".contains(c))
        .filter_map(|word| word.strip_prefix("--"))
        .map(|word| word.split(|c| !is_part(c)).next().unwrap_or_default())
        .filter(|long| !long.is_empty())
        .map(|long| format!("--{long}"))
        .collect()
}

/// A page of the manual without its escapes: hyphens are hyphens, and fonts are gone.
fn manual(page: &str) -> String {
    let mut text = read(page).replace("\\-", "-");
    for font in ["\\fB", "\\fI", "\\fR"] {
        text = text.replace(font, "");
    }
    text
}

/// What stands in the manual under `.SH title`.
fn section<'a>(manual: &'a str, title: &str) -> &'a str {
    let heading = format!(".SH {title}\n");
    let (_, rest) = manual.split_once(&heading).unwrap_or_else(|| panic!("no section {title}"));
    rest.split("\n.SH ").next().unwrap_or(rest)
}

/// The tagged paragraphs of a section: the tag and what is said of it.
fn tagged(section: &str) -> Vec<(&str, &str)> {
    let paragraphs = section.split(".TP\n").skip(1);
    paragraphs.filter_map(|paragraph| paragraph.split_once('\n')).collect()
}

/// Whether a program of this name is on the PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a program that checks each page of the manual; it has to be content and to say nothing on either
/// stream but the formatted page.
fn check_manual(program: &str, arguments: &[&str]) {
    if !is_installed(program) {
        let why = format!("SKIP: {program} is not installed");
        assert!(
            std::env::var_os("RUNCAST_REQUIRE_TOOLS").is_none_or(|value| value != "1"),
            "{why}"
        );
        // Not by a macro: what those print is kept back where the test succeeds.
        writeln!(std::io::stderr(), "{why}").expect("the log of the tests can be written");
        return;
    }
    for page in PAGES {
        let output = Command::new(program)
            .args(arguments)
            .arg(path(page))
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let complaints = String::from_utf8_lossy(&output.stderr);
        let shown = String::from_utf8_lossy(&output.stdout);
        let status = output.status;
        assert!(status.success(), "{program}: {page}: {status}\n{shown}{complaints}");
        assert_eq!(complaints, "", "{program}: {page}");
    }
}

#[test]
fn no_line_of_the_help_is_longer_than_a_terminal_is_wide() {
    for mut definition in definitions() {
        for help in [definition.render_help(), definition.render_long_help()] {
            for line in help.to_string().lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}

#[test]
fn both_helps_name_every_option() {
    for mut definition in definitions() {
        for help in [definition.render_help(), definition.render_long_help()] {
            let options = options_of(&definition);
            let named = long_options_in(&help.to_string());
            assert!(named.is_superset(&options), "{:?}", definition.get_name());
        }
    }
}

#[test]
fn the_manual_describes_every_option_and_no_other() {
    let page = manual("man/runcast.1");
    let described = tagged(section(&page, "OPTIONS"));
    let tags: BTreeSet<String> =
        described.iter().flat_map(|(tag, _)| long_options_in(tag)).collect();
    assert_eq!(tags, options());
    for page in PAGES {
        let named = long_options_in(&manual(page));
        let elsewhere: Vec<_> = named.difference(&tags).collect();
        assert!(elsewhere.is_empty(), "{page} names options that do not exist: {elsewhere:?}");
    }
}

#[test]
fn the_manual_gives_each_option_its_short_name_its_words_and_its_default() {
    let manual = manual("man/runcast.1");
    let described = tagged(section(&manual, "OPTIONS"));
    let definitions: Vec<_> = definitions().collect();
    let arguments = definitions.iter().flat_map(clap::Command::get_arguments);
    for option in arguments.filter(|arg| !arg.is_positional()) {
        let long = format!("--{}", option.get_long().expect("every option has a long name"));
        let names_it = |(tag, _): &&(&str, &str)| long_options_in(tag).contains(&long);
        let (tag, text) = described.iter().find(names_it).unwrap_or_else(|| panic!("{long}"));
        if let Some(short) = option.get_short() {
            assert!(tag.starts_with(&format!("-{short}, {long}")), "{tag}");
        }
        if !option.get_action().takes_values() {
            continue;
        }
        for word in option.get_possible_values() {
            assert!(tag.contains(word.get_name()), "{tag}: {}", word.get_name());
        }
        for default in option.get_default_values().iter().filter_map(|value| value.to_str()) {
            assert!(tag.contains(default) || text.contains(default), "{tag}: {default}");
        }
    }
}

#[test]
fn the_manual_lists_exactly_the_exit_statuses_that_there_are() {
    let manual = manual("man/runcast.1");
    let listed: BTreeSet<&str> = tagged(section(&manual, "EXIT STATUS"))
        .iter()
        .filter_map(|(tag, _)| tag.strip_prefix(".B "))
        .collect();
    let numbers = [
        outcome::STATUS_TIMED_OUT,
        error::STATUS_FAILED,
        error::STATUS_NOT_EXECUTABLE,
        error::STATUS_NOT_FOUND,
        outcome::STATUS_DISCONNECTED,
    ];
    let mut there_are: BTreeSet<String> = numbers.iter().map(u8::to_string).collect();
    there_are.insert("128+N".to_owned());
    assert_eq!(listed, there_are.iter().map(String::as_str).collect());
    // The help has the same table in short.
    let help = command().render_help().to_string();
    let (_, table) = help.split_once("Exit status:\n").expect("the help has the table");
    for status in &there_are {
        assert!(table.contains(status.as_str()), "{status}");
    }
}

#[test]
fn the_manual_names_every_resource_limit_and_every_forwarded_signal() {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words =
        |text: &str| text.split(|c| !is_name(c)).map(str::to_owned).collect::<BTreeSet<_>>();
    let manual = manual("man/runcast.1");
    let described = tagged(section(&manual, "OPTIONS"));
    let (_, limits) = described.iter().find(|(tag, _)| tag.contains("--rlimit")).expect("--rlimit");
    let help = command().render_long_help().to_string();
    for resource in rlimits::Resource::ALL {
        assert!(words(limits).contains(resource.name()), "{}", resource.name());
        assert!(words(&help).contains(resource.name()), "{}", resource.name());
    }
    let signals = words(section(&manual, "SIGNALS"));
    for signal in signal::FORWARDED {
        assert!(signals.contains(signal.to_string().trim_start_matches("SIG")), "{signal}");
    }
}

#[test]
fn the_manual_is_of_this_version() {
    for page in PAGES {
        let title = manual(page).lines().next().unwrap_or_default().to_owned();
        assert!(title.contains(&format!("\"runcast {}\"", env!("CARGO_PKG_VERSION"))), "{title}");
    }
}

#[test]
fn mandoc_formats_the_manual_without_a_warning() {
    check_manual("mandoc", &["-T", "lint", "-W", "warning"]);
}

#[test]
fn groff_formats_the_manual_without_a_warning() {
    check_manual("groff", &["-man", "-T", "utf8", "-ww", "-z"]);
}

#[test]
fn man_shows_the_manual_without_a_warning() {
    check_manual("man", &["--warnings", "-l"]);
}

/// The options that a line gives to runcast: those between the word `runcast` and COMMAND.
fn options_given_in(line: &str) -> Vec<String> {
    let mut command = command();
    command.build();
    let takes_next = |word: &str| {
        command.get_arguments().any(|arg| {
            let is_long = arg.get_long().is_some_and(|long| word == format!("--{long}"));
            let is_short = arg.get_short().is_some_and(|short| word.ends_with(short));
            let is_meant = if word.starts_with("--") { is_long } else { is_short };
            is_meant && arg.get_action().takes_values()
        })
    };
    let trimmed = |word: &str| word.trim_matches(|c| "`()\"'".contains(c)).to_owned();
    let mut given = Vec::new();
    let mut words = line.split_whitespace().map(trimmed);
    while let Some(word) = words.next() {
        if word != "runcast" {
            continue;
        }
        while let Some(word) = words.next().filter(|word| word.starts_with('-') && word != "--") {
            let (name, value) = word.split_once('=').map_or((&*word, None), |(n, v)| (n, Some(v)));
            if name.starts_with("--") {
                given.push(name.to_owned());
            }
            if value.is_none() && takes_next(name) {
                words.next();
            }
        }
    }
    given
}

#[test]
fn the_readme_gives_runcast_only_options_that_exist() {
    let options = options();
    for line in read("README.md").replace("\\\n", " ").lines() {
        for option in options_given_in(line) {
            assert!(options.contains(&option), "{option} in: {line}");
        }
    }
}

#[test]
fn an_option_of_the_wrapped_command_is_not_taken_for_one_of_runcasts() {
    let given =
        options_given_in("x | runcast -q --keep tail --timeout=5 ls --color; runcast -- a --b");
    assert_eq!(given, ["--keep", "--timeout"]);
    assert_eq!(options_given_in("`runcast -t 5 --bogus` and runcast -t5 x --y"), ["--bogus"]);
}
