"""A job like the user's on one tier alone, with a prefix and an end of its own. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any, Final

from holdfast.api.names import API_VERSION, JOB_KIND, LONGEST_JOB_NAME
from holdfast.api.profile import ProfileTier, Tier
from holdfast.api.scalars import format_duration
from holdfast_cli.trial_jobs.purpose import Purpose
from holdfast_protocol.document import camel_case

DIGEST: Final = 8  # characters instead of what tells the jobs apart
TTL: Final = timedelta(minutes=1)  # from the end of the job until the operator deletes it
_PLATFORM_ONLY: Final = tuple(sorted(ProfileTier.model_fields.keys() - Tier.model_fields.keys()))
_NOT_TAKEN: Final = ("holdfast.dev/", "kubectl.kubernetes.io/")  # annotations: requests, and the manifest as applied

Raw = Mapping[str, Any]


def alike(purpose: Purpose, raw: Raw, name: str, tier: Raw, deadline: timedelta, *, keep: bool) -> dict[str, Any]:
    """The job `raw` as it is, with the name `name`, on one tier, with a prefix and an end of its own.

    It starts at step 0, and one failure of its program ends it. `deadline`: its longest life. `keep`: the operator does
    not delete it.
    """
    meta, spec = raw["metadata"], deepcopy(dict(raw["spec"]))
    spec.pop("suspend", None)
    spec["capacity"] = {
        "tiers": [only_fields_of_a_job(tier)],
        "policy": "Ordered",
        "returnPolicy": "Never",
        "maxOverlap": "0s",
    }
    _below(spec["checkpoint"]["storage"], f"{purpose.folder}/{name}")
    if not isinstance(spec["checkpoint"].get("resume"), Mapping):  # a warm start begins at step 0 too
        spec["checkpoint"]["resume"] = "Never"
    spec["failure"] = {**(spec.get("failure") or {}), "maxFailures": 0}
    spec["trainer"].pop("tracking", None)  # a tracker would show the job as a training
    spec["activeDeadline"] = format_duration(deadline)
    spec.pop("ttlAfterFinished", None)
    if not keep:
        spec["ttlAfterFinished"] = format_duration(TTL)
    labels = {**(meta.get("labels") or {}), purpose.label: meta["name"]}
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if not key.startswith(_NOT_TAKEN)
    }
    own = {"name": name, "labels": labels, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": own, "spec": spec}


def left_out(tier: Raw) -> list[str]:
    """The fields of a profile's tier that a job cannot set, and that a job on it alone therefore lacks."""
    return [name for name in map(camel_case, _PLATFORM_ONLY) if tier.get(name)]


def only_fields_of_a_job(tier: Raw) -> dict[str, Any]:
    """The tier without these fields."""
    return {key: deepcopy(value) for key, value in tier.items() if key not in map(camel_case, _PLATFORM_ONLY)}


def with_storage_of_all(purpose: Purpose, raw: Raw, namespace: str) -> dict[str, Any]:
    """The manifest of the user's job in `namespace`, with the prefix below which all jobs of `purpose` store."""
    found = deepcopy(dict(raw))
    found["metadata"]["namespace"] = namespace  # a file need not say it
    _below(found["spec"]["checkpoint"]["storage"], purpose.folder)
    return found


def _below(storage: dict[str, Any], folder: str) -> None:
    """Move a storage below its own prefix."""
    for kind, field in (("s3", "prefix"), ("volumeClaim", "path")):
        if storage.get(kind):
            storage[kind] = {**storage[kind], field: f"{storage[kind][field]}/{folder}"}


def name_of(purpose: Purpose, job: str, part: str, taken: Iterable[str] = ()) -> str:
    """Such as `JOB-probe-TIER`; a name that is too long, or taken, ends with a digest instead."""
    for name in _names(purpose, job, part):
        if len(name) <= LONGEST_JOB_NAME and name not in taken:
            return name
    raise AssertionError("every name with a digest is taken")


def _names(purpose: Purpose, job: str, part: str) -> Iterator[str]:
    yield f"{job}{purpose.infix}{part}"
    for number in range(1000):
        digest = hashlib.sha256(f"{job}/{part}/{number}".encode()).hexdigest()[:DIGEST]
        yield f"{_short(purpose, job)}{purpose.infix}{digest}"


def _short(purpose: Purpose, job: str) -> str:
    """The beginning of a name that ends with a digest."""
    return job[: LONGEST_JOB_NAME - len(purpose.infix) - DIGEST].rstrip("-")


def may_be_name(purpose: Purpose, name: str, job: str) -> bool:
    """True if a job of `purpose` that is like the job `job` may have this name."""
    return name.startswith((f"{job}{purpose.infix}", f"{_short(purpose, job)}{purpose.infix}"))
