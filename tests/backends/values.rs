//! What goes in and comes out is the value itself, as it was written, and nothing that is no JSON.

use serde_json::json;

use super::{callable, node, python, threw, value, without_value, write};
use crate::harness::{ndjson, scratch, tool};

#[test]
fn modules_are_called_with_the_input() {
    let input = r#"--input {"a":1,"b":41}"#;
    let js = "export default async ({a, b}) => { console.log('working'); return {sum: a + b} }";
    let py = "def main(x):\n    print('working')\n    return {'sum': x['a'] + x['b']}\n";
    for run in [node(input, js), python(input, py)].into_iter().flatten() {
        let ran = run.run().exited(0);
        assert_eq!(value(&ran), &json!({"sum": 42}));
        assert_eq!(ran.contents("stdout"), ["working\n"]);
        assert_eq!(ran.result().names().last(), Some(&"result"), "it stands last: {ran}");
    }
}

#[test]
fn null_false_and_empty_are_values_and_undefined_is_none() {
    for (js, py, expected) in [
        ("null", "None", json!(null)),
        ("false", "False", json!(false)),
        ("0", "0", json!(0)),
        ("''", "''", json!("")),
        ("[]", "[]", json!([])),
        ("{a: [undefined], b: undefined}", "{'a': (None,)}", json!({"a": [null]})),
    ] {
        let js = format!("export default () => ({js})");
        let py = format!("def main(x): return {py}");
        for run in [node("--input 1", &js), python("--input 1", &py)].into_iter().flatten() {
            assert_eq!(value(&run.run().exited(0)), &expected, "{js}");
        }
    }
    for js in ["export default () => undefined", "export default () => {}", ""] {
        if let Some(run) = node("--input 1", js) {
            without_value(run.run(), 0);
        }
    }
}

#[test]
fn a_value_is_carried_as_it_was_written_and_on_one_line() {
    let input =
        r#"{"z":12345678901234567890123,"a":[1e400,-0,0.10],"z":"\ud800\/ \"\u00e9","é":" "}"#;
    let copy = r#"cp "$RUNCAST_INPUT" "$RUNCAST_RESULT""#;
    let ran = ndjson("--callable --input").arg(input).command(["sh", "-c", copy]).run().exited(0);
    assert!(ran.out().ends_with(&format!(",\"result\":{input}}}\n")), "{ran}");
    let script = r#"printf '\357\273\277 {\r\n"b" :\t[ 1.0 ,\n2 ] }\n\n' > "$RUNCAST_RESULT""#;
    let ran = callable("", script).run().exited(0);
    assert!(ran.out().ends_with(",\"result\":{\"b\":[1.0,2]}}\n"), "{ran}");
}

#[test]
fn whole_numbers_in_python_keep_every_digit() {
    let digits = "7".repeat(6000);
    let Some(run) = python(&format!("--input [{digits}]"), "def main(x): return x[0] * 10") else {
        return;
    };
    let ran = run.run().exited(0);
    assert!(ran.out().ends_with(&format!(",\"result\":{digits}0}}\n")), "{ran}");
}

#[test]
fn text_comes_through_in_both_directions() {
    let text = "é \u{2028}\u{1f600} \"\\ \u{7f}\n";
    let input = serde_json::to_string(text).expect("a text is JSON");
    for run in [
        tool("node").map(|_| ("node", "export default (x) => x + 'ü'")),
        tool("python3").map(|_| ("python", "def main(x): return x + 'ü'")),
    ]
    .into_iter()
    .flatten()
    {
        let (backend, source) = run;
        let run = ndjson(&format!("--backend {backend} --input")).arg(&input).command([source]);
        assert_eq!(value(&run.run().exited(0)), &json!(format!("{text}ü")), "{backend}");
    }
    let lone = "def main(x): return '\\ud800'";
    if let Some(run) = python("--input 1", lone) {
        // A reader that is strict about pairs cannot take it, so it is looked for as it was written.
        assert!(run.run().exited(0).out().ends_with(",\"result\":\"\\ud800\"}\n"));
    }
}

#[test]
fn a_value_that_is_no_json_is_an_exception_that_says_where() {
    for (expression, words) in [
        ("NaN", "it is NaN"),
        ("({a: [1, {b: -Infinity}]})", "a.1.b is -Infinity"),
        ("[() => 1]", "0 is a function"),
        ("5n", "it is a BigInt"),
        ("({s: Symbol('x')})", "s is a Symbol"),
        ("new Set([1])", "it is a Set"),
        ("[new Map()]", "0 is a Map"),
        ("[Promise.resolve(1)]", "0 is a Promise"),
        ("new Error('x')", "it is a Error"),
        ("new Uint8Array(2)", "it is a Uint8Array"),
        ("({a: new Number(NaN)})", "a is NaN"),
        ("[Object(-Infinity)]", "0 is -Infinity"),
        ("({a: [new Date(NaN)]})", "a.0 is an invalid Date"),
        ("({a: [Object(1n)]})", "a.0 is a BigInt"),
        ("Object(Symbol('q'))", "it is a Symbol"),
        ("new WeakRef({})", "it is a WeakRef"),
        ("({b: new Blob(['x'])})", "b is a Blob"),
        ("new URLSearchParams('a=1')", "it is a URLSearchParams"),
        ("(() => { const a = {b: []}; a.b.push(a); return a })()", "b.0 is one that it is in"),
    ] {
        let source = format!("export default () => {expression}");
        if let Some(run) = node("", &source) {
            threw(run.run(), &format!("TypeError: the value is not JSON: {words}"));
        }
    }
    for (expression, words) in [
        ("float('nan')", "ValueError: the module's value is not JSON: Out of range"),
        ("[float('-inf')]", "ValueError: the module's value is not JSON: Out of range"),
        ("{1, 2}", "TypeError: the module's value is not JSON: Object of type set"),
        ("main", "TypeError: the module's value is not JSON: Object of type function"),
        ("{(1, 2): 3}", "TypeError: the module's value is not JSON: keys must be"),
        ("cycle()", "ValueError: the module's value is not JSON: Circular"),
    ] {
        let source = format!(
            "def cycle():\n    a = []\n    a.append(a)\n    return a\ndef main(): return {expression}"
        );
        if let Some(run) = python("", &source) {
            threw(run.run(), words);
        }
    }
}

#[test]
fn objects_of_any_class_are_what_can_be_seen_of_them() {
    for (expression, expected) in [
        ("new Number(7)", json!(7)),
        (
            "[Object('x'), Object(false), new Date(0)]",
            json!(["x", false, "1970-01-01T00:00:00.000Z"]),
        ),
        ("new (class A { a = 1; #b = 2 })()", json!({"a": 1})),
        ("new (class {})()", json!({})),
        ("Object.create(null)", json!({})),
        ("new URL('http://a/b')", json!("http://a/b")),
        ("new (class { get [Symbol.toStringTag]() { return 'T' } a = [] })()", json!({"a": []})),
        ("((...all) => all)(1, {})", json!([1, {}])),
    ] {
        if let Some(run) = node("", &format!("export default () => ({expression})")) {
            assert_eq!(value(&run.run().exited(0)), &expected, "{expression}");
        }
    }
}

#[test]
fn the_same_object_twice_is_no_cycle() {
    let source = "export default () => { const a = {n: 1}; return [a, {a}, [a, [a]]] }";
    if let Some(run) = node("", source) {
        let n = json!({"n": 1});
        assert_eq!(value(&run.run().exited(0)), &json!([n, {"a": n}, [n, [n]]]));
    }
}

#[test]
fn values_and_sources_of_several_megabytes_go_through() {
    let folder = scratch();
    let text = "x\u{e9}".repeat(1 << 20);
    let input = format!("@{}", write(folder.path(), "i.json", json!([text]).to_string()));
    let filler = format!("// {}\n", "f".repeat(100)).repeat(40_000);
    let js = write(folder.path(), "big.js", format!("{filler}export default ([x]) => x + x"));
    let py = filler.replace("//", "#") + "def main(x): return x[0] + x[0]";
    let py = write(folder.path(), "big.py", py);
    for (program, backend, source) in [("node", "node", js), ("python3", "python", py)] {
        let Some(_) = tool(program) else { continue };
        let run = ndjson(&format!("--backend {backend} --input")).arg(&input);
        let ran = run.command([format!("@{source}")]).run().exited(0);
        assert_eq!(value(&ran).as_str().map(str::len), Some(text.len() * 2), "{backend}");
        let argv = &ran.events()[0]["argv"];
        assert_eq!(argv, &json!([format!("@{source}")]), "as it was given");
    }
}
