//! The schema of the events: it is the one that the types give, every kind of event keeps to it, and an event
//! that is not as it says does not pass.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use runcast::model::schema::events;

use crate::harness::schema::{fault, own_fault};
use crate::harness::{events_in, ndjson, result_in, runcast, scratch};

const FILE: &str = "man/runcast-events.schema.json";

/// The definition of the event with this `op`.
pub(crate) fn definition(schema: &Value, op: &Value) -> Value {
    let all = schema["$defs"].as_object().expect("there are definitions");
    let found = all.values().find(|one| one["properties"]["op"]["const"] == *op);
    found.unwrap_or_else(|| panic!("no such event: {op}")).clone()
}

/// Whether any JSON may stand there.
fn takes_anything(field: &Value) -> bool {
    ["type", "$ref", "anyOf"].iter().all(|word| field.get(word).is_none())
}

/// One event of each kind, with all its fields but those that cannot be together.
fn one_of_each() -> Vec<Value> {
    let both = json!({"stdout": "a\u{fffd}", "stderr": "", "stdout_base64": "Yf8=",
        "stderr_base64": "/w==", "stdout_truncated": true, "stderr_truncated": false,
        "stdout_omitted": 7, "stderr_omitted": 8, "stdout_bytes": 9, "stderr_bytes": 0});
    let with_both = |mut event: Value| {
        let fields = both.as_object().expect("it is one").clone();
        event.as_object_mut().expect("it is one").extend(fields);
        event
    };
    let time = "2026-11-30T12:00:00.000000Z";
    vec![
        json!({"op": "started", "v": 1, "id": "a-1", "pid": 2, "argv": ["a"], "argv_base64": ["YQ=="],
            "cwd": "/", "time": time, "existing": true}),
        json!({"op": "chunk", "kind": "stderr", "seq": 1, "t": 0.5, "content": "a\u{fffd}",
            "partial": true, "base64": "Yf8=", "time": time, "metadata": {"a": "b"}}),
        json!({"op": "exited", "t": 1, "exit_code": 255, "signal": null}),
        json!({"op": "stop", "t": 1.5, "reason": null, "signal": "SIGRTMIN+3"}),
        json!({"op": "heartbeat", "t": 2, "idle": 0.5, "stdout_bytes": 0, "stderr_bytes": 1}),
        json!({"op": "dropped", "t": 2, "after_seq": 0, "chunks": 3, "bytes": 4}),
        with_both(json!({"op": "snapshot", "exit_code": null})),
        with_both(
            json!({"op": "result", "exit_code": null, "signal": "SIGXCPU", "core_dumped": true,
            "status": 152, "timed_out": false, "stopped_by": "signal", "received": "SIGTERM",
            "stdout_lines": 1, "stderr_lines": 0, "undelivered_bytes": 1, "leaked": true,
            "leftover": [7], "limit": "cpu", "duration": 3, "record_error": "x", "dropped_bytes": 1,
            "dropped_chunks": 1, "usage": {"user": 1, "system": 0, "max_rss": 1}, "result": [null],
            "error": {"code": "output_failed", "message": "x"}}),
        ),
    ]
}

#[test]
fn the_schema_is_the_one_that_the_types_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let generated =
        format!("{}\n", serde_json::to_string_pretty(&events()).expect("it is plain data"));
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &generated).unwrap_or_else(|error| panic!("{FILE}: {error}"));
    }
    let stored = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{FILE}: {error}"));
    assert!(stored == generated, "{FILE} is old: run the tests once with BLESS=1");
}

#[test]
fn the_schema_keeps_to_its_own_draft() {
    let schema = events();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    if let Err(error) = jsonschema::meta::validate(&schema) {
        panic!("{error}");
    }
}

#[test]
fn every_field_of_the_schema_is_described() {
    fn check(place: &str, schema: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}.{name}");
            let is_described = field["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(name == "op" || is_described, "{place} is not");
            check(&place, field);
        }
    }
    let schema = events();
    for (name, definition) in schema["$defs"].as_object().expect("there are definitions") {
        assert!(definition["description"].is_string(), "{name} is not");
        check(name, definition);
    }
}

#[test]
fn an_event_passes_with_exactly_the_fields_that_are_always_there() {
    for event in one_of_each() {
        assert_eq!(own_fault(&event), None, "{event}");
        let definition = definition(&events(), &event["op"]);
        let required = definition["required"].as_array().expect("some are");
        let all = definition["properties"].as_object().expect("there are some");
        for name in all.keys() {
            let mut without = event.clone();
            let removed = without.as_object_mut().and_then(|fields| fields.remove(name));
            assert!(removed.is_some(), "the example lacks {name}: {event}");
            let is_required = required.contains(&json!(name));
            assert_eq!(fault(&without).is_some(), is_required, "without {name}: {without}");
            if !is_required && !takes_anything(&all[name]) {
                let mut with_null = event.clone();
                with_null[name] = Value::Null;
                assert!(fault(&with_null).is_some(), "null for {name}: {with_null}");
            }
        }
    }
}

#[test]
fn an_event_with_a_value_of_another_type_does_not_pass() {
    for event in one_of_each() {
        for (name, value) in event.as_object().expect("it is one") {
            if takes_anything(&definition(&events(), &event["op"])["properties"][name]) {
                continue;
            }
            let mut corrupt = event.clone();
            // Of no field's type, nor are its items those of a list; and a number for a text.
            let others = [json!([[]]), if value.is_string() { json!(7) } else { json!("?") }];
            for other in others {
                corrupt[name] = other;
                assert!(fault(&corrupt).is_some(), "{name}: {corrupt}");
            }
        }
    }
}

#[test]
fn a_word_that_there_is_not_does_not_pass() {
    let result = one_of_each().pop().expect("there is one");
    for (path, word) in [
        ("/stopped_by", "boredom"),
        ("/limit", "stack"),
        ("/error/code", "unlucky"),
        ("/op", "end"),
        ("/signal", "TERM"),
    ] {
        let mut corrupt = result.clone();
        *corrupt.pointer_mut(path).expect("the result has it") = json!(word);
        assert!(fault(&corrupt).is_some(), "{path}: {corrupt}");
    }
}

#[test]
fn readers_pass_over_a_field_that_they_do_not_know_and_runcast_writes_none() {
    for mut event in one_of_each() {
        event["more"] = json!(1);
        assert_eq!(fault(&event), None, "{event}");
        assert!(own_fault(&event).is_some(), "{event}");
    }
}

#[test]
#[should_panic(expected = "not by the schema: /v: ")]
fn a_corrupt_event_in_what_a_run_writes_fails_its_test() {
    let event =
        r#"{"op":"started","v":2,"id":"a","pid":1,"cwd":"/","time":"2026-11-30T12:00:00.000000Z"}"#;
    runcast("").command(["echo", event]).run();
}

#[test]
fn what_is_recorded_and_a_result_in_a_file_keep_to_the_schema() {
    let folder = scratch();
    let (record, result) = (folder.path().join("record"), folder.path().join("result"));
    let ran = ndjson("--meta a=b --record").arg(&record).arg("--result").arg(&result);
    let ran = ran.puppet("say:one say:\\xff err:two").run().exited(0);
    let recorded = events_in(&record);
    assert_eq!(recorded.len(), ran.events().len());
    assert_eq!(result_in(&result)["exit_code"], 0);
}
