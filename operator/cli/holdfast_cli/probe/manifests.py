"""The TrainingJobs that measure: one for each tier, and for each number of accelerators. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast.api.errors import SpecError
from holdfast.api.names import LABEL_PROBE_OF
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast.core.observe.demand import accelerators_on
from holdfast_cli.errors import CliError
from holdfast_cli.trial_jobs.manifests import alike, name_of
from holdfast_cli.trial_jobs.purpose import Purpose

PROBES: Final = Purpose("probe", LABEL_PROBE_OF, "probes")
LEAST_DEADLINE: Final = timedelta(minutes=1)

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
            name = name_of(PROBES, str(raw["metadata"]["name"]), part, names)
            names.add(name)
            changed = {**written, **({} if number == own else {"acceleratorsPerNode": number})}
            manifest = alike(PROBES, raw, name, changed, limits.deadline, keep=keep)
            manifest["spec"]["goal"] = {**(manifest["spec"].get("goal") or {}), "steps": limits.steps}
            probes.append(Probe(tier, number, manifest))
    for probe in probes:
        _check(probe)
    return probes


def _check(probe: Probe) -> None:
    try:
        TrainingJob.parse(probe.manifest)
    except SpecError as error:
        raise CliError(f"a probe of tier {probe.tier.name} cannot be made: {error}") from error
