"""The losses that the trainer prints, by attempt and step. They show that a move changed nothing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast_cli.terminal import formats

# `step 120/900  loss 2.1134 ...`, with any spacing.
_LINE = re.compile(
    r"\bstep\s*[=:]?\s*(?P<step>\d[\d,]*)(?:\s*/\s*[\d,]+)?\b.*?\bloss\s*[=:]?\s*(?P<loss>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
)


def parse_line(line: str) -> tuple[int, float] | None:
    """Step and loss of one line of a trainer's log, or None."""
    found = _LINE.search(line)
    if not found:
        return None
    loss = formats.number(found["loss"])
    return None if loss is None else (int(found["step"].replace(",", "")), loss)


@dataclass(frozen=True, slots=True)
class Move:
    """One resume: the last loss before it, the first after it, and a comparison of steps done twice."""

    attempt: int
    resumed: int
    before: tuple[int, float] | None
    after: tuple[int, float] | None
    twice: int
    largest_difference: float


@dataclass(slots=True)
class LossBook:
    """Every loss that was seen."""

    by_attempt: dict[int, dict[int, float]] = field(default_factory=dict)

    def see(self, attempt: int, step: int, loss: float) -> None:
        """Remember one."""
        self.by_attempt.setdefault(attempt, {})[step] = loss

    def curve(self) -> list[float]:
        """All losses in the order of the steps; for a step done twice, the later loss."""
        merged: dict[int, float] = {}
        for attempt in sorted(self.by_attempt):
            merged |= self.by_attempt[attempt]
        return [merged[step] for step in sorted(merged)]

    def moves(self, resumes: Iterable[tuple[int, int]]) -> list[Move]:
        """For each (attempt, step that it resumed at): the losses on both sides."""
        return [self._move(attempt, resumed) for attempt, resumed in resumes]

    def _move(self, attempt: int, resumed: int) -> Move:
        earlier: dict[int, float] = {}
        for number in sorted(self.by_attempt):
            if number < attempt:
                earlier |= self.by_attempt[number]
        later = self.by_attempt.get(attempt, {})
        before = max((step for step in earlier if step <= resumed), default=None)
        after = min((step for step in later if step >= resumed), default=None)
        both = earlier.keys() & later.keys()
        return Move(
            attempt=attempt,
            resumed=resumed,
            before=None if before is None else (before, earlier[before]),
            after=None if after is None else (after, later[after]),
            twice=len(both),
            largest_difference=max((abs(earlier[step] - later[step]) for step in both), default=0.0),
        )
