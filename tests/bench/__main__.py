"""`make bench`: measure Holdfast beside batch/v1 Job on a real control plane, and print ratios."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

from rich.console import Console
from tests.bench import report
from tests.bench.api import Api
from tests.bench.audit import AuditLog
from tests.bench.context import Bench
from tests.bench.control_plane.cluster import control_plane
from tests.bench.control_plane.kwok import Kwok
from tests.bench.figures import (
    as_it_is,
    creation,
    folder,
    folder_nodes,
    folder_stall,
    idle,
    interruptions,
    loss_guard,
    notice,
    overhead,
    run,
    scrape,
    several_creation,
    several_decide,
    several_endpoint,
    several_in_place,
    several_interruptions,
    several_meeting,
    several_switch,
    several_waiting,
    silent,
    strangers,
    switch,
    ui,
)
from tests.bench.goals import Measured
from tests.support import guard

Measure = Callable[[Bench], Awaitable[list[Measured]]]

FIGURES: dict[str, Measure] = {
    "notice": notice.measure,
    "strangers": strangers.measure,
    "interruptions": interruptions.measure,
    "silent": silent.measure,
    "creation": creation.measure,
    "idle": idle.measure,
    "several-creation": several_creation.measure,
    "several-interruptions": several_interruptions.measure,
    "several-meeting": several_meeting.measure,
    "scrape": lambda bench: scrape.measure(bench.quick),
    "ui": lambda bench: ui.measure(bench.quick),
    "several-decide": lambda bench: several_decide.measure(bench.quick),
    "several-endpoint": several_endpoint.measure,
    "several-in-place": lambda bench: several_in_place.measure(bench.quick),
    "several-waiting": several_waiting.measure,
    "several-switch": lambda bench: several_switch.measure(bench.quick),
    "overhead": overhead.measure,
    "cost-of-guard": lambda bench: loss_guard.measure(bench.quick),
    "switch": lambda bench: switch.measure(bench.quick),
}
# What only programs take: no control plane is beside these.
ALONE: dict[str, Callable[[bool], Awaitable[list[Measured]]]] = {
    "as-it-is": as_it_is.measure,
    "folder": folder.measure,
    "folder-nodes": folder_nodes.measure,
    "folder-stall": folder_stall.measure,
    "run": run.measure,
}
NAMES = (*FIGURES, *ALONE)
PAGES = Path(__file__).parents[2] / "docs" / "reference"
LONGEST = 1800.0  # seconds for one figure


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers; minutes instead of a quarter of an hour")
    parser.add_argument("--only", action="append", choices=sorted(NAMES), metavar="NAME",
                        help=f"measure only this: {', '.join(NAMES)}; can be repeated")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--earlier", action="append", type=Path, default=[], metavar="FILE",
                        help="add the figures of an earlier --json; measure only what --only names")  # fmt: skip
    parser.add_argument("--pages", type=Path, metavar="FOLDER",
                        help="write the pages there; a full run writes them into docs/reference")  # fmt: skip
    return parser.parse_args(arguments)


async def measure(wanted: Sequence[str], quick: bool, say: Callable[[str], None]) -> list[Measured]:
    """Every figure that is wanted, each on a control plane of its own, so that none pays for what another left."""
    results: list[Measured] = []
    for name in wanted:
        started = monotonic()
        found = await asyncio.wait_for(ALONE[name](quick) if name in ALONE else _with_api(name, quick), LONGEST)
        for one in found:
            say(f"{one.goal}: {one.value:.4g}" + (f" (Job {one.beside:.4g})" if one.beside is not None else ""))
        say(f"{name} took {monotonic() - started:.0f} s")
        results += found
    return results


async def _with_api(name: str, quick: bool) -> list[Measured]:
    with control_plane() as cluster, Kwok(cluster):
        assert cluster.audit_log is not None
        async with Api(cluster) as api:
            return await FIGURES[name](Bench(cluster, api, AuditLog(cluster.audit_log), quick))


def main() -> int:
    """Measure, print, write. A goal that is missed is shown, and is not an error."""
    options = parse()
    guard.start()
    err, out = Console(stderr=True), Console()
    if not out.is_terminal:
        out = Console(width=200)
    wanted = options.only or ([] if options.earlier else list(NAMES))
    results = [found for path in options.earlier for found in report.read_json(path)]
    results += asyncio.run(measure(wanted, options.quick, lambda text: err.print(text, markup=False, highlight=False)))
    report.show(results, out)
    if options.json:
        report.write_json(results, options.json)
    is_full = not (options.quick or options.only or options.earlier)
    folder = options.pages or (PAGES if is_full else None)
    if folder:
        report.write_pages(results, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
