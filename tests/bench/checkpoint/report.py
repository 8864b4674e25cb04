"""The tables of all sections and goals: on the terminal, as JSON, and in docs/reference/benchmarks-checkpoint.md."""

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from tests.bench.checkpoint.section import Section

GOALS = ("goal", "reached", "wanted", "verdict")
INTRODUCTION = """# Benchmarks of checkpoints

Written by `make bench-checkpoint`. All ways are measured in turns in one run, on one machine. They share its cores with
the training, and with the server if there is one: a null server, which throws uploads away and invents downloads, so
that only the client is measured. Where the time of a save goes, and what the limits are:
[What a save costs](../concepts/checkpoints.md#what-a-save-costs).
"""


def show(found: Sequence[Section], console: Console) -> None:
    """Print all."""
    for section in found:
        table = Table(*section.head, title=section.title)
        for row in section.rows:
            table.add_row(*row)
        console.print(table)
        for sentence in section.notes:
            console.print(sentence, markup=False, highlight=False)
        console.print()
    goals = Table(*GOALS, title="Goals")
    for section in found:
        for verdict in section.verdicts:
            *cells, said = verdict.cells
            goals.add_row(*cells, f"[bold red]{said}[/]" if said == "MISSED" else said)
    console.print(goals)


def as_json(found: Sequence[Section]) -> list[dict[str, Any]]:
    """Every round of every way."""
    return [
        {
            "figure": section.title,
            "rounds": section.rounds,
            "goals": [dict(zip(GOALS, verdict.cells, strict=True)) for verdict in section.verdicts],
            "notes": list(section.notes),
        }
        for section in found
    ]


def markdown(found: Sequence[Section]) -> str:
    """The page docs/reference/benchmarks-checkpoint.md."""
    memory = round(psutil.virtual_memory().total / 2**30)
    where = (
        f"Run on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {memory} GiB, {platform.system()}; "
        f"Holdfast {version('holdfast-train')}, torch {version('torch')}, Python {platform.python_version()}."
    )
    parts = [INTRODUCTION, where + "\n", _table(GOALS, (verdict.cells for part in found for verdict in part.verdicts))]
    for section in found:
        parts += [f"## {section.title}\n", _table(section.head, section.rows)]
        parts += [f"{sentence}\n" for sentence in section.notes]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
