"""`holdfast run`: send the folder of a program to the cluster, and train it there."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.review import review
from holdfast_cli.check.findings import Report, Severity, show
from holdfast_cli.check.preflight import Preflight
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.code.folder import Selection, select
from holdfast_cli.code.screen import say_selection
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.logs.chosen import ALL
from holdfast_cli.logs.command import logs
from holdfast_cli.run import options
from holdfast_cli.run.local_cluster import bring_up
from holdfast_cli.run.plan import Planned, plan
from holdfast_cli.run.sources import of_folder, of_person
from holdfast_cli.run.submit import Again, begin_anew, check_goes_on, create, go_on
from holdfast_cli.run.wanted import Wanted, layered
from holdfast_cli.storage.address import PATIENCE, Found, Where, explained, storage_of
from holdfast_cli.terminal.console import error_console
from holdfast_cli.terminal.formats import money
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.output import Output, write
from holdfast_train.code.store import send
from holdfast_train.exchange.progress_bar import format_size


def run(
    command: options.Command = None,
    *,
    folder_of_program: options.Dir = Path(),
    name: options.Name = None,
    image: options.Image = None,
    profile: options.Profile = None,
    nodes: options.Nodes = None,
    gpus: options.Gpus = None,
    cpu: options.Cpu = None,
    memory: options.Memory = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    every: options.Every = None,
    steps: options.Steps = None,
    env: options.Env = None,
    secret: options.Secret = None,
    data: options.Data = None,
    storage: options.Storage = None,
    storage_endpoint: options.StorageEndpoint = None,
    storage_secret: options.StorageSecret = None,
    folder: options.Folder = None,
    progress: options.Progress = None,
    exclude: options.Exclude = None,
    again: Annotated[
        Again | None,
        typer.Option(help="If a job has this name: go on with its training, or begin a new one.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; with -o, print the job. Nothing is sent.")
    ] = False,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--detach",
            help="Show the log until the job is over; Ctrl-C leaves it running. Default: on a terminal.",
            show_default=False,
        ),
    ] = None,
    only_send: Annotated[
        bool, typer.Option("--only-send", help="Send the folder, and create no job: for one that -o yaml prints.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Train in the local cluster of this machine; it is started if it is not up.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Output = None,
) -> None:
    """Send the folder of a program to the cluster, and train it there.

    The folder is sent without what .gitignore and .holdfastignore name, and without what looks like a secret. What no
    option says is taken from holdfast.toml or [tool.holdfast] in pyproject.toml of the folder, from your own
    ~/.config/holdfast/config.toml, and from spec.defaults of the CapacityProfile, in this order.

    \b
    Examples:
      holdfast run -- python train.py --lr 3e-4
      holdfast run --gpus 8 --deadline 3d --budget 50 -- python train.py
      holdfast run --folder outputs --progress 'step {step} loss {loss}' -- python as_it_is.py
      holdfast run --dry-run -o yaml -- python train.py
    """
    if not command:
        raise typer.BadParameter("name the program and its arguments, such as -- python train.py", param_hint="COMMAND")
    typed = options.wanted(
        {
            **{"name": name, "image": image, "profile": profile, "nodes": nodes, "gpus": gpus, "cpu": cpu},
            **{"memory": memory, "deadline": deadline, "budget": budget, "every": every, "steps": steps},
            **{"env": env, "secrets": secret, "data": data, "folder": folder, "progress": progress},
            **{"exclude": exclude, "storage": (storage, storage_endpoint, storage_secret)},
        }
    )
    root = folder_of_program
    said = layered(typed, of_folder(root), of_person())
    err = error_console()
    if local:
        kubeconfig = bring_up(lambda text: err.print(Text(text), soft_wrap=True))
    target = Target(kubeconfig, namespace)
    planned = asyncio.run(_plan(target, said, command))
    if planned.old is not None and (again or not (dry_run or only_send)):
        planned = replace(planned, again=again or _asked(planned.name))
    with interruptible():
        selection = select(root, planned.wanted.exclude)
        say_selection(selection, err)
        raw = planned.manifest(selection.sha256, datetime.now(UTC))
        asyncio.run(_check(target, raw, err, planned))
        if not dry_run:
            _send(target, raw, selection, err)
        if not dry_run and not only_send:
            asyncio.run(_submit(target, raw, planned))
    is_made = not dry_run and not only_send
    if not write(output, raw):
        _say_end(planned, err, is_sent=not dry_run, is_made=is_made)
    if is_made and (follow or (follow is None and sys.stdout.isatty() and not output)):
        _follow(planned, namespace, kubeconfig, err)


async def _plan(target: Target, said: Wanted, command: Sequence[str]) -> Planned:
    async with connect(target) as client:
        return await plan(client, target.resolved_namespace(), said, command)


def _asked(name: str) -> Again:
    """Ask on a terminal what happens to the job that has the name. CliError without one."""
    err = error_console()
    if not err.is_terminal:
        raise CliError(
            f"a job {name} exists", code=ExitCode.USAGE, hint="give --again continue, --again new, or another --name"
        )
    err.print(Text(f"A job {name} exists."))
    goes_on = typer.confirm("Go on with its training, with this program?", err=True)
    if goes_on:
        return Again.CONTINUE
    typer.confirm("Delete it, and begin a new training?", abort=True, err=True)
    return Again.NEW


async def _check(target: Target, raw: dict[str, Any], err: Console, planned: Planned) -> None:
    """Say what speaks against the job, and which tiers it has. CliError if the cluster would refuse it."""
    old = planned.old
    report = Report(f"trainingjob/{raw['metadata']['name']}")
    report.problems(review(raw))
    if not report.refused and old is None:
        async with connect(target) as client:
            await Preflight(client, target.resolved_namespace(), [raw]).check(raw, report)
            tiers = await job_api.grid(client, TrainingJob.parse(raw))
            prices = (
                tier.name if tier.price_per_node_hour is None else f"{tier.name} {money(tier.price_per_node_hour)}/h"
                for tier in tiers
            )
            err.print(Text(f"tiers: {', '.join(prices)}"), soft_wrap=True)
    bad = [finding for finding in report.findings if finding.severity is not Severity.OK]
    if bad:
        show([Report(report.name, findings=bad)], err)
    if report.refused:
        raise CliError("the job would be refused; nothing was sent")
    if old is not None and planned.again is Again.CONTINUE:
        check_goes_on(old, raw)


def _send(target: Target, raw: dict[str, Any], selection: Selection, err: Console) -> None:
    """Upload what is not there yet. CliError if the storage does not take it."""

    async def find() -> Found:
        async with connect(target) as client:
            meta = raw["metadata"]
            return await storage_of(client, TrainingJob.parse(raw), Where(meta["name"], meta["namespace"]))

    found = asyncio.run(find())
    for note in found.notes:
        err.print(Text(note), soft_wrap=True)
    with explained():
        storage = found.open()
        with storage.within(PATIENCE):
            sent = send(storage, selection.root, selection.entries)
    words = f"sent ({format_size(sent)})" if sent else "was sent already"
    err.print(Text(f"code {selection.sha256[:12]}: {words}"))


async def _submit(target: Target, raw: dict[str, Any], planned: Planned) -> None:
    async with connect(target) as client:
        if planned.old is None:
            await create(client, raw)
        elif planned.again is Again.CONTINUE:
            await go_on(client, planned.old, raw)
        else:
            await begin_anew(client, planned.old, raw)


def _follow(planned: Planned, namespace: str | None, kubeconfig: Path | None, err: Console) -> None:
    """Show the log until the job is over, with the exit code of `holdfast logs -f`. Ctrl-C ends only the log."""
    try:
        logs(planned.name, follow=True, rank=ALL, namespace=namespace, kubeconfig=kubeconfig)
    except typer.Exit as ended:
        if ended.exit_code == ExitCode.INTERRUPTED:
            name = f"{planned.name} -n {planned.namespace}"
            err.print(Text(f"{planned.name} goes on; holdfast logs -f {name} shows it, holdfast cancel {name} ends it"))
            raise typer.Exit(ExitCode.OK) from ended
        raise


def _say_end(planned: Planned, err: Console, *, is_sent: bool, is_made: bool) -> None:
    name = f"{planned.name} -n {planned.namespace}"
    if is_made:
        done = "goes on with this program" if planned.again is Again.CONTINUE else "was created"
        err.print(Text(f"{name} {done}\n  holdfast watch {name}\n  holdfast logs -f {name}"), soft_wrap=True)
    elif is_sent:
        err.print(Text("the folder was sent, and no job was created"))
    else:
        err.print(Text("nothing was sent and no job was created: --dry-run"))
