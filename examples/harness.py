#!/usr/bin/env python3
"""Runs a command through runcast, shows its lines live, aborts it when told to, and returns the result.

    harness.py [--abort-at TEXT] COMMAND [ARG]...

It ends with the status of the run. No other package than Python's own is needed.
"""
import asyncio
import json
import sys


async def run(command, on_line, runcast="runcast", options=()):
    """Returns the result of the run, an object; raises if the outcome is unknown.

    `on_line(kind, text)` is called for each line, and may return True to abort the run.
    """
    process = await asyncio.create_subprocess_exec(
        runcast, "-f", "ndjson", *options, "--", *command,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        # A line is as long as --max-line and --max-output let it be, not 64 KiB.
        limit=64 << 20)
    result = None
    async for line in process.stdout:
        event = json.loads(line)
        # Whatever else there is may be passed over.
        if event["op"] == "chunk" and on_line(event["kind"], event["content"]):
            # runcast passes TERM on, and KILL follows where it has to; the result comes all the same.
            process.terminate()
        elif event["op"] == "result":
            result = event
    await process.wait()
    if result is None:
        raise RuntimeError("runcast was killed: what became of the command is unknown")
    return result


async def main(words):
    abort_at = None
    if words[:1] == ["--abort-at"]:
        abort_at, words = words[1], words[2:]

    def on_line(kind, text):
        print(f"{kind}: {text}", end="" if text.endswith("\n") else "\n", flush=True)
        return abort_at is not None and abort_at in text

    result = await run(words, on_line)
    error = result.get("error", {}).get("message")
    print("result:", error or f"exit code {result['exit_code']}, signal {result['signal']}, "
          f"stopped by {result['stopped_by']}, {result['duration']:.1f} s", file=sys.stderr)
    return result["status"]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
