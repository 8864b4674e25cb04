"""What one benchmark has to say: its table, what became of its goals, and all its rounds."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """A goal. `reached` is None if it could not be measured."""

    title: str
    reached: float | None
    wanted: str
    met: bool

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """One line of the table of goals."""
        if self.reached is None:
            return self.title, "—", self.wanted, "not measured"
        return self.title, f"{self.reached:.2f}", self.wanted, "met" if self.met else "MISSED"


def at_most(title: str, reached: float | None, limit: float) -> Verdict:
    """The goal to be no more than `limit`."""
    return Verdict(title, reached, f"≤ {limit:g}", reached is not None and reached <= limit)


def at_least(title: str, reached: float | None, limit: float) -> Verdict:
    """The goal to be no less than `limit`."""
    return Verdict(title, reached, f"≥ {limit:g}", reached is not None and reached >= limit)


@dataclass(frozen=True)
class Section:
    """A table with its goals. `notes`: sentences for people; `rounds`: everything that was measured, for JSON."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    rounds: Mapping[str, Any] = field(default_factory=dict)


def tell(what: str, text: str) -> None:
    """One line of progress. It is not in `__main__`, since a process that is spawned does not find it there."""
    sys.stderr.write(f"{what}: {text}\n")
