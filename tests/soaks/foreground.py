"""A run in the foreground: random options, a random command, a random reader, signals; and what has to hold."""

import json
import os
import signal
import threading
import time

from soaks import contract, shown
from soaks.looks import Looks
from soaks.plan import Plan
from soaks.world import PATIENCE, Process, describe, kill, state, wait_for

READ = {"ndjson": shown.read_events, "snapshot": shown.read_events, "cri": shown.read_cri, "log": shown.read_log,
        "logfmt": shown.read_logfmt}
# At the end of a run whose command ends by itself these leave it as it is, unless the command says otherwise.
MILD = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH]
HARD = [signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]


class Foreground:
    is_far = False

    def __init__(self, rng, soak, place):
        self.rng, self.soak, self.place = rng, soak, place
        self.findings = contract.Findings()
        self.options = []
        self.causes = set()
        self.fds = []
        self.choose()

    # What is run.

    def choose(self):
        rng = self.rng
        self.looks = looks = Looks(rng)
        looks.of_run()
        looks.of_text()
        self.how = rng.choices(
            ["fast", "odd", "slow", "stall", "close", "close early", "never", "file", "full", "closed"],
            [45, 12, 8, 10, 7, 2, 4, 6, 3, 3])[0]
        most = {"slow": 200000, "odd": 20000, "never": 30000}.get(self.how)
        if looks.format == "snapshot":
            most = 300000
        self.plan = plan = Plan(rng, looks.strips, looks.secret and looks.secret.encode(), most)
        self.limits()
        self.upkeep()
        self.destinations()
        self.input()
        self.disturbances()
        if plan.end is None and not self.causes & {"timeout", "output", "idle_timeout", "TERM"}:
            self.add_timeout(rng.choice([0.3, 0.8, 1.5]))
        if self.how in ("never", "stall") and rng.random() < 0.5 and "timeout" not in self.causes:
            self.add_timeout(1.0)
        if self.how == "never" and plan.size > 20000 and "timeout" not in self.causes:
            self.add_timeout(1.0)

    def add(self, *words):
        self.options += [str(word) for word in words]

    def add_timeout(self, seconds):
        self.add("-t", seconds)
        self.causes.add("timeout")

    def limits(self):
        rng, plan = self.rng, self.plan
        self.kill_after = None
        if rng.random() < 0.2:
            self.add_timeout(rng.choice([0.05, 0.2, 0.5, 1, "300ms"]))
        elif rng.random() < 0.2:
            self.add("-t", rng.choice(["1h", 60, "1e9", 0]))
        if rng.random() < 0.15 and not plan.flood:
            self.add("--idle-timeout", rng.choice([0.1, 0.4, 1]))
            self.causes.add("idle_timeout")
        if rng.random() < 0.5:
            self.kill_after = rng.choice([0, 0.1, 0.3, 1])
            self.add("-k", self.kill_after)
        if rng.random() < 0.15:
            self.add("-s", rng.choice(["INT", "SIGUSR1", "hup", "KILL", "15"]))
        if rng.random() < 0.08 or plan.flood and rng.random() < 0.5:
            self.output_limit = rng.choice([0, 10, 1000, 100000])
            self.add("--output-limit", self.output_limit)
            self.causes.add("output")
            if plan.end is None and not plan.flood:
                self.add_timeout(1)
        self.memory()

    def memory(self):
        rng, steps = self.rng, self.plan.steps
        what = rng.random()
        if what < 0.04:
            self.add("--max-memory", "60M")
            self.causes.add("memory")
            steps.insert(0, ["hold", 100 << 20])
            steps.insert(1, ["sleep", 3])
        elif what < 0.06:
            self.add("-r", "cpu=1")
            steps.insert(0, ["burn", 5])
        elif what < 0.08:
            self.add("-r", "fsize=16K")
            steps.insert(0, ["fill", 100000])
        elif what < 0.12:
            self.add("--rlimit", rng.choice(["nofile=50", "core=0,nofile=64:128", "stack=8M", "as=4G"]))
        # The step at which a resource limit ends the command, if any does.
        self.ends_by_limit = steps[0][0] if steps[0][0] in ("burn", "fill") else None

    def upkeep(self):
        rng, looks = self.rng, self.looks
        self.leftover = rng.choice(["leave", "leave", None, "kill", "wait"])
        if self.leftover:
            self.add("--leftover", self.leftover)
        self.drain = 0.25
        if rng.random() < 0.25:
            self.drain = rng.choice([0, 0.05, 1])
            self.add("--drain", self.drain)
        if rng.random() < 0.08:
            looks.quiet = True
            self.add("-q")
        self.continues = rng.random() < 0.25
        if self.continues:
            self.add("--on-disconnect", "continue")
        if rng.random() < 0.12:
            looks.drops = True
            self.add("--on-lag", rng.choice(["drop", "drop:10K", "drop:1K"]))
        if looks.format == "ndjson":
            if rng.random() < 0.2:
                self.add("--heartbeat", rng.choice(["10ms", "50ms", 1]))
            if rng.random() < 0.1:
                self.add("--meta", "name=value", "--meta", "ä=ö=ü")
            if rng.random() < 0.1:
                self.add("-T")
        if looks.format == "snapshot" and rng.random() < 0.5:
            self.add("--snapshot-every", rng.choice(["0", "10ms", "1s"]))
        for words, chance in (
            (["--no-argv"], 0.08), (["--nice", "1"], 0.04), (["--umask", "077"], 0.04), (["--no-new-privs"], 0.04),
            (["--clear-env", "-e", "RUNCAST_SOAK_CASE"], 0.05), (["-e", "NAME=some value"], 0.05),
            (["--unset", "LANG"], 0.04), (["-C", self.place.path("cwd")], 0.05),
            (["--color", "never"], 0.04), (["--progress", "auto"], 0.02), (["--map-signal", "USR2=none"], 0.04),
        ):
            if rng.random() < chance and not (words[0] == "--progress" and looks.drops):
                self.add(*words)

    def destinations(self):
        rng = self.rng
        self.result_to = rng.choice([None, "file", "file", "file", "fd", "-"])
        if self.how in ("full", "closed", "close", "close early", "never") and self.result_to == "-":
            self.result_to = "file"
        if self.result_to == "file":
            self.add("--result", self.place.path("out", "result.json"))
        elif self.result_to == "-":
            self.add("--result", "-")
        self.record = None
        if rng.random() < 0.3:
            self.record = rng.choice(["run.ndjson", "run.ndjson", "run.ndjson", "run.cast", "/dev/full"])
            self.add("--record", os.path.join(self.place.path("out"), self.record))

    def input(self):
        rng, plan = self.rng, self.plan
        self.stdin = None
        what = rng.random()
        data = rng.randbytes(rng.choice([0, 10, 5000, 200000])).replace(b"<b", b"<B")
        if self.looks.pty == "full" or self.looks.strips or self.looks.secret:
            return
        if what < 0.08:
            plan.copy_input(data)
            self.stdin = data
        elif what < 0.14:
            plan.copy_input(data)
            self.add("--stdin", self.place.write("input", data))
        elif what < 0.2:
            self.add("--stdin", "null")
            self.stdin = data

    def disturbances(self):
        """Signals: when, to whom, which."""
        rng = self.rng
        self.sent, self.killed, self.acts = [], False, []
        self.closed = ()
        if rng.random() < 0.04:
            self.closed = rng.choice([(0,), (2,), (0, 2)] if self.stdin is None else [(2,)])
        what = rng.random()
        moment = rng.choice([0.0, 0.02, 0.1, 0.3, 0.6]) * rng.random() * 2
        if what < 0.05:
            self.acts = [(moment, "runcast", signal.SIGKILL)]
        elif what < 0.17:
            self.acts = [(moment + 0.1 * i * rng.random(), "runcast", rng.choice(HARD))
                         for i in range(rng.choice([1, 1, 2]))]
        elif what < 0.25:
            self.acts = [(moment, "runcast", rng.choice(MILD)) for _ in range(rng.choice([1, 3]))]
        elif what < 0.31:
            whom = rng.choice(["runcast", "command"])
            self.acts = [(moment, whom, signal.SIGSTOP), (moment + rng.choice([0.05, 0.5]), whom, signal.SIGCONT)]
        elif what < 0.34:
            self.acts = [(moment, "runcast", signal.SIGTSTP), (moment + 0.3, "runcast", signal.SIGCONT)]
        elif what < 0.37:
            self.acts = [(moment, "command", signal.SIGKILL)]
        if any(number == signal.SIGTERM for _, whom, number in self.acts if whom == "runcast"):
            self.causes.add("TERM")
            if self.kill_after is None:
                self.kill_after = 0.5
                self.add("-k", 0.5)
        if any(number in HARD for _, _, number in self.acts):
            self.causes.add("signal")
        if any(number == signal.SIGTERM for _, _, number in self.acts) and moment < 0.1:
            # It may come before the run has begun, and so before there is anybody who stops what never ends.
            self.causes.discard("TERM")

    def argv(self):
        command = self.soak.command(self.place)
        words = [self.soak.bin, *self.looks.words, *self.options]
        if self.result_to == "fd":
            words += ["--result", f"fd:{self.fds[0]}"]
        if self.rng.random() < 0.06:
            return [*words, "--shell", "--", 'exec "$@"', *command]
        return [*words, "--", *command]

    # How it goes.

    def run(self):
        place, looks = self.place, self.looks
        place.write("plan", json.dumps(self.plan.steps))
        result_pipe = None
        if self.result_to == "fd":
            result_pipe, end = os.pipe()
            self.fds = [end]
        argv = self.argv()
        self.soak.tell(place, argv)
        stdout = None
        if self.how == "file":
            stdout = open(place.path("out", "shown"), "wb")
        elif self.how == "full":
            stdout = open("/dev/full", "wb")
        closed = (1, *self.closed) if self.how == "closed" else self.closed
        env = self.environment(**({"SOAK_SECRET": looks.secret} if looks.secret else {}))
        how = self.how if self.how in ("odd", "slow", "stall", "close", "close early", "never") else "fast"
        process = Process(argv, place, stdin=self.stdin, how=how, seed=self.rng.random(), stdout=stdout,
                          closed=closed, fds=self.fds, env=env)
        if stdout:
            stdout.close()
        for fd in self.fds:
            os.close(fd)
        self.on_fd = b""
        if result_pipe is not None:
            with open(result_pipe, "rb") as file:
                reader = threading.Thread(target=lambda: setattr(self, "on_fd", file.read()), daemon=True)
                reader.start()
                self.act(process)
                reader.join(PATIENCE)
        else:
            self.act(process)
        self.check(process)
        return self.findings

    def environment(self, **more):
        return self.place.environment(**more)

    def bound(self):
        """How long it may take to its end."""
        return PATIENCE + self.plan.seconds + self.plan.late

    def act(self, process):
        start = time.monotonic()
        for moment, whom, number in sorted(self.acts, key=lambda act: act[0]):
            time.sleep(max(start + moment - time.monotonic(), 0))
            if whom == "runcast":
                process.signal(number)
                self.sent.append(number)
                self.killed = self.killed or number == signal.SIGKILL
            elif wait_for(self.place.command, 5) and state(self.place.command()) not in ("Z", None):
                if "RUNCAST" in process_environment(self.place.command()):
                    kill(self.place.command(), number)
                    self.sent.append(number)
        self.code = process.finish(self.bound())
        if self.code == -signal.SIGKILL:
            self.killed = True

    # What has to hold.

    def check(self, process):
        findings, looks, place = self.findings, self.looks, self.place
        command = place.command()
        if self.code < 0:
            self.ended_by_signal(process, command)
            return
        at_once = place.processes()
        process.close_readers(PATIENCE)
        out = place.read("out/shown") if self.how == "file" else process.stdout
        is_cut = self.how in ("full", "closed") or bool(process.out and process.out.is_closed)
        result_bytes = {"file": place.read("out/result.json"), "fd": self.on_fd}.get(self.result_to)
        begin = b'{"op":"result"'
        if self.result_to == "-" and looks.format not in ("ndjson", "snapshot") and begin in out:
            out, _, line = out.rpartition(begin)
            result_bytes = begin + line
        err = self.standard_error(process)
        self.is_told = len(err) > 1
        result = self.find_result(result_bytes)
        seen = self.read_shown(out, err, is_cut)
        if looks.format not in ("ndjson", "snapshot"):
            seen_result = None
        else:
            seen_result = seen.result
        if self.result_to == "fd" and is_cut and self.code in (125, 141):
            # A descriptor has its result first, and the output was lost after that.
            result = None
        recording = self.read_recording(result or seen_result)
        result = result or seen_result or (recording and recording.result)
        if looks.format in ("ndjson", "snapshot") and not is_cut:
            if seen_result is not None:
                findings.equal("the result shown, and the one written", seen_result, result)
            else:
                was_abandoned = "undelivered_bytes" in result if result else self.may_be_abandoned()
                findings.true("a result is shown", was_abandoned, "one")
        if result is None:
            self.without_result(seen, is_cut)
            self.left(at_once, None)
            return
        self.check_result(result, seen, recording, is_cut)
        self.left(at_once, result)

    def ended_by_signal(self, process, command):
        """runcast was killed, or got a signal before it was ready for any."""
        findings, place = self.findings, self.place
        if not self.killed:
            findings.one_of("ended by a signal", -self.code, self.sent)
            if self.looks.format in ("ndjson", "snapshot"):
                findings.equal("shown by a runcast that was not ready for a signal", process.stdout, b"")
        if command:
            gone = wait_for(lambda: state(command) in ("Z", None), PATIENCE)
            findings.true("the command of a runcast that was killed", gone, "dead")
        elif wait_for(place.command, 0.3):
            command = place.command()
            gone = wait_for(lambda: state(command) in ("Z", None), PATIENCE)
            findings.true("the command of a runcast that was killed", gone, "dead")
        process.close_readers(PATIENCE)
        for line in (place.read("out/result.json") or b"").splitlines():
            json.loads(line)
        if self.looks.format in READ and self.result_to != "-":
            seen = self.read_format(self.looks.format, process.stdout, is_cut=True)
            findings.extend(("what was shown before", problem, "the manual") for problem in seen.problems)

    def standard_error(self, process):
        err = process.stderr
        findings = self.findings
        findings.true("standard error", b"panicked" not in err, "no panic")
        if self.looks.format != "text":
            contract.messages(findings, self.looks.format, err)
            return [b""]
        return shown.apart(err)[1]

    def find_result(self, data):
        if not data:
            return None
        findings = self.findings
        read = shown.Shown()
        lines = shown.lines_of(data, read)
        if not lines and self.result_to in ("-", "fd") and self.may_be_abandoned():
            # Its reader was not waited for.
            return None
        findings.equal("the written result: lines", (len(lines), read.whole), (1, True))
        result = shown.parse(lines[0], read) if lines else None
        findings.extend(("the written result", problem, "JSON") for problem in read.problems)
        return result

    def read_shown(self, out, err, is_cut):
        """What was shown; `err` are the pieces of standard error between the messages of runcast."""
        looks, findings = self.looks, self.findings
        if looks.format == "text":
            end = b"\0" if looks.split == "nul" else b"\n"
            seen = shown.read_text(out, err[0], looks.prefix, end, is_cut or self.may_be_abandoned())
            for piece in err[1:]:
                # The message before it begins a line of its own.
                want = self.wanted(2, len(seen.streams[2]))
                more = shown.read_text(b"", piece, looks.prefix, end)
                seen.streams[2] = contract.without_line_end(seen.streams[2], want) + more.streams[2]
                seen.problems += more.problems
            if self.result_to == "-":
                seen.streams[1] = contract.without_line_end(seen.streams[1], self.wanted(1, len(out)))
        else:
            seen = self.read_format(looks.format, out, is_cut or self.may_be_abandoned())
        findings.extend((looks.format, problem, "the manual") for problem in seen.problems)
        return seen

    def read_format(self, fmt, data, is_cut=False):
        """What was shown of this run in another format than text, or is shown of its recording."""
        more = {"has_far_clock": True} if self.is_far and fmt == "ndjson" else {}
        return READ[fmt](data, is_cut=is_cut, **more)

    def may_be_abandoned(self):
        """Whether the run may be stopped and its reader then not be waited for, which may be busy elsewhere."""
        is_late = self.how in ("never", "stall", "slow", "odd")
        is_soon = self.kill_after is not None and self.kill_after < 0.5
        return (is_late or is_soon) and bool(self.causes or self.sent)

    def wanted(self, kind, least):
        source = self.looks.kinds()[kind]
        return b"" if source is None else self.plan.joined(source, "shown", least=least)

    def read_recording(self, result):
        if self.record in (None, "/dev/full"):
            if self.record and result:
                self.findings.true("record_error on a full disk", "record_error" in result, "told")
            return None
        data = self.place.read(f"out/{self.record}")
        if data is None:
            return None
        if self.record.endswith(".cast"):
            self.check_cast(data)
            return None
        recording = shown.read_events(data, has_far_clock=self.is_far)
        self.findings.extend(("the recording", problem, "the manual") for problem in recording.problems)
        if result is not None:
            self.findings.equal("the recorded result", recording.result, result)
        if recording.result is not None and "error" not in recording.result:
            self.check_replay(recording)
        return recording

    def check_cast(self, data):
        read = shown.Shown()
        lines = [json.loads(line) for line in shown.lines_of(data, read)]
        header, events = lines[0], lines[1:]
        self.findings.equal("asciicast: version", header.get("version"), 2)
        times = [event[0] for event in events]
        self.findings.equal("asciicast: times", times, sorted(times))
        self.findings.equal("asciicast: kinds", {event[1] for event in events} - {"o"}, set())
        self.findings.equal("asciicast: status", header.get("runcast", {}).get("status"), self.code)

    def check_replay(self, recording):
        """What is replayed is what was recorded."""
        fmt = self.rng.choice(["ndjson", "text", "cri", "log", "logfmt", "snapshot"])
        looks = self.looks
        argv = [self.soak.bin, "replay", "--speed", "max", "-f", fmt, "--split", looks.split,
                self.place.path("out", self.record)]
        process = Process(argv, self.place)
        code = process.finish(PATIENCE)
        process.close_readers(PATIENCE)
        findings = self.findings
        findings.equal("replay: status", code, recording.result["status"])
        if fmt == "text":
            findings.equal("replay: text", (process.stdout, b"".join(shown.apart(process.stderr)[1])),
                           (recording.streams[1], recording.streams[2]))
            return
        contract.messages(findings, f"replay -f {fmt}", process.stderr)
        seen = self.read_format(fmt, process.stdout)
        findings.extend((f"replay -f {fmt}", problem, "the manual") for problem in seen.problems)
        if fmt == "ndjson":
            findings.equal("replay: chunks", seen.pieces, recording.pieces)
        if fmt in ("ndjson", "snapshot"):
            findings.equal("replay: result", seen.result, recording.result)
        elif looks.split == "lf":
            for kind in (1, 2):
                want = recording.streams[kind]
                # An unfinished last line has an end there, unless it is a piece.
                findings.one_of(f"replay -f {fmt}", seen.streams[kind], [want, want + b"\n"])

    def without_result(self, seen, is_cut):
        """Only what was shown is known, and the status."""
        if self.looks.quiet or self.looks.drops or self.looks.format == "snapshot":
            return
        written = self.place.written()
        is_last = isinstance(seen.result, dict)
        for kind, source in self.looks.kinds().items():
            if source is None or self.is_unread(kind, is_cut):
                continue
            least = 0 if self.may_be_abandoned() else self.least(written, source)
            self.compare(f"{self.looks.format}: stream {kind}", seen, kind, source, least)
        if is_last and "status" in seen.result:
            self.findings.equal("status in the last record", int(seen.result["status"]), self.code)
        if not is_cut and self.code == 0 and self.how not in ("never",):
            self.success(written)

    def is_closed(self, kind):
        """Whether the descriptor that this stream is shown on is closed."""
        return self.looks.format == "text" and kind == 2 and 2 in self.closed

    def is_unread(self, kind, is_cut):
        """Whether not all of what is shown of this stream was read."""
        # From elsewhere nothing more is shown, on neither stream, once either has lost its reader.
        is_all = self.looks.format != "text" or self.is_far
        return is_cut and (kind == 1 or is_all) or self.is_closed(kind)

    def least(self, written, source):
        return written[1] + written[2] if source == 0 else written[source]

    def success(self, written):
        """A status of 0 means that the command did all that it had to."""
        plan = self.plan
        ends = {("exit", 0)} | {("exit", 0) for code in plan.traps.values() if code == 0}
        trapped = any(plan.traps.get(number) == 0 for number in [*self.sent, *self.stop_signals()])
        self.findings.true("a success", plan.end in ends or trapped, f"the end of the plan: {plan.end}")

    def stop_signals(self):
        return [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]

    def compare(self, about, seen, kind, source, least):
        looks = self.looks
        got = seen.streams[kind]
        secret = looks.secret and looks.secret.encode()
        is_normal = looks.normal(seen.has_ends)
        if not seen.has_ends and is_normal:
            got = contract.without_line_end(got, self.plan.joined(source, "shown", least=len(got)))
        contract.stream(self.findings, about, got, self.plan, source, least, secret, looks.strips, is_normal)

    def check_result(self, result, seen, recording, is_cut):
        findings, looks = self.findings, self.looks
        stops = [event for event in (recording or seen).events if event.get("op") == "stop"]
        contract.status(findings, self.code, result, self.sent, stops[-1]["signal"] if stops else None,
                        is_cut and not self.continues)
        if "error" in result:
            self.expected_error(result, is_cut)
            return
        self.end(result, is_cut)
        written = self.place.written()
        undelivered = "undelivered_bytes" in result
        truth = {1: None, 2: None}
        if recording and "record_error" not in result:
            for kind, source in looks.kinds().items():
                truth[kind] = recording.streams[kind]
                self.compare(f"recording: stream {kind}", recording, kind, source or 0,
                             0 if source is None or undelivered else self.least(written, source))
            is_waiting = looks.is_waiting(is_record=True)
            contract.joined_chunks(findings, "recording", recording, looks.split, looks.max_line, is_waiting)
        for kind, source in looks.kinds().items():
            is_there = not looks.quiet and looks.format != "snapshot" and not self.is_closed(kind)
            if source is None:
                nothing = (seen.streams[kind], result["stderr_bytes"])
                findings.equal(f"stream {kind}, which is merged", nothing, (b"", 0))
            elif is_there and not looks.drops:
                is_part = undelivered or self.is_unread(kind, is_cut)
                self.compare(f"{looks.format}: stream {kind}", seen, kind, source,
                             0 if is_part else self.least(written, source))
                # Where a message or the result stands behind a line, its end is theirs, or that of the line.
                is_behind = self.is_told if kind == 2 else self.result_to == "-"
                is_exact = seen.has_ends and not (looks.format == "text" and is_behind)
                if not is_part and is_exact and truth[kind] is None:
                    truth[kind] = seen.streams[kind]
            if looks.quiet and looks.format != "text":
                findings.equal("quiet: chunks", seen.pieces, [])
            name = contract.NAMES[kind]
            if source is not None and not result[f"{name}_truncated"]:
                part = shown.exact(result, name, f"{name}_base64", contract.findings_as_shown(findings, name))
                kept = shown.Shown(streams={1: part, 2: part})
                self.compare(f"result.{name}", kept, kind, source, 0 if undelivered else self.least(written, source))
        contract.kept(findings, result, truth, looks.max_output, looks.keep, looks.split)
        if looks.format in ("ndjson", "cri", "log", "logfmt") and not looks.drops:
            # A run elsewhere that is recorded too has its unfinished lines in pieces for both.
            is_waiting = looks.is_waiting(is_record=self.is_far and self.record is not None)
            contract.joined_chunks(findings, looks.format, seen, looks.split, looks.max_line, is_waiting)
        if looks.drops:
            self.check_drops(result, seen, is_cut)
        if looks.format == "snapshot":
            self.check_snapshots(seen)
        self.check_left_streams(result)

    def check_left_streams(self, result):
        findings, plan = self.findings, self.plan
        if not plan.tokens and result["stopped_by"] is None:
            left = (result["leaked"], result.get("leftover"))
            findings.equal("leaked, and nothing in the background", left, (False, None))
        if self.leftover == "wait" and result["stopped_by"] is None:
            findings.equal("leaked, with --leftover wait", result["leaked"], False)

    def check_drops(self, result, seen, is_cut):
        findings, looks = self.findings, self.looks
        if looks.format == "ndjson" and not is_cut and seen.result:
            findings.equal("dropped_chunks", result.get("dropped_chunks", 0), seen.dropped)
            total = result["stdout_bytes"] + result["stderr_bytes"]
            there = sum(len(text) for _, text, _ in seen.pieces)
            if not looks.quiet:
                findings.equal("bytes shown, dropped and not delivered",
                               there + result.get("dropped_bytes", 0) + result.get("undelivered_bytes", 0), total)

    def check_snapshots(self, seen):
        """Each is what came so far."""
        findings, looks = self.findings, self.looks
        before = None
        for event in seen.events:
            if event["op"] != "snapshot":
                continue
            findings.equal("snapshot: exit_code", event["exit_code"], None)
            now = (event["stdout"], event["stderr"], event.get("stdout_bytes"), event.get("stderr_bytes"))
            findings.true("snapshot: nothing changed", now != before, "none")
            before = now
            if looks.max_output != 0 and seen.result and "stdout_truncated" not in event and looks.keep == "head":
                for name in ("stdout", "stderr"):
                    part = shown.exact(event, name, f"{name}_base64", seen)
                    whole = shown.exact(seen.result, name, f"{name}_base64", seen)
                    findings.true(f"snapshot: {name}", whole.startswith(part), whole)

    def expected_error(self, result, is_cut):
        """runcast may fail only where it was given a reason."""
        code = result["error"]["code"]
        is_abandoned = self.result_to == "fd" and self.may_be_abandoned()
        has_reason = code == "output_failed" and (is_cut or is_abandoned or self.how in ("full", "closed"))
        self.findings.true("an error", has_reason, f"none; {result['error']}")

    def end(self, result, is_cut):
        """How the command ended is what its plan says, or what was done to it."""
        findings, plan = self.findings, self.plan
        reason = result["stopped_by"]
        allowed = set(self.causes) - {"TERM"}
        if is_cut or self.how == "full":
            allowed.add("disconnect")
        if self.how in ("never", "stall", "slow") and self.sent:
            allowed.add("signal")
        if reason is not None:
            findings.one_of("stopped_by", reason, sorted(allowed))
        if reason == "output" and not self.looks.strips and not self.looks.secret:
            total = result["stdout_bytes"] + result["stderr_bytes"]
            findings.true("bytes of a run that --output-limit stopped", total > self.output_limit, self.output_limit)
        ended = contract.ended(result)
        possible = {plan.end}
        done_to_it = set(self.sent)
        if reason is not None:
            done_to_it |= {signal.SIGKILL, *self.stop_signals()}
        for number in done_to_it:
            possible.add(("signal", int(number)))
            if plan.traps.get(number) is not None:
                possible.add(("exit", plan.traps[number]))
        if self.ends_by_limit == "burn":
            possible |= {("signal", int(signal.SIGXCPU)), ("signal", int(signal.SIGKILL))}
        elif self.ends_by_limit == "fill":
            possible.add(("signal", int(signal.SIGXFSZ)))
        if result["limit"] is not None:
            findings.equal("limit", (result["limit"], self.ends_by_limit),
                           {"burn": ("cpu", "burn"), "fill": ("fsize", "fill")}.get(self.ends_by_limit))
        findings.one_of("how the command ended", ended, sorted(possible, key=str))
        if ended == plan.end and ended[0] == "exit" and reason is None and plan.end[1] not in (0, *plan.traps.values()):
            written = self.place.written()
            total = len(plan.joined(0, "raw"))
            findings.equal("bytes written by a command that came to its end", written[1] + written[2], total)

    def nothing_left_at_once(self, at_once):
        self.findings.equal("alive after the end of a run that leaves nothing", describe(at_once), "")

    def left(self, at_once, result):
        """What is left of the run: nothing, or what may be."""
        findings, place, plan = self.findings, self.place, self.plan
        reason = result and result["stopped_by"]
        is_stopped = reason in (*contract.TIMEOUTS, "disconnect", "output", "memory") or \
            reason == "signal" and result.get("received") == "SIGTERM"
        if (is_stopped or self.leftover in ("kill", "wait")) and result is not None:
            self.nothing_left_at_once(at_once)
        else:
            alive = place.is_quiet(plan.late + PATIENCE)
            findings.equal("alive long after the end", describe(alive), "")
            if result and result["exit_code"] is not None and ("exit", result["exit_code"]) == plan.end and \
                    not self.sent and self.looks.pty != "full" and reason is None and plan.traps == {}:
                missing = [mark for mark in plan.marks if place.read(f"child/{mark}") is None]
                findings.equal("processes in the background that were not left alone", missing, [])
        findings.equal("files left in TMPDIR", os.listdir(place.path("tmp")), [])
        expected = {"result.json", "shown", self.record}
        findings.equal("files left beside the result", set(os.listdir(place.path("out"))) - expected, set())


def process_environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
