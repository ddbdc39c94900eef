//! The manual of the events and their schema say the same, and so do the examples in the manual and the README.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use runcast::model::schema::events;

use super::{manual, read, section, tagged};
use crate::harness::schema::own_fault;
use crate::schema::definition;

/// What is said of a field.
#[derive(Debug, PartialEq)]
struct Field {
    /// `string`, `integer or null`, `array of strings`.
    kind: String,
    is_always_there: bool,
}

/// The kinds of event in the schema.
fn ops(schema: &Value) -> BTreeSet<String> {
    let definitions = schema["$defs"].as_object().expect("there are definitions").values();
    let ops = definitions.filter_map(|one| one["properties"]["op"]["const"].as_str());
    ops.map(str::to_owned).collect()
}

/// A part of the schema, or what it refers to.
fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(path) => schema.pointer(path.trim_start_matches('#')).expect("it is there"),
        None => part,
    }
}

/// The type of a field in the words of the manual.
fn kind(schema: &Value, field: &Value) -> String {
    let field = resolved(schema, field);
    let one_of = |several: Vec<String>| several.join(" or ");
    if let Some(any) = field["anyOf"].as_array() {
        return one_of(any.iter().map(|one| kind(schema, one)).collect());
    }
    match &field["type"] {
        Value::Array(several) => {
            one_of(several.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Value::String(word) if word == "array" => {
            format!("array of {}s", kind(schema, &field["items"]))
        }
        Value::String(word) if word == "object" && field["additionalProperties"].is_object() => {
            format!("object of {}s", kind(schema, &field["additionalProperties"]))
        }
        Value::String(word) => word.clone(),
        _ => "any JSON".to_owned(),
    }
}

/// The words of which the value of a field is one, if it is.
fn words(schema: &Value, field: &Value) -> Vec<String> {
    let field = resolved(schema, field);
    let listed = field["enum"].as_array().into_iter().flatten().chain(field.get("const"));
    let own = listed.filter_map(Value::as_str).map(str::to_owned);
    let others = field["anyOf"].as_array().into_iter().flatten();
    own.chain(others.flat_map(|one| words(schema, one))).collect()
}

/// All fields of a definition, those within another as `usage.user`, each with its part of the schema.
fn fields<'a>(
    schema: &'a Value,
    definition: &'a Value,
    path: &str,
) -> Vec<(String, Field, &'a Value)> {
    let required = definition["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    for (name, field) in definition["properties"].as_object().into_iter().flatten() {
        let is_always_there = required.contains(&json!(name));
        let name = format!("{path}{name}");
        found.extend(fields(schema, resolved(schema, field), &format!("{name}.")));
        found.push((name, Field { kind: kind(schema, field), is_always_there }, field));
    }
    found
}

/// The fields that the manual describes for an event, in its order, each with what it says.
fn described(section: &str) -> Vec<(String, Field, String)> {
    let mut found: Vec<(String, Field, String)> = Vec::new();
    for (tag, text) in tagged(section) {
        let plain = tag.trim_start_matches(".BR ").replace('"', "");
        let typed = plain.strip_suffix(')').and_then(|tag| tag.split_once(" ("));
        let Some((names, kind)) = typed else {
            // A value of the field before it.
            let (_, _, before) = found.last_mut().expect("a field comes first");
            before.push_str(&format!("{tag}\n{text}"));
            continue;
        };
        let kind = match kind.strip_suffix(", optional") {
            Some(kind) => (kind, false),
            None => (kind, true),
        };
        for name in names.split(',') {
            let field = Field { kind: kind.0.to_owned(), is_always_there: kind.1 };
            found.push((name.trim().to_owned(), field, text.to_owned()));
        }
    }
    found
}

/// The manual's part for each event.
fn parts(manual: &str) -> BTreeMap<&str, &str> {
    let parts = section(manual, "EVENTS").split(".SS ").skip(1);
    parts.map(|part| part.split_once('\n').expect("a heading is a line")).collect()
}

#[test]
fn the_manual_describes_every_field_of_every_event_as_the_schema_does_and_no_other() {
    let (schema, manual) = (events(), manual("man/runcast-events.5"));
    let parts = parts(&manual);
    assert_eq!(parts.keys().map(|op| (*op).to_owned()).collect::<BTreeSet<_>>(), ops(&schema));
    for (op, part) in parts {
        let definition = definition(&schema, &json!(op));
        let by_name = |(name, field, _): (String, Field, _)| (name, field);
        let there_are: BTreeMap<_, _> =
            fields(&schema, &definition, "").into_iter().map(|(n, f, _)| (n, f)).collect();
        let listed = described(part);
        let count = listed.len();
        let said: BTreeMap<_, _> = listed.into_iter().map(by_name).collect();
        assert_eq!(said.len(), count, "{op}: a field is described twice");
        assert_eq!(said, there_are, "{op}");
    }
}

#[test]
fn the_manual_names_the_fields_in_the_order_in_which_they_stand() {
    let (schema, manual) = (events(), manual("man/runcast-events.5"));
    for (op, part) in parts(&manual) {
        let required = definition(&schema, &json!(op))["required"].clone();
        let described = described(part);
        let always = described
            .iter()
            .filter(|(name, field, _)| field.is_always_there && !name.contains('.'));
        assert_eq!(json!(always.map(|(name, ..)| name).collect::<Vec<_>>()), required, "{op}");
    }
}

#[test]
fn the_manual_says_of_each_optional_field_when_it_is_present_and_names_every_word() {
    let (schema, manual) = (events(), manual("man/runcast-events.5"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (op, part) in parts(&manual) {
        let definition = definition(&schema, &json!(op));
        let there_are = fields(&schema, &definition, "");
        for (name, field, text) in described(part) {
            let says_when = text.contains("Present");
            assert_eq!(says_when, !field.is_always_there, "{op}: {name}: {text}");
            let (.., of_schema) =
                there_are.iter().find(|(known, ..)| *known == name).expect("see the test above");
            for word in words(&schema, of_schema) {
                let is_named = text.split(|c| !is_name(c)).any(|named| named == word);
                assert!(is_named, "{op}: {name}: {word}");
            }
        }
    }
}

/// The events in a text: lines that begin with a brace, and what goes on in lines that begin with a space.
fn examples(text: &str) -> Vec<Value> {
    let mut json = String::new();
    let mut is_within = false;
    for line in text.lines() {
        // What `runcast send` answers is no event of a run.
        let begins = line.starts_with("{\"op\":") && !line.starts_with("{\"op\":\"stdin\"");
        is_within = begins || is_within && line.starts_with(' ');
        if is_within {
            json.push_str(line);
            json.push('\n');
        }
    }
    let values = serde_json::Deserializer::from_str(&json).into_iter();
    values.map(|value| value.unwrap_or_else(|error| panic!("{error}: {json}"))).collect()
}

#[test]
fn the_examples_of_the_manual_and_the_readme_keep_to_the_schema() {
    let unescaped =
        manual("man/runcast-events.5").replace("\\e", "\\").replace("\\[uFFFD]", "\u{fffd}");
    let in_manual = examples(&unescaped);
    let in_readme = examples(&read("README.md"));
    for example in in_manual.iter().chain(&in_readme) {
        assert_eq!(own_fault(example), None, "{example}");
    }
    let shown = in_manual.iter().filter_map(|event| event["op"].as_str()).map(str::to_owned);
    assert_eq!(shown.collect::<BTreeSet<_>>(), ops(&events()));
    assert!(!in_readme.is_empty(), "the README has none");
}

#[test]
fn the_short_account_in_the_manual_of_the_program_names_every_event() {
    let manual = manual("man/runcast.1");
    let named: BTreeSet<String> = tagged(section(&manual, "EVENTS"))
        .iter()
        .filter_map(|(tag, _)| tag.strip_prefix(".B "))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, ops(&events()));
}
