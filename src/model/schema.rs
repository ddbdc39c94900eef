//! The JSON Schema of the events, from their types. Must not say anything of an event that its type, or a
//! comment there, does not say.
//!
//! A field that is added to an event appears in the schema by itself: required if it is always written, its
//! comment as the description. Only a type whose serde shape is written by hand needs an implementation here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, RestrictFormats};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::model::event::{Base64, Event, LossyText, Metadata, Seconds};

/// The schema of one event, by draft 2020-12: one of `oneOf`, each a definition of its own in `$defs`.
#[must_use]
pub fn events() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    let mut formats = RestrictFormats::default();
    // The widths of numbers are no formats of the standard, and strict validators refuse them.
    formats.infer_from_meta_schema = false;
    formats.allowed_formats = BTreeSet::from(["date-time".into()]);
    settings = settings.with_transform(formats);
    settings = settings.with_transform(RecursiveTransform(absent_not_null));
    settings = settings.with_transform(RecursiveTransform(unwrap_description));
    let mut schema = settings.into_generator().into_root_schema_for::<Event<'_>>().to_value();
    if let Some(root) = schema.as_object_mut() {
        move_op_into_the_definitions(root);
    }
    schema
}

/// A field that is not always there is left out rather than null.
fn absent_not_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, property) in properties {
        if !required.contains(&json!(name)) {
            remove_null(property);
        }
    }
}

fn remove_null(property: &mut Value) {
    // What is described elsewhere: that or null.
    let any_of = property.get("anyOf").and_then(Value::as_array).map(Vec::as_slice);
    if let Some([what, null]) = any_of
        && *null == json!({ "type": "null" })
        && let (Some(what), Some(object)) = (what.as_object().cloned(), property.as_object_mut())
    {
        object.remove("anyOf");
        object.extend(what);
    }
    let Some(types) = property.get_mut("type") else { return };
    if let Some(several) = types.as_array_mut() {
        several.retain(|one| one != "null");
        if let [one] = &several[..] {
            *types = one.clone();
        }
    }
}

/// Where a comment's lines end is the source's affair; paragraphs and lists stay.
fn unwrap_description(schema: &mut Schema) {
    let Some(Value::String(text)) = schema.get_mut("description") else { return };
    let mut unwrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let goes_on = !line.is_empty() && !line.starts_with("- ");
        if goes_on && !unwrapped.is_empty() && !unwrapped.ends_with('\n') {
            unwrapped.push(' ');
        } else if !unwrapped.is_empty() {
            unwrapped.push('\n');
        }
        unwrapped.push_str(line);
    }
    *text = unwrapped;
}

/// Each event's definition gets its `op`, which is else beside the reference to it: so a definition alone
/// describes an event whole, as the result in a file.
fn move_op_into_the_definitions(root: &mut Map<String, Value>) {
    let mut events = root.remove("oneOf").unwrap_or_default();
    for event in events.as_array_mut().into_iter().flatten() {
        let Some(reference) = event.get("$ref").cloned() else { continue };
        let definition = reference.as_str().and_then(|path| path.rsplit('/').next());
        let op = event.pointer("/properties/op").cloned();
        let fields = definition.and_then(|name| root.get_mut("$defs")?.get_mut(name));
        let (Some(fields), Some(op)) = (fields, op) else { continue };
        if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("op".to_owned(), op);
        }
        if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
            required.insert(0, json!("op"));
        }
        *event = json!({ "$ref": reference });
    }
    root.insert("oneOf".to_owned(), events);
}

/// What is said of a run that was started before is its own `started` and one field more, which no run writes.
pub(crate) fn add_existing(started: &mut Schema) {
    let field = json!({
        "type": "boolean",
        "const": true,
        "description": "Present, and true, where `--detach` found the run already there."
    });
    if let Some(properties) = started.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("existing".to_owned(), field);
    }
}

/// The schema of a string that is one of these words. The comments are given as rustc has them, each line with
/// the space that it begins with.
pub(crate) fn words(about: &str, words: &[(&str, &str)]) -> Schema {
    let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let meanings = words.iter().map(|(word, meaning)| format!("\n- `{word}`: {}", meaning.trim()));
    let description = about.trim().to_owned() + &meanings.collect::<String>();
    json_schema!({ "type": "string", "enum": list, "description": description })
}

/// Implements the schema of a type that is written in its place, not by reference.
macro_rules! written_in_place {
    ($($Type:ty, $name:literal, $schema:tt;)+) => {
        $(impl JsonSchema for $Type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })+
    };
}

/// A point in time: RFC 3339, UTC, microseconds.
pub(crate) enum Time {}

/// The name of a signal.
pub(crate) enum SignalName {}

/// The name of a run.
pub(crate) enum RunId {}

written_in_place! {
    Seconds, "Seconds", { "type": "number", "minimum": 0 };
    LossyText<'_>, "LossyText", { "type": "string" };
    Base64<'_>, "Base64", { "type": "string", "contentEncoding": "base64" };
    Metadata<'_>, "Metadata", { "type": "object", "additionalProperties": { "type": "string" } };
    Time, "Time", {
        "type": "string",
        "format": "date-time",
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"
    };
    SignalName, "SignalName", { "type": "string", "pattern": r"^SIG[A-Z0-9]+([+-][0-9]+)?$" };
    RunId, "RunId", { "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$" };
}
