"""Container logs: written in the kubelet's on-disk format, capped, read and followed for `kubectl logs`."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

CAP_BYTES = 10 * 1024 * 1024
_LONGEST_LINE = 16 * 1024
_END_BYTES = 64 * 1024


@dataclass(frozen=True)
class Entry:
    """One line, or a part of a long one."""

    when: str
    text: bytes
    whole: bool

    def shown(self, *, timestamp: bool) -> bytes:
        """As `kubectl logs` prints it. The later parts of a line have no timestamp."""
        return (self.when.encode() + b" " if timestamp else b"") + self.text + (b"\n" if self.whole else b"")


class ContainerLog:
    """The log of one container instance: PATH, and PATH.1 with what was there before the last rotation."""

    def __init__(self, path: Path, cap: int = CAP_BYTES) -> None:
        self.path = path
        self.closed = False
        self._cap = cap
        self._rest = b""
        self._written = 0
        self._file = path.open("ab")
        self._news: list[asyncio.Event] = []
        self._position = 0  # lines written over the life of the log, rotated ones included
        self._recent: deque[Entry] = deque(maxlen=4096)  # for followers; kept only while there are some

    def feed(self, chunk: bytes) -> None:
        """Take in output; an empty chunk is its end."""
        if self.closed:
            return
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        entries = [entry for line in lines for entry in _split(when, line)]
        if self._rest and (not chunk or len(self._rest) > _LONGEST_LINE):
            entries.append(Entry(when, self._rest, whole=False))
            self._rest = b""
        self._write(entries)
        if not chunk:
            self.close()
        for event in self._news:
            event.set()

    def close(self) -> None:
        """End the log; its followers end too."""
        if not self.closed:
            self.closed = True
            self._file.close()
        for event in self._news:
            event.set()

    def _write(self, entries: list[Entry]) -> None:
        for entry in entries:
            line = f"{entry.when} stdout {'F' if entry.whole else 'P'} ".encode() + entry.text + b"\n"
            self._file.write(line)
            self._written += len(line)
            self._position += 1
            if self._news:
                self._recent.append(entry)
        self._file.flush()
        if self._written > self._cap:
            self._file.close()
            self.path.replace(rotated(self.path))
            self._file = self.path.open("ab")
            self._written = 0

    async def news(self) -> AsyncIterator[list[Entry]]:
        """Entries written after this call, in batches, until the log is closed. A reader far behind misses some."""
        event = asyncio.Event()
        self._news.append(event)
        seen = self._position
        try:
            yield []  # from here on nothing is missed: the caller may read the file now
            while True:
                fresh = min(self._position - seen, len(self._recent))
                if fresh:
                    seen = self._position
                    yield list(self._recent)[-fresh:]
                elif self.closed:
                    return
                else:
                    event.clear()
                    await event.wait()
        finally:
            self._news.remove(event)
            if not self._news:
                self._recent.clear()


def rotated(path: Path) -> Path:
    """Where a log goes when it is full."""
    return path.with_name(path.name + ".1")


def _split(when: str, line: bytes) -> Iterator[Entry]:
    while len(line) > _LONGEST_LINE:
        yield Entry(when, line[:_LONGEST_LINE], whole=False)
        line = line[_LONGEST_LINE:]
    yield Entry(when, line, whole=True)


def read(path: Path) -> list[Entry]:
    """Every entry that is kept, the oldest first; none where nothing was written."""
    parts = [part for part in (rotated(path), path) if part.exists()]
    return [_parse(line) for part in parts for line in part.read_bytes().split(b"\n") if line]


def _parse(line: bytes) -> Entry:
    when, _, rest = line.partition(b" ")
    _, _, tagged = rest.partition(b" ")
    tag, _, text = tagged.partition(b" ")
    return Entry(when.decode(errors="replace"), text, whole=tag == b"F")


def _read_end(path: Path) -> list[Entry]:
    """The entries in the last 64 KiB, without reading the rest: it may be 20 MB, and the event loop waits."""
    lines: list[bytes] = []
    for part in (rotated(path), path):
        if part.exists():
            with part.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _END_BYTES))
                lines += file.read().split(b"\n")[1 if size > _END_BYTES else 0 :]
    return [_parse(line) for line in lines if line]


def select(entries: list[Entry], *, tail: int | None, since: datetime | None) -> list[Entry]:
    """The last `tail` lines, and only those written at or after `since`."""
    if since is not None:
        start = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
        entries = [entry for entry in entries if entry.when >= start]
    if tail is None:
        return entries
    if tail <= 0:
        return []
    lines = 0
    for index in range(len(entries) - 1, -1, -1):
        if entries[index].whole or index == len(entries) - 1:
            lines += 1
            if lines > tail:
                return entries[index + 1 :]
    return entries


def tail_text(path: Path, *, lines: int, size: int) -> str:
    """The last lines as text, at most so many bytes: the fallback for a missing termination message."""
    chosen = select(_read_end(path), tail=lines, since=None)
    return b"".join(entry.shown(timestamp=False) for entry in chosen)[-size:].decode("utf-8", errors="replace")


def since_time(now: datetime, seconds: int | None, time: str | None) -> datetime | None:
    """What sinceSeconds or sinceTime mean. Raises ValueError for a time that is not RFC 3339."""
    if seconds is not None:
        return now - timedelta(seconds=seconds)
    return datetime.fromisoformat(time) if time else None
