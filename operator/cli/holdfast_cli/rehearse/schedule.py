"""When a rehearsal interrupts the program: what the undisturbed run has shown. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from holdfast_cli.rehearse.left import Interruption

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 60.0  # seconds from a committed save to an interruption between two saves
SAVE_WAITS: Final = 6.0  # so many times the time between two saves, for the next save to begin,
SHORTEST_WAIT: Final = 30.0  # and at least so many seconds


@dataclass(frozen=True, slots=True)
class Seen:
    """A save that was committed while the program ran undisturbed: seconds since the program's start, and its step."""

    at: float
    step: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """When to interrupt a start: after its first committed save, and `pause` seconds later.

    Not before the program has told `step`; if no step is known, not before `saves` saves of the whole run. For an
    interruption in a save, at most `patience` seconds pass until the next save begins.
    """

    step: int | None
    saves: int
    pause: float
    patience: float


def schedule(saves: Sequence[Seen], kinds: Sequence[Interruption]) -> list[Due]:
    """When each of these interruptions is due, in their order, spread over the run.

    `saves`: of the undisturbed run, the one at its end included. ValueError if they are less than `needed`.
    """
    spare = len(saves) - needed(kinds)
    if spare < 0:
        raise ValueError(f"{len(saves)} saves; allowed: at least {needed(kinds)}")
    between = median([later.at - earlier.at for earlier, later in pairwise(saves)])
    pause = min(max(between / 2, SHORTEST_PAUSE), LONGEST_PAUSE)
    patience = max(SHORTEST_WAIT, SAVE_WAITS * between)
    dues = []
    for number, (kind, before) in enumerate(zip(kinds, _before(kinds), strict=True), 1):
        count = before + 1 + spare * number // (len(kinds) + 1)
        own_pause = 0.0 if kind is Interruption.CRASH_IN_SAVE else pause
        dues.append(Due(saves[count - 1].step, count, own_pause, patience))
    return dues


def needed(kinds: Sequence[Interruption]) -> int:
    """How many saves the run needs: each start has one before it is interrupted, and the last one comes to its end."""
    return sum(map(_takes, kinds)) + 1


def _takes(kind: Interruption) -> int:
    """Saves that a start writes until it is interrupted."""
    return 2 if kind is Interruption.CRASH_IN_SAVE else 1


def _before(kinds: Sequence[Interruption]) -> Iterator[int]:
    """How many saves there are at least when the start of each kind begins."""
    count = 0
    for kind in kinds:
        yield count
        count += _takes(kind)
