"""`holdfast plan FILE...`: what a job is going to cost, and when it will be done."""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.api.job import Policy
from holdfast_cli.check.manifests import AlsoFiles, Files, manifest_files
from holdfast_cli.cluster import completion
from holdfast_cli.cluster.connect import Target
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.pages.document import document
from holdfast_cli.pages.file import check_page, write_page
from holdfast_cli.plan.as_json import as_json
from holdfast_cli.plan.as_page import as_page
from holdfast_cli.plan.comparison import Comparison, compare
from holdfast_cli.plan.inputs import prepare, without
from holdfast_cli.plan.probed import read_probe
from holdfast_cli.plan.request import ByTier, Task, grid, make_task
from holdfast_cli.plan.screen import show
from holdfast_cli.plan.sources import ask_cluster, read_files
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Format, Output, write
from holdfast_cli.terminal.parsing import duration

WORTH_PROCESSES = 8  # runs; fewer are done before other processes have started


class PolicyName(StrEnum):
    """The policies of capacity.policy."""

    ORDERED = "Ordered"
    CHEAPEST = "Cheapest"
    DEADLINE = "Deadline"


def _by_tier(text: str, value: str) -> Any:
    return typer.Option(help=f"{text} Repeatable.", metavar=f"[TIER=]{value}", show_default=False)


Span = str | None
Several = list[str] | None
ProfileFiles = Annotated[
    list[Path] | None,
    typer.Option("--profile-file", help="Another file, with CapacityProfiles. Repeatable.", metavar="PATH"),
]
Deadlines = Annotated[
    Several,
    typer.Option(help="Time for the job, such as 8d, or a time. Repeatable. Default: the job's.", metavar="TIME"),
]
Policies = Annotated[
    list[PolicyName] | None,
    typer.Option(help=f"{', '.join(PolicyName)}. Repeatable. Default: all that apply.", metavar="POLICY"),
]
Month = Annotated[Several, typer.Option(help="Price of a node by the month. Repeatable.", metavar="TIER=PRICE")]
Nodes = Annotated[int | None, typer.Option(min=1, max=1024, help="Number of nodes. Default: the job's.")]
Without = Annotated[Several, typer.Option("--without", help="Leave a tier out. Repeatable.", metavar="TIER")]
Like = Annotated[
    Span,
    typer.Option("--from", help="Use what this job measured.", metavar="JOB", autocompletion=completion.jobs),
]
FromProbe = Annotated[
    Path | None,
    typer.Option("--from-probe", help="Use what holdfast probe -o json wrote into this file.", metavar="FILE"),
]
Restore = Annotated[Span, typer.Option(help="Part of the start that reads a checkpoint. Default: 30s.")]
Save = Annotated[Span, typer.Option(help="Time to save and leave. Default: 30s.")]
Notice = Annotated[Span, typer.Option(help="Warning before Spot is taken. Default: 30s.")]
Html = Annotated[
    str | None,
    typer.Option("--html", help="Write the result into this file of HTML; - is the standard output.", metavar="FILE"),
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Processes that share the work; the result is the same.")]


def plan(
    files: Files = None,
    *,
    filename: AlsoFiles = None,
    profile_file: ProfileFiles = None,
    deadline: Deadlines = None,
    policy: Policies = None,
    pace: Annotated[Several, _by_tier("Time of one step, such as v100=12s.", "DURATION")] = None,
    interruptions: Annotated[Several, _by_tier("How often Spot is lost, such as 2/day; 0 for never.", "RATE")] = None,
    out: Annotated[Several, _by_tier("For how long Spot is then out, on average.", "DURATION")] = None,
    traces: Annotated[Several, _by_tier("Recorded Spot markets, as for simulate.", "PATH")] = None,
    start: Annotated[Several, _by_tier("Time from a node to training.", "DURATION")] = None,
    acquire: Annotated[Several, _by_tier("Time until a tier that is up gives a node.", "DURATION")] = None,
    restore: Restore = None,
    save: Save = None,
    notice: Notice = None,
    month: Month = None,
    nodes: Nodes = None,
    without_: Without = None,
    like: Like = None,
    from_probe: FromProbe = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Read profiles from the cluster.")] = False,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="How often markets are drawn.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the markets.")] = 1,
    workers: Workers = os.cpu_count() or 1,
    output: Output = None,
    html: Html = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
) -> None:
    """Show what a job is going to cost, and when it will be done.

    The job runs many times in a virtual cluster, where the operator's own code decides, on drawn Spot markets. Starts,
    checkpoints, restores and repeated steps are paid for. Nothing is applied, and no cluster is needed. The prices are
    those of the manifests. What is only assumed is said below the table.

    \b
    Examples:
      holdfast plan examples/plan.yaml --deadline 8d --deadline 12d
      holdfast plan examples/plan.yaml --interruptions spot-v100=2/day --month v100=1100
      holdfast plan examples/plan.yaml --html plan.html
    """
    _refuse_both("--from-probe", "--from", from_probe and like)
    _check_html(html, output)
    given = read_files([*manifest_files(files, filename), *(profile_file or [])])
    if like or cluster:
        given = ask_cluster(given, Target(kubeconfig, namespace), like=like)
    known = read_probe(from_probe) if from_probe else given.like
    by_tier = ByTier(pace or [], interruptions or [], out or [], start or [], acquire or [], traces or [], month or [])
    texts = {"restore": restore, "save": save, "notice": notice}
    spans = {name: duration(f"--{name}", text) for name, text in texts.items() if text is not None}
    numbers = {"draws": draws, "seed": seed} | ({"nodes": nodes} if nodes else {})
    chosen: list[Policy] = [one.value for one in policy or []]
    tasks = []
    for job in given.jobs:
        narrowed, profile = without(job, given.profile_of(job), without_ or [])
        tiers = grid(narrowed, profile)
        basis = prepare(narrowed, profile, known, by_tier.wishes(tiers, spans, numbers))
        tasks.append(make_task(basis, job, deadline or [], chosen, by_tier.monthly(tiers)))
    _print(_simulate(tasks, workers), output, html)


def _refuse_both(one: str, other: str, both: object) -> None:
    """Raise typer.BadParameter if two options that exclude each other were given."""
    if both:
        raise typer.BadParameter(f"give {one} or {other}, not both", param_hint=one)


def _check_html(html: str | None, output: Format | None) -> None:
    """Raise typer.BadParameter or CliError if there cannot be a page: before minutes of simulation."""
    _refuse_both("--html", "--output", html and output)
    if html:
        check_page(html, option="--html")


def _simulate(tasks: Sequence[Task], workers: int) -> list[Comparison]:
    """Run all tasks; a terminal shows a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    found = []
    err, hidden = console(sys.stderr), not sys.stderr.isatty()
    # Redrawn when a run is done, not by a thread: worker processes are forked.
    with Progress(*columns, console=err, transient=True, disable=hidden, auto_refresh=False) as progress:
        bar = progress.add_task("runs", total=sum(task.runs for task in tasks))

        def done() -> None:
            progress.advance(bar)
            progress.refresh()

        for task in tasks:
            several = workers if task.runs >= WORTH_PROCESSES else 1
            found.append(compare(task.basis, task.ways, task.deadlines, task.monthly, workers=several, done=done))
    return found


def _print(found: Sequence[Comparison], output: Format | None, html: str | None) -> None:
    if html:
        write_page(document(as_page(found), live=False), html, option="--html")
    elif not write(output, as_json(found)):
        for one in found:
            show(one, console())
