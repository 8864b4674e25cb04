"""Lines with the attempt and the rank that wrote them, and their order. Pure.

With several nodes a pod works for one attempt after the other. The launcher writes a line when it starts the program of
an attempt, and from there on the lines are of this attempt. A program can print such a line too: that changes only
below which heading the lines that follow are shown.
"""

import heapq
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final, NamedTuple

from holdfast.core.observe.pods import PodView
from holdfast_cli.logs.lines import Line

_STARTS: Final = re.compile(rb"holdfast-run: attempt ([1-9]\d{0,8}) starts: node \d+ of \d+")


class Entry(NamedTuple):
    """One line. Entries sort in the order in which they are shown."""

    attempt: int
    at: bytes
    rank: int
    number: int  # of the lines of this rank
    text: bytes


class Labels:
    """Gives the lines of one rank, pod after pod, their attempts."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._attempt = 0
        self._outlives = False
        self._number = 0
        self._last = b""

    def begin(self, pod: PodView) -> None:
        """The lines of this pod follow."""
        self._attempt, self._outlives, self._last = max(self._attempt, pod.attempt), pod.outlives, b""

    def entry(self, line: Line, newest: int) -> Entry:
        """The line with its place, never before an earlier line of the rank. `newest`: the job's newest attempt."""
        if self._outlives and (starts := _STARTS.fullmatch(line.text)):
            number = int(starts.group(1))
            if self._attempt < number <= newest:
                self._attempt, self._last = number, b""
        self._last = max(self._last, line.at)
        self._number += 1
        return Entry(self._attempt, self._last, self._rank, self._number, line.text)


async def merged(streams: Sequence[AsyncGenerator[Entry, None]]) -> AsyncIterator[Entry]:
    """The entries of all streams in order. Each stream is in order, and has at most one entry in memory."""
    heads: list[tuple[Entry, int]] = []
    try:
        for place, stream in enumerate(streams):
            async for entry in stream:
                heapq.heappush(heads, (entry, place))
                break
        while heads:
            entry, place = heads[0]
            yield entry
            try:
                heapq.heapreplace(heads, (await anext(streams[place]), place))
            except StopAsyncIteration:
                heapq.heappop(heads)
    finally:
        for stream in streams:
            await stream.aclose()
