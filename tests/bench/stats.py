"""The few numbers that a sample is told by."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self


@dataclass(frozen=True, slots=True)
class Sample:
    """A set of durations in seconds, or of rates, by nearest rank."""

    count: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Raises ValueError if there are none."""
        if not values:
            raise ValueError("nothing was measured")
        ordered = sorted(values)
        return cls(len(ordered), rank(ordered, 0.5), rank(ordered, 0.99), ordered[-1])

    def __str__(self) -> str:
        return f"n={self.count}, p50 {self.p50:.3f} s, p99 {self.p99:.3f} s, max {self.most:.3f} s"


def rank(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the sorted values does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
