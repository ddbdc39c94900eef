//! Modules for node and Python: what is called, what they can import, what they say when they fail.

use std::fs;

use serde_json::json;

use super::{callable, node, python, threw, value, without_value, write};
use crate::harness::{Runcast, ndjson, runcast, scratch, tool};

#[test]
fn an_exception_is_status_1_with_the_modules_own_stack() {
    for (source, words, place) in [
        ("\nexport default () => { throw new Error('boom') }", "Error: boom", "[module]:2:30"),
        ("export default async () => { await 1;\nnull.x }", "TypeError:", "[module]:2:6"),
        ("throw new RangeError('early')", "RangeError: early", "[module]:1:7"),
        ("\n\nlet x = ;", "SyntaxError", "[module]:3"),
        ("import 'no-such-package'", "ERR_MODULE_NOT_FOUND", "[module]"),
        (
            "export default () => ({toJSON() { throw new Error('in it') }})",
            "in it",
            "[module]:1:41",
        ),
    ] {
        if let Some(run) = node("--input 1", source) {
            let ran = threw(run.run(), words);
            assert!(ran.result().text("stderr").contains(place), "{place}: {ran}");
        }
    }
    for (source, words, place) in [
        ("\ndef main(x): raise ValueError('boom')", "ValueError: boom", "line 2, in main"),
        ("async def main(x):\n    return x.y", "AttributeError", "line 2, in main"),
        ("1 / 0", "ZeroDivisionError", "line 1, in <module>"),
        ("\n\nlet x = ;", "SyntaxError", "line 3"),
        ("import no_such_module", "ModuleNotFoundError", "line 1"),
    ] {
        if let Some(run) = python("--input 1", source) {
            let ran = threw(run.run(), words);
            let stderr = ran.result().text("stderr");
            assert!(stderr.contains(&format!("\"[module]\", {place}")), "{place}: {ran}");
            // The lines of the source, and none of what called it.
            assert!(
                stderr.contains(source.trim().lines().next_back().unwrap_or_default()),
                "{ran}"
            );
            assert!(!stderr.contains("start.py") && !stderr.contains("asyncio"), "{ran}");
        }
    }
}

#[test]
fn a_module_without_a_function_gives_what_it_exports() {
    for (source, expected) in [
        ("export default {a: 1}", json!({"a": 1})),
        ("export default await Promise.resolve([7])", json!([7])),
        ("export default Promise.resolve(7)", json!(7)),
    ] {
        for options in ["", "--input 1"] {
            if let Some(run) = node(options, source) {
                assert_eq!(value(&run.run().exited(0)), &expected, "{source}");
            }
        }
    }
    let misnamed = "export const main = (x) => x";
    if let Some(run) = node("", misnamed) {
        without_value(run.run(), 0);
    }
    if let Some(run) = node("--input 1", misnamed) {
        threw(run.run(), "no default export");
    }
    for source in ["", "main = 5", "print('hi')"] {
        if let Some(run) = python("", source) {
            without_value(run.run(), 0);
        }
        if let Some(run) = python("--input 1", source) {
            threw(run.run(), "no function main");
        }
    }
}

#[test]
fn without_input_there_is_no_variable_and_no_argument() {
    let seen = "[process.env.RUNCAST_INPUT === undefined, x === undefined]";
    let source = format!("export default (x) => {seen}");
    // A run inside a run does not see the outer one's input.
    let outer = |run: Runcast| run.env("RUNCAST_INPUT", "/outer").env("RUNCAST_RESULT", "/outer");
    if let Some(run) = node("", &source) {
        assert_eq!(value(&outer(run).run().exited(0)), &json!([true, true]));
    }
    for (parameters, expected) in [("", "()"), ("x", "(None,)"), ("x=5", "(5,)"), ("*x", "((),)")] {
        let name = parameters.trim_matches('*').split('=').next().unwrap_or_default();
        let comma = if name.is_empty() { "" } else { "," };
        let source = format!(
            "import os\ndef main({parameters}): return repr(({name}{comma})), 'RUNCAST_INPUT' in os.environ"
        );
        if let Some(run) = python("", &source) {
            assert_eq!(value(&outer(run).run().exited(0)), &json!([expected, false]), "{source}");
        }
    }
    let ran = callable("", "echo \"${RUNCAST_INPUT-none}\"").env("RUNCAST_INPUT", "/outer").run();
    assert_eq!(ran.contents("stdout"), ["none\n"]);
    // What is not callable passes on what it was given, as any wrapper.
    let ran = runcast("").env("RUNCAST_INPUT", "/outer").puppet("report:env:RUNCAST_INPUT").run();
    assert_eq!(ran.out(), "/outer\n");
}

#[test]
fn a_module_imports_from_beside_its_file() {
    let (folder, elsewhere) = (scratch(), scratch());
    let at = folder.path();
    write(at, "lib/near.mjs", "export const near = 'beside'");
    write(at, "lib/near.py", "near = 'beside'");
    write(at, "lib/node_modules/pack/package.json", r#"{"name":"pack","main":"i.js"}"#);
    write(at, "lib/node_modules/pack/i.js", "module.exports = {pack: 'a package'}");
    let js = "import { near } from './near.mjs'; import pack from 'pack'; import { basename } from 'node:path';
        export default () => [near, pack.pack, basename(import.meta.url), process.argv.slice(1).map((x) => basename(x))]";
    let py = "import near, os, sys
def main(): return [near.near, os.path.basename(__file__), __name__, [os.path.basename(x) for x in sys.argv]]";
    // The file is the starter's, the folder to start in the command's.
    for name in ["mod.mjs", "mod.js", "mod.cjs", "mod", "ä b%20#?.txt"] {
        write(at, &format!("lib/{name}"), js);
        let Some(_) = tool("node") else { break };
        let run = ndjson("--backend node -C").arg(elsewhere.path());
        let ran =
            run.command([&format!("@lib/{name}"), "one two", "-x"]).within(at).run().exited(0);
        let url = value(&ran)[2].as_str().unwrap_or_default().to_owned();
        assert_eq!(value(&ran), &json!(["beside", "a package", url, [name, "one two", "-x"]]));
        assert!(name.starts_with('ä') || url == name, "{url}");
    }
    for (name, module) in
        [("mod.py", "mod"), ("json.py", "runcast_module"), ("a-b.txt", "runcast_module")]
    {
        write(at, &format!("lib/{name}"), py);
        let Some(_) = tool("python3") else { break };
        let run = ndjson("--backend python -C").arg(elsewhere.path());
        let ran =
            run.command([&format!("@lib/{name}"), "one two", "-x"]).within(at).run().exited(0);
        assert_eq!(value(&ran), &json!(["beside", name, module, [name, "one two", "-x"]]));
    }
    write(at, "lib/bad.py", "\ndef main():\n    raise ValueError('x')");
    if tool("python3").is_some() {
        let ran = ndjson("--backend python").command(["@lib/bad.py"]).within(at).run();
        threw(ran, &format!("File \"{}\", line 3, in main", at.join("lib/bad.py").display()));
    }
}

#[test]
fn a_source_on_the_command_line_imports_from_where_it_is_started() {
    let folder = scratch();
    let at = folder.path();
    write(at, "near.mjs", "export const near = 'beside'");
    write(at, "near.py", "near = 'beside'");
    write(at, "node_modules/pack/package.json", r#"{"name":"pack","exports":"./i.mjs"}"#);
    write(at, "node_modules/pack/i.mjs", "export default 'a package'");
    let js = "import { near } from './near.mjs'; import pack from 'pack'; import fs, { existsSync } from 'fs';
        const late = await import('./near.mjs');
        export default () => [near, pack, existsSync('near.py'), late.near, import.meta.url.endsWith('/[module]')]";
    if node("-C", "").is_some() {
        let run = ndjson("--backend node -C").arg(at).command([js]);
        assert_eq!(
            value(&run.run().exited(0)),
            &json!(["beside", "a package", true, "beside", true])
        );
    }
    if tool("python3").is_some() {
        let py = "import near, sys\ndef main(): return near.near, sys.argv, __name__, '__file__' in globals()";
        let run = ndjson("--backend python -C").arg(at).command([py, "x"]);
        let expected = json!(["beside", ["[module]", "x"], "runcast_module", false]);
        assert_eq!(value(&run.run().exited(0)), &expected);
    }
}

#[test]
fn source_and_input_come_from_files_and_from_standard_input() {
    let folder = scratch();
    let input = format!("@{}", write(folder.path(), "i.json", "\u{feff}{\"a\":\r\n[1,2]}\n"));
    let source = write(folder.path(), "m.py", "def main(x): return x['a'][::-1]");
    let Some(_) = tool("python3") else { return };
    let run = ndjson("--backend python --input").arg(&input).command([&format!("@{source}")]);
    assert_eq!(value(&run.run().exited(0)), &json!([2, 1]));
    // Standard input is taken for the value, and the command has none of it.
    let py = "import sys\ndef main(x): return x, sys.stdin.read()";
    let run = ndjson("--backend python --input -").command([py]).input("[1,\n2]\n");
    assert_eq!(value(&run.run().exited(0)), &json!([[1, 2], ""]));
    let run = ndjson("--backend python --input - --stdin").arg(&source).command([py]).input("1");
    let own = fs::read_to_string(&source).expect("it is there");
    assert_eq!(value(&run.run().exited(0)), &json!([1, own]));
    // A pipe is no file with neighbours.
    let run =
        ndjson("--backend python").command(["@/dev/stdin"]).input("def main(): return __name__");
    assert_eq!(value(&run.run().exited(0)), &json!("runcast_module"));
    let run =
        ndjson("--backend python").command(["import sys\ndef main(): return sys.stdin.read()"]);
    assert_eq!(value(&run.input("own").run().exited(0)), &json!("own"));
}

#[test]
fn odd_sources_are_what_their_interpreter_makes_of_them() {
    let folder = scratch();
    for (name, source) in [
        ("bom.js", "\u{feff}export default () => 'ok'"),
        ("crlf.js", "#!/usr/bin/env node\r\n// é\r\nexport default () =>\r\n  'ok'\r\n"),
        ("bom.py", "\u{feff}def main(): return 'ok'"),
        ("crlf.py", "#!/usr/bin/env python3\r\n# é\r\ndef main():\r\n    return 'ok'\r\n"),
    ] {
        let path = write(folder.path(), name, source);
        let (program, backend) =
            if name.ends_with("js") { ("node", "node") } else { ("python3", "python") };
        let Some(_) = tool(program) else { continue };
        let run = ndjson(&format!("--backend {backend}")).command([format!("@{path}")]);
        assert_eq!(value(&run.run().exited(0)), &json!("ok"), "{name}");
    }
    let latin = b"# -*- coding: latin-1 -*-\ndef main(): return '\xe9'\n";
    let path = write(folder.path(), "latin.py", latin);
    if tool("python3").is_some() {
        let run = ndjson("--backend python").command([format!("@{path}")]);
        assert_eq!(value(&run.run().exited(0)), &json!("é"));
    }
}

#[test]
fn a_module_that_ends_midway_has_its_own_status_and_returns_nothing() {
    for code in [0, 7] {
        let js = format!("export default () => {{ process.exit({code}); return 1 }}");
        if let Some(run) = node("--input 1", &js) {
            without_value(run.run(), code);
        }
        let py = format!("import sys\ndef main(x):\n    sys.exit({code})\n    return 1");
        if let Some(run) = python("--input 1", &py) {
            without_value(run.run(), code);
        }
    }
    let js = "export default () => new Promise(() => {})";
    if let Some(run) = node("", js) {
        let ran = without_value(run.run(), 13);
        assert!(ran.result().text("stderr").contains("never settles"), "{ran}");
    }
    let js = "setTimeout(() => { throw new Error('late') }, 50); export default () => 1";
    if let Some(run) = node("", js) {
        threw(run.run(), "late");
    }
    if let Some(run) = python("", "raise KeyboardInterrupt") {
        assert_eq!(without_value(run.run(), 130).result()["signal"], "SIGINT");
    }
}

#[test]
fn lines_are_seen_when_they_are_printed() {
    let folder = scratch();
    let go = write(folder.path(), "go", "");
    fs::remove_file(&go).expect("it is there");
    let js = format!(
        "import fs from 'fs'; export default async () => {{ console.log('first');
         while (!fs.existsSync('{go}')) await new Promise((r) => setTimeout(r, 5)); return 1 }}"
    );
    let py = format!(
        "import os, time\ndef main():\n    print('first')\n    while not os.path.exists('{go}'): time.sleep(.005)\n    return 1"
    );
    for run in [node("", &js), python("", &py)].into_iter().flatten() {
        let mut live = run.start();
        live.shows("first");
        fs::write(&go, "").expect("the scratch folder is ours");
        assert_eq!(value(&live.finish().exited(0)), &json!(1));
        fs::remove_file(&go).expect("it is there");
    }
}

#[test]
fn a_module_may_print_megabytes() {
    let js = "export default () => { for (let i = 0; i < 100000; i++) console.log('some text on a line'); return 1 }";
    let py = "def main():\n    for i in range(100000): print('some text on a line')\n    return 1";
    for run in [node("-q", js), python("-q", py)].into_iter().flatten() {
        let ran = run.run().exited(0);
        assert_eq!((value(&ran), ran.result().number("stdout_lines")), (&json!(1), 100_000));
    }
}
