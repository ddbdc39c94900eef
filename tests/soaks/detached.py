"""A detached run: started, perhaps twice, while starters are killed; looked at by readers that are killed and come
again, spoken to by senders that are killed and send again; then over, or lost with its keeper; then forgotten."""

import json
import os
import random
import signal
import threading
import time
import traceback

from soaks import contract, shown
from soaks.looks import Looks
from soaks.plan import Plan
from soaks.world import PATIENCE, Hung, Process, describe, kill, parent, state, wait_for


class Detached:
    # Where the run lives: what `--host` adds, for the same on another machine.
    where = ()
    patience = PATIENCE

    def __init__(self, rng, soak, place):
        self.rng, self.soak, self.place = rng, soak, place
        self.findings = contract.Findings()
        self.id = f"run-{rng.randint(0, 9999)}"
        self.lock = threading.Lock()
        os.mkdir(place.path("runs"))
        self.choose()

    def choose(self):
        rng = self.rng
        self.looks = looks = Looks(rng, "ndjson")
        looks.of_run()
        # How it looks is for those who look.
        looks.words = looks.words[2:]
        self.plan = plan = Plan(rng, looks.strips, looks.secret and looks.secret.encode(), most=300000)
        self.options = ["--id", self.id]
        self.causes = set()
        self.fate = rng.choices(["end", "keeper", "signal", "stop", "timeout"], [50, 15, 10, 12, 13])[0]
        self.kill_after = rng.choice([None, 0.1, 0.5])
        if self.fate == "timeout" or plan.end is None and self.fate in ("end", "signal"):
            self.options += ["-t", str(rng.choice([0.2, 0.6, 1.2]))]
            self.causes.add("timeout")
            self.kill_after = self.kill_after or 0.3
        if self.fate == "stop":
            self.causes.add("signal")
        if self.kill_after is not None:
            self.options += ["-k", str(self.kill_after)]
        self.leftover = rng.choice([None, "leave", "kill", "wait"])
        if self.leftover:
            self.options += ["--leftover", self.leftover]
        if rng.random() < 0.2:
            self.options += ["--journal", "64K"]
        self.bounded = "--journal" in self.options
        self.result_file = rng.random() < 0.3
        if self.result_file:
            self.options += ["--result", self.place.path("out", "result.json")]
        self.record = rng.random() < 0.3
        if self.record:
            self.options += ["--record", self.place.path("out", "run.ndjson")]
        self.input = None
        if rng.random() < 0.35 and looks.pty != "full" and not looks.strips and not looks.secret:
            self.input = rng.randbytes(rng.choice([0, 10, 3000, 300000])).replace(b"<b", b"<B")
            plan.copy_input(self.input)
            self.options += ["--stdin", "open"]

    # What is run.

    def environment(self):
        more = {"SOAK_SECRET": self.looks.secret} if self.looks.secret else {}
        return self.place.environment(RUNCAST_DIR=self.place.path("runs"), **more)

    def runcast(self, *words, **more):
        argv = [self.soak.bin, *words]
        self.soak.tell(self.place, argv)
        return Process(argv, self.place, env=self.environment(), **more)

    def ask(self, *words, **more):
        """Runs a runcast that should end by itself."""
        process = self.runcast(*words, **more)
        code = process.finish(self.patience)
        process.close_readers(PATIENCE)
        self.findings.true(f"{words[0]}: standard error", b"panicked" not in process.stderr, process.stderr)
        return code, process.stdout, process.stderr

    def start(self):
        rng = self.rng
        words = ["-d", "-f", "ndjson", *self.where, *self.looks.words, *self.options, "--",
                 *self.soak.command(self.place)]
        if rng.random() < 0.3:
            first = self.runcast(*words)
            time.sleep(rng.choice([0.001, 0.005, 0.01, 0.03]) * rng.random() * 2)
            first.signal(signal.SIGKILL)
            first.finish(self.patience)
        second = self.runcast(*words) if rng.random() < 0.3 else None
        code, out, err = self.ask(*words)
        self.check_started(code, out, err)
        if second:
            code = second.finish(self.patience)
            second.close_readers(PATIENCE)
            self.check_started(code, second.stdout, second.stderr)

    def check_started(self, code, out, err):
        read = shown.read_events(out)
        self.findings.equal("a start", (code, [event["op"] for event in read.events], err), (0, ["started"], b""))
        if read.events and "pid" in read.events[0]:
            self.pid = read.events[0]["pid"]
            self.pids = getattr(self, "pids", set()) | {self.pid}

    def run(self):
        place, rng, findings = self.place, self.rng, self.findings
        place.write("plan", json.dumps(self.plan.steps))
        self.start()
        if findings:
            return findings
        findings.equal("commands of one run", len(self.pids), 1)
        keeper = parent(self.pid)
        works = [self.look] * rng.choice([1, 2, 3]) + ([] if self.input is None else [self.send])
        threads = [threading.Thread(target=self.guarded, args=(work, rng.random())) for work in works]
        self.sent = []
        self.read = []
        for thread in threads:
            thread.start()
        time.sleep(rng.choice([0, 0.05, 0.3, 0.8]) * rng.random())
        self.meet_fate(keeper)
        for thread in threads:
            thread.join()
        self.conclude()
        return findings

    def guarded(self, work, seed):
        try:
            work(random.Random(seed))
        except Hung as error:
            with self.lock:
                self.findings.add("an end", str(error), "in time")
        except Exception:
            with self.lock:
                self.findings.add("the soak itself failed", traceback.format_exc(), "what it can read")

    def meet_fate(self, keeper):
        rng = self.rng
        if self.fate == "keeper":
            if keeper and runs(keeper, self.soak.bin):
                kill(keeper, signal.SIGKILL)
                gone = wait_for(lambda: state(self.pid) in ("Z", None), PATIENCE)
                self.findings.true("the command of a keeper that was killed", gone, "dead")
        elif self.fate == "signal":
            number = rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL])
            self.sent.append(number)
            code, _, err = self.ask("signal", *self.where, self.id, signal.Signals(number).name)
            self.control("signal", code, err)
        elif self.fate == "stop":
            self.sent.append(signal.SIGTERM)
            code, _, err = self.ask("signal", *self.where, "--stop", self.id)
            self.control("signal --stop", code, err)

    def control(self, about, code, err):
        """A word to a run succeeds, or the run is over."""
        contract.messages(self.findings, about, err)
        if code != 0:
            self.findings.equal(about, (code, b"has ended" in err or b"is over" in err or b"ended" in err), (125, True))

    # Those who look and those who send.

    def look(self, rng):
        """Reads the run to its end, however often it is cut off."""
        after, pieces, cuts = 0, [], 0
        result, dropped = None, 0
        streams = {1: b"", 2: b""}
        while True:
            is_cut = cuts < 4 and rng.random() < 0.5
            how = rng.choice(["fast", "fast", "odd", "slow", "stall"])
            options = ["-f", "ndjson", "--after", str(after)]
            process = self.runcast("attach", *self.where, *options, self.id, how=how, seed=rng.random())
            if is_cut:
                cuts += 1
                time.sleep(rng.choice([0.0, 0.02, 0.1, 0.4]) * rng.random())
                process.signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            code = process.finish(self.patience + self.plan.seconds + self.plan.late)
            process.close_readers(PATIENCE)
            read = shown.read_events(process.stdout, after=after, is_cut=is_cut, is_part=True)
            with self.lock:
                self.findings.extend((f"attach --after {after}", problem, "the manual") for problem in read.problems)
                contract.messages(self.findings, "attach", process.stderr)
            for kind in (1, 2):
                streams[kind] += read.streams[kind]
            pieces += read.pieces
            dropped += read.dropped
            chunks = [event for event in read.events if event["op"] in ("chunk", "dropped")]
            if chunks:
                last = chunks[-1]
                after = last["seq"] if last["op"] == "chunk" else last["after_seq"] + last["chunks"]
            if read.result is not None:
                result = read.result
                if code not in (130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT) or not is_cut:
                    with self.lock:
                        self.findings.equal("attach: status", code, result["status"])
                break
            if not is_cut:
                with self.lock:
                    self.findings.add("attach ended without a result", (code, process.stderr), "one")
                break
        with self.lock:
            self.read.append((result, streams, pieces, dropped))

    def send(self, rng):
        """Sends the input in pieces, each again when its sender was killed."""
        place, highest, total = 0, 0, len(self.input)
        while True:
            size = rng.choice([1, 100, 5000, 100000, total])
            piece = self.input[place: place + size]
            is_last = place + len(piece) >= total
            highest = max(highest, place + len(piece))
            words = ["send", *self.where, "--offset", str(place), *(["--eof"] if is_last else []), self.id]
            process = self.runcast(*words, stdin=piece)
            if rng.random() < 0.25:
                time.sleep(rng.random() * 0.05)
                process.signal(signal.SIGKILL)
            code = process.finish(self.patience + self.plan.seconds + self.plan.late)
            process.close_readers(PATIENCE)
            with self.lock:
                contract.messages(self.findings, "send", process.stderr)
            if code == -signal.SIGKILL:
                continue
            if code != 0:
                is_over = any(word in process.stderr for word in (b"ended", b"over", b"closed", b"lost", b"killed"))
                with self.lock:
                    self.findings.true("send", code == 125 and is_over, (code, process.stderr, "a run that is over"))
                return
            said = json.loads(process.stdout)
            with self.lock:
                self.findings.equal("send says", (said["op"], sorted(said)), ("stdin", ["offset", "op"]))
                # A sender that was killed may have sent more than it could tell.
                is_right = place + len(piece) <= said["offset"] <= highest
                self.findings.true("send says", is_right, (said, place + len(piece), highest))
            place += len(piece)
            if is_last:
                return

    # What has to hold.

    def conclude(self):
        findings = self.findings
        bound = self.patience + self.plan.seconds + self.plan.late
        process = self.runcast("wait", *self.where, self.id)
        code = process.finish(bound)
        process.close_readers(PATIENCE)
        contract.messages(findings, "wait", process.stderr)
        lines = shown.lines_of(process.stdout, shown.Shown())
        findings.equal("wait: lines", len(lines), 1)
        result = json.loads(lines[0]) if lines else None
        if result is None:
            return
        findings.equal("wait: status", code, result["status"])
        for other, *_ in self.read:
            if other is not None:
                findings.equal("the result of attach and of wait", without_output(other), without_output(result))
        is_lost = result.get("error", {}).get("code") == "run_lost"
        if is_lost:
            findings.equal("a run that is lost", self.fate, "keeper")
        elif "error" in result:
            findings.add("an error", result["error"], "none")
        contract.status(findings, code, result, self.sent, was_told=self.fate == "stop")
        self.check_listed(result, is_lost)
        self.check_output(result, is_lost)
        if not is_lost and "error" not in result:
            self.check_end(result)
        self.clean_up(result, is_lost)

    def check_listed(self, result, is_lost):
        code, out, err = self.ask("runs", *self.where, "-f", "ndjson")
        rows = [json.loads(line) for line in out.splitlines()]
        findings = self.findings
        findings.equal("runs", (code, [row["id"] for row in rows]), (0, [self.id]))
        if rows:
            row = rows[0]
            if is_lost:
                expected = "lost"
            elif result["timed_out"]:
                expected = "timed out"
            elif result["exit_code"] is not None:
                expected = f"exited {result['exit_code']}"
            else:
                expected = result["signal"]
            findings.equal("runs: state", row["state"], expected)
            if not is_lost:
                findings.equal("runs: bytes", (row["stdout_bytes"], row["stderr_bytes"]),
                               (result["stdout_bytes"], result["stderr_bytes"]))

    def check_output(self, result, is_lost):
        findings, looks = self.findings, self.looks
        written = self.place.written()
        secret = looks.secret and looks.secret.encode()
        truth = {1: None, 2: None}
        for number, (other, streams, pieces, dropped) in enumerate(self.read):
            if dropped:
                is_long = self.bounded or self.plan.flood
                findings.true("dropped", is_long, "only what is longer than the journal may be")
                continue
            for kind, source in looks.kinds().items():
                if source is None:
                    findings.equal("a stream that is merged", streams[kind], b"")
                    continue
                least = 0 if is_lost else written[1] + written[2] if source == 0 else written[source]
                contract.stream(findings, f"reader {number}: stream {kind}", streams[kind], self.plan, source, least,
                                secret, looks.strips)
                if not is_lost:
                    truth[kind] = streams[kind]
            # A run that is lost has no proper end.
            read = shown.Shown(pieces=pieces, result=other, whole=not is_lost)
            contract.joined_chunks(findings, f"reader {number}", read, looks.split, looks.max_line, looks.is_waiting())
        if not is_lost:
            contract.kept(findings, result, truth, looks.max_output, looks.keep, looks.split)
        if is_lost:
            return
        if self.result_file:
            findings.equal("--result", json.loads(self.place.read("out/result.json") or b"null"), result)
        if self.record:
            recording = shown.read_events(self.place.read("out/run.ndjson") or b"")
            findings.extend(("the recording", problem, "the manual") for problem in recording.problems)
            findings.equal("the recorded result", recording.result, result)
            for kind in (1, 2):
                if truth[kind] is not None:
                    findings.equal(f"the recording: stream {kind}", recording.streams[kind], truth[kind])

    def check_end(self, result):
        findings, plan = self.findings, self.plan
        reason = result["stopped_by"]
        if reason is not None:
            findings.one_of("stopped_by", reason, sorted(self.causes))
        ended = contract.ended(result)
        possible = {plan.end}
        done_to_it = set(self.sent)
        if reason is not None:
            done_to_it |= {signal.SIGKILL, signal.SIGTERM}
        if self.looks.pty == "full" and reason is None:
            done_to_it.add(signal.SIGHUP)
        for number in done_to_it:
            possible.add(("signal", int(number)))
            if plan.traps.get(number) is not None:
                possible.add(("exit", plan.traps[number]))
        findings.one_of("how the command ended", ended, sorted(possible, key=str))

    def clean_up(self, result, is_lost):
        findings, place = self.findings, self.place
        is_whole = result["stopped_by"] is not None or self.leftover in ("kill", "wait")
        # The keeper ends a moment after its result is there; of what a killed one leaves, nobody takes care.
        if not is_lost:
            seconds = PATIENCE if is_whole else PATIENCE + self.plan.late
            findings.equal("alive after the end", describe(place.is_quiet(seconds)), "")
        else:
            place.kill_all()
        code, out, err = self.ask("forget", *self.where, self.id)
        findings.equal("forget", (code, err), (0, b""))
        left = [name for name in self.folders() if not name.startswith(".new-")]
        findings.equal("folders left", left, [])
        findings.equal("files left in TMPDIR", os.listdir(place.path("tmp")), [])
        findings.equal("files left beside the result",
                       set(os.listdir(place.path("out"))) - {"result.json", "run.ndjson"}, set())

    def folders(self):
        return os.listdir(self.place.path("runs"))


def without_output(result):
    """Where the beginning of a journal is gone, or a run is lost, a reader's own counts stand for what is not there."""
    return {name: value for name, value in result.items() if not name.startswith(("stdout", "stderr"))} \
        if "error" in result else result


def runs(pid, program):
    """Whether this process runs that program."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False
