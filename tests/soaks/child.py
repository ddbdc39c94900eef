"""Plays the command of a case: does what its plan says, step by step, and decides nothing itself.

    env --ignore-signal=INT python3 -I -S child.py PLAN FOLDER

PLAN is a JSON list of steps, each a list whose first word is its verb; bytes are text in Latin-1. In FOLDER the
file `written` holds two numbers of eight bytes, how much of standard output and of standard error has certainly
been written. They are updated after each write, so that whatever ends this process, they are never too high.

    write FD TEXT           in one write, as far as the kernel takes it
    flood FD TEXT COUNT     so many times; null is for ever
    say FD TEXT             the same as write, but does not count as written: for processes in the background
    sleep SECONDS           signals do not shorten it
    await NAME, touch NAME  until that file is in FOLDER; makes it
    ignore N, trap N CODE   signal N is ignored; ends the process with CODE, or is noted and no more (null)
    fork HOW STEPS          HOW is a text with `s` for a session of its own, `d` for a double fork, `c` for closed
                            standard streams
    reap                    waits for all children
    close FD
    copy                    standard input to standard output
    burn SECONDS, hold SIZE, fill SIZE
                            processor time; resident memory; a file in FOLDER
    return                  the value of RUNCAST_INPUT, or null, to RUNCAST_RESULT
    report NAME             the process id, to that file in FOLDER
    exit CODE, raise N
"""

import os
import signal
import sys
import time


def main():
    # Python ignores the first two, and would make an exception of INT, which is therefore ignored until here.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    with open(sys.argv[1], encoding="ascii") as file:
        import json

        steps = json.load(file)
    child = Child(sys.argv[2])
    child.perform(steps)
    os._exit(0)


class Child:
    def __init__(self, folder):
        self.folder = folder
        self.written = {1: 0, 2: 0}
        self.counts = os.open(self.path("written"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self.counts, bytes(16), 0)
        self.held = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def perform(self, steps):
        for verb, *words in steps:
            getattr(self, "do_" + verb)(*words)

    def put(self, fd, data, counts=True):
        while data:
            length = os.write(fd, data)
            data = data[length:]
            if counts:
                self.written[fd] += length
                os.pwrite(self.counts, self.written[fd].to_bytes(8, "little"), 8 * (fd - 1))

    def do_write(self, fd, text):
        self.put(fd, text.encode("latin-1"))

    def do_flood(self, fd, text, count):
        data = text.encode("latin-1")
        while count is None or count > 0:
            self.put(fd, data)
            count = None if count is None else count - 1

    def do_say(self, fd, text):
        self.put(fd, text.encode("latin-1"), counts=False)

    def do_sleep(self, seconds):
        time.sleep(seconds)

    def do_await(self, name):
        while not os.path.exists(self.path(name)):
            time.sleep(0.005)

    def do_touch(self, name):
        os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o600))

    def do_ignore(self, number):
        signal.signal(number, signal.SIG_IGN)

    def do_trap(self, number, code):
        def caught(_number, _frame):
            if code is not None:
                os._exit(code)

        signal.signal(number, caught)

    def do_fork(self, how, steps):
        if os.fork() != 0:
            return
        if "d" in how and os.fork() != 0:
            os._exit(0)
        if "s" in how:
            os.setsid()
        if "c" in how:
            nothing = os.open("/dev/null", os.O_RDWR)
            for fd in range(3):
                os.dup2(nothing, fd)
        self.perform(steps)
        os._exit(0)

    def do_reap(self):
        try:
            while True:
                os.wait()
        except ChildProcessError:
            pass

    def do_close(self, fd):
        os.close(fd)

    def do_copy(self):
        while data := os.read(0, 65536):
            self.put(1, data)

    def do_burn(self, seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def do_hold(self, size):
        self.held.append(bytearray(b"\1") * size)

    def do_fill(self, size):
        with open(self.path("filled"), "wb", buffering=0) as file:
            for _ in range(0, size, 4096):
                file.write(b"f" * 4096)

    def do_return(self):
        value = b"null"
        if "RUNCAST_INPUT" in os.environ:
            with open(os.environ["RUNCAST_INPUT"], "rb") as file:
                value = file.read()
        with open(os.environ["RUNCAST_RESULT"], "wb") as file:
            file.write(value)

    def do_report(self, name):
        with open(self.path(name + ".new"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.rename(self.path(name + ".new"), self.path(name))

    def do_exit(self, code):
        os._exit(code)

    def do_raise(self, number):
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
        time.sleep(60)


main()
