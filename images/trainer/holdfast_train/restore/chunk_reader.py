"""Read ranges of a checkpoint's data directly into memory. Every chunk with a wanted byte is checked completely."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

from holdfast_train.errors import StorageError
from holdfast_train.format.manifest import Part, check_chunks
from holdfast_train.storage.base import Storage

THREADS: Final = 4  # ranges that are read at once
RANGE_BYTES: Final = 64 << 20  # the most of one request, which costs a millisecond of CPU


class Held(Protocol):
    """Bytes of a checkpoint that need not be read from the storage."""

    def read(self, part: Part, first: int, views: Sequence[memoryview]) -> bool:
        """Fill `views`, joined the chunks of `part` from `first` on. False, with undefined content, if it cannot.

        True only if the bytes have the checksums of the manifest.
        """


class _Nothing:
    def read(self, part: Part, first: int, views: Sequence[memoryview]) -> bool:
        return False


NOTHING: Final[Held] = _Nothing()


@dataclass(frozen=True)
class Fill:
    """A request to read the bytes from `offset` of a checkpoint's data into `view`."""

    offset: int
    view: memoryview

    @property
    def end(self) -> int:
        """The offset of the first byte after the wanted ones."""
        return self.offset + len(self.view)


@dataclass(frozen=True)
class Range:
    """Chunks `first` to `last` (exclusive) of a part that begins at `begin` of the data, and the `fills` in them."""

    part: Part
    begin: int
    first: int
    last: int
    fills: Sequence[Fill]

    @property
    def start(self) -> int:
        """The offset of the first byte in the part."""
        return self.first * self.part.chunk

    @property
    def stop(self) -> int:
        """The offset of the end in the part."""
        return min(self.last * self.part.chunk, self.part.size)


def read(
    storage: Storage,
    parts: Sequence[Part],
    fills: Iterable[Fill],
    advance: Callable[[int], None] = lambda _: None,
    held: Held = NOTHING,
) -> None:
    """Fill all `fills`, several ranges at once. Threads call `advance` with the number of wanted bytes just read.

    What `held` has is not read from the storage.

    CheckpointCorruptError if a chunk with a wanted byte is damaged, KeyMissingError if a part is missing; the content
    of `fills` is undefined then. Additional memory for unwanted bytes: at most two chunks for each gap between fills,
    in THREADS ranges.
    """
    for layer in _layers(fills):
        _read(storage, parts, layer, advance, held)


def _layers(fills: Iterable[Fill]) -> list[list[Fill]]:
    """The fills in the order of the data, in layers: within one layer the fills do not overlap."""
    layers: list[list[Fill]] = []
    for fill in sorted(fills, key=lambda fill: fill.offset):
        if not fill.view:
            continue
        for layer in layers:
            if layer[-1].end <= fill.offset:
                layer.append(fill)
                break
        else:
            layers.append([fill])
    return layers


def _read(
    storage: Storage, parts: Sequence[Part], fills: Sequence[Fill], advance: Callable[[int], None], held: Held
) -> None:
    def fetch(wanted: Range) -> None:
        views = list(_views(wanted))
        if not held.read(wanted.part, wanted.first, views):
            storage.read_into(wanted.part.key, wanted.start, *views)
            check_chunks(wanted.part, wanted.first, *views)
        advance(sum(_overlap(fill, wanted.begin + wanted.start, wanted.begin + wanted.stop) for fill in wanted.fills))

    with ThreadPoolExecutor(THREADS, "holdfast-get") as pool:
        pending = [pool.submit(fetch, wanted) for wanted in _ranges(parts, fills)]
        try:
            for future in pending:
                future.result()
        except StorageError:
            pool.shutdown(cancel_futures=True)
            raise


def _ranges(parts: Sequence[Part], fills: Sequence[Fill]) -> Iterator[Range]:
    """The chunks that contain a byte of `fills`, which are in order. Consecutive chunks form one range."""
    at = 0
    for part, begin in zip(parts, accumulate((part.size for part in parts), initial=0), strict=False):
        end = begin + part.size
        while at < len(fills) and fills[at].end <= begin:
            at += 1
        inside: list[Fill] = []
        for fill in fills[at:]:
            if fill.offset >= end:
                break
            inside.append(fill)
        if inside:
            yield from _ranges_of(part, begin, inside)


def _ranges_of(part: Part, begin: int, fills: Sequence[Fill]) -> Iterator[Range]:
    most = max(1, RANGE_BYTES // part.chunk)
    starts, ends = [fill.offset for fill in fills], [fill.end for fill in fills]
    for first, last in _runs(part, begin, fills):
        for at in range(first, last, most):
            until = min(at + most, last)
            low = bisect_right(ends, begin + at * part.chunk)
            high = bisect_right(starts, begin + until * part.chunk - 1)
            yield Range(part, begin, at, until, fills[low:high])


def _runs(part: Part, begin: int, fills: Sequence[Fill]) -> Iterator[tuple[int, int]]:
    """First and last (exclusive) of each run of consecutive chunks."""
    first = last = -1
    for fill in fills:
        start = max(fill.offset - begin, 0) // part.chunk
        stop = math.ceil(min(fill.end - begin, part.size) / part.chunk)
        if start > last:
            if last >= 0:
                yield first, last
            first = start
        last = max(last, stop)
    yield first, last


def _views(wanted: Range) -> Iterator[memoryview]:
    """Memory for all bytes of a range: the memory of its fills, and new memory for the gaps between them."""
    at, stop = wanted.begin + wanted.start, wanted.begin + wanted.stop
    for fill in wanted.fills:
        if fill.offset > at:
            yield memoryview(bytearray(fill.offset - at))
            at = fill.offset
        until = min(fill.end, stop)
        yield fill.view[at - fill.offset : until - fill.offset]
        at = until
    if at < stop:
        yield memoryview(bytearray(stop - at))


def _overlap(fill: Fill, start: int, stop: int) -> int:
    return max(0, min(fill.end, stop) - max(fill.offset, start))
