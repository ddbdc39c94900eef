"""What has to hold of every run, however it went: the manual, as checks. None of this knows the program."""

import re
import signal

from soaks.plan import CUT_TOKEN, TOKEN
from soaks.shown import exact, is_utf8

TIMEOUTS = ("timeout", "idle_timeout")
ERRORS = {
    "not_found": 127, "not_executable": 126, "spawn_failed": 125, "chdir_failed": 125, "file_failed": 125,
    "limit_not_set": 125, "output_failed": 125, "input_invalid": 125, "result_invalid": 125, "result_too_large": 125,
    "backend_unknown": 125, "backend_not_callable": 125, "run_lost": 125, "disconnected": 125, "remote_failed": 125,
}
NAMES = {1: "stdout", 2: "stderr"}
ALWAYS = ["op", "exit_code", "signal", "status", "timed_out", "stopped_by", "stdout", "stderr", "stdout_truncated",
          "stderr_truncated", "stdout_bytes", "stderr_bytes", "stdout_lines", "stderr_lines", "leaked", "limit",
          "duration", "usage"]


class Findings(list):
    """What was wrong: what it is about, what was seen, what should have been."""

    def add(self, about, seen, expected):
        self.append((about, short(seen), short(expected)))

    def equal(self, about, seen, expected):
        if seen != expected:
            self.add(about, seen, expected)

    def one_of(self, about, seen, expected):
        if seen not in expected:
            self.add(about, seen, f"one of {short(expected)}")

    def true(self, about, seen, expected):
        if not seen:
            self.add(about, seen, expected)


def short(value):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) < 1500 else f"{text[:700]} … {text[-700:]}"


def difference(seen, expected):
    """Where two byte strings begin to differ, with what is around that place."""
    place = next((i for i, (a, b) in enumerate(zip(seen, expected)) if a != b), min(len(seen), len(expected)))
    around = slice(max(place - 60, 0), place + 60)
    return (f"at {place} of {len(seen)}: {seen[around]!r}", f"at {place} of {len(expected)}: {expected[around]!r}")


def ended(result):
    """How the command ended, as a plan says it."""
    if result["signal"] is None:
        return ("exit", result["exit_code"])
    return ("signal", number_of(result["signal"]))


def number_of(name):
    return signal.Signals[name].value


def without_line_end(seen, want):
    """What was seen without a line end that was added to it, as the beginning of `want` shows."""
    plain = TOKEN.sub(b"", seen)
    is_added = plain[:-1] == want[: len(plain) - 1] and plain != want[: len(plain)]
    return seen[:-1] if seen.endswith((b"\n", b"\0")) and is_added else seen


def messages(findings, about, err):
    """All of the standard error of a runcast that shows nothing there."""
    for line in err.decode("utf-8", "replace").splitlines():
        if not line.startswith("runcast: ") or "panicked" in line:
            findings.add(f"{about}: standard error", line, "a line that begins with runcast:")


def status(findings, code, result, sent=(), last_stop=None, may_be_gone=False, was_told=False):
    """The exit status of runcast, and how the result explains it. `sent`: signals that runcast was sent.
    `may_be_gone`: the reader of the output may have gone away, whatever else there was. `was_told`: it was stopped by
    `runcast signal --stop`."""
    missing = [name for name in ALWAYS if name not in result]
    findings.equal("result: fields that are missing", missing, [])
    if missing:
        return
    findings.equal("exit status and result.status", code, result["status"])
    ended = (result["exit_code"], result["signal"])
    error, reason = result.get("error"), result["stopped_by"]
    if error:
        findings.one_of("result.error.code", error.get("code"), list(ERRORS))
        findings.equal("status with an error", result["status"], ERRORS.get(error.get("code")))
        return
    if (ended[0] is None) == (ended[1] is None):
        findings.add("exit_code and signal", ended, "one of them")
        return
    own = ended[0] if ended[0] is not None else 128 + number_of(ended[1])
    findings.equal("timed_out", result["timed_out"], reason in TIMEOUTS)
    findings.equal("received is there", "received" in result, reason == "signal" and not was_told)
    expected = [own]
    if reason in TIMEOUTS:
        expected = [124]
    elif reason == "disconnect":
        expected = [141]
    elif reason in ("output", "memory") and own == 0:
        stops = [last_stop] if last_stop else ["SIGTERM", "SIGKILL", "SIGINT", "SIGUSR1", "SIGHUP"]
        expected = [128 + number_of(name) for name in stops]
    elif reason == "signal" and not was_told:
        findings.one_of("received", result.get("received"), [signal.Signals(number).name for number in sent])
        if "undelivered_bytes" in result and own == 0:
            expected = [128 + number_of(result["received"])]
    if may_be_gone and reason not in TIMEOUTS:
        expected.append(141)
    findings.one_of("status", result["status"], expected)


def joined_chunks(findings, about, shown, split, max_line, is_waiting):
    """Each piece is one line or a part of one, and no longer than it may be. `is_waiting`: an unfinished line is shown
    only when it is too long, or at the end."""
    open_ended = {1: False, 2: False}
    for place, (kind, text, is_partial) in enumerate(shown.pieces):
        where = f"{about}: piece {place + 1}"
        body = text
        if shown.has_ends and not is_partial:
            pattern = {"lf": rb"\n\Z", "cr": rb"\r?\n\Z|\r\Z", "nul": rb"\0\Z"}[split]
            match = re.search(pattern, text)
            if match:
                body = text[: match.start()]
            elif any(kind == other for other, _, _ in shown.pieces[place + 1:]):
                findings.add(f"{where} is whole", text, "a line end")
        # With --split nul each LF within a line begins a new record of cri.
        if is_partial and not text and (about, split) != ("cri", "nul"):
            findings.add(f"{where} is partial", text, "some bytes")
        if split == "lf" and b"\n" in body or split == "nul" and b"\0" in body and shown.has_ends:
            findings.add(f"{where}", text, "one line")
        if len(body) > max_line:
            findings.add(f"{where}: length without its end", len(body), f"at most {max_line}")
        open_ended[kind] = is_partial
    for kind in (1, 2):
        joined = b"".join(text for k, text, _ in shown.pieces if k == kind)
        if is_utf8(joined):
            torn = [text for k, text, _ in shown.pieces if k == kind and not is_utf8(text)]
            findings.equal(f"{about}: pieces that end in a character of a stream that is UTF-8", torn, [])
    if is_waiting and shown.whole and shown.result and not shown.dropped:
        findings.equal(f"{about}: the last piece of a stream goes on", open_ended, {1: False, 2: False})


def stream(findings, about, got, plan, kind, written, secret=None, strips=False, is_normal=True):
    """What was read of a stream is what the command wrote, or as much of the beginning as certainly was written.

    `kind` is 0 where both are in one. `written`: how many bytes at least. Not `is_normal`: the ends of lines may
    differ.
    """
    for number in {int(token[0]) for token in TOKEN.findall(got)}:
        seen = [int(i) for n, i in TOKEN.findall(got) if int(n) == number]
        findings.equal(f"{about}: lines of the background process {number}", seen, list(range(len(seen))))
    got = TOKEN.sub(b"", got)
    raw = plan.joined(kind, "raw", least=written)
    want = plan.joined(kind, "shown", least=len(got))
    if plan.tokens and got != want[: len(got)]:
        got = CUT_TOKEN.sub(b"", got)
    certain = raw[:written] if not secret and not strips else whole_pieces(plan, kind, written)
    if not is_normal:
        got, want, certain = ends_off(got), ends_off(want), ends_off(certain)
    beginning = want[: len(got)]
    if got != beginning and secret:
        # The beginning of a secret is shown at the end, since it is none.
        for length in range(1, len(secret)):
            plain = got if got.endswith(secret[:length]) else got.removesuffix(b"\n")
            if plain.endswith(secret[:length]) and plain[:-length] == want[: len(plain) - length]:
                beginning = got
    if got != beginning:
        findings.add(about, *difference(got, beginning))
        return
    if len(got) < len(certain):
        findings.add(f"{about}: bytes", len(got), f"at least {len(certain)}, which were written")


def whole_pieces(plan, kind, written):
    """What is to be shown of the pieces that were written whole."""
    shown = b""
    for fd, group in plan.pieces:
        for piece in group if kind in (0, fd) else []:
            written -= len(piece.raw)
            if written < 0:
                return shown
            shown += piece.shown
    return shown


def ends_off(data):
    return data.translate(None, b"\r\n\0")


def kept(findings, result, truth, max_output, keep, split):
    """The parts of the output in the result. `truth` is all of each stream, where it is known."""
    for kind, name in NAMES.items():
        part = exact(result, name, f"{name}_base64", findings_as_shown(findings, name))
        total, is_cut = result[f"{name}_bytes"], result[f"{name}_truncated"]
        findings.equal(f"{name}_truncated", is_cut, total > len(part))
        omitted = result.get(f"{name}_omitted", 0)
        expected = total - len(part) if keep == "both" and is_cut and len(part) > 0 else 0
        if omitted != expected and not (keep == "both" and omitted == total - len(part)):
            findings.add(f"{name}_omitted", omitted, expected)
        if max_output is None or total <= max_output:
            findings.equal(f"bytes kept of {name}", len(part), total)
        else:
            slack = 8 if keep == "both" else 4
            if not max_output - slack < len(part) <= max_output:
                findings.add(f"bytes kept of {name}", len(part), f"{max_output}, or less by a part of a character")
        all_of_it = truth.get(kind)
        if all_of_it is None:
            continue
        findings.equal(f"{name}_bytes", total, len(all_of_it))
        if total != len(all_of_it):
            continue
        findings.true(f"{name} is kept: {keep}", is_kept(part, all_of_it, keep), f"{keep} of {short(all_of_it)}")
        low, high = lines_in(all_of_it, split)
        if not low <= result[f"{name}_lines"] <= high:
            findings.add(f"{name}_lines", result[f"{name}_lines"], f"{low} to {high}")
        if is_utf8(all_of_it):
            findings.true(f"{name} is cut between characters", is_utf8(part), part[-40:])


def findings_as_shown(findings, about):
    class Wrong:
        @staticmethod
        def wrong(what):
            findings.add(about, what, "what the manual says")

    return Wrong


def is_kept(part, whole, keep):
    if keep == "head" or len(part) == len(whole):
        return whole.startswith(part)
    if keep == "tail":
        return whole.endswith(part)
    middle = len(part) // 2
    return any(
        whole.startswith(part[:place]) and whole.endswith(part[place:])
        for place in range(max(middle - 8, 0), min(middle + 9, len(part) + 1))
    )


def lines_in(data, split):
    """How many lines there are at least and at most: a CR and a LF that came apart are one or two, by the clock."""
    if split == "cr":
        high = len(re.findall(rb"\r|\n", data))
        low = len(re.findall(rb"\r\n|\r|\n", data))
        is_open = bool(data) and data[-1:] not in b"\r\n"
        return low + is_open, high + is_open
    end = b"\0" if split == "nul" else b"\n"
    count = data.count(end) + (bool(data) and not data.endswith(end))
    return count, count
