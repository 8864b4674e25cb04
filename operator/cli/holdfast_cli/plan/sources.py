"""Where the jobs of a plan come from: files, and a cluster if it is wanted."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.errors import SpecError
from holdfast.api.names import API_VERSION, JOB_KIND, PROFILE_KIND
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.review import named
from holdfast_cli.check.manifests import read
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError


@dataclass(frozen=True, slots=True)
class Given:
    """The jobs to plan, the profiles by name, and the job whose measurements are used."""

    jobs: Sequence[TrainingJob]
    profiles: Mapping[str, CapacityProfile]
    like: TrainingJob | None = None

    def profile_of(self, job: TrainingJob) -> CapacityProfile | None:
        """The profile of a job, None if its tiers are written in it. Raises CliError if the profile is missing."""
        if (name := job.spec.capacity.profile) is None:
            return None
        if name not in self.profiles:
            raise CliError(
                f"TrainingJob {job.metadata.name}: spec.capacity.profile: no file has the CapacityProfile {name}",
                hint="give the file that has it with --profile-file, or --cluster to read it from the cluster",
            )
        return self.profiles[name]


def read_files(files: Sequence[Path]) -> Given:
    """The TrainingJobs and CapacityProfiles of some files; other objects are ignored. Raises CliError."""
    jobs: list[TrainingJob] = []
    profiles: dict[str, CapacityProfile] = {}
    for file in files:
        for raw in read(file):
            if raw.get("apiVersion") != API_VERSION or raw["kind"] not in (JOB_KIND, PROFILE_KIND):
                continue
            try:
                if raw["kind"] == JOB_KIND:
                    jobs.append(TrainingJob.parse(named(raw)))
                else:
                    found = CapacityProfile.parse(raw)
                    profiles[found.metadata.name] = found
            except SpecError as error:
                raise CliError(
                    f"{file}: {error}", hint=f"holdfast check --offline {file} shows every problem"
                ) from error
    if not jobs:
        raise CliError(f"{', '.join(map(str, files))}: no TrainingJob in it")
    return Given(jobs, profiles)


def ask_cluster(given: Given, target: Target, *, like: str | None) -> Given:
    """Add the job `like`, and the profiles of the jobs as the cluster has them. Raises CliError."""

    async def ask() -> Given:
        async with connect(target) as client:
            found = await job_api.get_job(client, target.resolved_namespace(), like) if like else None
            names = {job.spec.capacity.profile for job in given.jobs} - {None, *given.profiles}
            profiles = {str(name): await job_api.get_profile(client, str(name)) for name in names}
            return Given(given.jobs, {**given.profiles, **profiles}, found)

    return asyncio.run(ask())
