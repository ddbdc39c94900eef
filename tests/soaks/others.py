"""Values in and out of a callable backend; and command lines that are refused, or whose command cannot be run."""

import json
import os

from soaks import contract
from soaks.foreground import READ
from soaks.world import PATIENCE, Process


class Callable:
    """A value goes in, the same or another comes back."""

    def __init__(self, rng, soak, place):
        self.rng, self.soak, self.place = rng, soak, place
        self.findings = contract.Findings()

    def value(self, depth=3):
        rng = self.rng
        kinds = ["number", "text", "word"] + (["list", "object"] if depth else [])
        kind = rng.choice(kinds)
        if kind == "number":
            return rng.choice([0, -1, 3.5, 10**30, rng.randint(-(10**9), 10**9)])
        if kind == "text":
            return "".join(rng.choices("ab \"\\\n\täö字😀\0\u2028/", k=rng.randint(0, 30)))
        if kind == "word":
            return rng.choice([True, False, None])
        if kind == "list":
            return [self.value(depth - 1) for _ in range(rng.randint(0, 4))]
        return {f"k{i}": self.value(depth - 1) for i in range(rng.randint(0, 4))}

    def run(self):
        rng, place, findings = self.rng, self.place, self.findings
        value = self.value()
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
        how = rng.choice(["python", "python file", "callable", "shell"])
        ending = rng.choice(["value", "value", "value", "raise", "exit", "no json", "nothing", "large", "timeout"])
        words = [self.soak.bin, "-f", rng.choice(["ndjson", "snapshot", "text"]),
                 "--result", place.path("out", "result.json")]
        stdin = None
        given = rng.choice(["word", "file", "stdin"])
        if given == "word" and "\0" not in text:
            words += ["--input", text]
        elif given == "stdin":
            words += ["--input", "-"]
            stdin = text.encode()
        else:
            words += ["--input", "@" + place.write("value", text.encode())]
        if ending == "large":
            words += ["--max-result", "10"]
        if ending == "timeout":
            words += ["-t", "0.6", "-k", "0.2"]
        if how.startswith("python"):
            source = self.module(ending)
            command = ["@" + place.write("module.py", source)] if how == "python file" else [source]
            words += ["--backend", "python", "--", *command]
        else:
            script = self.script(ending)
            words += ["--callable", *(["--shell", "--", script] if how == "shell" else ["--", "sh", "-c", script])]
        self.soak.tell(place, words)
        process = Process(words, place, stdin=stdin)
        code = process.finish(PATIENCE)
        process.close_readers(PATIENCE)
        result = json.loads(place.read("out/result.json") or b"{}", parse_float=str, parse_int=str)
        plain = json.loads(place.read("out/result.json") or b"{}")
        contract.status(findings, code, plain)
        has_value = ending == "value" or ending == "nothing" and how.startswith("python")
        findings.equal(f"{ending}: result is there", "result" in plain, has_value)
        if ending == "value":
            findings.equal("the value", result.get("result"), json.loads(text, parse_float=str, parse_int=str))
        expected = {"no json": "result_invalid", "large": "result_too_large"}.get(ending)
        if ending == "no json" and how.startswith("python"):
            expected = None
        findings.equal("error", plain.get("error", {}).get("code"), expected)
        codes = {"value": 0, "nothing": 0, "raise": 1, "exit": 7, "timeout": 124, "large": 125, "no json": 125}
        if how.startswith("python"):
            codes["no json"] = 1
        findings.equal(f"{how}, {ending}: status", code, codes[ending])
        # On a busy machine its time may be over before it has begun.
        outputs = ["printed\n", ""] if ending == "timeout" else ["printed\n"]
        findings.one_of("standard output of the module", plain.get("stdout"), outputs)
        findings.equal("alive after the end", place.is_quiet(PATIENCE), [])
        findings.equal("files left in TMPDIR", os.listdir(place.path("tmp")), [])
        return findings

    @staticmethod
    def module(ending):
        body = {
            "value": "return value", "raise": "raise ValueError('no')", "exit": "import sys; sys.exit(7)",
            "no json": "return float('nan')", "nothing": "return None", "large": "return 'x' * 100",
            "timeout": "import time; time.sleep(60)",
        }[ending]
        return f"def main(value):\n    print('printed')\n    {body}\n"

    @staticmethod
    def script(ending):
        body = {
            "value": 'cat "$RUNCAST_INPUT" >"$RUNCAST_RESULT"', "raise": "echo 1 >$RUNCAST_RESULT; exit 1",
            "exit": "echo 1 >$RUNCAST_RESULT; exit 7", "no json": "echo '{' >$RUNCAST_RESULT", "nothing": ":",
            "large": "echo 12345678901234567890 >$RUNCAST_RESULT",
            "timeout": "echo 1 >$RUNCAST_RESULT; exec sleep 60",
        }[ending]
        return f"echo printed; {body}"


class Refused:
    """Nothing is started, and that is told in one line, and where it may be in a result."""

    def __init__(self, rng, soak, place):
        self.rng, self.soak, self.place = rng, soak, place
        self.findings = contract.Findings()

    def run(self):
        rng, place, findings = self.rng, self.place, self.findings
        touch = ["touch", place.path("child", "ran")]
        words, code, error = rng.choice([
            (["--", "/nowhere/at-all"], 127, "not_found"),
            (["--", "no-such-command-anywhere"], 127, "not_found"),
            (["--", ""], 127, "not_found"),
            (["--", place.path("out")], 126, "not_executable"),
            (["--", place.write("plain", "text")], 126, "not_executable"),
            (["-C", "/nowhere", "--", *touch], 125, "chdir_failed"),
            (["--stdin", "/nowhere/in", "--", *touch], 125, "file_failed"),
            (["--env-file", "/nowhere/env", "--", *touch], 125, "file_failed"),
            (["--mask-file", "/nowhere/secrets", "--", *touch], 125, "file_failed"),
            (["--record", "/nowhere/rec", "--", *touch], 125, "file_failed"),
            (["--result", "/nowhere/result", "--", *touch], 125, "file_failed"),
            (["--result", "fd:77", "--", *touch], 125, "file_failed"),
            (["--input", "{", "--callable", "--", *touch], 125, "input_invalid"),
            (["--input", "1", "--", *touch], 125, "backend_not_callable"),
            (["--backend", "cobol", "--", *touch], 125, "backend_unknown"),
            (["-t", "soon", "--", *touch], 125, None),
            (["--no-such-option", "--", *touch], 125, None),
            (["-s", "SIGNAL", "--", *touch], 125, None),
            (["-r", "cpu=x", "--", *touch], 125, None),
            (["--max-line", "3", "--", *touch], 125, None),
            (["--split", "tab", "--", *touch], 125, None),
            (["--size", "80", "--", *touch], 125, None),
            (["-d", "--on-lag", "drop", "--", *touch], 125, None),
            (["-d", "--result", "-", "--", *touch], 125, None),
            ([], 125, None),
        ])
        fmt = rng.choice(["text", "ndjson", "snapshot", "cri", "log", "logfmt"])
        argv = [self.soak.bin, "-f", fmt, *words]
        self.soak.tell(place, argv)
        process = Process(argv, place)
        findings.equal("status", process.finish(PATIENCE), code)
        process.close_readers(PATIENCE)
        lines = process.stderr.decode("utf-8", "replace").splitlines()
        findings.equal("lines on standard error", len(lines), 1 if error else 2)
        findings.true("standard error", lines and lines[0].startswith("runcast: "), lines)
        findings.equal("the command was started", os.path.exists(place.path("child", "ran")), False)
        if error is None or fmt in ("text", "cri"):
            findings.equal("standard output", process.stdout, b"")
        else:
            seen = READ[fmt](process.stdout)
            findings.equal("lines on standard output", len(seen.events), 1)
            if fmt in ("ndjson", "snapshot"):
                problems = [one for one in seen.problems if "first" not in one]
                findings.equal("the result", problems, [])
                result = json.loads(process.stdout)
                contract.status(findings, code, result)
                findings.equal("error", result["error"]["code"], error)
                findings.equal("message", f"runcast: {result['error']['message']}", lines[0])
        findings.equal("alive after the end", place.is_quiet(PATIENCE), [])
        findings.equal("files left in TMPDIR", os.listdir(place.path("tmp")), [])
        return findings
