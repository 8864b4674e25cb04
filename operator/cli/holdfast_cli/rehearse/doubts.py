"""What speaks against a good verdict although everything that was compared is equal. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from holdfast_cli.rehearse.commits import Made, new_saves
from holdfast_cli.rehearse.compare.outcome import Outcome
from holdfast_cli.rehearse.compare.verdict import Verdict
from holdfast_cli.rehearse.costs import every_of, went_on
from holdfast_cli.rehearse.left import Start
from holdfast_cli.rehearse.outside import is_ignored
from holdfast_cli.rehearse.ran import Ran

GOOD: Final = (Outcome.EXACT, Outcome.WITHIN_TOLERANCE)
MOST_PATHS: Final = 3


class Beginning(Enum):
    """Where a start that had a checkpoint began to train."""

    FROM_CHECKPOINT = auto()
    EARLIER = auto()
    UNKNOWN = auto()


def beginning_of(
    start: Start, every: int | None, undisturbed: Sequence[Made], interrupted: Sequence[Made]
) -> Beginning:
    """Where the start began, by the steps that it told, or by the content of its saves.

    A program that goes on writes the saves that follow in the undisturbed run; one that begins again writes the first.
    """
    if start.first is not None:
        began = start.first if every is None else went_on(start, every)
        if began is None or start.resumed is None:
            is_late = every is None or start.first > every
            return Beginning.FROM_CHECKPOINT if is_late else Beginning.EARLIER
        return Beginning.EARLIER if began < start.resumed else Beginning.FROM_CHECKPOINT
    places = _places(undisturbed)
    before = [one.contents for one in new_saves(interrupted) if one.attempt < start.number]
    own = [one.contents for one in new_saves(interrupted) if one.attempt == start.number]
    reached = [places[one] for one in before[-1] if one in places] if before else []
    began_with = own[0] & places.keys() if own else frozenset()
    if not reached or not began_with:
        return Beginning.UNKNOWN
    # Two saves of the undisturbed run may be in one commit, and have one place: then no old one is written again.
    is_later = min(places[one] for one in began_with) >= max(reached) and not began_with & frozenset().union(*before)
    return Beginning.FROM_CHECKPOINT if is_later else Beginning.EARLIER


def _places(made: Sequence[Made]) -> dict[str, int]:
    """The commit that each file came with, by the hash of its content; none of what came with more than one."""
    count = Counter(one for commit in made for one in commit.contents)
    return {one: place for place, commit in enumerate(made) for one in commit.contents if count[one] == 1}


def with_doubts(verdict: Verdict, undisturbed: Ran, interrupted: Ran, ignore: Sequence[str]) -> Verdict:
    """The verdict, unless a start did not go on from its checkpoint, or files are on this machine alone.

    `ignore`: patterns of files that may be.
    """
    if verdict.kind is Outcome.FAILED:
        return verdict
    every = every_of(undisturbed.left.figures)
    resumed = [start for start in interrupted.left.starts if start.has_resumed]
    began = {start: beginning_of(start, every, undisturbed.made, interrupted.made) for start in resumed}
    for start, beginning in began.items():
        if beginning is Beginning.EARLIER:
            of = "" if start.resumed is None else f" of step {start.resumed}"
            where = "" if start.first is None else f", and told step {start.first} first"
            text = f"start {start.number} had a checkpoint{of}, and trained again what was in it{where}"
            return _changed(verdict, Outcome.FAILED, f"failed: {text}")
    if verdict.kind not in GOOD:
        return verdict
    unknown = [start for start, beginning in began.items() if beginning is Beginning.UNKNOWN]
    if unknown and len(unknown) == len(began):
        text = "nothing shows that a start went on from its checkpoint; let the program print its steps, and name the "
        text += "line with --progress, or in progress.patterns of the job"
        return _changed(verdict, Outcome.NOT_PROVED, f"not proved: {text}")
    outside = [path for path in undisturbed.not_saved.outside if not is_ignored(path, ignore)]
    if outside:
        more = f" and {len(outside) - MOST_PATHS} more" if len(outside) > MOST_PATHS else ""
        text = (
            f"the program writes {', '.join(outside[:MOST_PATHS])}{more} outside of its folder; each start found them "
            f"here, and finds none of them on another node. Write them into the folder, or leave them out with --ignore"
        )
        return _changed(verdict, Outcome.NOT_PROVED, f"not proved: {text}")
    return verdict


def _changed(verdict: Verdict, kind: Outcome, headline: str) -> Verdict:
    return replace(verdict, kind=kind, headline=headline, reasons=(verdict.headline, *verdict.reasons))
