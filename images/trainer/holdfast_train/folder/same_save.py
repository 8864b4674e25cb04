"""Whether what the nodes have in their folders belongs to one save. Pure.

All folders are taken at one moment at which none of them changes. That is not enough: between two nodes that write
their parts of a save, the one may have ended before the other has begun. What tells: the steps that the formats state;
whether all nodes have written that wrote the saves before; whether the program has trained on since, which no node can
do alone; and the numbers in the names of the newest saves, which only make a commit wait for a while.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast_train.folder.moment import QUIET_SECONDS

FIRST: Final = 5  # times the quiet after a save, before the first commit: nobody knows which nodes write
SETTLED: Final = 30  # times it, after which a node that has written nothing writes nothing for this save
STEPS_ON: Final = 2  # reports of later steps: the first may be of a step that was under way


@dataclass(frozen=True)
class Seen:
    """What the node `rank` has seen in a look at its folder.

    `is_new`: there is something to commit. `has_state`: also something other than logs. `waits_for`: why its folder
    cannot be committed now, in words; empty if it can. `newest`: the path of its newest save, empty without one;
    `step`: of it, if its format states it; `number`: in its name. `quiet`: seconds without a change. `changes`: how
    many looks have seen one. `lacks`: files that would end its saves that are under way, if another node has them.
    """

    rank: int
    is_new: bool = False
    has_state: bool = False
    waits_for: str = ""
    newest: str = ""
    step: int | None = None
    number: int | None = None
    quiet: float = 0.0
    changes: int = 0
    lacks: tuple[str, ...] = ()


def why_wait(
    seen: Sequence[Seen],
    writers: Collection[int] | None,
    steps_on: int,
    *,
    has_ended: bool | None = None,
    quiet: float = QUIET_SECONDS,
) -> str:
    """Why the folders are not committed together now, in words; empty if they may be.

    `writers`: the nodes that wrote the saves before, None if there was none. `steps_on`: how many reports of later
    steps the program has made since the last change in any folder. `has_ended`: None while a program runs; then True if
    all have ended with exit code 0, and False if one has failed, or was told to leave. `quiet`: seconds without a
    change after which a save of one node is over.
    """
    if has_ended is None and (waiting := next((one for one in seen if one.waits_for), None)):
        return f"node {waiting.rank}: {waiting.waits_for}"
    stated = [one for one in seen if one.newest and one.step is not None]
    if other := next((one for one in stated if one.step != stated[0].step), None):
        return f"{_of(stated[0])} is of step {stated[0].step}, and {_of(other)} of step {other.step}"
    writing = [one for one in seen if one.has_state]
    if not writing or has_ended or steps_on >= STEPS_ON:
        return ""
    at_rest = min(one.quiet for one in seen)
    if has_ended is None and at_rest >= SETTLED * quiet:
        return ""
    if has_ended is None and writers is None and at_rest < FIRST * quiet:
        return "the first save: other nodes may still have to write their parts"
    if has_ended is False and writers is None and at_rest < FIRST * quiet and len(writing) < len(seen):
        return "the first save, and not all nodes have written a part of it"
    if missing := sorted(set(writers or ()) - {one.rank for one in writing}):
        return f"node {missing[0]} has not written its part of the save yet"
    numbered = [one for one in writing if one.number is not None]
    if other := next((one for one in numbered if one.number != numbered[0].number), None):
        return f"{_of(numbered[0])} and {_of(other)} may be two saves, as their names say"
    return ""


def _of(seen: Seen) -> str:
    return f"{seen.newest!r} of node {seen.rank}"


class SameSave:
    """Learns from looks whether the folders of several nodes belong to one save: see `why_wait`."""

    def __init__(self, quiet: float = QUIET_SECONDS) -> None:
        self._quiet = quiet
        self._writers: tuple[frozenset[int], ...] = ()  # of the last two commits of saves
        self._changes: tuple[int, ...] = ()
        self._told: int | None = None
        self._steps_on = 0

    def begin(self, writers: Collection[int]) -> None:
        """Go on from a commit: these nodes wrote the saves before, as far as it says that."""
        self._writers = (frozenset(writers),) if writers else ()

    def see(self, seen: Sequence[Seen], told: int | None) -> None:
        """One look at all folders. `told`: the step that the program has reported last."""
        changes = tuple(one.changes for one in seen)
        if changes != self._changes:
            self._changes, self._steps_on = changes, 0
        elif told is not None and told != self._told:
            self._steps_on += 1
        self._told = told

    def why_wait(self, seen: Sequence[Seen], *, has_ended: bool | None = None) -> str:
        """As `why_wait`."""
        writers = frozenset[int]().union(*self._writers) if self._writers else None
        return why_wait(seen, writers, self._steps_on, has_ended=has_ended, quiet=self._quiet)

    def note_committed(self, seen: Sequence[Seen]) -> None:
        """The folders that were `seen` are committed."""
        self._writers = self._with(seen)

    def writers_with(self, seen: Sequence[Seen]) -> frozenset[int]:
        """The nodes that wrote the last saves, once the folders that were `seen` are committed."""
        return frozenset[int]().union(*self._with(seen))

    def _with(self, seen: Sequence[Seen]) -> tuple[frozenset[int], ...]:
        writing = frozenset(one.rank for one in seen if one.has_state)
        return (*self._writers, writing)[-2:] if writing else self._writers
