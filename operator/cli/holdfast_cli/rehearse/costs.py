"""What the interruptions and the saves have cost the program. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.left import Interruption, Start


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one interruption. None: not known, because the program does not say its steps.

    `at`: the last step before it; `went_on`: the step after which the program went on; `lost`: steps that were trained
    again; `seconds`: from the next start to the first step that it told.
    """

    kind: Interruption
    at: int | None
    went_on: int | None
    lost: int | None
    seconds: float | None


def costs_of(starts: Sequence[Start], steps: Iterable[int]) -> list[Cost]:
    """What each interruption has cost, in their order. `steps`: those that the program told in an undisturbed run."""
    every = every_of(steps)
    return [_cost(before, after, every) for before, after in pairwise(starts) if before.ended_by]


def every_of(steps: Iterable[int]) -> int | None:
    """How many steps lie between two that a program tells; None if it tells less than two."""
    told = sorted(steps)
    return median_low([later - earlier for earlier, later in pairwise(told)]) if len(told) > 1 else None


def _cost(before: Start, after: Start, every: int | None) -> Cost:
    assert before.ended_by is not None
    since = went_on(after, every)
    lost = None if before.last is None or since is None else max(0, before.last - since)
    return Cost(before.ended_by, before.last, since, lost, after.seconds_to_first)


def went_on(start: Start, every: int | None) -> int | None:
    """The step after which a start trained: of its checkpoint, unless its first step says otherwise.

    A program that tells each tenth step tells step 60 first, whether it went on from step 50 or 53, and one that says
    where it resumes tells that step itself. In a folder that stayed it may have found a save that is newer than the
    checkpoint, and without one it begins at step 0.
    """
    if start.first is None or every is None:
        return start.resumed
    if start.resumed is not None and start.resumed <= start.first <= start.resumed + every:
        return start.resumed
    return max(0, start.first - every)


def bytes_of_saves(made: Sequence[Made]) -> list[int]:
    """The bytes that each new save has moved, in their order."""
    return [one.uploaded for one in made if one.is_new]
