"""Where a case takes place: its folder, its processes, those who read from them, and what is left of all that."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import threading
import time

MARK = "RUNCAST_SOAK_CASE"
# How long something may take that should be done at once. It is a check for what hangs, not of speed.
PATIENCE = 30.0


class Hung(Exception):
    """Something did not end in time."""


class Place:
    """The folder of a case. Processes of the case are known by a variable in their environment."""

    def __init__(self, root, name):
        self.folder = os.path.join(root, name)
        self.mark = f"{os.getpid()}.{name}"
        os.makedirs(self.folder)
        for inner in ("tmp", "out", "child", "cwd"):
            os.mkdir(self.path(inner))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data):
        with open(self.path(name), "wb" if isinstance(data, bytes) else "w") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def environment(self, **more):
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
        return {**inherited, MARK: self.mark, "TMPDIR": self.path("tmp"), **more}

    def written(self):
        """How much the command has written to 1 and 2 at least."""
        data = (self.read("child/written") or b"").ljust(16, b"\0")
        return {1: int.from_bytes(data[:8], "little"), 2: int.from_bytes(data[8:16], "little")}

    def command(self):
        """The process id of the command, once it runs."""
        text = self.read("child/command")
        return int(text) if text else None

    def processes(self):
        """Those of this case that are alive."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/environ", "rb") as file:
                        if wanted in file.read().split(b"\0"):
                            found.append(int(entry))
                except OSError:
                    continue
        return [pid for pid in found if state(pid) not in ("Z", "X", None)]

    def is_quiet(self, seconds):
        """Waits until no process of the case is alive, for so long at most. Returns those that are."""
        wait_for(lambda: not self.processes(), seconds)
        return self.processes()

    def kill_all(self):
        for _ in range(50):
            alive = self.processes()
            if not alive:
                return
            for pid in alive:
                kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(fact, seconds):
    end = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def state(pid):
    """The letter of the process's state; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return None


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def kill(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def describe(pids):
    """What these processes are and where they stand."""
    lines = []
    for pid in pids:
        words = [str(pid)]
        for name in ("cmdline", "wchan", "status"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    text = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                text = "?"
            if name == "status":
                text = " ".join(line for line in text.splitlines() if line.startswith(("State", "PPid", "Sig", "Shd")))
            words.append(text[:300])
        lines.append(" | ".join(words))
    return "\n".join(lines)


class Reader(threading.Thread):
    """Reads what a process writes, in one of several ways, and keeps it.

    fast         all, as it comes
    odd          a few bytes at a time
    slow         with pauses, in which a pipe gets full
    stall        nothing for a while, then all
    close        closes after some bytes
    close early  closes at once
    never        reads nothing before the process has ended, or for 4 seconds
    """

    def __init__(self, fd, how="fast", seed=0, process=None):
        super().__init__(daemon=True)
        self.fd = fd
        self.how = how
        self.random = random.Random(seed)
        self.data = bytearray()
        self.is_closed = False
        self.process = process
        self.most = self.random.choice([1, 100, 5000, 200000])
        self.pause = self.random.choice([0.1, 0.4, 1.0])

    def run(self):
        try:
            self.read()
        finally:
            os.close(self.fd)

    def read(self):
        if self.how == "close early":
            self.is_closed = True
            return
        if self.how == "stall":
            time.sleep(self.pause)
        if self.how == "never":
            wait_for(lambda: self.process.poll() is not None, 4.0)
        slowed = 0.0
        while True:
            size = 65536
            if self.how == "odd" and len(self.data) < 3000:
                size = self.random.randint(1, 40)
            elif self.how == "slow" and slowed < 2.0:
                size = 4096
                time.sleep(0.02)
                slowed += 0.02
            elif self.how == "close":
                size = min(size, self.most - len(self.data))
                if size <= 0:
                    self.is_closed = True
                    return
            data = os.read(self.fd, size)
            if not data:
                return
            self.data += data


class Process:
    """A runcast, with its readers. `closed`: standard descriptors that it is started without."""

    def __init__(self, argv, place, stdin=None, how="fast", seed=0, stdout=None, closed=(), fds=(), env=None):
        self.argv = argv
        words = list(argv)
        if closed:
            closing = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
            words = ["sh", "-c", f'exec "$@" {closing}', "sh", *words]
        self.process = subprocess.Popen(
            words, cwd=place.path("cwd"), env=env or place.environment(), pass_fds=fds,
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            process_group=0,
        )
        self.pid = self.process.pid
        self.out = None
        if stdout is None:
            self.out = Reader(os.dup(self.process.stdout.fileno()), how, seed, self.process)
            self.process.stdout.close()
        self.err = Reader(os.dup(self.process.stderr.fileno()))
        self.process.stderr.close()
        for reader in filter(None, (self.out, self.err)):
            reader.start()
        if isinstance(stdin, bytes):
            threading.Thread(target=self.feed, args=(stdin,), daemon=True).start()

    def feed(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def signal(self, number):
        # It is not waited for elsewhere meanwhile, so its number is its own.
        if self.process.returncode is None:
            kill(self.pid, number)

    def finish(self, seconds):
        """Waits for its end and for that of its output. Returns its status, negative for a signal."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            told = describe([self.pid])
            raise Hung(f"runcast did not end within {seconds:.0f} s: {shlex.join(self.argv)}\n{told}") from None
        return self.process.returncode

    def close_readers(self, seconds):
        """Waits until what it wrote is read: what it left behind may still hold its standard error."""
        for reader in filter(None, (self.out, self.err)):
            reader.join(seconds)
            if reader.is_alive():
                raise Hung("somebody still holds the output of runcast after its end")

    @property
    def stdout(self):
        return bytes(self.out.data) if self.out else b""

    @property
    def stderr(self):
        return bytes(self.err.data)
