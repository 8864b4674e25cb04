"""The tables: every arm of a figure, and what became of the goals."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.bench.checkpoint.arms import OURS, Arm, Goal, Results

__all__ = ["as_json", "show"]

ARMS = ("way", "GB/s, best", "GB/s, median", "of Holdfast's", "CPU s/GB, least", "CPU s/GB, median")
GOALS = ("goal", "reached", "wanted", "verdict")


def arm_row(arm: Arm, ours: Arm) -> tuple[str, ...]:
    """One line of the first table; the ratio is the median over rounds of the ratio within a round."""
    ratio = median(a / b for a, b in zip(arm.rates, ours.rates, strict=True))
    return (
        arm.name, f"{max(arm.rates):.2f}", f"{median(arm.rates):.2f}", f"{ratio:.2f}", f"{min(arm.cpu):.2f}",
        f"{median(arm.cpu):.2f}",
    )  # fmt: skip


def goal_row(results: Results, goal: Goal) -> tuple[str, ...]:
    """One line of the second table."""
    wanted = f"≤ {goal.cpu:g}" if goal.cpu is not None else f"≥ {goal.at_least:g}"
    reached = results.reached(goal)
    if reached is None:
        return (goal.title, "—", wanted, "not measured")
    value, against = reached
    title = f"{goal.title} ({against})" if len(goal.against) > 1 else goal.title
    return (title, f"{value:.2f}", wanted, "met" if results.met(goal) else "MISSED")


def show(found: Sequence[Results], console: Console) -> None:
    """Print all."""
    for results in found:
        ours = results.arm(OURS)
        assert ours is not None
        arms = Table(*ARMS, title=results.title)
        for arm in results.arms:
            arms.add_row(*arm_row(arm, ours))
        console.print(arms)
        for sentence in results.missing:
            console.print(sentence, markup=False, highlight=False)
    goals = Table(*GOALS, title="Goals: median of the ratios within a round")
    for results in found:
        for goal in results.goals:
            *cells, verdict = goal_row(results, goal)
            goals.add_row(*cells, f"[bold red]{verdict}[/]" if verdict == "MISSED" else verdict)
    console.print(goals)


def as_json(found: Sequence[Results]) -> list[dict[str, Any]]:
    """Every round of every arm."""
    return [
        {
            "figure": results.title,
            "arms": [
                {"way": arm.name, "gigabytesPerSecond": arm.rates, "cpuPerGigabyte": arm.cpu} for arm in results.arms
            ],
            "goals": [dict(zip(GOALS, goal_row(results, goal), strict=True)) for goal in results.goals],
            "missing": list(results.missing),
        }
        for results in found
    ]
