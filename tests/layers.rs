//! The layers: a file imports only from its own folder and from layers below.

use crate::harness::{code, sources};

/// From the lowest to the highest.
const LAYERS: [&str; 9] =
    ["model", "sys", "sink", "backend", "engine", "runs", "remote", "cli", "main"];

fn place(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

/// The first names after each `crate::`, in a path or in a group, outside of comments.
fn imports(source: &str, root: &str) -> Vec<String> {
    let code = code(source);
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&format!("{root}::")) {
        let before = code[..at].chars().next_back();
        let rest = &code[at + root.len() + 2..];
        if before.is_some_and(|c| is_name(c) || c == ':' || c == '$') {
            continue;
        }
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group_heads(group)),
            None => found.push(rest.chars().take_while(|&c| is_name(c)).collect()),
        }
    }
    found
}

/// The first name of each path in a `{…}` group, whose opening brace is already taken.
fn group_heads(group: &str) -> Vec<String> {
    let mut depth = 1;
    let own: String = group
        .chars()
        .take_while(|&c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth > 0
        })
        .scan(1, |depth, c| {
            let inside = *depth;
            *depth += i32::from(c == '{') - i32::from(c == '}');
            Some((inside, c))
        })
        .filter(|&(inside, _)| inside == 1)
        .map(|(_, c)| c)
        .collect();
    own.split(',')
        .filter_map(|path| path.trim().split("::").next().map(str::to_owned))
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let source = "use crate::{sys::{tree, signals::x}, model::event};\n// crate::cli::no\nlet x = crate::engine::run(); $crate::z; mycrate::y;";
    assert_eq!(imports(source, "crate"), ["sys", "model", "engine"]);
}

#[test]
fn no_import_goes_up_or_sideways() {
    let mut seen = 0;
    for (path, text) in sources() {
        let own = path.split(['/', '.']).next().unwrap_or_default();
        if own == "lib" {
            continue;
        }
        let Some(own_place) = place(own) else { panic!("{path} belongs to no layer") };
        assert!(!text.contains("super::super"), "{path} climbs over its folder");
        for name in imports(&text, "crate").into_iter().chain(imports(&text, "runcast")) {
            let Some(other) = place(&name) else { continue };
            assert!(other <= own_place, "{path} imports from {name}, which is above {own}");
            seen += 1;
        }
    }
    assert!(seen > 20, "hardly any import was found");
}
