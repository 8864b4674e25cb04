"""What the cluster says of a run before the folder is read: its profile, and a job that has the name already."""

import random
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from holdfast.api.names import LONGEST_JOB_NAME
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.run.manifest import manifest
from holdfast_cli.run.submit import Again
from holdfast_cli.run.wanted import Wanted, layered

LETTERS: Final = 5  # after the name of the program


@dataclass(frozen=True, slots=True)
class Planned:
    """A run whose folder is not read yet. `old`: the job that has its name, and `again`: what happens to that."""

    wanted: Wanted
    namespace: str
    command: Sequence[str]
    old: TrainingJob | None = None
    again: Again | None = None

    @property
    def name(self) -> str:
        """The name of the job."""
        assert self.wanted.name is not None
        return self.wanted.name

    def manifest(self, code: str, now: datetime, dependencies: str | None = None) -> dict[str, Any]:
        """The job, with the hashes of the folder and of what it needs. CliError if something is missing."""
        begins_anew = self.old is not None and self.again is Again.NEW
        return manifest(
            self.wanted,
            namespace=self.namespace,
            command=self.command,
            code=code,
            dependencies=dependencies,
            now=now,
            resume="Never" if begins_anew else "Auto",
        )


async def plan(client: Client, namespace: str, said: Wanted, command: Sequence[str]) -> Planned:
    """Ask the cluster. Raises ApiError, CliError."""
    profile = await _profile(client, said.profile)
    defaults = profile.spec.defaults
    low = {name: value for name in ("image", "python", "storage") if (value := getattr(defaults, name)) is not None}
    named = said.name or default_name(command)
    wanted = layered(Wanted(name=named, profile=profile.metadata.name), said, Wanted(**low))
    return Planned(wanted, namespace, command, await job_api.find_job(client, namespace, named))


async def _profile(client: Client, name: str | None) -> CapacityProfile:
    """The profile with this name, otherwise the only one. Raises ApiError, CliError."""
    try:
        if name is not None:
            return await job_api.get_profile(client, name)
        known = await job_api.list_profiles(client)
    except ApiError as error:
        if error.status == 403:
            hint = "ask for the role holdfast-profiles, which lets you read CapacityProfiles"
            raise CliError(f"not allowed: {error.message}", code=ExitCode.FORBIDDEN, hint=hint) from error
        raise
    if len(known) == 1:
        return known[0]
    raise CliError(
        f"the cluster has {len(known)} CapacityProfiles, and none is chosen; it has: "
        f"{', '.join(profile.metadata.name for profile in known) or 'none'}",
        code=ExitCode.USAGE,
        hint="give --profile NAME, or write profile = 'NAME' into holdfast.toml",
    )


def default_name(command: Sequence[str]) -> str:
    """A name for a job that runs `command`: that of its program, and letters that are drawn."""
    program = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    stem = re.sub(r"[^a-z0-9]+", "-", Path(program).stem.lower()).strip("-") or "run"
    named = stem if stem[0].isalpha() else f"run-{stem}"
    drawn = "".join(random.choices(string.ascii_lowercase + string.digits, k=LETTERS))  # noqa: S311 - no secret
    return f"{named[: LONGEST_JOB_NAME - LETTERS - 1].rstrip('-')}-{drawn}"
