"""The table: on the terminal, as JSON, and as docs/reference/benchmarks.md."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from tests.bench.goals import BY_KEY, Goal, Measured
from tests.support.tools.catalogue import KWOK

from holdfast_local import toolchain


def surroundings() -> dict[str, str]:
    """What was measured and on what, without a name of the machine."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {round(psutil.virtual_memory().total / 2**30)} GiB, {platform.system()}",
        "python": platform.python_version(),
        "holdfast": version("holdfast"),
        "kubernetes": toolchain.module_version(toolchain.TOOLS["kubernetes"]),
        "kwok": toolchain.module_version(KWOK),
        "load": f"{os.getloadavg()[2]:.1f}",
    }


def _number(goal: Goal, value: float | None) -> str:
    return "—" if value is None else f"{value:,.{goal.digits}f} {goal.unit}".rstrip()


def _ratio(goal: Goal, measured: Measured) -> str:
    ratio = goal.ratio(measured)
    if ratio is None:
        return "—"
    return f"{ratio:.0f}×" if ratio >= 100 else f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def _peer(goal: Goal) -> str:
    return "none has it" if goal.peer is None else f"{goal.peer:g} {goal.unit}".rstrip() + f" ({goal.peer_name})"


def met(measured: Measured) -> bool:
    """True if the goal is reached."""
    return BY_KEY[measured.goal].check(measured)


def rows(results: Sequence[Measured]) -> list[tuple[str, ...]]:
    """The table's lines: figure, best peer, Job in this run, goal, measured, ratio, verdict."""
    lines: list[tuple[str, ...]] = []
    for measured in results:
        goal = BY_KEY[measured.goal]
        verdict = "met" if met(measured) else "MISSED"
        lines.append(
            (
                goal.title, _peer(goal), _number(goal, measured.beside), goal.goal, _number(goal, measured.value),
                _ratio(goal, measured), verdict,
            )
        )  # fmt: skip
    return lines


SEVERAL = ("several-", "meeting")  # beginnings of the names of goals
HEADINGS = ("figure", "best peer, published", "Job, this run", "goal", "Holdfast", "ratio", "goal is")


def show(results: Sequence[Measured], console: Console) -> None:
    """Print the table."""
    table = Table(*HEADINGS, title="Holdfast beside its peers (ratio: how many times better)")
    for *cells, verdict in rows(results):
        table.add_row(*cells, f"[green]{verdict}[/]" if verdict == "met" else f"[bold red]{verdict}[/]")
    console.print(table)
    for measured in results:
        if measured.note:
            console.print(f"{measured.goal}: {measured.note}", markup=False, highlight=False, style="dim")


def as_json(results: Sequence[Measured]) -> dict[str, Any]:
    """Everything, for programs."""
    around = surroundings()
    return {
        **around,
        "figures": [
            {
                "figure": m.goal,
                "title": BY_KEY[m.goal].title,
                "unit": BY_KEY[m.goal].unit,
                "holdfast": m.value,
                "job": m.beside,
                "limit": m.limit,
                "peer": BY_KEY[m.goal].peer,
                "goal": BY_KEY[m.goal].goal,
                "met": met(m),
                "ratio": BY_KEY[m.goal].ratio(m),
                "note": m.note,
                "run": m.run or _run(around),
            }
            for m in results
        ],
    }


def write_json(results: Sequence[Measured], path: Path) -> None:
    """Write `as_json` to a file."""
    path.write_text(json.dumps(as_json(results), indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> list[Measured]:
    """The figures of an earlier run, from a file of `write_json`."""
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return [
        Measured(one["figure"], one["holdfast"], one["job"], one["limit"], one["note"], one["run"]) for one in figures
    ]


def _run(around: dict[str, str]) -> str:
    return f"{around['date']}, load {around['load']}"


def write_pages(results: Sequence[Measured], folder: Path) -> None:
    """Write one page about trainings on one node, and one about several, each if there is a figure for it."""
    several = [one for one in results if one.goal.startswith(SEVERAL)]
    alone = [one for one in results if one not in several]
    for name, heading, found in (("benchmarks", "", alone), ("benchmarks-several-nodes", " of several nodes", several)):
        if found:
            (folder / f"{name}.md").write_text(markdown(found, f"Benchmarks{heading}"), encoding="utf-8")


def markdown(results: Sequence[Measured], heading: str) -> str:
    """One page of docs/reference."""
    around = surroundings()
    lines = [
        f"# {heading}",
        "",
        "Written by `make bench`. The control plane is real (etcd, API server, scheduler, controller manager) and runs",
        "on one machine; KWOK simulates nodes and pods; the operator runs under its own service account with its",
        "settings as shipped. batch/v1 Job is measured beside it in the same run, with the controller manager at",
        "200/400 requests a second and 10 job syncs, its best setting. Times come from the API server's audit log. A",
        "pod has ended when the write that says so is answered; a pod is POSTed when its request arrives.",
        "Launchers of trainings on several nodes are simulated, with real tokens, HTTPS and an address each; where",
        "time without a step is measured, pods, programs and gloo are real.",
        "See also: [one node](benchmarks.md), [several nodes](benchmarks-several-nodes.md),",
        "[checkpoints](benchmarks-checkpoint.md).",
        "",
        f"{around['machine']}; Holdfast {around['holdfast']}, Python {around['python']}, "
        f"Kubernetes {around['kubernetes']}, KWOK {around['kwok']}. All parts share these cores, the load included.",
        "The load is the average of the last 15 minutes.",
        "",
        *_runs(results, _run(around)),
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *(f"| {' | '.join(line)} |" for line in rows(results)),
        "",
        "The ratio is against Job in the same run; if Job was not measured, against the best peer's published figure.",
        "Above 1 Holdfast is better. Peers' figures: 2 cores, Kubernetes 1.36.3, batch/v1 Job, JobSet 0.12.0,",
        "PyTorchJob (training-operator 1.9.4), TrainJob (trainer 2.3.0), measured in the same way.",
        "",
        "## Details",
        "",
        *(f"- `{m.goal}` **{BY_KEY[m.goal].title}**: {m.note}" for m in results if m.note),
        "",
    ]
    return "\n".join(lines)


def _runs(results: Sequence[Measured], this: str) -> list[str]:
    """Which figures are of which run."""
    runs: dict[str, list[str]] = {}
    for one in results:
        runs.setdefault(one.run or this, []).append(one.goal)
    if len(runs) == 1:
        return [f"Run on {run}." for run in runs]
    return [f"- Run on {run}: {', '.join(f'`{name}`' for name in names)}." for run, names in sorted(runs.items())]
