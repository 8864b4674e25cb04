"""`KeptLines`: the last lines that a container has written, compressed, each with its time as a kubelet notes it."""

from __future__ import annotations

import collections
import threading
import time
import zlib

MOST = 16 << 20  # bytes that are kept, before they are compressed
MEMBER = 256 << 10  # bytes that are compressed together: older ones go together
LONGEST = 1 << 20  # bytes of a line; a longer one becomes several
_GZIP = 31  # of zlib: members of a gzip file


class KeptLines:
    """The last MOST bytes of several streams as lines `2026-01-31T12:00:00.000000000Z text`. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: collections.deque[tuple[int, bytes]] = collections.deque()
        self._size = 0  # of the members, before they were compressed
        self._open = bytearray()
        self._unfinished: dict[int, bytes] = {}  # the line that each stream has begun
        self.count = 0
        """Bytes that were added, ever."""
        self.is_cut = False
        """True if older lines were dropped."""

    def add(self, stream: int, data: bytes, at: float | None = None) -> None:
        """Add what `stream` has written at `at`, in seconds since 1970, by default now."""
        with self._lock:  # the time too: otherwise a stream could be overtaken, and lines would go back in time
            stamp = _stamp(time.time_ns() if at is None else int(at * 1e9))
            self.count += len(data)
            *lines, rest = (self._unfinished.get(stream, b"") + data).split(b"\n")
            while len(rest) > LONGEST:
                lines, rest = [*lines, rest[:LONGEST]], rest[LONGEST:]
            self._unfinished[stream] = rest
            for line in lines:
                self._open += stamp + line + b"\n"
            if len(self._open) >= MEMBER:
                self._close()

    def _close(self) -> None:
        self._members.append((len(self._open), compressed(self._open)))
        self._size += len(self._open)
        self._open.clear()
        while self._size > MOST and len(self._members) > 1:
            self._size -= self._members.popleft()[0]
            self.is_cut = True

    def content(self) -> bytes:
        """All lines as members of a gzip file, lines that are not finished last."""
        with self._lock:
            stamp = _stamp(time.time_ns())
            begun = b"".join(stamp + line + b"\n" for _, line in sorted(self._unfinished.items()) if line)
            return b"".join(member for _, member in self._members) + compressed(bytes(self._open) + begun)


def compressed(data: bytes | bytearray) -> bytes:
    """`data` as one member of a gzip file."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(data) + packer.flush()


def _stamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z ".encode()
