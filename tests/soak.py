#!/usr/bin/env python3
"""Runs random commands with random options, signals, deaths and readers, and checks what the manual promises.

    python3 tests/soak.py --bin target/release/runcast --seconds 600 [--seed N] [--jobs N] [--kind KIND]
    python3 tests/soak.py --bin target/release/runcast --seed N --case N

Each case is made from the seed and its number alone, so `--seed` and `--case` repeat it (but for the clock: what
depends on who is faster may take several times). On a finding it tells both, the command line, what was seen and
what should have been, keeps the folder of the case, and ends with 1; with `--keep-going` it goes on until the time
is over. Without one it ends with 0 and a line of counts.

The parts, in tests/soaks:

    child.py       the command: does what its plan says
    content.py     the bytes that it writes, and what is to be shown of them
    plan.py        its random steps, and what is known beforehand of its output and its end
    looks.py       how the output is to look
    world.py       the folder of a case, its processes, its readers
    shown.py       reads all formats
    contract.py    what has to hold of every run
    foreground.py, detached.py, remote.py, others.py
                   the kinds of case

It knows nothing of the program but the manual. It takes Python 3.11 and Linux, and no privileges.
"""

import argparse
import os
import py_compile
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True

from soaks import detached, foreground, others, remote  # noqa: E402
from soaks.world import Hung, Place, describe  # noqa: E402

KINDS = {
    "foreground": (foreground.Foreground, 60),
    "detached": (detached.Detached, 20),
    "remote": (remote.remote, 8),
    "callable": (others.Callable, 6),
    "refused": (others.Refused, 6),
}


class Soak:
    def __init__(self, options):
        self.options = options
        self.bin = os.path.abspath(options.bin)
        self.python = sys.executable
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.root = tempfile.mkdtemp(prefix="runcast-soak-")
        # Compiled once, so that it starts fast.
        self.child = os.path.join(self.root, "child.pyc")
        py_compile.compile(os.path.join(self.here, "soaks", "child.py"), self.child, doraise=True)
        self.lock = threading.Lock()
        self.number = options.case or 0
        self.counts = dict.fromkeys(KINDS, 0)
        self.failures = 0
        self.end = time.monotonic() + options.seconds
        self.told = {}

    def tell(self, place, argv):
        """Notes a command line of a case, to be told with what was found."""
        self.told.setdefault(place.folder, []).append(shlex.join(argv))

    def command(self, place):
        """The words of a command that does what the plan of this place says."""
        python = [self.python, "-I", "-S", self.child]
        return ["env", "--ignore-signal=INT", *python, place.path("plan"), place.path("child")]

    def is_over(self):
        return time.monotonic() > self.end or self.failures and not self.options.keep_going

    def work(self):
        while True:
            with self.lock:
                if self.is_over():
                    return
                number = self.number
                self.number += 1
            self.case(number)
            if self.options.case is not None:
                return

    def case(self, number):
        rng = random.Random(f"{self.options.seed}:{number}")
        kinds = list(KINDS)
        kind = rng.choices(kinds, [KINDS[name][1] for name in kinds])[0]
        kind = self.options.kind or kind
        place = Place(self.root, f"case{number}")
        found = []
        try:
            found = KINDS[kind][0](rng, self, place).run()
        except Hung as error:
            found = [("an end", str(error), "in time")]
            found.append(("alive", describe(place.processes()), ""))
        except Exception:
            found = [("the soak itself failed", traceback.format_exc(), "what it can read")]
        place.kill_all()
        with self.lock:
            self.counts[kind] += 1
            if found:
                self.failures += 1
                self.report(number, kind, place, found)
        if not found:
            place.remove()
        self.told.pop(place.folder, None)

    def report(self, number, kind, place, found):
        lines = [f"FOUND in case {number} ({kind}); python3 tests/soak.py --bin {shlex.quote(self.options.bin)} "
                 f"--seed {self.options.seed} --case {number}" + (f" --kind {kind}" if self.options.kind else "")]
        lines += [f"  ran: {argv[:3000]}" for argv in self.told.get(place.folder, [])]
        lines.append(f"  folder: {place.folder}")
        for about, seen, expected in found[:12]:
            lines += [f"  {about}", f"    seen:     {seen}", f"    expected: {expected}"]
        if len(found) > 12:
            lines.append(f"  and {len(found) - 12} more")
        print("\n".join(lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Checks what runcast promises with random runs.")
    parser.add_argument("--bin", required=True, help="the runcast to be checked")
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--jobs", type=int, default=4, help="how many cases at a time (4)")
    parser.add_argument("--case", type=int, default=None, help="this case alone")
    parser.add_argument("--kind", choices=KINDS, help="cases of this kind alone")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first finding")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "little")
    print(f"soak: seed {options.seed}", flush=True)
    # Cores would be left in the folders.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soak = Soak(options)
    jobs = 1 if options.case is not None else options.jobs
    workers = [threading.Thread(target=soak.work) for _ in range(jobs)]
    started = time.monotonic()
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        soak.end = 0
        for worker in workers:
            worker.join()
    counts = ", ".join(f"{count} {kind}" for kind, count in soak.counts.items() if count)
    print(f"soak: {sum(soak.counts.values())} cases ({counts}) in {time.monotonic() - started:.0f} s, "
          f"{soak.failures} with findings, seed {options.seed}", flush=True)
    if not soak.failures:
        shutil.rmtree(soak.root)
    sys.exit(1 if soak.failures else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
