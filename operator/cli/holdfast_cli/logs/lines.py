"""Cut a container log with timestamps into lines, each of them once over several readings. Pure.

The log API can only be asked for what was written since a whole second. So a reading that goes on where another one
broke off gets lines once more. A Position says what was read: the time of the last line, and how many lines have this
time. A line that is not complete yet is read again from its start.

A program rewrites a line with carriage returns, as progress bars do. Of such a line the last state is shown; if it is
long, the newest state after each REWRITTEN bytes too, so that an hour with one bar is not silent. What is shown does
not depend on the pieces in which the log arrives.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

REWRITTEN: Final = 16 * 1024  # bytes of a line with carriage returns after which its state is shown
LONGEST: Final = 1024 * 1024  # bytes of a line; a longer one is shown in pieces
_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_LONGEST_STAMP: Final = 40


class Line(NamedTuple):
    """One line without its end. `at`: when it was written, in UTC with nanoseconds; bytes that sort by time."""

    at: bytes
    text: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a log was read. `at` is b"" before the first line."""

    at: bytes = b""
    count: int = 0  # lines with this time that were read
    open_at: bytes = b""  # time of the next line, if a part of it was shown
    open_bytes: int = 0  # length of this part

    def after(self, at: bytes) -> "Position":
        """The position after one more complete line."""
        return Position(at, self.count + 1 if at == self.at else 1)

    def since(self) -> str:
        """The whole second from which the log is to be read to go on here."""
        return f"{self.at[:19].decode()}Z"


def parse_stamp(text: bytes) -> bytes | None:
    """The time in UTC with nine digits of the second; None if it is not a time: anybody may write a kept log."""
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    seconds, digits, zone = found.groups()
    if zone != b"Z":
        try:
            utc = datetime.fromisoformat((seconds + zone).decode()).astimezone(UTC)
        except (ValueError, OverflowError):  # a day 99, or a time before the year 1
            return None
        seconds = f"{utc:%Y-%m-%dT%H:%M:%S}".encode()
    return bytes(seconds) + b"." + (digits or b"").ljust(9, b"0") + b"Z"


def last_state(text: bytes) -> bytes:
    """The last state of a line that was rewritten that is not blank; any other line as it is."""
    if b"\r" not in text:
        return text
    return next((state for state in reversed(text.split(b"\r")) if state.strip()), b"")


class Cutter:
    """Cuts one reading of a log into lines. `position` says what earlier readings gave, and goes on from there."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._skips = position.count  # lines of the time `position.at` that come again; 0 once they are behind
        self._rest = b""
        self._at: bytes | None = None  # the time of the line that is being read
        self._stamped = True
        self._drop = False  # the line was read before
        self._known = 0  # bytes of the line that were shown before, and come again
        self._shown = 0  # bytes of the line that were shown, over all readings

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that the next bytes complete."""
        data, at = self._rest + chunk, 0
        try:
            while True:
                if self._at is None and (begun := self._begin(data, at)) is not None:
                    at = begun
                if self._at is None or (piece := _piece(data, at)) is None:
                    return
                text, at, ended = piece
                yield from self._take(text, ended)
        finally:
            self._rest = data[at:]

    def end(self) -> Iterator[Line]:
        """The last line, if the log ended without an end of line."""
        if self._at is not None and self._rest:
            rest, self._rest = self._rest, b""
            yield from self._take((rest, len(rest)), True)

    def _begin(self, data: bytes, at: int) -> int | None:
        """Where the text of the next line starts; None if its time is not there yet."""
        blank = data.find(b" ", at, at + _LONGEST_STAMP)
        found = parse_stamp(data[at:blank]) if blank >= 0 else None
        if found is None and blank < 0 and len(data) - at < _LONGEST_STAMP and b"\n" not in data[at:]:
            return None
        # A kubelet that cannot read a log says so in a line of its own, without a time.
        self._at, self._stamped = found or self.position.at, found is not None
        self._drop = self._stamped and self._comes_again(self._at)
        old = self.position
        self._known = old.open_bytes if self._stamped and not self._drop and old.open_at == self._at else 0
        self._shown = 0
        return blank + 1 if found else at

    def _comes_again(self, at: bytes) -> bool:
        """True for a line up to the position. A line behind it shows that no more of them come."""
        if self._skips and at > self.position.at:
            self._skips = 0
        if not self._skips:
            return False
        if at == self.position.at:
            self._skips -= 1
        return True

    def _take(self, piece: tuple[bytes, int], ended: bool) -> Iterator[Line]:
        """What is shown of a piece of the line, which took so many bytes of the log."""
        text, size = piece
        at = self._at or b""
        again, self._known = min(self._known, size), max(self._known - size, 0)
        self._shown += size
        state = last_state(text[again:])
        if not self._drop and again < max(size, 1) and (state or (ended and self._shown == size and not again)):
            yield Line(at, state)
        if ended:
            self._at = None
            if self._stamped and not self._drop:
                self.position = self.position.after(at)
        elif self._stamped and not self._drop:
            self.position = Position(self.position.at, self.position.count, at, self._shown)


def _piece(data: bytes, at: int) -> tuple[tuple[bytes, int], int, bool] | None:
    """The next piece of the line from `at` on and its size, where the log goes on, and True if the line ends there."""
    size, end = len(data) - at, data.find(b"\n", at, at + LONGEST + 1)
    if size > REWRITTEN and not 0 <= end <= at + REWRITTEN and (cut := data.rfind(b"\r", at, at + REWRITTEN)) >= 0:
        return (data[at:cut], cut + 1 - at), cut + 1, False
    if end >= 0:
        return (data[at:end], end - at), end + 1, True
    if size <= LONGEST:
        return None
    cut = data.rfind(b"\r", at, at + LONGEST)
    end = cut + 1 if cut >= 0 else at + LONGEST
    return (data[at:end], end - at), end, False
