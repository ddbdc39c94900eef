//! What programs may rely on only grows: all that the first version had is there still, and means the same.
//!
//! `tests/data/interface-1.txt` lists it, a line each, and is never made anew: whoever takes something back has to
//! make a new version of the interface.

use std::collections::BTreeSet;

use clap::{Arg, Command};
use serde_json::Value;

use runcast::model::error::{STATUS_FAILED, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND};
use runcast::model::outcome::{STATUS_DISCONNECTED, STATUS_TIMED_OUT};
use runcast::model::schema::events;

use super::{definitions, read};

/// An option with its name, its short form and whether it takes a value, and each of the words that it takes.
fn option(definition: &Command, arg: &Arg) -> Vec<String> {
    let Some(long) = arg.get_long() else { return Vec::new() };
    let name = format!("{} --{long}", definition.get_name());
    let short = arg.get_short().map_or(String::new(), |short| format!(" -{short}"));
    let value = match arg.get_num_args() {
        _ if !arg.get_action().takes_values() => "no value",
        Some(count) if count.min_values() == 0 => "perhaps a value",
        _ => "a value",
    };
    let words = arg.get_possible_values();
    let words = words.iter().map(|word| format!("word {name} {}", word.get_name()));
    std::iter::once(format!("option {name}{short}: {value}")).chain(words).collect()
}

/// The fields and words that a definition of the schema has.
fn definition(name: &str, schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(field, of)| {
        let always =
            if required.contains(&Value::from(field.as_str())) { "always" } else { "at times" };
        format!("field {name}.{field}: {always}, {}", kind(of))
    });
    let words = schema["enum"].as_array().into_iter().flatten();
    let words = words.map(|word| format!("word {name} {}", word.as_str().expect("it is a text")));
    fields.chain(words).collect()
}

/// What kind of value a field has.
fn kind(field: &Value) -> String {
    match (&field["type"], &field["$ref"], &field["const"]) {
        (_, _, Value::String(word)) => format!("\"{word}\""),
        (Value::Null, Value::String(path), _) => path.trim_start_matches("#/$defs/").to_owned(),
        (Value::Null, ..) => "any".to_owned(),
        (kind, ..) => kind.to_string().replace('"', ""),
    }
}

/// All that programs may rely on now.
fn interface() -> BTreeSet<String> {
    let mut all: BTreeSet<String> = [
        ("the command was stopped by a time limit", STATUS_TIMED_OUT),
        ("runcast failed", STATUS_FAILED),
        ("the command cannot be executed", STATUS_NOT_EXECUTABLE),
        ("the command was not found", STATUS_NOT_FOUND),
        ("the reader went away", STATUS_DISCONNECTED),
    ]
    .map(|(meaning, status)| format!("status {status}: {meaning}"))
    .into();
    for definition in definitions() {
        all.insert(format!("command {}", definition.get_name()));
        all.extend(definition.get_arguments().flat_map(|arg| option(&definition, arg)));
    }
    let schema = events();
    let definitions = schema["$defs"].as_object().expect("there are definitions");
    all.extend(definitions.iter().flat_map(|(name, schema)| definition(name, schema)));
    all
}

#[test]
fn all_that_the_first_version_had_is_there_still() {
    let now = interface();
    let then = read("tests/data/interface-1.txt");
    let missing: Vec<&str> = then.lines().filter(|&line| !now.contains(line)).collect();
    assert!(missing.is_empty(), "taken back or changed:\n{}", missing.join("\n"));
    assert!(then.lines().count() > 300, "it lists everything");
}
