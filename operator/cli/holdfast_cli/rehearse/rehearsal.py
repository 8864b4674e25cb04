"""`carry_out`: the runs of a rehearsal, one after the other, and what their comparison says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.asked import Asked, Stage
from holdfast_cli.rehearse.compare.outcome import Outcome
from holdfast_cli.rehearse.compare.verdict import Verdict, compare
from holdfast_cli.rehearse.costs import Cost, costs_of
from holdfast_cli.rehearse.doubts import GOOD, with_doubts
from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.ran import Planned, Ran
from holdfast_cli.rehearse.schedule import needed, schedule

UNDISTURBED: Final = "undisturbed"
INTERRUPTED: Final = "interrupted"
AGAIN: Final = "undisturbed again"


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal has found."""

    undisturbed: Ran
    interrupted: Ran
    verdict: Verdict
    costs: Sequence[Cost] = field(default=())

    @property
    def is_good(self) -> bool:
        """True if every interruption was tried, and the program went on as it should."""
        return self.verdict.kind in GOOD and not self.interrupted.not_tried


def carry_out(asked: Asked, stage: Stage) -> Rehearsed:
    """Run the program undisturbed and interrupted, and compare. CliError if the program cannot be rehearsed."""
    undisturbed = stage.undisturbed(UNDISTURBED)
    if not undisturbed.left.is_complete:
        raise CliError(
            f"the program ended with exit code {undisturbed.left.starts[-1].exit_code} in the undisturbed run; "
            f"its last lines:\n{undisturbed.left.said}",
            hint="try the command without holdfast first",
        )
    interrupted = stage.interrupted(INTERRUPTED, _plan(asked.interruptions, undisturbed))
    verdict = _verdict(asked, undisturbed, undisturbed, interrupted)
    if verdict.kind is Outcome.DIFFERS:  # what of that does the program do by itself?
        verdict = _verdict(asked, undisturbed, stage.undisturbed(AGAIN), interrupted)
    verdict = with_doubts(verdict, undisturbed, interrupted, asked.ignore)
    costs = costs_of(interrupted.left.starts, undisturbed.left.figures)
    return Rehearsed(undisturbed, interrupted, verdict, costs)


def _plan(kinds: Sequence[Interruption], undisturbed: Ran) -> list[Planned]:
    seen = undisturbed.seen
    if len(seen) < needed(kinds):
        raise CliError(
            f"{len(seen)} {'save was' if len(seen) == 1 else 'saves were'} committed while the program ran; "
            f"{', '.join(kinds)} need at least {needed(kinds)}",
            hint="let it save more often, or train longer; a save is committed 2 s after its last write, and 6 s "
            "after it if the format of a file is not known, so saves that follow each other faster count as one "
            "(--quiet makes that shorter). Or try fewer interruptions, such as --with notice",
        )
    return [Planned(kind, due) for kind, due in zip(kinds, schedule(seen, kinds), strict=True)]


def _verdict(asked: Asked, undisturbed: Ran, again: Ran, interrupted: Ran) -> Verdict:
    first, second, third = undisturbed.left, again.left, interrupted.left
    return compare(first, second, third, ignore=asked.ignore, tolerance=asked.tolerance)
