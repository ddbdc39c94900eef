"""How the output of a run is to look: random options, and what they mean for whoever reads it."""

import re

from soaks import shown

FORMATS = ["text", "text", "text", "ndjson", "ndjson", "ndjson", "ndjson", "snapshot", "cri", "log", "logfmt"]
PREFIXES = {
    "-p": rb"(?:stdout|stderr) \| ",
    "--prefix=[{seq}|{pid}] ": rb"\[\d+\|\d+\] ",
    "-p{stream}{{}} ": rb"(?:stdout|stderr)\{\} ",
    "-T": shown.TIME + rb" ",
    "-Telapsed": rb" *\d+\.\d{6} ",
    "-Tdelta": rb" *\d+\.\d{6} ",
    "-T%Y": rb"\d{4} ",
}


class Looks:
    """The options that say what becomes of the output: chosen once, for all who check it."""

    def __init__(self, rng, fmt=None):
        self.rng = rng
        self.format = fmt or rng.choice(FORMATS)
        self.split, self.max_line = "lf", 1 << 20
        self.max_output, self.keep = 256 << 10, "head"
        self.strips, self.secret = rng.random() < 0.1, None
        self.merge, self.pty = False, None
        self.quiet, self.drops = False, False
        self.partial_after = None
        self.prefix = None
        self.words = [] if self.format == "text" and rng.random() < 0.5 else ["-f", self.format]
        if self.strips:
            self.words.append("--strip-ansi")
        if rng.random() < 0.1:
            self.secret = "".join(rng.choices("abcXYZ0189+/-_ %\"", k=rng.choice([5, 20, 300])))
            # Its ends are its own, so that it is found nowhere else.
            self.secret = f"Q{self.secret}Q"
            self.words += ["--mask-env", "SOAK_SECRET"]
        if rng.random() < 0.2:
            self.split = rng.choice(["cr", "nul", "lf"])
            self.words += ["--split", self.split]
        if rng.random() < 0.2:
            self.max_line = rng.choice([4, 10, 100, 4096])
            self.words += ["--max-line", str(self.max_line)]
        if rng.random() < 0.25:
            self.partial_after = rng.choice(["0", "10ms", "1ms", "never"])
            self.words += ["--partial-after", self.partial_after]

    def of_run(self, has_pty=True):
        """Those that are for the run itself."""
        rng = self.rng
        if rng.random() < 0.15:
            self.merge = True
            self.words.append("--merge")
        if has_pty and rng.random() < 0.15:
            self.pty = rng.choice(["full", "split"])
            self.words.append(f"--pty={self.pty}")
        if rng.random() < 0.3:
            self.max_output = rng.choice([0, 1, 7, 1000, 65536, None])
            self.words += ["--max-output", "unlimited" if self.max_output is None else str(self.max_output)]
        if rng.random() < 0.3:
            self.keep = rng.choice(["head", "tail", "both"])
            self.words += ["--keep", self.keep]

    def of_text(self):
        if self.format == "text" and self.split != "cr" and self.rng.random() < 0.25:
            word = self.rng.choice(list(PREFIXES))
            self.prefix = re.compile(PREFIXES[word])
            self.words.append(word)

    @property
    def is_one(self):
        """Whether both streams of the command are one."""
        return self.merge or self.pty == "full"

    def kinds(self):
        """Which stream of the plan each shown stream is; None where there is nothing in it."""
        return {1: 0, 2: None} if self.is_one else {1: 1, 2: 2}

    def is_waiting(self, is_record=False):
        """Whether unfinished lines are waited for, however long that takes."""
        default = "200ms" if is_record or self.format == "ndjson" else "never"
        return (self.partial_after or default) == "never"

    def normal(self, is_exact):
        """Whether the ends of lines are known."""
        return is_exact or self.split == "lf"
