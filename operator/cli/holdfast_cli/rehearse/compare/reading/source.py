"""Where the bytes of a value are: in a part of a file, or in memory. They are read when they are compared."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from holdfast_train.folder.formats import opened

BLOCK: Final = 1 << 20  # bytes that are compared at a time


class Source(Protocol):
    """`size` bytes that can be read in any order."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        ...

    def read(self, start: int, length: int) -> bytes:
        """At most `length` bytes from `start` on; fewer at the end. OSError."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


@dataclass(frozen=True, slots=True)
class Span:
    """`size` bytes of a regular file from `start` on. Links are not followed."""

    path: Path
    start: int
    size: int

    def read(self, start: int, length: int) -> bytes:
        with opened(self.path) as content:
            return content.at(self.start + start, max(0, min(length, self.size - start)))


@dataclass(frozen=True, slots=True)
class Part:
    """`size` bytes of another source from `start` on."""

    whole: Source
    start: int
    size: int

    def read(self, start: int, length: int) -> bytes:
        return self.whole.read(self.start + start, max(0, min(length, self.size - start)))


def part_of(source: Source, start: int, size: int) -> Source:
    """`size` bytes of `source` from `start` on. ValueError if it does not have them."""
    if start < 0 or size < 0 or start + size > source.size:
        raise ValueError(f"{size} bytes at byte {start} are not in {source.size} bytes")
    if isinstance(source, Span):
        return Span(source.path, source.start + start, size)
    if isinstance(source, Part):
        return Part(source.whole, source.start + start, size)
    return Part(source, start, size)  # not a copy: a small pickle can name the same bytes very often


def whole_file(path: Path) -> Span:
    """All bytes of the file at `path`. OSError if it is not a regular file."""
    with opened(path) as content:
        return Span(path, 0, content.size)


def blocks(first: Source, second: Source) -> Iterator[tuple[int, bytes, bytes]]:
    """Offset, and the bytes there of both: the blocks that differ, as far as both have bytes. OSError."""
    for start in range(0, min(first.size, second.size), BLOCK):
        a, b = first.read(start, BLOCK), second.read(start, BLOCK)
        if a != b:
            yield start, a, b


def equal(first: Source, second: Source) -> bool:
    """True if both have the same bytes. OSError."""
    return first.size == second.size and next(blocks(first, second), None) is None


class Window(io.RawIOBase):
    """A source as a file that is read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._source.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def as_file(source: Source) -> io.BufferedReader:
    """A buffered file of the bytes of `source`."""
    return io.BufferedReader(Window(source), BLOCK)
