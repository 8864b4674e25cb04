"""Ways to move the same bytes, measured in turns, so that what else the machine does meets all of them alike."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, TypeVar

from tests.bench.checkpoint.section import Section, Verdict, at_least, at_most

T = TypeVar("T")
GIGABYTE: Final = 1e9
OURS: Final = "Holdfast"
HEAD: Final = ("way", "GB/s, best", "GB/s, median", "of Holdfast's", "CPU s/GB, least", "CPU s/GB, median")


@dataclass
class Arm:
    """One way. `run` moves all the bytes once. `rates` in GB/s and `cpu` in seconds per GB, one entry a round."""

    name: str
    run: Callable[[], None]
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def row(self, ours: "Arm") -> tuple[str, ...]:
        """One line of the table; the ratio is the median over rounds of the ratio within a round."""
        ratio = median(a / b for a, b in zip(self.rates, ours.rates, strict=True))
        figures = (max(self.rates), median(self.rates), ratio, min(self.cpu), median(self.cpu))
        return self.name, *(f"{figure:.2f}" for figure in figures)


@dataclass(frozen=True)
class Goal:
    """The ratio of ours to the fastest of `against` that is wanted; or, with `cpu`, most seconds of CPU per GB."""

    title: str
    against: tuple[str, ...]
    at_least: float = 0.0
    cpu: float | None = None

    def verdict(self, arms: Sequence[Arm]) -> Verdict:
        """What was reached: the median over rounds of the ratio within a round, or CPU s/GB."""
        ours = next(arm for arm in arms if arm.name == OURS)
        if self.cpu is not None:
            return at_most(self.title, median(ours.cpu), self.cpu)
        others = [arm for arm in arms if arm.name in self.against]
        if not others:
            return at_least(self.title, None, self.at_least)
        best = max(others, key=lambda arm: median(arm.rates))
        title = f"{self.title} ({best.name})" if len(self.against) > 1 else self.title
        return at_least(title, median(a / b for a, b in zip(ours.rates, best.rates, strict=True)), self.at_least)


def measure(
    title: str,
    arms: Sequence[Arm],
    goals: Sequence[Goal],
    missing: Sequence[str],
    *,
    size: int,
    rounds: int,
    say: Callable[[str], None],
) -> Section:
    """Run each arm once to warm up, then once a round. `missing` says in a sentence each what could not be measured."""
    for arm in arms:
        arm.run()
    for number in range(rounds):
        for arm in turns(arms, number):
            cpu, began = _cpu(), time.perf_counter()
            arm.run()
            seconds = time.perf_counter() - began
            arm.rates.append(size / GIGABYTE / seconds)
            arm.cpu.append((_cpu() - cpu) / (size / GIGABYTE))
        say(f"round {number + 1} of {rounds}")
    ours = next(arm for arm in arms if arm.name == OURS)
    return Section(
        title=title,
        head=HEAD,
        rows=tuple(arm.row(ours) for arm in arms),
        verdicts=tuple(goal.verdict(arms) for goal in goals),
        notes=(f"{size / GIGABYTE:.2f} GB, {rounds} rounds.", *missing),
        rounds={arm.name: {"gigabytesPerSecond": arm.rates, "cpuPerGigabyte": arm.cpu} for arm in arms},
    )


def turns(arms: Sequence[T], number: int) -> Sequence[T]:
    """The order of round `number`: another one begins each time."""
    first = number % len(arms)
    return [*arms[first:], *arms[:first]]


def _cpu() -> float:
    """Seconds of all threads and of children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
