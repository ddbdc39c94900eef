"""What the command of a case does, made of random steps, and what is known beforehand of its output and its end."""

import re
import signal

from soaks.content import Content, Piece, cut

TOKEN = re.compile(rb"<bg(\d+):(\d+)>\n")
# What a reader has of one in whose middle it went away.
CUT_TOKEN = re.compile(rb"<(b(g(\d+(:(\d+>?)?)?)?)?)?\Z")
ENDS = [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT, signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE,
        signal.SIGUSR1]
# Not exit codes of the plan, so that it can be told apart: what a trap exits with is 60 and above, python's own 1.
CODES = [0, 0, 0, 0, 2, 3, 7, 42, 124, 125, 126, 127, 137, 141, 255]


class Plan:
    """The steps of a command.

    end         ("exit", CODE), ("signal", N), or None where it does not end by itself
    seconds     how long that takes at least
    traps       what becomes of signals: a code, None where nothing, for each number
    raw, shown  what it writes to 1 and to 2, and both in the order of writing, under 0
    tokens      of each process in the background its stream and how many it writes: `<bgN:I>` on a line each
    late        how long the processes in the background take after the command's end at most
    marks       the files that those make at their end
    """

    def __init__(self, rng, strips=False, secret=None, most=None):
        self.rng = rng
        self.content = Content(rng, strips, secret)
        # Another's line in the middle of a sequence or a secret would make it none.
        self.is_shared = not strips and not secret
        self.steps = []
        self.end = None
        self.seconds = 0.0
        self.late = 0.0
        self.traps = {}
        self.pieces = []
        self.tokens = {}
        self.marks = []
        self.flood = None
        size = rng.choice([0, 100, 100, 2000, 2000, 2000, 20000, 20000, 300000])
        if rng.random() < 0.03:
            size = 3000000
        self.size = min(size, most) if most is not None else size
        self.begin()
        self.write()
        self.finish()

    def begin(self):
        rng = self.rng
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            what = rng.choice(["default"] * 6 + ["ignore", "trap", "exit"])
            if what == "ignore":
                self.steps.append(["ignore", number])
                self.traps[number] = None
            elif what == "trap":
                self.steps.append(["trap", number, None])
                self.traps[number] = None
            elif what == "exit":
                code = rng.choice([0, 60, 61, 62])
                self.steps.append(["trap", number, code])
                self.traps[number] = code
        self.steps.append(["report", "command"])
        if rng.random() < 0.35:
            for _ in range(rng.randint(1, 3)):
                self.fork()

    def fork(self):
        """A process in the background, which ends by itself."""
        rng, number = self.rng, len(self.tokens)
        how = "".join(rng.sample("sdc", rng.randint(0, 3)))
        fd, count = rng.choice([1, 2]), rng.randint(0, 6) if self.is_shared else 0
        pause = rng.choice([0.0, 0.01, 0.1, 0.3])
        mark = f"mark{number}"
        steps = []
        if rng.random() < 0.3:
            steps.append(["ignore", signal.SIGTERM])
        for i in range(count):
            if pause:
                steps.append(["sleep", pause])
            if "c" not in how:
                steps.append(["say", fd, f"<bg{number}:{i}>\n"])
        rest = rng.choice([0.0, 0.0, 0.2, 1.0])
        steps += [["sleep", rest], ["touch", mark]]
        self.tokens[number] = (fd, 0 if "c" in how else count)
        self.late = max(self.late, pause * count + rest)
        self.marks.append(mark)
        self.steps.append(["fork", how, steps])

    def write(self):
        rng = self.rng
        both = [1] if rng.random() < 0.4 else [1, 2]
        bursts = rng.choice([1, 1, 2, 3, 5])
        for _ in range(bursts):
            fd = rng.choice(both)
            pieces = self.content.pieces(self.size // bursts) if self.size else []
            # A piece at a time to either stream, or all in one.
            groups = [(rng.choice(both), [piece]) for piece in pieces] if len(pieces) < 60 else [(fd, pieces)]
            for fd, group in groups:
                self.pieces.append((fd, group))
                for data in cut(rng, b"".join(piece.raw for piece in group), rng.choice([1, 1, 2, 6])):
                    self.steps.append(["write", fd, data.decode("latin-1")])
                    if rng.random() < 0.05:
                        self.sleep(rng.choice([0.001, 0.01, 0.05, 0.25]))
            if rng.random() < 0.3:
                self.sleep(rng.choice([0.01, 0.1, 0.3]))

    def sleep(self, seconds):
        self.steps.append(["sleep", seconds])
        self.seconds += seconds

    def finish(self):
        rng = self.rng
        is_endless = rng.random() < 0.25
        is_flood = is_endless and rng.random() < 0.2
        for fd in (1, 2):
            if rng.random() < 0.06 and not is_flood:
                self.steps.append(["close", fd])
        if self.tokens and rng.random() < 0.3:
            self.steps.append(["reap"])
            self.seconds += self.late
        if is_endless and not is_flood:
            self.steps.append(["sleep", 1000])
            return
        if is_flood:
            self.flood = self.content.text(60).encode() + b"\n"
            self.steps.append(["flood", 1, self.flood.decode("latin-1"), None])
            return
        if rng.random() < 0.15:
            number = rng.choice(ENDS)
            self.steps.append(["raise", int(number)])
            self.end = ("signal", int(number))
        else:
            code = rng.choice(CODES)
            self.steps.append(["exit", code])
            self.end = ("exit", code)

    def copy_input(self, data):
        """Before all else it copies its standard input, which will be these bytes."""
        self.steps.insert(0, ["copy"])
        self.pieces.insert(0, (1, [Piece(data, data)]))

    def joined(self, kind, what, least=0):
        """All of one stream, 1 or 2, or of both in the order of writing, 0: what is written (`raw`) or `shown`.

        A flood has no end: of it there is so much that it is at least `least` bytes.
        """
        parts = [getattr(piece, what) for fd, group in self.pieces if kind in (0, fd) for piece in group]
        data = b"".join(parts)
        if self.flood and kind in (0, 1):
            data += self.flood * (max(least - len(data), 0) // len(self.flood) + 1)
        return data
