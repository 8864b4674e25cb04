"""`holdfast package`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.checkpoints.choice import BestOne, Step, choose
from holdfast_cli.checkpoints.survey import survey
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Job, Kubeconfig, Namespace, NoWait
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.packages import screen
from holdfast_cli.packages.manifest import (
    SUFFIX,
    Wish,
    address,
    job_name,
    lasting_places,
    makes_package,
    package_job,
)
from holdfast_cli.packages.stored import fetch, read_package, refuse_existing
from holdfast_cli.packages.waiting import wait, why_failed
from holdfast_cli.storage.address import PATIENCE, Found, Where, explained, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_cli.storage.options import Addressing, Ca, Endpoint, Proxy, Region
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.output import Format, Output, write
from holdfast_cli.trial_jobs.code import copy_code
from holdfast_train.exchange.lines import printable
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import join_uri
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import RetryingStorage

GONE_WITHIN: Final = 60.0  # seconds for the deletion of an earlier job of the same name
Several = list[str] | None


def _again(text: str, metavar: str) -> Any:
    return typer.Option(help=f"{text} Repeatable.", metavar=metavar, show_default=False)


Problem = Annotated[
    str, typer.Option(help="A function of the program that returns a Problem, as train:problem.", metavar="M:F")
]
Arguments = Annotated[Several, _again("An argument for this function.", "TEXT")]
Name = Annotated[str, typer.Option(help="Dotted name of the model in the checkpoint.")]
Variants = Annotated[Several, _again("Make only this variant, such as onnx-int8.", "NAME")]
Fixed = Annotated[Several, _again("Also make onnx-fixed, with one size for a symbol.", "SYMBOL=SIZE")]
Convert = Annotated[
    Several, _again("Also make a variant with a command of the image; see holdfast-train package.", "NAME=COMMAND")
]
Run = Annotated[Several, _again("Test that variant with this worker.", "NAME=COMMAND")]
To = Annotated[
    str | None,
    typer.Option(
        help="An address such as s3://bucket/prefix, or a new folder here. Default: PREFIX/packages/JOB-STEP in the "
        "job's storage.",
        metavar="PLACE",
    ),
]
Cpu = Annotated[str | None, typer.Option(help="Processor cores. Default: those of the job.")]
Memory = Annotated[str | None, typer.Option(help="Memory, such as 16Gi. Default: that of the job.")]
PrintOnly = Annotated[bool, typer.Option("--print", help="Print the manifest and do nothing.")]
Keep = Annotated[bool, typer.Option("--keep", help="Do not delete the job that made the package.")]
Patience = Annotated[float | None, typer.Option(min=1, help="Seconds to wait. Default: until it is over.")]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed. `seconds`: how long to wait; None is without a limit."""

    where: Where
    step: int | None
    best: bool
    to: str | None
    wish: Wish
    seconds: float | None
    output: Format | None
    keep: bool

    @property
    def folder(self) -> Path | None:
        """Where the package is copied to on this machine, if `--to` is a path."""
        return None if self.to is None or "://" in self.to else Path(self.to).expanduser().absolute()


def package(
    job: Job,
    *,
    problem: Problem,
    argument: Arguments = None,
    step: Step = None,
    best: BestOne = False,
    name: Name = "model",
    variant: Variants = None,
    fix: Fixed = None,
    convert: Convert = None,
    run: Run = None,
    to: To = None,
    cpu: Cpu = None,
    memory: Memory = None,
    print_only: PrintOnly = False,
    keep: Keep = False,
    no_wait: NoWait = False,
    timeout: Patience = None,
    output: Output = None,
    namespace: Namespace = None,
    endpoint: Endpoint = None,
    region: Region = None,
    ca: Ca = None,
    proxy: Proxy = None,
    addressing: Addressing = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make a tested package of a job's model, in a job of its own.

    The job JOB-package has the image, variables, volumes and keys of JOB, and starts on tiers of kind CPU first. It
    runs holdfast-train package, which the image needs, with its extra package. If it loses its node, it starts over.

    The package lies in the storage, package.json last, and is never changed. When it is there, JOB-package is deleted.
    A job that failed stays for a week, so that you can read its logs. The exit code is 1 if a variant did not pass its
    test.

    \b
    Examples:
      holdfast package vit-faces --problem train:problem -n vision
      holdfast package vit-faces --problem train:problem --best --to vit-faces
      holdfast package vit-faces --problem train:problem --print | kubectl apply -f -
    """
    options = [
        *(f"--argument={text}" for text in argument or ()), *([f"--name={name}"] if name != "model" else []),
        *(f"--variant={text}" for text in variant or ()), *(f"--fix={text}" for text in fix or ()),
        *(f"--convert={text}" for text in convert or ()), *(f"--run={text}" for text in run or ()),
    ]  # fmt: skip
    resources = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    where = Where(job, namespace, kubeconfig, endpoint, region, ca, proxy, addressing)
    asked = Asked(where, step, best, to, Wish("", "", problem, options, resources), timeout, output, keep)
    if asked.folder:
        refuse_existing(asked.folder)
        if no_wait:
            raise typer.BadParameter("a folder on this machine needs the wait: leave out --no-wait", param_hint="--to")
    try:
        code = asyncio.run(_run(asked, print_only=print_only, no_wait=no_wait))
    except KeyboardInterrupt:
        _say(f"{job_name(job)} goes on, if it was created: holdfast watch {job_name(job)}")
        code = ExitCode.INTERRUPTED
    if code:
        raise typer.Exit(code)


async def _run(asked: Asked, *, print_only: bool, no_wait: bool) -> ExitCode:
    target = Target(asked.where.kubeconfig, asked.where.namespace)
    async with connect(target) as client:
        job = await job_api.get_job(client, target.resolved_namespace(), asked.where.place)
        manifest, place = await _prepare(client, job, asked)
        if print_only:
            write(asked.output or "yaml", manifest)
            return ExitCode.OK
        name = await _create(client, manifest)
        if no_wait:
            _say(f"created; holdfast watch {name} -n {job.metadata.namespace} shows it; it makes {place}")
            return ExitCode.OK
        done = await wait(client, job.metadata.namespace, name, asked.seconds, error_console())
        return await _outcome(client, job, done, place, asked)


async def _prepare(client: Client, job: TrainingJob, asked: Asked) -> tuple[dict[str, Any], str]:
    """The manifest of the new job, and the address of its package. CliError if there is nothing to package."""
    name = job.metadata.name
    if job.spec.checkpoint.folder:
        raise CliError(f"{name} saves files with checkpoint.folder: a package is made of the objects of a Run")
    if asked.step is None and not asked.best:
        saved = job.status.checkpoint
        if saved is None or saved.step is None:  # that of a Run has a step
            raise CliError(
                f"{name} has no checkpoint yet", code=ExitCode.NOT_FOUND, hint="try again after the job's first save"
            )
        step, checkpoint = saved.step, saved.uri
    else:
        found = await storage_of(client, job, asked.where)
        chosen = await in_thread(lambda: _chosen(found, asked))
        step, checkpoint = chosen.step, join_uri(job.spec.checkpoint.storage.uri, chosen.manifest_key)
    if asked.folder and job.spec.checkpoint.storage.s3 is None:
        raise CliError(
            f"the storage of {name} is a PersistentVolumeClaim, which only pods can mount", hint="leave out --to"
        )
    place = address(job, step) if asked.to is None or asked.folder else asked.to.rstrip("/")
    if not place.startswith(tuple(lasting := lasting_places(job))):
        raise CliError(f"--to {place}: a package there is lost with the pod; allowed: {', '.join(lasting)}, or a path")
    with explained():
        open_storage(place)  # says what is wrong with an address
    wish = replace(asked.wish, checkpoint=checkpoint, destination=place)
    manifest = package_job(job, await job_api.grid(client, job), wish, datetime.now(UTC))
    made = TrainingJob.parse(manifest)  # names each wrong field before anything is created
    await copy_code(client, job, made, asked.where)  # also for --print: the job is applied later
    return manifest, place


def _chosen(found: Found, asked: Asked) -> CheckpointName:
    with explained():
        storage = found.open()
        with storage.within(PATIENCE):
            chosen = choose(survey(storage), found.keep, asked.step, best=asked.best)
    assert chosen is not None  # one of the two options was given
    return chosen


async def _create(client: Client, manifest: Mapping[str, Any]) -> str:
    """Create the job in place of one of this name that is over. CliError if one still runs."""
    meta = manifest["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    path = job_api.job_path(namespace, name)
    try:
        before = await job_api.get_job(client, namespace, name)
    except ApiError as error:
        if error.status != 404:
            raise
    else:
        if not makes_package(before):
            raise CliError(
                f"TrainingJob {name} exists, and does not make a package",
                hint=f"delete or rename it; a package of {name.removesuffix(SUFFIX)} is made by a job of this name",
            )
        if not before.status.is_over:
            raise CliError(
                f"{name} makes a package already", hint=f"holdfast watch {name} -n {namespace} shows it; delete it "
                f"to begin another one: kubectl delete tj {name} -n {namespace}",
            )  # fmt: skip
        await _delete(client, before)
    await client.request("POST", path.rpartition("/")[0], body=dict(manifest))
    return str(name)


async def _delete(client: Client, job: TrainingJob) -> None:
    """Delete a job, and wait until it is gone."""
    meta = job.metadata
    path = job_api.job_path(meta.namespace, meta.name)
    try:
        await client.request("DELETE", path, body={"preconditions": {"uid": meta.uid}})
        async with asyncio.timeout(GONE_WITHIN):
            while (await client.request("GET", path))["metadata"]["uid"] == meta.uid:  # noqa: ASYNC110 - a server tells
                await asyncio.sleep(0.2)
    except ApiError as error:
        if error.status not in (404, 409):  # 409: another job has the name now
            raise
    except TimeoutError as error:
        raise CliError(f"{meta.name} is not deleted within {GONE_WITHIN:g} s") from error


async def _outcome(client: Client, job: TrainingJob, done: TrainingJob, place: str, asked: Asked) -> ExitCode:
    """Fetch the package if that is wanted, and say what is in it. CliError if `done`, the job that made it, failed."""
    name, failed = done.metadata.name, done.status.phase is Phase.FAILED
    storage = await _storage(client, job, place, asked)
    document = await in_thread(lambda: _read(storage)) if storage else None
    if failed and not _is_of(document, done):
        raise CliError(
            f"{name} failed: {why_failed(done)}",
            hint=f"holdfast describe {name} -n {job.metadata.namespace}; the job stays for a week",
        )
    if storage and document is None:
        raise CliError(f"{place} has no package.json, although {name} completed", code=ExitCode.NOT_FOUND)
    if asked.folder and storage and document is not None:
        folder, found = asked.folder, document
        await in_thread(lambda: _fetch(storage, found, folder))
    if not asked.keep:
        await _delete(client, done)
    local = str(asked.folder) if asked.folder else None
    if not write(asked.output, {"address": place, "folder": local, "package": document}):
        _show(console(), place, asked.folder, document)
    return ExitCode.FAILED if failed else ExitCode.OK


def _is_of(document: Mapping[str, Any] | None, job: TrainingJob) -> bool:
    """True if a job that failed has made this package nevertheless: without variants that did not pass."""
    checkpoint = job.spec.trainer.command[2].rpartition("/")[2]
    made = str(_object(_object(document).get("from")).get("manifest", "")).rpartition("/")[2]
    return made == checkpoint and bool(_object(document).get("failed"))


async def _storage(client: Client, job: TrainingJob, place: str, asked: Asked) -> RetryingStorage | None:
    """The storage of the package; None if it cannot be read from here, which matters only if it is to be fetched."""
    if not place.startswith("s3://"):
        return None
    try:
        found = await storage_of(client, job, asked.where)
    except CliError as error:
        if asked.folder:
            raise
        _say(f"what is in the package cannot be read from here: {error}")
        return None
    with explained():
        return replace(found, uri=place).open()


def _read(storage: RetryingStorage) -> Mapping[str, Any] | None:
    with explained(), storage.within(PATIENCE):
        return read_package(storage)


def _fetch(storage: RetryingStorage, document: Mapping[str, Any], folder: Path) -> None:
    with explained(), storage.within(PATIENCE):
        try:
            fetch(storage, document, folder)
        except OSError as error:
            raise CliError(f"{error.filename or folder}: {error.strerror or error}") from error


def _show(out: Console, place: str, folder: Path | None, document: Mapping[str, Any] | None) -> None:
    found = document or {}
    for line in [place, *([f"copied to {folder}"] if folder else []), screen.headline(found)]:
        out.print(printable(line), markup=False, soft_wrap=True)
    out.print(screen.variants(found))
    for line in screen.refusals(found):
        out.print(line, markup=False, soft_wrap=True)


def _object(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _say(text: str) -> None:
    error_console().print(text, markup=False)
