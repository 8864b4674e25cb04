"""The job of a file and its tiers, and which of them are probed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from holdfast.api.errors import SpecError
from holdfast.api.names import API_VERSION, JOB_KIND
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import Tier
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.check.manifests import read
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError

Raw = Mapping[str, Any]
MOST_ACCELERATORS: Final = 64  # of one node, as in the API
MOST_COUNTS: Final = 6


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiers of a job, as they are written and as they are read. `profile`: its name, if they are in one."""

    written: Sequence[Raw]
    tiers: Sequence[Tier]
    profile: str | None

    def chosen(self, names: Sequence[str]) -> list[tuple[Raw, Tier]]:
        """The tiers with these names, in the order of the grid; all for no name. Raises typer.BadParameter."""
        known = [tier.name for tier in self.tiers]
        for name in names:
            if name not in known:
                problem = f"{name}: no tier is named so; tiers of the job: {', '.join(known)}"
                raise typer.BadParameter(problem, param_hint="--tier")
        pairs = zip(self.written, self.tiers, strict=True)
        return [(raw, tier) for raw, tier in pairs if not names or tier.name in names]


def read_job(files: Sequence[Path]) -> tuple[dict[str, Any], TrainingJob]:
    """The only TrainingJob of these files, as it is written and as it is read. Raises CliError."""
    objects = [raw for file in files for raw in read(file)]
    found = [raw for raw in objects if raw.get("apiVersion") == API_VERSION and raw["kind"] == JOB_KIND]
    named = ", ".join(map(str, files))
    if len(found) != 1:
        raise CliError(f"{named}: {len(found)} TrainingJobs; probe needs exactly one")
    try:
        return found[0], TrainingJob.parse(found[0])
    except SpecError as error:
        raise CliError(f"{named}: {error}", hint="holdfast check --offline shows every problem") from error


async def grid_of(client: Client, raw: Raw, job: TrainingJob) -> Grid:
    """The tiers that the job may use, of the cluster's profile if it names one. Raises ApiError."""
    name = job.spec.capacity.profile
    if name is None:
        return Grid(raw["spec"]["capacity"]["tiers"], job.spec.capacity.tiers, None)
    found = await client.request("GET", f"{job_api.profiles_path()}/{name}")
    return Grid(found["spec"]["tiers"], CapacityProfile.parse(found).spec.tiers, name)


def counts(text: str | None, job: TrainingJob) -> list[int]:
    """The numbers of --accelerators, ascending. Raises typer.BadParameter."""
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    allowed = f"must be at most {MOST_COUNTS} numbers from 1 to {MOST_ACCELERATORS}, such as 1,4"
    if not all(part.isascii() and part.isdigit() and len(part) <= 2 for part in parts) or len(parts) > MOST_COUNTS:
        raise typer.BadParameter(f"{text[:40]!r}: {allowed}", param_hint="--accelerators")
    found = sorted({int(part) for part in parts})
    if not 1 <= found[0] <= found[-1] <= MOST_ACCELERATORS:
        raise typer.BadParameter(f"{text!r}: {allowed}", param_hint="--accelerators")
    if job.spec.trainer.accelerators_per_node == 0:
        problem = "the program needs no accelerator: spec.trainer.acceleratorsPerNode is 0"
        raise typer.BadParameter(problem, param_hint="--accelerators")
    return found
