"""The TrainingJob that packages the model of another one: it has its image, volumes and keys, and other tiers. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast.api import names
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier

SUFFIX: Final = "-package"
KEPT_FOR: Final = "7d"
PATTERN: Final = "step {step} of {total}: *"
_KEPT: Final = (
    "image", "imagePullPolicy", "imagePullSecrets", "workingDir", "env", "envFrom", "volumes", "code", "data",
    "resources", "securityContext",
)  # fmt: skip
# Of holdfast-train. What it says with 3, no answer of the storage, may pass; the rest comes again each time.
_FINAL_CODES: Final = (1, 2, 4, 5, 127)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is packaged, and how. `options`: further ones of `holdfast-train package`. `command`: how it is started."""

    checkpoint: str
    destination: str
    problem: str
    options: Sequence[str] = ()
    resources: Mapping[str, str] | None = None
    command: Sequence[str] = ("holdfast-train",)


def job_name(job: str) -> str:
    """The name of the job that packages `job`. A long name is cut, and gets a part of its hash."""
    if len(job) + len(SUFFIX) <= names.LONGEST_JOB_NAME:
        return job + SUFFIX
    return f"{job[: names.LONGEST_JOB_NAME - len(SUFFIX) - 7]}-{hashlib.sha256(job.encode()).hexdigest()[:6]}{SUFFIX}"


def address(job: TrainingJob, step: int) -> str:
    """Where the package of a step is by default: below the job's own prefix."""
    return f"{job.spec.checkpoint.storage.uri}/packages/{job.metadata.name}-{step:012d}"


def lasting_places(job: TrainingJob) -> list[str]:
    """The beginnings of addresses that outlive a pod: S3, and the folders of claims. The pod's own disk does not."""
    claims = [volume for volume in job.spec.trainer.volumes if volume.persistent_volume_claim and not volume.read_only]
    folders = [volume.mount_path for volume in claims]
    if job.spec.checkpoint.storage.volume_claim:
        folders.append(names.CHECKPOINT_PATH)
    return ["s3://", *(f"file://{folder}/" for folder in folders)]


def package_job(job: TrainingJob, tiers: Sequence[Tier], wish: Wish, now: datetime) -> dict[str, Any]:
    """The manifest. `tiers`: those of `job`; those of kind CPU come first, for packaging uses no accelerator.

    It is an ordinary job with a prefix of its own for what Holdfast writes about it: after an interruption it begins
    again.
    """
    spec, name = job.spec.to_object(), job_name(job.metadata.name)
    trainer: dict[str, Any] = {key: spec["trainer"][key] for key in _KEPT if key in spec["trainer"]}
    if wish.resources:
        trainer["resources"] = {**trainer.get("resources", {}), **wish.resources}
    trainer["command"] = [
        *wish.command, "package", wish.checkpoint, wish.destination, f"--problem={wish.problem}", *wish.options,
    ]  # fmt: skip
    trainer["acceleratorsPerNode"] = 0
    own = f"packages/.jobs/{name}-{now:%Y%m%d%H%M%S%f}"
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.JOB_KIND,
        "metadata": {"name": name, "namespace": job.metadata.namespace},
        "spec": {
            "trainer": trainer,
            "capacity": {"tiers": [_tier(tier) for tier in sorted(tiers, key=lambda tier: tier.kind != "CPU")]},
            "checkpoint": {"storage": job.spec.checkpoint.storage.below(own).to_object(), "gracePeriod": "10s"},
            "progress": {"patterns": [PATTERN]},
            "failure": {
                "rules": [
                    {"exitCodes": list(_FINAL_CODES), "action": "Fail"},
                    {"reasons": ["OutOfMemory"], "action": "Fail"},
                ],
                "stallTimeout": "Off",
            },
            "ttlAfterFinished": KEPT_FOR,
        },
    }


def makes_package(job: TrainingJob) -> bool:
    """True if this job is one of `package_job`, and not another one of that name."""
    command = job.spec.trainer.command
    return "package" in command[1:2] and any(word.startswith("--problem=") for word in command)


def _tier(tier: Tier) -> dict[str, Any]:
    """As a job may write it: some fields are allowed in a profile only, and a pace is that of another program."""
    found = tier.to_object()
    return {key: value for key, value in found.items() if key in _TIER_FIELDS and value != {}}


_TIER_FIELDS: Final = {field.alias for name, field in Tier.model_fields.items() if name != "pace"}
