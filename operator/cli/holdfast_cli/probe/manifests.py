"""The TrainingJobs that measure: one for each tier, and for each number of accelerators. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast.api.errors import SpecError
from holdfast.api.names import API_VERSION, JOB_KIND, LABEL_PROBE_OF
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier, Tier
from holdfast.api.scalars import format_duration
from holdfast.core.observe.demand import accelerators_on
from holdfast_cli.errors import CliError
from holdfast_protocol.document import camel_case

LONGEST_NAME: Final = 40  # characters of the name of a job
FOLDER: Final = "probes"  # below the job's own prefix: the prefixes of all its probes
INFIX: Final = "-probe-"  # between the name of the job and that of the tier
DIGEST: Final = 8  # characters instead of the name of the tier
TTL: Final = timedelta(minutes=1)  # from the end of a probe until the operator deletes it
LEAST_DEADLINE: Final = timedelta(minutes=1)
_PLATFORM_ONLY: Final = tuple(sorted(ProfileTier.model_fields.keys() - Tier.model_fields.keys()))
_NOT_TAKEN: Final = ("holdfast.dev/", "kubectl.kubernetes.io/")  # annotations: requests, and the manifest as applied

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a probe trains, and how long it may take."""

    steps: int
    acquire: timedelta
    run: timedelta

    @property
    def deadline(self) -> timedelta:
        """The longest life of a probe: the operator ends it then, also if the command that made it was killed."""
        return max(self.acquire + self.run, LEAST_DEADLINE)


@dataclass(frozen=True, slots=True)
class Probe:
    """One job that measures. `accelerators`: of each node; 0 if the program gets none there."""

    tier: Tier
    accelerators: int
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def make_probes(
    raw: Raw, tiers: Sequence[tuple[Raw, Tier]], accelerators: Sequence[int], limits: Limits, *, keep: bool = False
) -> list[Probe]:
    """The probes of the job `raw`, in the order of the tiers. Raises CliError if one would not be valid.

    `tiers`: each as it is written, and read. `accelerators`: to compare on each tier that has some; none: what the job
    has there. `keep`: the operator does not delete the probes.
    """
    trainer = TrainingJob.parse(raw).spec.trainer
    probes: list[Probe] = []
    names: set[str] = set()
    for written, tier in tiers:
        own = accelerators_on(trainer, tier) if tier.kind != "CPU" else 0
        for number in accelerators if accelerators and own else [own]:
            part = tier.name if number == own else f"{tier.name}-x{number}"
            name = _name(str(raw["metadata"]["name"]), part, names)
            names.add(name)
            changed = _only_fields_of_a_job(written)
            if number != own:
                changed["acceleratorsPerNode"] = number
            probes.append(Probe(tier, number, _manifest(raw, name, changed, limits, keep=keep)))
    for probe in probes:
        _check(probe)
    return probes


def left_out(tier: Raw) -> list[str]:
    """The fields of a profile's tier that a job cannot set, and that a probe therefore lacks."""
    return [name for name in map(camel_case, _PLATFORM_ONLY) if tier.get(name)]


def storage_of_probes(raw: Raw, namespace: str) -> dict[str, Any]:
    """The manifest of the job in `namespace`, with the prefix below which all its probes store."""
    found = deepcopy(dict(raw))
    found["metadata"]["namespace"] = namespace  # a file need not say it
    _below(found["spec"]["checkpoint"]["storage"], FOLDER)
    return found


def _manifest(raw: Raw, name: str, tier: Raw, limits: Limits, *, keep: bool) -> dict[str, Any]:
    """The job as it is, on one tier, for some steps, with a prefix and an end of its own."""
    meta, spec = raw["metadata"], deepcopy(dict(raw["spec"]))
    spec.pop("suspend", None)
    spec["goal"] = {**(spec.get("goal") or {}), "steps": limits.steps}
    spec["capacity"] = {"tiers": [tier], "policy": "Ordered", "returnPolicy": "Never", "maxOverlap": "0s"}
    _below(spec["checkpoint"]["storage"], f"{FOLDER}/{name}")
    if not isinstance(spec["checkpoint"].get("resume"), Mapping):  # a warm start begins at step 0 too
        spec["checkpoint"]["resume"] = "Never"
    spec["failure"] = {**(spec.get("failure") or {}), "maxFailures": 0}
    spec["trainer"].pop("tracking", None)  # a tracker would show the probe as a training
    spec["activeDeadline"] = format_duration(limits.deadline)
    spec.pop("ttlAfterFinished", None)
    if not keep:
        spec["ttlAfterFinished"] = format_duration(TTL)
    labels = {**(meta.get("labels") or {}), LABEL_PROBE_OF: meta["name"]}
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if not key.startswith(_NOT_TAKEN)
    }
    own = {"name": name, "labels": labels, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": own, "spec": spec}


def _below(storage: dict[str, Any], folder: str) -> None:
    """Move a storage below its own prefix."""
    for kind, field in (("s3", "prefix"), ("volumeClaim", "path")):
        if storage.get(kind):
            storage[kind] = {**storage[kind], field: f"{storage[kind][field]}/{folder}"}


def _only_fields_of_a_job(tier: Raw) -> dict[str, Any]:
    return {key: deepcopy(value) for key, value in tier.items() if key not in map(camel_case, _PLATFORM_ONLY)}


def _name(job: str, part: str, taken: Iterable[str]) -> str:
    """`JOB-probe-TIER`; a name that is too long, or taken, ends with a digest instead."""
    for name in _names(job, part):
        if len(name) <= LONGEST_NAME and name not in taken:
            return name
    raise AssertionError("every name with a digest is taken")


def _names(job: str, part: str) -> Iterator[str]:
    yield f"{job}{INFIX}{part}"
    for number in range(1000):
        digest = hashlib.sha256(f"{job}/{part}/{number}".encode()).hexdigest()[:DIGEST]
        yield f"{_short(job)}{INFIX}{digest}"


def _short(job: str) -> str:
    """The beginning of a name that ends with a digest."""
    return job[: LONGEST_NAME - len(INFIX) - DIGEST].rstrip("-")


def is_name_of_probe(name: str, job: str) -> bool:
    """True if a probe of the job may have this name."""
    return name.startswith((f"{job}{INFIX}", f"{_short(job)}{INFIX}"))


def _check(probe: Probe) -> None:
    try:
        TrainingJob.parse(probe.manifest)
    except SpecError as error:
        raise CliError(f"a probe of tier {probe.tier.name} cannot be made: {error}") from error
