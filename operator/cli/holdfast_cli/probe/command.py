"""`holdfast probe FILE`: train a few steps of a job on each tier, and measure them."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text

from holdfast.api.errors import ExitCode
from holdfast.api.objects import TrainingJob
from holdfast.core.observe.demand import accelerators_on
from holdfast_cli.check.manifests import AlsoFiles, Files, manifest_files
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.probe import screen
from holdfast_cli.probe.counts import counts
from holdfast_cli.probe.manifests import PROBES, Limits, Probe, make_probes
from holdfast_cli.probe.measure import Outcome, Result, scaling
from holdfast_cli.probe.patch import as_json, as_patch, paces, patch_file
from holdfast_cli.probe.running import Running
from holdfast_cli.probe.teller import Teller
from holdfast_cli.storage.options import Endpoint
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.formats import money
from holdfast_cli.terminal.output import write
from holdfast_cli.terminal.parsing import duration
from holdfast_cli.trial_jobs.cleaning import Cleaner
from holdfast_cli.trial_jobs.manifests import left_out
from holdfast_cli.trial_jobs.target import Grid, grid_of, read_job

SHORTEST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(hours=24)
_STOPS: Final = (signal.SIGTERM, signal.SIGHUP)
_NO_ERRORS: Final = (Outcome.MEASURED, Outcome.NO_NODE)


def probe(
    files: Files = None,
    *,
    filename: AlsoFiles = None,
    steps: Annotated[int, typer.Option(min=12, max=10_000, help="Steps on each tier.")] = 60,
    tier: Annotated[
        list[str] | None, typer.Option(help="Only this tier. Repeatable. Default: all.", show_default=False)
    ] = None,
    accelerators: Annotated[
        str | None,
        typer.Option(help="Compare these numbers of accelerators on each tier, such as 1,4.", metavar="N,M"),
    ] = None,
    acquire_timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long a tier may give no node.")] = "2m",
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long a probe with a node may take.")] = "30m",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the probes and their checkpoints in place.")] = False,
    patch: Annotated[
        Path | None, typer.Option(help="Write the paces as a patch of the job into this file.", metavar="FILE")
    ] = None,
    output: Annotated[
        Literal["table", "json", "yaml"],
        typer.Option("--output", "-o", help="Print a table, json or yaml.", show_choices=False),
    ] = "table",
    endpoint: Endpoint = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
) -> None:
    """Train a few steps of a job on each tier, and measure them.

    The files contain one TrainingJob. For each tier a job like it trains on this tier alone, and stores below probes/
    of the job's own prefix. The table has the time of a step, the start, and what a million steps cost. The probes are
    deleted in the end. If this command is killed, the operator deletes them, and the next probe of the job removes
    what they stored.

    \b
    Examples:
      holdfast probe job.yaml
      holdfast probe job.yaml --tier spot-t4 --tier v100 --patch paces.yaml
      holdfast probe job.yaml --accelerators 1,4 -o json
    """
    raw, job = read_job(manifest_files(files, filename), "probe")
    limits = Limits(steps, _span("--acquire-timeout", acquire_timeout), _span("--timeout", timeout))
    asked = Asked(raw, job, limits, tier or [], counts(accelerators, job), keep=keep)
    where = job.metadata.namespace
    if where and namespace and where != namespace:
        raise typer.BadParameter(f"{namespace}: the job of the file is in {where}", param_hint="--namespace")
    target = Target(kubeconfig, namespace or where or None)
    if patch is not None and not patch.absolute().parent.is_dir():
        raise typer.BadParameter(f"{patch}: its folder does not exist", param_hint="--patch")
    try:
        found = asyncio.run(_run(asked, target, endpoint))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    measured = _answer(asked, found, output)
    if patch is not None:
        _write_patch(patch, found.grid, measured, f"{job.metadata.name} -n {target.resolved_namespace()}")
    if any(one.outcome not in _NO_ERRORS for one in found.results) or not measured:
        raise typer.Exit(ExitCode.FAILED)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed."""

    raw: dict[str, Any]
    job: TrainingJob
    limits: Limits
    tiers: Sequence[str]
    accelerators: Sequence[int]
    keep: bool


@dataclass(slots=True)
class Found:
    """What was measured."""

    grid: Grid
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def _run(asked: Asked, target: Target, endpoint: str | None) -> Found:
    """Run the probes, and remove them: also if a signal ends the command."""
    task = asyncio.current_task()
    assert task is not None
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    err = error_console()
    async with connect(target) as client:
        grid = await grid_of(client, asked.raw, asked.job)
        chosen = grid.chosen(asked.tiers)
        probes = make_probes(asked.raw, chosen, asked.accelerators, asked.limits, keep=asked.keep)
        cleaner = Cleaner(client, target.resolved_namespace(), asked.raw, PROBES, endpoint)
        if left := await cleaner.remove_all():
            err.print(f"removed {left} of an earlier probe")
        cleaner.notes.clear()  # what cannot be removed now is said in the end
        err.print(Text(_announcement(asked, probes)))
        found = Found(grid)
        try:
            with Teller(err) as teller:
                found.results = await Running(cleaner, asked.limits, teller.tell, keep=asked.keep).run(probes)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        except asyncio.CancelledError:
            err.print("interrupted: the probes are " + ("kept" if asked.keep else "being removed ..."))
            raise
        finally:
            if not asked.keep:
                await cleaner.remove_in_the_end()
            found.notes += cleaner.notes
        for raw, tier in chosen:
            if lacking := left_out(raw):
                found.notes.append(f"the probe of {tier.name} ran without {', '.join(lacking)} of the profile's tier")
    return found


def _answer(asked: Asked, found: Found, output: Literal["table", "json", "yaml"]) -> dict[str, str]:
    """Print the result. Return the paces, by tier, as a manifest has them."""
    name, steps, scalings = asked.job.metadata.name, asked.limits.steps, scaling(found.results)
    trainer, tiers = asked.job.spec.trainer, found.grid.tiers
    measured = paces(found.results, {one.name: accelerators_on(trainer, one) for one in tiers if one.kind != "CPU"})
    if output == "table":
        screen.show(name, steps, found.results, scalings, console())
    else:
        write(output, as_json(name, steps, found.results, scalings, measured))
    for note in found.notes:
        error_console().print(Text(f"note:  {note}"))
    return measured


def _announcement(asked: Asked, probes: Sequence[Probe]) -> str:
    """How many probes run, and what they cost at most."""
    longest = asked.limits.deadline + asked.job.spec.checkpoint.grace_period
    hours = Decimal(longest.total_seconds()) / 3600
    prices = [one.tier.price_per_node_hour or Decimal(0) for one in probes]
    most = sum(prices, Decimal(0)) * asked.job.spec.trainer.nodes * hours
    runs = "1 probe" if len(probes) == 1 else f"{len(probes)} probes"
    cost = f", which cost at most {money(most)}" if most else ""
    return f"{runs} of {asked.limits.steps} steps{cost}"


def _span(option: str, text: str) -> timedelta:
    found = duration(option, text)
    if not SHORTEST <= found <= LONGEST:
        raise typer.BadParameter(f"{text}: must be between 1s and 24h, such as 2m", param_hint=option)
    return found


def _write_patch(path: Path, grid: Grid, measured: Mapping[str, str], job: str) -> None:
    """Write the patch, and say how it is applied."""
    err = error_console()
    if not measured:
        err.print(Text(f"{path} is not written: no pace was measured"))
        return
    what = f"capacityprofile {grid.profile}" if grid.profile else f"trainingjob {job}"
    command = f"kubectl patch {what} --type=merge --patch-file {path.name}"
    try:
        path.write_text(patch_file(as_patch(grid.written, measured, profile=bool(grid.profile)), command), "utf-8")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}", hint="give another --patch") from error
    err.print(Text(f"wrote {path}: {command}"))
