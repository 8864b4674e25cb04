"""Which segments are read if there are more than a reader has time for."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast_train.series.segment import attempt_of, first_step_of
from holdfast_train.storage.base import Entry

ENDS: Final = 4  # segments of each attempt that are read in any case: the first and the last, by step and by time


def select(entries: Sequence[Entry], most: int) -> tuple[Sequence[Entry], str]:
    """At most `most` of `entries`, spread over the steps of each attempt, and in words what is left out.

    Every entry has the name of a segment. If there are too many attempts, the newest ones are read.
    """
    if len(entries) <= most:
        return entries, ""
    attempts: dict[int, list[Entry]] = {}
    for entry in entries:
        attempts.setdefault(attempt_of(entry.key) or 0, []).append(entry)
    newest = sorted(attempts)[-max(1, most // ENDS) :]
    total = sum(len(attempts[attempt]) for attempt in newest)
    free = max(0, most - ENDS * len(newest))
    chosen = [one for a in newest for one in _spread(attempts[a], ENDS + free * len(attempts[a]) // total)]
    left_out = f" and the oldest {len(attempts) - len(newest)} attempts" if len(newest) < len(attempts) else ""
    said = f"{len(entries) - len(chosen)} of {len(entries)} segments{left_out} are not read"
    return chosen, f"{said}; the others are spread over the steps of each attempt"


def _spread(entries: Sequence[Entry], most: int) -> Iterator[Entry]:
    """At most `most` of the segments of one attempt, in the order of their steps."""
    ordered = sorted(entries, key=lambda entry: (first_step_of(entry.key), entry.modified_at, entry.key))
    steps = [first_step_of(entry.key) for entry in ordered]
    by_time = sorted(range(len(ordered)), key=lambda number: (ordered[number].modified_at, number))
    last = len(ordered) - 1
    chosen = {0, last, by_time[0], by_time[-1]}
    parts = max(1, most - len(chosen))
    for part in range(parts):
        if len(chosen) < most:
            chosen.add(min(last, bisect_left(steps, steps[0] + (steps[-1] - steps[0]) * part // parts)))
    for part in range(most):  # what steps without segments left free
        if len(chosen) < most:
            chosen.add(last * part // most)
    return (ordered[number] for number in sorted(chosen))
