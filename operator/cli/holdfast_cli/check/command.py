"""`holdfast check FILE...`: what applying these files would do."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.api.names import JOB_KIND
from holdfast.api.objects import TrainingJob
from holdfast.api.review import is_ours, named, review
from holdfast_cli.check.accelerator_memory import Needs, read_needs
from holdfast_cli.check.failure_reasons import check_reasons
from holdfast_cli.check.feature_gates import check_gates
from holdfast_cli.check.findings import Report, show, to_objects
from holdfast_cli.check.manifests import AlsoFiles, EmptyError, Files, ManifestError, manifest_files, read
from holdfast_cli.check.memory_room import State, check_memory
from holdfast_cli.check.preflight import Manifest, Preflight
from holdfast_cli.check.stored_code import check_code
from holdfast_cli.check.variable_references import check_references
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Output, write
from holdfast_cli.terminal.parsing import size

app = typer.Typer()
ACCELERATOR_MEMORY: Final = "--accelerator-memory"


@app.command()
def check(
    files: Files = None,
    *,
    filename: AlsoFiles = None,
    offline: Annotated[bool, typer.Option("--offline", help="Check without a cluster.")] = False,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of what a checkpoint contains, such as 12Gi: says if the memory has room for a save. Default: "
            "that of the newest checkpoint, if the job exists.",
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What holdfast-train estimate --json wrote: says which batches fit into the accelerators of a tier.",
        ),
    ] = None,
    accelerator_memory: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIER=SIZE",
            help="Memory of one accelerator of a tier, such as spot-t4=15Gi; may be repeated. Default: the label "
            "nvidia.com/gpu.memory of its nodes.",
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Check what applying FILE would do.

    Says what is refused and why, which tiers match no node, which objects are missing, if the storage has the files
    of trainer.code, and if a save fits into the memory. With --memory, also which batches fit into the accelerators.
    Nothing is changed. All files are one set: a job finds a profile or a Secret of another file. The exit code is 1 if
    anything would be refused.

    \b
    Examples:
      holdfast check job.yaml
      holdfast check jobs/*.yaml
      holdfast check -f jobs/ --offline
      holdfast check job.yaml --state 12Gi
      holdfast check job.yaml --memory estimate.json --accelerator-memory spot-t4=15Gi
    """
    given = State(size("--state", state), "given by --state") if state is not None else None
    needs = _needs(memory, accelerator_memory or [])
    manifests, reports = _review_all(manifest_files(files, filename))
    if not offline and any(report.checked and not report.refused for report in reports):
        asyncio.run(_ask(Target(kubeconfig, namespace), manifests, reports, given, needs))
    elif given or needs:
        _check_memory(manifests, reports, given, needs)
    if not write(output, to_objects(reports)):
        show(reports, console())
    if any(report.refused for report in reports):
        raise typer.Exit(ExitCode.FAILED)
    if needs and (unused := needs.unused()):
        known = ", ".join(sorted(needs.seen)) or "none"
        raise CliError(f"--accelerator-memory: no tier is named {unused[0]}; tiers: {known}", code=ExitCode.USAGE)


def _needs(memory: Path | None, accelerators: Sequence[str]) -> Needs | None:
    """What the tensors of a step need; None if that was not said."""
    given = {}
    for text in accelerators:
        tier, separator, value = text.rpartition("=")
        if not separator or not tier:
            raise typer.BadParameter(f"{text}: must be TIER=SIZE, such as spot-t4=15Gi", param_hint=ACCELERATOR_MEMORY)
        given[tier] = size(ACCELERATOR_MEMORY, value)
    if memory is None and given:
        raise typer.BadParameter("needs --memory FILE", param_hint=ACCELERATOR_MEMORY)
    return None if memory is None else read_needs(memory, given)


def _review_all(files: Sequence[Path]) -> tuple[list[Manifest], list[Report]]:
    """Check all objects of these files without a cluster. A file that is not one of manifests is one object."""
    manifests: list[Manifest] = []
    reports: list[Report] = []
    for file in files:
        try:
            found = read(file)
        except ManifestError as error:
            if len(files) == 1:
                raise
            if not isinstance(error, EmptyError):
                reports.append(Report(str(file), checked=False, file=str(file)))
                reports[-1].error("file", str(error))
                manifests.append({"kind": ""})
            continue
        manifests += found
        reports += [_review(manifest, file) for manifest in found]
    _name_repeated(manifests, reports)
    return manifests, reports


def _name_repeated(manifests: Iterable[Manifest], reports: Iterable[Report]) -> None:
    """Warn of an object that is written more than once."""
    files: dict[tuple[str, str, str], str] = {}
    for manifest, report in zip(manifests, reports, strict=True):
        metadata = manifest.get("metadata")
        if report.checked and isinstance(metadata, dict) and metadata.get("name"):
            key = (str(manifest["kind"]), str(metadata.get("namespace")), str(metadata["name"]))
            if key in files:
                report.warn("metadata.name", f"{report.name} is also in {files[key]}: what is applied last counts")
            files[key] = report.file


def _review(manifest: Manifest, file: Path) -> Report:
    """Check without a cluster."""
    metadata = manifest.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    report = Report(f"{manifest['kind'].lower()}/{name or '?'}", checked=is_ours(manifest), file=str(file))
    if not report.checked:
        return report
    report.problems(review(manifest))
    if not report.refused:
        report.note("schema", "every field is valid")
        if manifest["kind"] == JOB_KIND:
            job = TrainingJob.parse(named(manifest))
            check_reasons(job.spec.failure, report)
            check_references(job.spec, report)
            check_gates(job, report)
    return report


def _check_memory(
    manifests: Sequence[Manifest], reports: Sequence[Report], state: State | None, needs: Needs | None
) -> None:
    """Check the memory without a cluster; of tiers only those that are written in the job are known."""
    for manifest, report in zip(manifests, reports, strict=True):
        if report.checked and not report.refused and manifest["kind"] == JOB_KIND:
            spec = TrainingJob.parse(named(manifest)).spec
            for tier in spec.capacity.tiers:
                if needs:
                    needs.check(tier, spec.trainer, (), f"spec.capacity.tiers[{tier.name}]", report)
            if state and spec.checkpoint.folder is None:
                check_memory(spec.trainer, spec.capacity.tiers, state, report)


async def _ask(
    target: Target,
    manifests: Sequence[Manifest],
    reports: Sequence[Report],
    state: State | None,
    needs: Needs | None,
) -> None:
    """Add what the cluster answers."""
    try:
        async with connect(target) as client:
            namespace = target.resolved_namespace()
            preflight = Preflight(client, namespace, manifests, state, needs)
            for manifest, report in zip(manifests, reports, strict=True):
                if report.checked and not report.refused:
                    await preflight.check(manifest, report)
                    if manifest["kind"] == JOB_KIND:
                        placed = {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}
                        await check_code(client, TrainingJob.parse(named(placed)), report)
    except CliError as error:
        if error.exit_code is ExitCode.NO_ANSWER:
            error.hint = "holdfast check --offline needs no cluster"
        raise
