"""Reads what runcast shows, format by format, as the manual describes it, and tells what breaks that description."""

import base64
import json
import re
from dataclasses import dataclass, field

TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
CRI = re.compile(rb"(" + TIME + rb") (stdout|stderr) ([FP]) (.*)", re.DOTALL)
PAIR = re.compile(rb'([a-z0-9_]+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)')
KINDS = {"stdout": 1, "stderr": 2}
EVENTS = {"started", "chunk", "exited", "stop", "heartbeat", "dropped", "snapshot", "result"}


@dataclass
class Shown:
    """What was read.

    streams   the bytes of each stream, 1 and 2
    pieces    each line or piece in turn: its stream, its bytes, whether it goes on
    has_ends  whether the bytes hold the ends of lines; else each whole line was given a LF
    whole     whether all was read to a proper end
    """

    streams: dict = field(default_factory=lambda: {1: b"", 2: b""})
    pieces: list = field(default_factory=list)
    events: list = field(default_factory=list)
    result: dict = None
    has_ends: bool = True
    whole: bool = True
    dropped: int = 0
    problems: list = field(default_factory=list)

    def wrong(self, what):
        self.problems.append(what)

    def join(self, gather):
        for kind in (1, 2):
            self.streams[kind] = b"".join(gather.get(kind, []))


def lines_of(data, shown):
    """The lines of the data; the rest after the last line end is no line."""
    lines = data.split(b"\n")
    if lines.pop():
        shown.whole = False
    return lines


def parse(line, shown):
    def pairs(items):
        names = [name for name, _ in items]
        if len(set(names)) != len(names):
            shown.wrong(f"a name twice in {line[:200]!r}")
        return dict(items)

    def constant(name):
        raise ValueError(name)

    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except ValueError as error:
        shown.wrong(f"no JSON in UTF-8, {error}: {line[:300]!r}")
        return None
    if not isinstance(value, dict):
        shown.wrong(f"no object: {line[:200]!r}")
        return None
    return value


def exact(event, text, encoded, shown):
    """The bytes of a text and of the base64 beside it, which is there only where it has to be."""
    if encoded not in event:
        return event[text].encode("utf-8", "surrogatepass")
    data = base64.b64decode(event[encoded], validate=True)
    if data.decode("utf-8", "replace") != event[text]:
        shown.wrong(f"{text} {event[text][:80]!r} is not {encoded} {data[:80]!r} with U+FFFD")
    if is_utf8(data):
        shown.wrong(f"{encoded} though it is UTF-8: {data[:80]!r}")
    return data


def is_utf8(data):
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_events(data, after=0, is_cut=False, is_part=False, has_far_clock=False):
    """NDJSON and snapshots. `after`: the chunks begin after that number, as with `attach --after`. `is_cut`: what
    was read may end anywhere. `is_part`: `started` may be missing, as after a resume. `has_far_clock`: signs of life
    are told from here, all else by the clock of another machine, and it may take a while."""
    shown = Shown()
    gather = {1: [], 2: []}
    seq, time = after, 0.0
    for line in lines_of(data, shown):
        event = parse(line, shown)
        if event is None:
            continue
        shown.events.append(event)
        op = event.get("op")
        if op not in EVENTS:
            shown.wrong(f"an unknown op: {line[:200]!r}")
        if shown.result is not None:
            shown.wrong(f"after the result: {line[:200]!r}")
        if op == "started" and len(shown.events) > 1:
            shown.wrong(f"started is not the first: {line[:200]!r}")
        if op not in ("started", "result") and len(shown.events) == 1 and not is_part:
            shown.wrong(f"the first is not started: {line[:200]!r}")
        if "t" in event and op != "dropped" and not (op == "heartbeat" and has_far_clock):
            if event["t"] < time:
                shown.wrong(f"t goes back, {time} before: {line[:200]!r}")
            time = event["t"]
        if op == "result":
            shown.result = event
        elif op == "dropped":
            if event["after_seq"] != seq:
                shown.wrong(f"dropped after {event['after_seq']}, seq {seq} before")
            seq = event["after_seq"] + event["chunks"]
            shown.dropped += event["chunks"]
            if event["chunks"] < 1:
                shown.wrong(f"nothing is dropped: {line[:200]!r}")
        elif op == "chunk":
            if event["seq"] != seq + 1:
                shown.wrong(f"seq {event['seq']} after {seq}")
            seq = event["seq"]
            kind = KINDS[event["kind"]]
            text = exact(event, "content", "base64", shown)
            gather[kind].append(text)
            if event.get("partial", True) is not True:
                shown.wrong(f"partial is not true: {line[:200]!r}")
            shown.pieces.append((kind, text, "partial" in event))
    shown.join(gather)
    if not is_cut and not shown.whole:
        shown.wrong(f"the last line has no end: {data[-200:]!r}")
    return shown


def read_cri(data, is_cut=False):
    shown = Shown(has_ends=False)
    gather, times = {1: [], 2: []}, {}
    for line in lines_of(data, shown):
        match = CRI.fullmatch(line)
        if not match:
            shown.wrong(f"no line of cri: {line[:200]!r}")
            continue
        time, name, mark, text = match.groups()
        if time < times.get(name, b""):
            shown.wrong(f"its time goes back: {line[:200]!r}")
        times[name] = time
        kind = KINDS[name.decode()]
        gather[kind].append(text if mark == b"P" else text + b"\n")
        shown.pieces.append((kind, text, mark == b"P"))
    shown.join(gather)
    if not is_cut and not shown.whole:
        shown.wrong(f"the last line has no end: {data[-200:]!r}")
    return shown


def read_records(data, read_one, is_cut=False):
    shown = Shown(has_ends=False)
    gather, times, seq = {1: [], 2: []}, {}, 0
    for line in lines_of(data, shown):
        record = read_one(line, shown)
        if record is None:
            continue
        shown.events.append(record)
        if shown.result is not None:
            shown.wrong(f"after the last record: {line[:200]!r}")
        stream = record.get("stream")
        if not re.fullmatch(TIME.decode(), record.get("time", "")):
            shown.wrong(f"no time: {line[:200]!r}")
        elif stream and record["time"] < times.get(stream, ""):
            shown.wrong(f"its time goes back: {line[:200]!r}")
        if record.get("level") not in ("debug", "info", "warn", "error"):
            shown.wrong(f"no level: {line[:200]!r}")
        if stream:
            times[stream] = record["time"]
            text = exact(record, "message", "base64", shown)
            seq += 1
            if int(record["seq"]) != seq and not shown.dropped:
                shown.wrong(f"seq {record['seq']} after {seq - 1}")
            seq = int(record["seq"])
            is_partial = record.get("partial") in (True, "true")
            gather[KINDS[stream]].append(text if is_partial else text + b"\n")
            shown.pieces.append((KINDS[stream], text, is_partial))
        elif "status" in record:
            shown.result = record
        else:
            shown.dropped += 1
    shown.join(gather)
    if not is_cut and not shown.whole:
        shown.wrong(f"the last line has no end: {data[-200:]!r}")
    return shown


def read_log(data, is_cut=False):
    return read_records(data, parse, is_cut)


def read_logfmt(data, is_cut=False):
    def one(line, shown):
        record, place = {}, 0
        while place < len(line):
            match = PAIR.match(line, place)
            if not match:
                shown.wrong(f"no pairs from {place} on: {line[:200]!r}")
                return None
            name, value = match.group(1).decode(), match.group(2)
            try:
                value = json.loads(value) if value.startswith(b'"') else value.decode()
            except ValueError as error:
                shown.wrong(f"{name} cannot be read, {error}: {line[:200]!r}")
                return None
            record["message" if name == "msg" else name] = value
            place = match.end()
        return record

    return read_records(data, one, is_cut)


def read_text(out, err, prefix=None, end=b"\n", is_cut=False):
    """Text: each stream as it is, without the prefixes of its lines. `is_cut`: standard output may end anywhere."""
    shown = Shown()
    for kind, data in ((1, out), (2, err)):
        if prefix:
            data = without_prefixes(data, prefix, end, shown, is_cut and kind == 1)
        shown.streams[kind] = data
    return shown


def without_prefixes(data, prefix, end, shown, is_cut):
    lines = data.split(end)
    last = lines.pop()
    if is_cut and not prefix.match(last):
        last = b""
    plain = []
    for line in [*lines, last] if last else lines:
        match = prefix.match(line)
        if not match:
            shown.wrong(f"a line without its prefix: {line[:200]!r}")
            continue
        plain.append(line[match.end():])
    return end.join(plain) + (b"" if last else end if plain else b"")


# It begins a line; with --split nul a NUL ends one.
MESSAGE = re.compile(rb"(?:\A|(?<=[\n\0]))runcast: [^\n]*\n")


def apart(err):
    """The messages of runcast on its standard error, and the pieces that they stand between."""
    return [message.decode("utf-8", "replace") for message in MESSAGE.findall(err)], MESSAGE.split(err)
