"""`holdfast simulate`: what policies would have cost on recorded or generated spot markets."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from holdfast.api.errors import ScalarError
from holdfast.api.scalars import parse_money
from holdfast_cli.simulate.traces import Trace, read_traces
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.parsing import duration
from holdfast_research.errors import StudyError
from holdfast_research.plot import FORMATS, check_plot, plot
from holdfast_research.study import POLICIES, USUAL, Row, Study, simulate, summarize
from holdfast_research.synthetic import made_up

WORTH_PROCESSES = 64  # jobs; fewer jobs finish before other processes have started
# Field of a Study -> the option that sets it, where the names differ.
OPTIONS = {"policies": "--policy", "loads": "--load", "ratio": "--price-ratio", "lost_work": "--lost-work"}


class Observation(StrEnum):
    """Whether seeing that spot is back costs anything."""

    FREE = "free"
    BILLED = "billed"


class Format(StrEnum):
    """Format of a trace file."""

    AUTO = "auto"
    SKY = "sky"  # github.com/skypilot-org/spot-traces
    CSV = "csv"


ENDINGS = {Format.SKY: ".json", Format.CSV: ".csv"}


class Zones(StrEnum):
    """Whether a job may use one trace, or all of them."""

    APART = "apart"
    TOGETHER = "together"


def policies_after(incomplete: str) -> list[str]:
    """Complete the last of several policy names; names that are already given are left out."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in POLICIES if name.startswith(last) and name not in taken]


Traces = Annotated[
    list[Path] | None,
    typer.Option(
        help="A trace: .json as in skypilot-org/spot-traces, .csv of start,end, or a folder of them. Repeatable.",
        metavar="PATH",
        show_default=False,
    ),
]
Synthetic = Annotated[bool, typer.Option("--synthetic", help="Use generated markets, drawn with --seed.")]
ZonesOption = Annotated[Zones, typer.Option("--zones", help="Each job uses one trace, or all of them.")]
Policies = Annotated[
    str, typer.Option(help=f"Policies, with commas: {', '.join(POLICIES)}.", autocompletion=policies_after)
]
FormatOption = Annotated[Format, typer.Option("--format", help="Format of the traces. auto: by the file's ending.")]
Work = Annotated[str, typer.Option(help="Work of a job, as time on dedicated nodes.", metavar="DURATION")]
Load = Annotated[str, typer.Option(help="Work divided by the time to the deadline; several with commas.")]
Changeover = Annotated[str, typer.Option(help="Time that each start wastes.", metavar="DURATION")]
LostWork = Annotated[str, typer.Option(help="Most work that an interruption of spot can cost.", metavar="DURATION")]
Ratio = Annotated[str, typer.Option(help="Price of dedicated divided by the price of spot.")]
Observing = Annotated[
    Observation,
    typer.Option(help="free: idle nodes show that spot is back. billed: only a node that is paid for shows it."),
]
Windows = Annotated[int, typer.Option(min=1, max=10_000, help="Jobs for each market and load.")]
Seed = Annotated[int, typer.Option(help="Seed of the start times and of generated markets.")]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Processes that share the work; the result is the same.")]
ByLoad = Annotated[bool, typer.Option("--by-load", help="Print a line for each load.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every job as JSON.")]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help=f"Also draw the result into a file that ends in {' or '.join(FORMATS)}; needs the extra `plot`.",
    ),
]


def run(
    *,
    traces: Traces = None,
    synthetic: Synthetic = False,
    zones_: ZonesOption = Zones.APART,
    policy: Policies = ",".join(USUAL),
    format_: FormatOption = Format.AUTO,
    work: Work = "48h",
    load: Load = "0.6,0.75,0.85,0.92",
    changeover: Changeover = "20m",
    lost_work: LostWork = "0s",
    price_ratio: Ratio = "3",
    observation: Observing = Observation.FREE,
    windows: Windows = 12,
    seed: Seed = 1,
    workers: Workers = os.cpu_count() or 1,
    by_load: ByLoad = False,
    as_json: AsJson = False,
    picture: Picture = None,
) -> None:
    """Show what policies would have cost on spot markets.

    Costs are relative to the cheapest schedule with the future known. Under Holdfast's policies (deadline, cheapest,
    ordered-...) a job runs in a virtual cluster, where the operator's own code decides at every event. The other
    policies are rules, asked at every step of the traces. All pay the same prices.

    \b
    Examples:
      holdfast simulate --synthetic --plot policies.svg
      holdfast simulate --traces traces/ --policy deadline,uniform-progress --changeover 10m
    """
    if picture:
        _check(picture)
    markets = _markets(traces or [], synthetic=synthetic, together=zones_ is Zones.TOGETHER, seed=seed, written=format_)
    with _named_by_option():
        study = Study(
            policies=list(dict.fromkeys(name.strip() for name in policy.split(",") if name.strip())),
            work=duration("--work", work),
            loads=_loads(load),
            changeover=duration("--changeover", changeover),
            lost_work=duration("--lost-work", lost_work),
            ratio=_ratio(price_ratio),
            billed=observation is Observation.BILLED,
            windows=windows,
            seed=seed,
            markets=markets,
        )
    rows = _simulate(study, workers if len(study) >= WORTH_PROCESSES else 1)
    if picture:
        plot(rows, picture, f"{len(rows) // len(study.policies):,} jobs: {study.terms}")
    if as_json:
        jobs = [{key: value for key, value in asdict(row).items() if key != "days"} for row in rows]
        typer.echo(json.dumps({"windows": jobs}, indent=1))
    else:
        show(rows, console(), by_load=by_load)


@contextmanager
def _named_by_option() -> Iterator[None]:
    """Name the option in the error if a field of the Study is refused. Raises typer.BadParameter."""
    try:
        yield
    except StudyError as error:
        if not error.field:  # the traces are wrong, not the command line
            raise
        raise typer.BadParameter(error.problem, param_hint=OPTIONS.get(error.field, f"--{error.field}")) from error


def show(rows: Sequence[Row], out: Console, *, by_load: bool) -> None:
    """Print a table with a line for each policy, or for each policy and load."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="cost divided by the cheapest cost with the future known")
    headers = ("POLICY", *(("LOAD",) if by_load else ()), "JOBS", "MEAN", "MEDIAN", "P95", "LATE", "MOVES A DAY")
    for header in headers:
        table.add_column(header, justify="left" if header == "POLICY" else "right", no_wrap=True)
    for one in summarize(rows, by_load=by_load):
        figures = [f"{one.mean:.3f}", f"{one.median:.3f}", f"{one.p95:.3f}", str(one.missed)]
        loads = [f"{one.load:g}"] if by_load else []
        table.add_row(one.policy, *loads, str(one.jobs), *figures, f"{one.moves_per_day:.1f}")
    out.print(table)


def _simulate(study: Study, workers: int) -> list[Row]:
    """Run the study and return every row; a terminal shows a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    rows: list[Row] = []
    err, hidden = console(sys.stderr), not sys.stderr.isatty()
    # Redrawn when a job is done, not by a thread: worker processes are forked.
    with Progress(*columns, console=err, transient=True, disable=hidden, auto_refresh=False) as progress:
        task = progress.add_task("jobs", total=len(study))
        for found in simulate(study, workers):
            rows += found
            progress.advance(task, len(found))
            progress.refresh()
    return rows


def _markets(
    paths: Sequence[Path], *, synthetic: bool, together: bool, seed: int, written: Format
) -> list[tuple[Trace, ...]]:
    if bool(paths) == synthetic:
        raise typer.BadParameter(
            "give --traces FILE or FOLDER, or --synthetic, not both", param_hint="--traces, --synthetic"
        )
    if synthetic:
        return made_up(seed, together=together)
    found = read_traces(paths, ending=ENDINGS.get(written))
    return [found] if together else [(trace,) for trace in found]


def _check(picture: Path) -> None:
    """Before the jobs run, refuse a picture that cannot be drawn. Raises typer.BadParameter and PlotError."""
    if picture.suffix.lower() not in FORMATS:
        problem = f'"{picture}": the file name must end in {" or ".join(FORMATS)}'
        raise typer.BadParameter(problem, param_hint="--plot")
    check_plot(picture)


def _ratio(text: str) -> Decimal:
    try:
        return parse_money(text)
    except ScalarError as error:
        raise typer.BadParameter(str(error), param_hint="--price-ratio") from error


def _loads(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError as error:
        problem = f"must be numbers with commas, such as 0.6,0.85; got {text!r}"
        raise typer.BadParameter(problem, param_hint="--load") from error
