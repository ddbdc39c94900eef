"""Runs on another machine, which is this one behind a stand-in for ssh (tests/remote/ssh.py) that breaks connections:
one in the foreground, and a detached one that is started, looked at and spoken to from here."""

import os
import shlex
import signal

from soaks.detached import Detached
from soaks.foreground import Foreground
from soaks.looks import Looks
from soaks.plan import Plan
from soaks.world import PATIENCE, wait_for

HOST = "me@box"
# The side here connects again after at most two seconds each time, and a frozen connection is given up after 12.
BREAKS = PATIENCE * 2


class Machine:
    """The other machine: its folder, and what is to become of its connections, one after another."""

    def __init__(self, rng, soak, place):
        self.rng, self.soak, self.place = rng, soak, place
        for name in ("machine", "machine/bin", "machine/home", "machine/runs"):
            os.mkdir(place.path(name))
        os.symlink(soak.bin, place.path("machine/bin/runcast"))

    def plan(self, most, may_fail):
        """How many of the first connections break, and how. `may_fail`: all but the first may fail to be made."""
        lines = [self.line(may_fail and number > 0) for number in range(self.rng.randint(0, most))]
        self.place.write("machine/plan", "".join(line + "\n" for line in lines))

    def line(self, may_fail):
        rng = self.rng
        kinds = ["out", "out", "in", "before", "after", *(["fail"] if may_fail else [])]
        kind = rng.choice(kinds)
        if rng.random() < 0.02:
            return f"freeze {rng.randint(100, 3000)}"
        if kind == "out":
            return f"out {rng.choice([300, 600, 1000, 3000, 20000]) + rng.randint(0, 300)}"
        if kind == "in":
            return f"in {rng.randint(1, 3000)}"
        if kind == "fail":
            return "fail 255 ssh: connect to host box port 22: Connection timed out"
        return f"{kind} " + rng.choice(['"op":"started"', '"op":"result"', '"op":"chunk"', '"seq":7,'])

    def environment(self, **more):
        ssh = os.path.join(self.soak.here, "remote", "ssh.py")
        return {
            **more,
            "RUNCAST_SSH": shlex.join([self.soak.python, "-IS", ssh]),
            "MACHINE": self.place.path("machine"),
            "RUNCAST_DIR": self.place.path("local"),
        }

    def folders(self):
        return [name for name in os.listdir(self.place.path("machine/runs")) if not name.startswith(".new-")]


class RemoteForeground(Foreground):
    """As if it ran here."""

    is_far = True

    def choose(self):
        rng = self.rng
        self.machine = Machine(rng, self.soak, self.place)
        self.machine.plan(4, may_fail=True)
        self.looks = looks = Looks(rng)
        looks.of_run(has_pty=rng.random() < 0.5)
        looks.of_text()
        self.how = rng.choice(["fast", "fast", "fast", "odd", "slow", "stall", "close", "file"])
        most = {"odd": 20000}.get(self.how, 300000)
        self.plan = plan = Plan(rng, looks.strips, looks.secret and looks.secret.encode(), most)
        self.kill_after, self.continues, self.drain = None, rng.random() < 0.2, 0.25
        if self.continues:
            self.add("--on-disconnect", "continue")
        self.ends_by_limit = None
        if rng.random() < 0.25 or plan.end is None:
            self.add_timeout(rng.choice([0.5, 1.0, 1.5]))
        self.leftover = rng.choice([None, "leave", "kill", "wait"])
        if self.leftover:
            self.add("--leftover", self.leftover)
        if rng.random() < 0.1:
            looks.quiet = True
            self.add("-q")
        if looks.format == "ndjson" and rng.random() < 0.2:
            self.add("--heartbeat", "50ms")
        self.destinations()
        if self.result_to == "fd":
            self.result_to = None
        self.input()
        self.closed, self.sent, self.killed, self.acts = (), [], False, []
        self.signals()
        self.add("--host", HOST)

    def signals(self):
        rng = self.rng
        moment = rng.choice([0.1, 0.5, 1.0]) * rng.random() * 2
        what = rng.random()
        if what < 0.2:
            number = rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
            self.acts = [(moment, "runcast", number)]
            self.causes.add("signal")
            self.kill_after = 0.5
            self.add("-k", 0.5)
        elif what < 0.28:
            self.acts = [(moment, "runcast", signal.SIGSTOP), (moment + 0.3, "runcast", signal.SIGCONT)]
        elif what < 0.34:
            self.acts = [(moment, "runcast", signal.SIGKILL)]

    def environment(self, **more):
        return self.machine.environment(**super().environment(**more))

    def bound(self):
        return BREAKS + super().bound()

    def is_early(self):
        """Whether a signal came before there was a connection, and nothing was started."""
        return self.code in (128 + number for number in self.sent) and not self.place.command()

    def without_result(self, seen, is_cut):
        if not self.is_early():
            super().without_result(seen, is_cut)

    def check_result(self, result, seen, recording, is_cut):
        if self.is_early() and "error" in result:
            self.findings.equal("error", result["error"]["code"], "remote_failed")
        else:
            super().check_result(result, seen, recording, is_cut)

    def ended_by_signal(self, process, command):
        """The run goes on there, to its own end."""
        process.close_readers(PATIENCE)
        self.findings.equal("alive long after the end", self.place.is_quiet(self.bound()), [])

    def check(self, process):
        super().check(process)
        if self.code >= 0 and not self.sent:
            gone = wait_for(lambda: not self.machine.folders(), PATIENCE)
            self.findings.true("the run there, once its result was seen", gone, "deleted")

    def nothing_left_at_once(self, at_once):
        # The keeper there, and the end of the connection to it, take a moment longer.
        alive = self.place.is_quiet(PATIENCE)
        self.findings.equal("alive after the end", alive, [])


class RemoteDetached(Detached):
    """A detached run, and all that concerns it, over connections that break."""

    where = ("--host", HOST)

    def choose(self):
        super().choose()
        self.machine = Machine(self.rng, self.soak, self.place)
        # A new runcast that cannot connect at all says so at once.
        self.machine.plan(8, may_fail=False)
        self.patience = BREAKS
        # Files here do not go with a detached run there.
        for name in ("--result", "--record"):
            if name in self.options:
                at = self.options.index(name)
                del self.options[at: at + 2]
        self.result_file = self.record = False

    def environment(self):
        return self.machine.environment(**super().environment())

    def folders(self):
        return self.machine.folders()


def remote(rng, soak, place):
    return rng.choice([RemoteForeground, RemoteForeground, RemoteDetached])(rng, soak, place)
