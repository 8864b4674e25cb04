"""The job of a file and its tiers, and which of them were chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def read_job(files: Sequence[Path], command: str) -> tuple[dict[str, Any], TrainingJob]:
    """The only TrainingJob of these files, as it is written and as it is read, for `command`. Raises CliError."""
    objects = [raw for file in files for raw in read(file)]
    found = [raw for raw in objects if raw.get("apiVersion") == API_VERSION and raw["kind"] == JOB_KIND]
    named = ", ".join(map(str, files))
    if len(found) != 1:
        raise CliError(f"{named}: {len(found)} TrainingJobs; {command} needs exactly one")
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
