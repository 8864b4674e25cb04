"""From what is said of a run to a job in the cluster: for `holdfast run`, and for the Python client."""

import asyncio
import posixpath
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.api.review import review
from holdfast_cli.check.findings import Report, Severity, show
from holdfast_cli.check.preflight import Preflight
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.code.folder import Selection, select
from holdfast_cli.code.upload import send
from holdfast_cli.code.walk import in_words
from holdfast_cli.dependencies.locked import for_image
from holdfast_cli.dependencies.sending import prepare
from holdfast_cli.dependencies.sending import send as send_packages
from holdfast_cli.dependencies.unpacked import Unpacked
from holdfast_cli.errors import CliError
from holdfast_cli.run.plan import Planned, plan
from holdfast_cli.run.sources import of_folder, of_person
from holdfast_cli.run.submit import Again, begin_anew, check_goes_on, create, go_on
from holdfast_cli.run.wanted import Wanted, layered
from holdfast_cli.storage.address import PATIENCE, Found, Where, explained, storage_of
from holdfast_cli.terminal.formats import money
from holdfast_train.exchange.progress_bar import format_size


class Until(IntEnum):
    """How far a run goes."""

    CHECKED = 1
    """Nothing is sent."""
    SENT = 2
    """The folder is sent, and no job is created."""
    MADE = 3
    """The job is created."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run, and its job as it was sent or would be."""

    planned: Planned
    manifest: dict[str, Any]
    until: Until


def begin(
    target: Target,
    folder: Path,
    said: Wanted,
    command: Sequence[str],
    err: Console,
    *,
    again: Callable[[str], Again],
    until: Until = Until.MADE,
    endpoint: str | None = None,
    upgrade: bool = False,
) -> Begun:
    """Send the folder, and make the job. Must not be called inside an event loop. Raises CliError.

    `said`: what is stronger than the files of the folder and of the person. `again` decides, from its name, about a job
    that is there. `err` is told what happens. `endpoint`: where the storage is reached from here.
    `upgrade`: take the newest versions of packages.
    """
    person = of_person()
    planned = asyncio.run(_plan(target, layered(said, of_folder(folder), person), command))
    endpoint = endpoint or chosen_endpoint(planned, said, person)
    if planned.old is not None and until is Until.MADE:
        planned = replace(planned, again=again(planned.name))
    # What is missing or wrong is said before a large folder is read.
    _refuse(_reviewed(planned.manifest("0" * 64, datetime.now(UTC))), err)
    with err.status("reading the folder ...") if err.is_terminal else nullcontext():
        selection = select(folder, planned.wanted.exclude)
    _say_selection(selection, command, err)
    wanted = planned.wanted
    image = for_image(wanted.python, wanted.platform, wanted.provided)
    packages = prepare(folder.absolute(), wanted.deps, image, err, upgrade=upgrade)
    raw = planned.manifest(selection.sha256, datetime.now(UTC), packages.sha256 if packages else None)
    asyncio.run(_check(target, raw, err, planned))
    if until >= Until.SENT:
        _send(target, raw, selection, err, packages=packages, endpoint=endpoint)
    if until is Until.MADE:
        asyncio.run(_submit(target, raw, planned, err))
    return Begun(planned, raw, until)


def chosen_endpoint(planned: Planned, *own: Wanted) -> str | None:
    """The endpoint of the storage if the person has chosen it in `own`: then their own keys may go there."""
    storage = planned.wanted.storage
    s3 = None if storage is None else storage.s3
    if s3 is None or s3.proxy is not None:
        return None
    return s3.endpoint if any(wanted.storage == storage for wanted in own) else None


def _say_selection(selection: Selection, command: Sequence[str], err: Console) -> None:
    files = len(selection.entries)
    err.print(Text(f"{files:,} {'file' if files == 1 else 'files'}, {format_size(selection.total)}"))
    for line in in_words(selection.left_out):
        err.print(Text(line), soft_wrap=True)
    for word in not_sent(command, selection):
        err.print(Text(f"note: the command names {word}, which is not among these files"), soft_wrap=True)


def not_sent(command: Sequence[str], selection: Selection) -> list[str]:
    """Programs of Python in the command that a pod would look for in the folder and not find."""
    there = {entry.path for entry in selection.entries}
    programs = (word for word in command if word.endswith(".py") and not word.startswith(("/", "-")))
    return [word for word in programs if posixpath.normpath(word) not in there]


async def _plan(target: Target, said: Wanted, command: Sequence[str]) -> Planned:
    async with connect(target) as client:
        return await plan(client, target.resolved_namespace(), said, command)


def _reviewed(raw: dict[str, Any]) -> Report:
    """What can be said of the job without the cluster."""
    report = Report(f"trainingjob/{raw['metadata']['name']}")
    report.problems(review(raw))
    return report


def _refuse(report: Report, err: Console) -> None:
    """Say what speaks against the job. CliError if it would be refused."""
    bad = [finding for finding in report.findings if finding.severity is not Severity.OK]
    if bad:
        show([Report(report.name, findings=bad)], err)
    if report.refused:
        raise CliError("the job would be refused; nothing was sent")


async def _check(target: Target, raw: dict[str, Any], err: Console, planned: Planned) -> None:
    """Say what speaks against the job, and which tiers it has. CliError if the cluster would refuse it."""
    old, report = planned.old, _reviewed(raw)
    if not report.refused and old is None:
        async with connect(target) as client:
            await Preflight(client, target.resolved_namespace(), [raw]).check(raw, report)
            tiers = await job_api.grid(client, TrainingJob.parse(raw))
            prices = (
                tier.name if tier.price_per_node_hour is None else f"{tier.name} {money(tier.price_per_node_hour)}/h"
                for tier in tiers
            )
            err.print(Text(f"tiers: {', '.join(prices)}"), soft_wrap=True)
    _refuse(report, err)
    if old is not None and planned.again is Again.CONTINUE:
        check_goes_on(old, raw)


def _send(
    target: Target,
    raw: dict[str, Any],
    selection: Selection,
    err: Console,
    *,
    packages: Unpacked | None,
    endpoint: str | None,
) -> None:
    """Upload what is not there yet. CliError if the storage does not take it."""

    async def find() -> Found:
        async with connect(target) as client:
            meta = raw["metadata"]
            return await storage_of(
                client, TrainingJob.parse(raw), Where(meta["name"], meta["namespace"], endpoint=endpoint)
            )

    found = asyncio.run(find())
    for note in found.notes:
        err.print(Text(note), soft_wrap=True)
    with explained():
        storage = found.open()
        with storage.within(PATIENCE):
            sent = send(storage, selection, err)
            err.print(Text(f"code {selection.sha256[:12]}: {_was_sent(sent)}"))
            if packages is not None:
                sent = send_packages(storage, packages, err)
                err.print(Text(f"packages {packages.sha256[:12]}: {_was_sent(sent)}"))


def _was_sent(size: int) -> str:
    return f"sent ({format_size(size)})" if size else "was sent already"


async def _submit(target: Target, raw: dict[str, Any], planned: Planned, err: Console) -> None:
    async with connect(target) as client:
        if planned.old is None:
            await create(client, raw)
        elif planned.again is Again.CONTINUE:
            err.print(Text(f"{planned.name} saves and is suspended; then it goes on with this program ..."))
            await go_on(client, planned.old, raw)
        else:
            await begin_anew(client, planned.old, raw)
