"""The TrainingJob of one run of a rehearsal. Pure."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from holdfast.api.errors import SpecError
from holdfast.api.names import LABEL_REHEARSAL_OF
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast_cli.errors import CliError
from holdfast_cli.trial_jobs.manifests import alike, name_of
from holdfast_cli.trial_jobs.purpose import Purpose

REHEARSALS: Final = Purpose("rehearsal", LABEL_REHEARSAL_OF, "rehearsals")
KEPT: Final = 10  # checkpoints at least, so that none is gone before it was looked at
LEAST_DEADLINE: Final = timedelta(minutes=1)

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OnTier:
    """A job, as it is written and as it is read, on one of its tiers.

    `steps` and `every`: of a program with `Run`, in place of the job's. `acquire`: how long the tier may give no node;
    `longest`: how long one run may take. `keep`: nothing is deleted.
    """

    raw: Raw
    job: TrainingJob
    written: Raw
    tier: Tier
    steps: int | None = None
    every: int | None = None
    acquire: timedelta = timedelta(minutes=2)
    longest: timedelta = timedelta(hours=1)
    keep: bool = False

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.metadata.name

    @property
    def folder(self) -> str:
        """`checkpoint.folder`; empty for a program with `Run`."""
        return self.job.spec.checkpoint.folder or ""


def check(asked: OnTier) -> None:
    """CliError if the job's own files would be changed by a rehearsal, or if its command cannot be wrapped."""
    trainer = asked.job.spec.trainer
    if not trainer.command:
        raise CliError(
            f"{asked.name}: spec.trainer.command is empty; a rehearsal starts the program by its command",
            hint="write the command into the job, also if it is that of the image",
        )
    folder = PurePosixPath(asked.folder or "/")
    for volume in trainer.volumes:
        is_around = asked.folder and folder.is_relative_to(volume.mount_path)
        if volume.persistent_volume_claim is not None and is_around:
            claim = volume.persistent_volume_claim.claim_name
            raise CliError(
                f"{asked.name}: checkpoint.folder {asked.folder} is in the claim {claim}, whose files a rehearsal "
                f"would find and change",
                hint=f"rehearse a copy of the file with an emptyDir at {volume.mount_path}",
            )


def make_run(asked: OnTier, number: int, wrapping: Sequence[str] = ()) -> dict[str, Any]:
    """The TrainingJob of run `number`. `wrapping`: the command that gets the program's as its arguments.

    CliError if the API server would refuse it.
    """
    name = name_of(REHEARSALS, asked.name, str(number))
    deadline = max(asked.acquire + asked.longest, LEAST_DEADLINE)
    manifest = alike(REHEARSALS, asked.raw, name, asked.written, deadline, keep=asked.keep)
    spec = manifest["spec"]
    if asked.steps is not None:
        spec["goal"] = {**(spec.get("goal") or {}), "steps": asked.steps}
    if asked.every is not None:
        spec["checkpoint"]["every"] = f"{asked.every} steps"
    own = asked.job.spec.checkpoint.keep.last
    spec["checkpoint"]["keep"] = {**(spec["checkpoint"].get("keep") or {}), "last": max(own, KEPT)}
    if wrapping:
        trainer = spec["trainer"]
        trainer["args"] = [*trainer.get("command", ()), *trainer.get("args", ())]
        trainer["command"] = list(wrapping)
    try:
        TrainingJob.parse(deepcopy(manifest))
    except SpecError as error:
        raise CliError(f"run {number} of the rehearsal cannot be made: {error}") from error
    return manifest
