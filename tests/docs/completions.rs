//! The completions are those that the definition gives, with what is written by hand behind it, and they complete
//! what they are asked for in the shells that they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clap::ValueEnum;
use clap_complete::aot::{Generator, Shell as Generated, generate};

use runcast::cli::args::{command, to_be_completed};
use runcast::cli::parse::subcommands;

use super::{definitions, path, read};
use crate::harness::{BASH, FISH, Mark, Prompt, RUNCAST, Shell, ZSH, runcast, scratch};

/// The definition as the generators take it: COMMAND is completed by what is written by hand, or not at all, and
/// `help` is no subcommand.
fn definition() -> clap::Command {
    let options = command();
    let options = options.get_arguments().filter(|arg| !arg.is_positional()).cloned();
    let plain = clap::Command::new("runcast").disable_help_flag(true).disable_version_flag(true);
    plain
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(options)
        .subcommands(subcommands().map(to_be_completed))
}

/// Whether an option takes the next word. A value that may be left out is part of the option's word.
fn takes_next(option: &clap::Arg) -> bool {
    option.get_action().takes_values()
        && option.get_num_args().is_none_or(|number| number.min_values() > 0)
}

/// What the marks in the parts by hand stand for: which options take a value, those for a run and those of the
/// subcommands, and which subcommands there are.
fn words() -> BTreeMap<&'static str, String> {
    let [mut run, mut subs] = [Vec::new(), Vec::new()];
    for definition in definitions() {
        let options = definition.get_arguments().filter(|arg| !arg.is_positional()).cloned();
        if definition.get_name() == "runcast" { &mut run } else { &mut subs }.extend(options);
    }
    let long = |options: &[clap::Arg]| {
        let some = |takes| -> BTreeSet<String> {
            let some = options.iter().filter(|arg| takes_next(arg) == takes);
            some.filter_map(clap::Arg::get_long).map(str::to_owned).collect()
        };
        // Which subcommand it is of is not asked.
        assert!(some(true).is_disjoint(&some(false)));
        some(true).into_iter().collect::<Vec<_>>().join("|")
    };
    let short = |takes| -> BTreeSet<char> {
        let some = run.iter().chain(&subs).filter(|arg| takes_next(arg) == takes);
        some.filter_map(clap::Arg::get_short).collect()
    };
    assert!(short(true).is_disjoint(&short(false)));
    let names: Vec<String> = subcommands().map(|one| one.get_name().to_owned()).collect();
    BTreeMap::from([
        ("@LONG@", long(&run)),
        ("@SUBLONG@", long(&subs)),
        ("@SHORT@", short(true).into_iter().collect()),
        ("@FLAGS@", short(false).into_iter().collect()),
        ("@SUBCOMMANDS@", names.join("|")),
        ("@WORDS@", names.join(" ")),
    ])
}

/// Replaces what has to be there once.
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old:?} in {text}");
    text.replace(old, new)
}

/// The completions for a shell.
fn completions(shell: Generated) -> String {
    let mut generated = Vec::new();
    generate(shell, &mut to_be_completed(definition()), "runcast", &mut generated);
    let generated = String::from_utf8(generated).expect("it is text");
    let name = shell.file_name("runcast");
    let Ok(mut by_hand) = fs::read_to_string(path(&format!("tests/docs/completions/{name}")))
    else {
        return generated;
    };
    for (mark, words) in words() {
        by_hand = by_hand.replace(mark, &words);
    }
    let is_mark = |after: &str| after.starts_with(|c: char| c.is_ascii_uppercase());
    assert!(!by_hand.split('@').skip(1).any(is_mark), "a mark was not replaced: {by_hand}");
    if shell != Generated::Zsh {
        return generated + &by_hand;
    }
    in_zsh(&generated, &by_hand)
}

/// The completions for zsh, which takes the function of the file's name, so that the generated one gets another.
fn in_zsh(generated: &str, by_hand: &str) -> String {
    let mended = replaced(generated, "\n_runcast() {\n", "\n_runcast_options() {\n");
    // A word that excludes an option is written as nothing, with which zsh never offers that option.
    let mended = mended.replace("\n'()-", "\n'-");
    // Behind a subcommand those options are offered that it has, not those for a run.
    let outer = "\n    _arguments \"${_arguments_options[@]}\" :";
    let mended = replaced(&mended, outer, &outer.replace(" :", " -A '-*' :"));
    // Where nothing is said of a word zsh shows a message, and then does not insert the only option that fits.
    let is_word = |line: &str| ["':", "'::", "'*::"].iter().any(|begin| line.starts_with(begin));
    let mended: Vec<String> = mended
        .lines()
        .map(|line| match line.strip_suffix(":' \\") {
            Some(said) if is_word(line) => format!("{said}:{{true}}' \\"),
            _ => line.to_owned(),
        })
        .collect();
    // The file ends by calling that function or announcing it.
    let end = "\nif [ \"$funcstack[1]\" = \"_runcast\" ]; then\n";
    replaced(&(mended.join("\n") + "\n"), end, &format!("{by_hand}{end}"))
}

#[test]
fn the_completions_are_those_that_the_definition_gives() {
    for shell in Generated::value_variants() {
        let name = format!("completions/{}", shell.file_name("runcast"));
        let made = completions(*shell);
        if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
            fs::write(path(&name), &made).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(read(&name) == made, "{name} is old: run the tests once with BLESS=1");
    }
}

/// What is typed, and what a TAB makes of it.
const COMPLETED: [(&str, &str); 17] = [
    ("runcast --strip", "runcast --strip-ansi"),
    ("runcast -q --format nd", "runcast -q --format ndjson"),
    ("runcast --keep=ta", "runcast --keep=tail"),
    ("runcast repl", "runcast replay"),
    ("runcast attach fin", "runcast attach finished-1"),
    ("runcast attach go", "runcast attach going-on"),
    ("runcast attach --stdin go", "runcast attach --stdin going-on"),
    ("runcast wait -t 5 fin", "runcast wait -t 5 finished-1"),
    ("runcast wait --format nd", "runcast wait --format ndjson"),
    ("runcast send ", "runcast send going-on"),
    ("runcast signal --st", "runcast signal --stop"),
    ("runcast signal go", "runcast signal going-on"),
    ("runcast forget finished-1 ", "runcast forget finished-1 finished-1"),
    // No such run: nothing comes, no file either.
    ("runcast attach .zs", "runcast attach .zs"),
    ("runcast -qt 5 -- wrapped --col", "runcast -qt 5 -- wrapped --colour"),
    ("runcast wrapped --col", "runcast wrapped --colour"),
    ("runcast -- wrapped attach --for", "runcast -- wrapped attach --forward"),
];

/// Completes with what `setup` makes of FILE, in a shell that has a command `wrapped` with completions of its own.
fn completes(shell: &Shell, file: &str, setup: &str) {
    let (folder, mark) = (scratch(), Mark::new());
    let runs = folder.path().join("runs");
    let run = |options: &str, command: &[&str]| {
        let run = runcast(options).env("RUNCAST_DIR", &runs).marked(&mark);
        let run = if command.is_empty() { run } else { run.command(command) };
        run.run().exited(0);
    };
    run("-d --id finished-1", &["true"]);
    run("wait finished-1", &[]);
    // It goes on until it is killed with the mark.
    run("-d --id going-on --stdin open", &["cat"]);
    let setup = setup.replace("FILE", &path(&format!("completions/{file}")).display().to_string());
    let own = Path::new(RUNCAST).parent().expect("it is in a folder");
    let environment = [("RUNCAST_DIR", runs.as_path())];
    let prompt = Prompt::start(shell, folder.path(), own, &environment, &setup);
    let Some(mut prompt) = prompt else { return };
    for (typed, expected) in COMPLETED {
        assert_eq!(prompt.completed(typed), expected, "{typed}");
    }
}

#[test]
fn bash_completes_options_values_runs_and_the_command() {
    let setup = r#"source 'FILE'
_wrapped() { COMPREPLY=($(compgen -W '--colour --forward' -- "$2")); }
complete -F _wrapped wrapped
"#;
    completes(&BASH, "runcast.bash", setup);
}

#[test]
fn zsh_completes_options_values_runs_and_the_command() {
    let setup = r"fpath=(${${:-FILE}:h} $fpath)
autoload -U compinit && compinit -u -D
_wrapped() { _arguments '*:word:_files' --colour --forward }
compdef _wrapped wrapped
";
    completes(&ZSH, "_runcast", setup);
}

#[test]
fn fish_completes_options_values_runs_and_the_command() {
    let setup = r"source 'FILE'
function wrapped; end
complete -c wrapped -f -l colour
complete -c wrapped -f -l forward
";
    completes(&FISH, "runcast.fish", setup);
}
