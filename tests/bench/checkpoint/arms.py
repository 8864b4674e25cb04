"""Ways to do the same work, measured in turns, so that what else the machine does meets all of them alike."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

__all__ = ["GIGABYTE", "OURS", "Arm", "Goal", "Results", "measure"]

GIGABYTE: Final = 1e9
OURS: Final = "Holdfast"


@dataclass
class Arm:
    """One way. `run` moves all the bytes once. `rates` in GB/s and `cpu` in seconds per GB, one entry a round."""

    name: str
    run: Callable[[], None]
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Goal:
    """The ratio of ours to the fastest of `against` that is wanted; or, with `cpu`, most seconds of CPU per GB."""

    title: str
    against: tuple[str, ...]
    at_least: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True)
class Results:
    """The arms of one figure, measured. `missing` says in a sentence each what could not be measured."""

    title: str
    arms: tuple[Arm, ...]
    goals: tuple[Goal, ...]
    missing: tuple[str, ...]

    def arm(self, name: str) -> Arm | None:
        """The one of this name, None if it was not measured."""
        return next((arm for arm in self.arms if arm.name == name), None)

    def reached(self, goal: Goal) -> tuple[float, str] | None:
        """What was reached, and against whom: the median over rounds of the ratio within a round, or CPU s/GB.

        None if nobody to compare with was measured.
        """
        ours = self.arm(OURS)
        assert ours is not None
        if goal.cpu is not None:
            return median(ours.cpu), ""
        others = [arm for name in goal.against if (arm := self.arm(name)) is not None]
        if not others:
            return None
        best = max(others, key=lambda arm: median(arm.rates))
        return median(a / b for a, b in zip(ours.rates, best.rates, strict=True)), best.name

    def met(self, goal: Goal) -> bool | None:
        """None if it could not be measured."""
        reached = self.reached(goal)
        if reached is None:
            return None
        return reached[0] <= goal.cpu if goal.cpu is not None else reached[0] >= goal.at_least


def measure(arms: Sequence[Arm], size: int, rounds: int, say: Callable[[str], None]) -> None:
    """Run each arm once to warm up, then once a round, in an order that moves on by one each round."""
    for arm in arms:
        arm.run()
    for number in range(rounds):
        for arm in (*arms[number % len(arms) :], *arms[: number % len(arms)]):
            cpu, began = _cpu(), time.perf_counter()
            arm.run()
            seconds = time.perf_counter() - began
            arm.rates.append(size / GIGABYTE / seconds)
            arm.cpu.append((_cpu() - cpu) / (size / GIGABYTE))
        say(f"round {number + 1} of {rounds}")


def _cpu() -> float:
    """Seconds of all threads and of children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
