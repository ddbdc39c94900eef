#!/usr/bin/env python3
# Stands for ssh: [OPTIONS] DEST COMMAND. Gives COMMAND to a login shell on this machine, which is told by its own
# PATH, HOME and folder of runs that it is another one, and passes bytes on until the connection is to break.
#
# The folder of the machine, in MACHINE, says how:
#   log      each connection adds a line: seconds, TAB, DEST, TAB, COMMAND
#   pids     and its process id
#   plan     a line for each connection in turn, or none for one that holds:
#              out N | in N      it breaks after so many bytes from there, or to there
#              freeze N          after so many bytes from there nothing passes any more, and all stays open
#              fail STATUS TEXT  ssh fails so, before there is a connection
#              ask               it asks for a password on the terminal, which it writes into the file `answers`
#              before TEXT       it breaks before a line with this passes, either way
#              after TEXT        once such a line has passed
#   noise    what the login shell prints first
#   shell    the login shell, in words, in place of `sh -c`
#   path     its PATH
#
# When a connection breaks, what was started there finds its standard streams closed, and is not killed: as sshd
# does it.
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import time

machine = os.environ["MACHINE"]


def read(name, default=""):
    try:
        with open(os.path.join(machine, name), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return default


def add(name, line):
    with open(os.path.join(machine, name), "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(line)


def next_plan():
    try:
        with open(os.path.join(machine, "plan"), "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines = file.read().splitlines()
            file.seek(0)
            file.truncate()
            file.write("".join(line + "\n" for line in lines[1:]))
            return lines[0].split(" ", 2) if lines else []
    except FileNotFoundError:
        return []


words = sys.argv[1:]
while words and words[0].startswith("-"):
    words = words[2 if words[0] in ("-o", "-p", "-i", "-l", "-F") else 1 :]
dest, command = words[0], " ".join(words[1:])
add("log", f"{time.monotonic()}\t{dest}\t{command}\n")
add("pids", f"{os.getpid()}\n")
plan = next_plan()
kind = plan[0] if plan else ""
amount = int(plan[1]) if kind in ("fail", "in", "out", "freeze") else 0
text = " ".join(plan[1:]).encode() if kind in ("before", "after") else None
if kind == "fail":
    sys.stderr.write(plan[2].replace("\\n", "\n") + "\n" if len(plan) > 2 else "")
    sys.exit(amount)

if kind == "ask":
    with open("/dev/tty", "r+b", buffering=0) as terminal:
        terminal.write(b"Password: ")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += terminal.read(1)
    add("answers", answer.decode())

environment = dict(os.environ)
environment["PATH"] = read("path", os.path.join(machine, "bin") + ":/usr/local/bin:/usr/bin:/bin")
environment["HOME"] = os.path.join(machine, "home")
environment["RUNCAST_DIR"] = os.path.join(machine, "runs")
shell = read("shell", "sh -c").split()
there = subprocess.Popen(
    [*shell, command],
    env=environment,
    cwd=environment["HOME"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    start_new_session=True,
    preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGQUIT)],
)
noise = read("noise").encode("utf-8", "surrogateescape")
os.write(1, noise)
left = {"out": None, "in": None}
if kind in ("out", "freeze"):
    left["out"] = amount
elif kind == "in":
    left["in"] = amount


def break_off():
    there.stdin.close()
    there.stdout.close()
    os._exit(255)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


selector = selectors.DefaultSelector()
selector.register(0, selectors.EVENT_READ, "in")
selector.register(there.stdout, selectors.EVENT_READ, "out")
while True:
    for key, _ in selector.select():
        way = key.data
        data = os.read(key.fd, 65536)
        if not data and way == "in":
            selector.unregister(0)
            there.stdin.close()
            continue
        if not data:
            status = there.wait()
            os._exit(255 if status < 0 else status)
        at = data.find(text) if text else -1
        if at >= 0 and kind == "before":
            data = data[: data.rfind(b"\n", 0, at) + 1]
        elif at >= 0:
            data = data[: (data.find(b"\n", at) + 1) or len(data)]
        is_last = left[way] is not None and len(data) >= left[way]
        is_last = is_last or at >= 0
        if left[way] is not None:
            data = data[: left[way]]
            left[way] -= len(data)
        try:
            write_all(1 if way == "out" else there.stdin.fileno(), data)
        except BrokenPipeError:
            if way == "out":
                break_off()
            selector.unregister(0)
        if is_last and kind == "freeze":
            add("frozen", "")
            signal.pause()
        if is_last:
            break_off()
