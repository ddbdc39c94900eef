//! The schema of the events, against which every event is checked that a run in any test writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

/// As readers have it: they pass over fields that they do not know.
static OPEN: LazyLock<Validator> = LazyLock::new(|| compile(&runcast::model::schema::events()));

/// As runcast has to keep to it: it writes no field that is not described.
static CLOSED: LazyLock<Validator> = LazyLock::new(|| {
    let mut schema = runcast::model::schema::events();
    close(&mut schema);
    compile(&schema)
});

/// How many chunks of a run are all checked; of those after them only some are, since there may be millions.
const CHUNKS: usize = 200;

fn compile(schema: &Value) -> Validator {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .build(schema)
        .expect("the schema is one")
}

/// Allows no other fields in any object whose fields are described.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(close);
            if object.contains_key("required") {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(several) => several.iter_mut().for_each(close),
        _ => {}
    }
}

/// What is wrong with an event as readers see it.
pub(crate) fn fault(event: &Value) -> Option<String> {
    fault_by(&OPEN, event)
}

/// What is wrong with an event that runcast wrote.
pub(crate) fn own_fault(event: &Value) -> Option<String> {
    fault_by(&CLOSED, event)
}

fn fault_by(validator: &Validator, event: &Value) -> Option<String> {
    validator.validate(event).err().map(|error| match error.kind() {
        // Only what the event of this `op` says is of use.
        ValidationErrorKind::OneOfNotValid { context } => context
            .iter()
            .find(|faults| faults.iter().all(|fault| fault.instance_path().as_str() != "/op"))
            .map_or_else(|| "no such op".to_owned(), |faults| list(faults)),
        _ => error.to_string(),
    })
}

fn list(faults: &[ValidationError<'_>]) -> String {
    let each = faults.iter().map(|fault| format!("{}: {fault}", fault.instance_path()));
    each.collect::<Vec<_>>().join("; ")
}

/// Checks one event.
#[track_caller]
pub(super) fn check_event(event: &Value) {
    if let Some(fault) = own_fault(event) {
        panic!("not by the schema: {fault}: {event}");
    }
}

/// An event in which null stands for the value that the command returned. That may be any JSON, also numbers and
/// escapes that a [`Value`] cannot hold; here it only has to be JSON.
fn without_returned(line: &[u8]) -> serde_json::Result<Value> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(line)?;
    let value = |(name, raw): (String, &RawValue)| {
        let value = if name == "result" { "null" } else { raw.get() };
        serde_json::from_str(value).map(|value| (name, value))
    };
    fields.into_iter().map(value).collect::<serde_json::Result<_>>().map(Value::Object)
}

/// Checks all whole lines that are events; a run may have written others.
#[track_caller]
pub(crate) fn check_lines(bytes: &[u8]) {
    let mut chunks = 0_usize;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        // The answer of `runcast send` is no event of a run.
        let is_event = line.starts_with(b"{\"op\":") && !line.starts_with(b"{\"op\":\"stdin\",");
        if !is_event || !line.ends_with(b"\n") {
            continue;
        }
        if line.starts_with(b"{\"op\":\"chunk\"") {
            chunks += 1;
            if chunks > CHUNKS && !chunks.is_power_of_two() {
                continue;
            }
        }
        let event = without_returned(line)
            .unwrap_or_else(|error| panic!("{error}: {}", line.escape_ascii()));
        check_event(&event);
    }
}
