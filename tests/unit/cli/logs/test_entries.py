"""The order of lines over ranks and attempts, and which attempt a line is of."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import pod

from holdfast_cli.logs.entries import Entry, Labels, merged
from holdfast_cli.logs.lines import Line

SEVERAL = replace(pod(1, rank=2), outlives=True)


async def stream(entries: list[Entry]) -> AsyncGenerator[Entry, None]:
    for entry in entries:
        yield entry


async def gathered(ranks: list[list[Entry]]) -> list[Entry]:
    return [entry async for entry in merged([stream(entries) for entries in ranks])]


# Breaks if the lines of a rank change their order, or are lost, or if an attempt begins before the one before it ends.
@given(st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=8), max_size=4))
def test_ranks_are_merged_by_attempt_and_time(ranks: list[list[tuple[int, int]]]) -> None:
    labelled = []
    for rank, lines in enumerate(ranks):
        labels, found = Labels(rank), list[Entry]()
        labels.begin(replace(SEVERAL, rank=rank))
        for attempt, second in lines:
            labels.entry(Line(b"", b"holdfast-run: attempt %d starts: node 0 of 4" % attempt), newest=3)
            found.append(labels.entry(Line(b"0%d" % second, b"text"), newest=3))
        labelled.append(found)
    shown = asyncio.run(gathered(labelled))
    assert shown == sorted(shown)
    for rank, found in enumerate(labelled):
        assert [entry for entry in shown if entry.rank == rank] == found


# Breaks if lines of a pod that stays are shown as those of the attempt that created it, or if a program can print
# itself into an attempt that does not exist, or that is over.
def test_the_launcher_says_where_an_attempt_begins() -> None:
    labels = Labels(2)
    labels.begin(SEVERAL)
    texts = [
        (b"holdfast-run: attempt 1 starts: node 2 of 4", 1),
        (b"a", 1),
        (b"holdfast-run: attempt 9 starts: node 2 of 4", 1),
        (b"holdfast-run: attempt 3 starts: node 2 of 4", 3),
        (b"holdfast-run: attempt 2 starts: node 2 of 4", 3),
        (b"b", 3),
    ]
    assert [labels.entry(Line(b"1", text), newest=3).attempt for text, _ in texts] == [number for _, number in texts]
    labels.begin(pod(4, rank=2))
    assert labels.entry(Line(b"0", b"holdfast-run: attempt 5 starts: node 2 of 4"), newest=6).attempt == 4
