//! What the peers that are languages are given to run.

/// For mawk, a filter: the same kind of object as a chunk of runcast. It has no clock, and what is not UTF-8
/// it passes as it is. Of the control characters it escapes those that the generator makes.
pub(crate) const MAWK: &str = r#"
/["\\\t\033]/ {
    gsub(/\\/, "\\\\&"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/\033/, "\\u001b")
}
{ printf "{\"op\":\"chunk\",\"kind\":\"stdout\",\"seq\":%d,\"t\":0,\"content\":\"%s\\n\"}\n", NR, $0 }
"#;

/// For `jq -Rc`, a filter: the same, with a clock.
pub(crate) const JQ: &str =
    r#"{op: "chunk", kind: "stdout", seq: input_line_number, t: now, content: (. + "\n")}"#;

/// For Python, a wrapper, its first argument `text` or `json`: what most programs that stream a command's
/// output do. A thread for each pipe reads lines into one queue; the main thread takes them out.
pub(crate) const PYTHON: &str = r"
import json, queue, subprocess, sys, threading, time

as_json = sys.argv[1] == 'json'
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
lines = queue.Queue()

def read(kind, pipe):
    for line in iter(pipe.readline, b''):
        lines.put((kind, line, time.time()))
    lines.put((kind, None, None))

for kind, pipe in (('stdout', child.stdout), ('stderr', child.stderr)):
    threading.Thread(target=read, args=(kind, pipe), daemon=True).start()

out = sys.stdout.buffer
streams, seq = 2, 0
while streams:
    kind, line, at = lines.get()
    if line is None:
        streams -= 1
        continue
    seq += 1
    if as_json:
        content = line.decode('utf-8', 'replace')
        chunk = {'op': 'chunk', 'kind': kind, 'seq': seq, 't': at, 'content': content}
        line = json.dumps(chunk).encode() + b'\n'
    out.write(line)
    if lines.empty():
        out.flush()
out.flush()
sys.exit(child.wait())
";

/// For Python, a wrapper: the shortest way to run a command and have its output.
pub(crate) const PYTHON_ONCE: &str = "
import subprocess, sys
sys.exit(subprocess.run(sys.argv[1:], capture_output=True).returncode)
";

/// For node, a wrapper: the same.
pub(crate) const NODE_ONCE: &str = "
const [program, ...words] = process.argv.slice(1);
const child = require('child_process').spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
child.stdout.resume();
child.stderr.resume();
child.on('close', (code) => { process.exitCode = code; });
";
