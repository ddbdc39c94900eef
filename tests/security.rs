//! What SECURITY.md says of unsafe code: where it is, all of it, and nowhere else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::harness::{code, sources};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// How often the word stands in code as the keyword.
fn count_unsafe(source: &str) -> usize {
    let code = code(source);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_alone = |at: usize, word: &str| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    };
    code.match_indices("unsafe").filter(|(at, word)| is_alone(*at, word)).count()
}

#[test]
fn the_keyword_is_told_from_comments_and_from_longer_words() {
    let source = "// unsafe\n#![allow(unsafe_code)]\nunsafe { f() }; // unsafe\nunsafe extern \"C\" {}\nnot_unsafe();";
    assert_eq!(count_unsafe(source), 2);
}

#[test]
fn security_md_lists_every_file_with_unsafe_code_and_no_other() {
    let text = read("SECURITY.md");
    let (_, section) = text.split_once("## Unsafe code").expect("it has that section");
    let listed: BTreeSet<String> = section
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `src/")?.split_once('`')?.0.to_owned()))
        .collect();
    let found: BTreeSet<String> = sources()
        .into_iter()
        .filter(|(_, source)| count_unsafe(source) > 0)
        .map(|(path, _)| path)
        .collect();
    assert!(found.len() > 5, "hardly any was found: {found:?}");
    assert_eq!(listed, found);
}

#[test]
fn the_compiler_allows_it_nowhere_else() {
    let lifted: Vec<String> = sources()
        .into_iter()
        .filter(|(_, source)| code(source).contains("(unsafe_code"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(lifted, ["main.rs", "sys/mod.rs"]);
    let manifest = read("Cargo.toml");
    for lint in [
        "unsafe_code = \"deny\"",
        "undocumented_unsafe_blocks = ",
        "multiple_unsafe_ops_per_block = ",
    ] {
        assert!(manifest.contains(lint), "{lint} is not set");
    }
}

#[test]
fn nothing_listens_on_a_network_port() {
    for (path, source) in sources() {
        let code = code(&source);
        for word in ["TcpListener", "UdpSocket", "SocketAddr", "AF_INET", "libc::socket"] {
            assert!(!code.contains(word), "{path} has {word}");
        }
    }
}
