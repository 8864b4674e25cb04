"""One sample of a data set, as its source names it, and what a source saw beside its samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

MOST_NAMED: Final = 20
"""Names that are kept of each kind of trouble; more are counted only."""

Begin = Callable[[str, int | None], Callable[[int], None]]
"""Starts a progress bar: what is done, and of how many (None: not known). What it returns is called with more."""


class Sample(NamedTuple):
    """`split`, `label`: empty if the source does not say one. `name`: for people. `file`: on this machine, if any.

    `content`: the bytes, if the source has them at hand. `size`: of the file, -1 if it is not known yet.
    """

    split: str
    label: str
    name: str
    file: Path | None = None
    content: bytes | None = None
    size: int = -1


@dataclass
class Seen:
    """What is said beside the counts. Each list has the first names; the count has all."""

    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    classes: set[tuple[str, str]] = field(default_factory=set)
    """Split and class of each folder of a class, also if it is empty."""

    def add(self, kind: str, name: str) -> None:
        """One more of this kind, such as `unreadable`."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self.names.setdefault(kind, [])
        if len(kept) < MOST_NAMED:
            kept.append(name)


@dataclass(frozen=True)
class Source:
    """Where samples come from. `layout`: in words. `samples`: read once; it fills `seen` meanwhile."""

    layout: str
    samples: Callable[[Seen], Iterator[Sample]]
