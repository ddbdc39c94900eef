"""What the command of a case writes: bytes, and what is to be shown of them."""

from dataclasses import dataclass

# What the escape sequences of --strip-ansi are, each whole.
SEQUENCES = [
    b"\x1b[0m", b"\x1b[1;31m", b"\x1b[38;5;200m", b"\x1b[K", b"\x1b[2J", b"\x1b[?25l", b"\x1b[10;20H",
    b"\x1b]0;a title\x07", b"\x1b]8;;http://example.org\x1b\\", b"\x1b(B", b"\x1b7", b"\x1b=", b"\x1bP1$r0m\x1b\\",
]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;-_/\\\"'{}[]|=\t"
UTF8 = "äöüßéñ中文字漢😀🚀\u2028\u0085\u00a0\ufeff\u0301"


@dataclass
class Piece:
    """Bytes that are written without anything of the other stream in between, and what is shown of them."""

    raw: bytes
    shown: bytes


class Content:
    """Makes pieces. No token of a process in the background (`<bg…>`) and no message of runcast is among them."""

    def __init__(self, rng, strips=False, secret=None):
        self.rng = rng
        self.strips = strips
        self.secret = secret

    def pieces(self, size):
        """Pieces of about so many bytes in all."""
        style = self.rng.choice(["lines", "lines", "mixed", "mixed", "long", "bytes", "progress", "empty"])
        pieces, length = [], 0
        while length < size:
            piece = self.piece(style, size - length)
            pieces.append(piece)
            length += len(piece.raw)
        return pieces

    def piece(self, style, most):
        rng = self.rng
        if self.secret and rng.random() < 0.15:
            return self.masked()
        if self.strips and rng.random() < 0.3:
            return Piece(rng.choice(SEQUENCES), b"")
        if style == "mixed":
            style = rng.choice(["lines", "lines", "long", "bytes", "progress", "empty"])
        if style == "bytes" and not self.strips:
            text = rng.choice([
                lambda: rng.randbytes(rng.randint(1, 300)),
                lambda: rng.choice([b"\0", b"\r", b"\r\n", b"\n\r", b"\xff\n", b"\xc3", b"\xe2\x82", b"\xf0\x9f"]),
                lambda: rng.choice([*SEQUENCES, b"\x1b[", b"\x1b", b"\x9b1m"]),
                lambda: b"\0".join([self.text(20).encode() for _ in range(3)]) + b"\0",
            ])()
        elif style == "long":
            text = self.text(min(most, rng.choice([100, 5000, 70000]))).encode()
        elif style == "progress":
            text = self.text(30).encode() + rng.choice([b"\r", b"\r", b"\r\n", b"\n"])
        elif style == "empty":
            text = rng.choice([b"\n", b"\n\n", b"\r\n", b"\n" * 20, b" \n"])
        else:
            text = self.text(rng.choice([0, 10, 80, 400])).encode() + (b"\n" if rng.random() < 0.95 else b"")
        # These two bytes in a row would be a sign of something else.
        text = text.replace(b"<b", b"<B")
        return Piece(text, text)

    def masked(self):
        secret = self.secret
        if self.strips and self.rng.random() < 0.5:
            at = self.rng.randint(1, len(secret) - 1)
            return Piece(secret[:at] + self.rng.choice(SEQUENCES) + secret[at:], b"***")
        return Piece(secret, b"***")

    def text(self, most):
        length = self.rng.randint(most // 2, most)
        letters = LETTERS if self.rng.random() < 0.7 else LETTERS + UTF8
        return "".join(self.rng.choices(letters, k=length))


def cut(rng, data, most_pieces):
    """The data in pieces that are not empty, cut anywhere."""
    count = min(rng.randint(1, most_pieces), len(data))
    places = sorted(rng.sample(range(1, len(data)), count - 1)) if count > 1 else []
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)])] if data else []
