"""From a job and what is known of it to a plan; each figure is noted with where it comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Final

from holdfast.api.knowledge import TierKnowledge
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import CapacityProfileStatus, ProfileTier, Tier
from holdfast.api.scalars import format_duration
from holdfast.core.capacity.measured import find_speeds, median
from holdfast.core.observe.config import Assumptions
from holdfast_cli.errors import CliError
from holdfast_cli.plan.values import LEAST_PACE
from holdfast_cli.simulate.climate import Climate, mean_spell, weight_of
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.plan import Market, Plan, one_node
from holdfast_cli.simulate.traces import Trace
from holdfast_cli.terminal.formats import money, span

ASSUMED: Final = Assumptions()
USUAL: Final = timedelta(seconds=mean_spell(Climate().up))  # a spell of generated markets, up or out
ENOUGH_INTERRUPTIONS: Final = 3  # a tier's lifetime follows from interruptions once there are so many
AUTO: Final = timedelta(minutes=10)  # what `every: auto` usually comes to; see holdfast_train.save.interval
TICK: Final = timedelta(microseconds=1)
SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options say. Mappings are by tier; None: not said."""

    pace: Mapping[str, timedelta] = field(default_factory=dict)
    interruptions: Mapping[str, timedelta | None] = field(default_factory=dict)
    out: Mapping[str, timedelta] = field(default_factory=dict)
    start: Mapping[str, timedelta] = field(default_factory=dict)
    acquire: Mapping[str, timedelta] = field(default_factory=dict)
    traces: Mapping[str, Sequence[Trace]] = field(default_factory=dict)
    restore: timedelta | None = None
    save: timedelta | None = None
    notice: timedelta | None = None
    nodes: int | None = None
    draws: int = 20
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured before. `steps`: of the whole training, None if that is not known; `source`: by what."""

    tiers: Sequence[TierKnowledge]
    source: str
    steps: int | None = None

    @classmethod
    def of(cls, job: TrainingJob) -> "Measurements":
        """What a job has measured."""
        return cls(job.status.tiers, f"TrainingJob {job.metadata.name}", job.status.progress.steps)


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure that the plan rests on. `tier` is empty for one of the whole job."""

    what: str
    tier: str
    value: str
    source: str
    assumed: bool = False


@dataclass(slots=True)
class Basis:
    """The plan of one job, the facts that it rests on, the job before `one_node`, and prices of a node hour by tier."""

    job: TrainingJob
    plan: Plan
    facts: list[Fact]
    prices: Mapping[str, Decimal]

    @property
    def nodes(self) -> int:
        return self.job.spec.trainer.nodes

    def earliest(self) -> tuple[timedelta, str]:
        """When the job is done at best, from its start on, and on which tier; at most the longest timedelta."""
        goal = self.job.spec.goal.steps or 0
        times = {
            name: took.changeover // TICK + goal * (took.pace // TICK) for name, took in self.plan.durations.items()
        }
        fastest = min(times, key=lambda name: times[name])
        return min(times[fastest], timedelta.max // TICK) * TICK, fastest


def without(
    job: TrainingJob, profile: CapacityProfile | None, left_out: Sequence[str]
) -> tuple[TrainingJob, CapacityProfile | None]:
    """The job with a grid that lacks some tiers. Raises CliError if one of them is not known, or none is left."""
    tiers: Sequence[Tier] = profile.spec.tiers if profile else job.spec.capacity.tiers
    names = [tier.name for tier in tiers]
    for name in left_out:
        if name not in names:
            raise CliError(f"--without {name}: no tier is named so; tiers of {job.metadata.name}: {', '.join(names)}")
    kept = tuple(tier for tier in tiers if tier.name not in left_out)
    if not kept:
        raise CliError(f"--without: no tier of {job.metadata.name} is left; tiers: {', '.join(names)}")
    if profile:
        return job, profile.model_copy(update={"spec": profile.spec.model_copy(update={"tiers": kept})})
    capacity = job.spec.capacity.model_copy(update={"tiers": kept})
    return job.model_copy(update={"spec": job.spec.model_copy(update={"capacity": capacity})}), None


def prepare(
    job: TrainingJob, profile: CapacityProfile | None, like: TrainingJob | Measurements | None, wishes: Wishes
) -> Basis:
    """The plan of a job, and what it rests on. Raises CliError, which names what is missing and how to give it.

    `like`: a job that trained before, or what a probe measured.
    """
    known = Measurements.of(like) if isinstance(like, TrainingJob) else like or Measurements((), "")
    trainer = job.spec.trainer
    if wishes.nodes is not None:
        trainer = trainer.model_copy(update={"nodes": wishes.nodes})
    steps = job.spec.goal.steps or known.steps
    if steps is None:
        raise CliError(f"{job.metadata.name}: spec.goal.steps: not set; plan needs the number of steps of the training")
    goal = job.spec.goal.model_copy(update={"steps": steps})
    spec = job.spec.model_copy(update={"trainer": trainer, "goal": goal})
    meta = job.metadata.model_copy(update={"namespace": job.metadata.namespace or "default", "uid": "plan"})
    job = TrainingJob(metadata=meta, spec=spec)
    return _Preparation(job, profile, known, wishes).basis()


class _Preparation:
    """One plan in the making."""

    def __init__(self, job: TrainingJob, profile: CapacityProfile | None, known: Measurements, wishes: Wishes) -> None:
        self.job, self.profile, self.wishes = job, profile, wishes
        self.tiers: Sequence[Tier] = profile.spec.tiers if profile else job.spec.capacity.tiers
        self.facts: list[Fact] = []
        self.measured = {one.tier: one for one in known.tiers}
        self.measurer = known.source
        self.shared = {one.tier: one for one in profile.status.tiers} if profile else {}

    def basis(self) -> Basis:
        """The plan, with its facts."""
        self._check_prices()
        paces, save = self._paces(), self._wish("save and leave", "--save", self.wishes.save)
        restore = self._wish("restore", "--restore", self.wishes.restore)
        durations = {
            tier.name: Durations(
                acquire=self._acquire(tier.name),
                start=max(self._start(tier.name) - restore, timedelta(0)),
                restore=restore,
                pace=paces[tier.name],
                save=save,
            )
            for tier in self.tiers
        }
        spots = [tier.name for tier in self.tiers if tier.kind == "Spot"]
        markets = {name: self._market(name) for name in spots}
        every, period = self._saving()
        job, profile = one_node(self.job, self._known_profile())
        if (nodes := self.job.spec.trainer.nodes) > 1:
            self._note("nodes", "", str(nodes), f"simulated as one node at {nodes} times the price")
        plan = Plan(
            job,
            profile,
            durations,
            markets,
            every=every,
            period=period,
            draws=self.wishes.draws,
            seed=self.wishes.seed,
            nodes=nodes,
        )
        prices = {tier.name: tier.price_per_node_hour or Decimal(0) for tier in self.tiers}
        return Basis(self.job, plan, self.facts, prices)

    def _note(self, what: str, tier: str, value: str, source: str) -> None:
        """Note a figure. Without a source it is assumed."""
        self.facts.append(Fact(what, tier, value, source or "assumed", assumed=not source))

    def _check_prices(self) -> None:
        if missing := [tier.name for tier in self.tiers if tier.price_per_node_hour is None]:
            where = f"CapacityProfile {self.profile.metadata.name}: spec" if self.profile else "spec.capacity"
            raise CliError(
                f"{self.job.metadata.name}: {where}.tiers: pricePerNodeHour of tier {', '.join(missing)} is not set, "
                "and plan compares prices",
                hint='set a decimal string such as "3.06", or "0" for nodes that cost nothing; '
                f"--without {missing[0]} leaves the tier out",
            )
        for tier in self.tiers:
            self._note("price of a node hour", tier.name, money(tier.price_per_node_hour or Decimal(0)), "manifest")

    def _paces(self) -> dict[str, timedelta]:
        """The time of a step on each tier: as given, as measured by another job, or as stated in the manifest."""
        measured = {name: one.pace for name, one in self.measured.items() if one.pace}
        given = {**measured, **self.wishes.pace}
        tiers = [ProfileTier(**dict(tier)) for tier in self.tiers]
        seconds = {name: pace.total_seconds() for name, pace in given.items()}
        speeds = find_speeds(tiers, seconds, shared=self.profile is not None)
        unknown = [tier.name for tier in tiers if tier.name in speeds.assumed or speeds.pace is None]
        if unknown or speeds.pace is None:
            why = "; of the paces in a profile only the ratios count" if self.profile and speeds.pace is None else ""
            raise CliError(
                f"{self.job.metadata.name}: the time of a step is not known on {', '.join(unknown)}{why}",
                hint=f"give --pace {unknown[0]}=12s, or capacity.tiers[].pace in the job, or --from JOB, which trained "
                f"there, or --from-probe FILE; --without {unknown[-1]} leaves a tier out",
            )
        paces = {
            name: max(timedelta(seconds=speeds.pace / speed), LEAST_PACE) for name, speed in speeds.by_tier.items()
        }
        for tier in tiers:
            source = self.measurer if tier.name in measured else "manifest"
            source = "--pace" if tier.name in self.wishes.pace else source
            self._note("time of a step", tier.name, _short(paces[tier.name]), source)
        return paces

    def _wish(self, what: str, option: str, given: timedelta | None, tier: str = "") -> timedelta:
        """A time that an option gives, otherwise half a minute."""
        found = 30 * SECOND if given is None else given
        self._note(what, tier, _short(found), "" if given is None else option)
        return found

    def _acquire(self, tier: str) -> timedelta:
        return self._time("wait for a node", tier, self.wishes.acquire, "acquire", ASSUMED.acquire_time)

    def _start(self, tier: str) -> timedelta:
        """A tier without a measured start is as slow as the slowest that has one, as policies assume."""
        for known, source in ((self.measured, self.measurer), (self.shared, "status of the CapacityProfile")):
            times = {name: median(one.start) for name, one in known.items() if one.start}
            if times and tier not in self.wishes.start:
                slowest = max(times, key=lambda name: times[name])
                found, where = times.get(tier, times[slowest]), "" if tier in times else f", on {slowest}"
                self._note("start on a node", tier, _short(found), source + where)
                return found
        return self._time("start on a node", tier, self.wishes.start, "start", ASSUMED.start_time)

    def _time(self, what: str, tier: str, given: Mapping[str, timedelta], name: str, assumed: timedelta) -> timedelta:
        """A time of a tier: given, measured by the other job, by others that use the profile, or assumed."""
        if tier in given:
            found, source = given[tier], f"--{name}"
        elif times := getattr(self.measured.get(tier), name, None):
            found, source = median(times), self.measurer
        elif times := getattr(self.shared.get(tier), name, None):
            found, source = median(times), "status of the CapacityProfile"
        else:
            found, source = assumed, ""
        self._note(what, tier, _short(found), source)
        return found

    def _market(self, tier: str) -> Market:
        """How the Spot tier comes and goes. With several nodes, losing one stops all."""
        wishes, nodes = self.wishes, self.job.spec.trainer.nodes
        notice = self._wish("notice before an interruption", "--notice", wishes.notice, tier)
        if tier in wishes.traces:
            names = ", ".join(trace.name for trace in wishes.traces[tier])
            self._note("market", tier, f"{len(wishes.traces[tier])} recorded", f"--traces: {names}")
            return Market(traces=wishes.traces[tier], notice=notice)
        if tier in wishes.interruptions:
            up, source = wishes.interruptions[tier], "--interruptions"
        elif (seen := self._lifetime(tier)) is not None:
            up, source = seen
        else:
            up, source = USUAL, ""
        if up is None:
            self._note("market", tier, "never lost", source)
            return Market()
        out = wishes.out.get(tier, USUAL)
        self._note("up, on average for", tier, span(up) + (" (a node)" if nodes > 1 else ""), source)
        self._note("out, on average for", tier, span(out), "--out" if tier in wishes.out else "")
        together = max(up / nodes, timedelta(minutes=1))
        return Market(Climate(weight_of(together.total_seconds()), weight_of(out.total_seconds())), notice=notice)

    def _lifetime(self, tier: str) -> tuple[timedelta, str] | None:
        """The mean time between two interruptions of a node, as counted; None if too few were."""
        known = ((self.measured.get(tier), self.measurer), (self.shared.get(tier), "status of the CapacityProfile"))
        for one, source in known:
            if one and one.interruptions >= ENOUGH_INTERRUPTIONS and one.node_time:
                mean = min(max(one.node_time / one.interruptions, timedelta(minutes=1)), timedelta(days=15))
                return mean, f"{one.interruptions} interruptions in {span(one.node_time)} of node time, {source}"
        return None

    def _saving(self) -> tuple[int, timedelta]:
        """After how many steps, or in which time, the program saves."""
        checkpoint = self.job.spec.checkpoint
        if checkpoint.every.steps:
            self._note("saves every", "", f"{checkpoint.every.steps:,} steps", "spec.checkpoint.every")
            return checkpoint.every.steps, timedelta(0)
        if period := checkpoint.every.period:
            source = "spec.checkpoint.every"
        else:
            period, source = AUTO, ""
        if checkpoint.max_lost_work is not None and checkpoint.max_lost_work < period:
            period, source = checkpoint.max_lost_work, "spec.checkpoint.maxLostWork"
        self._note("saves every", "", _short(period), source)
        return 0, period

    def _known_profile(self) -> CapacityProfile | None:
        """The profile with what it knows for good: times, interruptions, and whether an autoscaler brings the nodes."""
        if self.profile is None:
            return None
        known = tuple(
            TierKnowledge(
                tier=one.tier,
                observation=one.observation,
                acquire=one.acquire,
                start=one.start,
                interruptions=one.interruptions,
                node_time=one.node_time,
            )
            for one in self.shared.values()
        )
        tiers = tuple(
            tier if tier.observation or not (one := self.shared.get(tier.name)) else _observed(tier, one)
            for tier in self.profile.spec.tiers
        )
        spec = self.profile.spec.model_copy(update={"tiers": tiers})
        return self.profile.model_copy(update={"spec": spec, "status": CapacityProfileStatus(tiers=known)})


def _observed(tier: ProfileTier, known: TierKnowledge) -> ProfileTier:
    return tier.model_copy(update={"observation": known.observation})


def _short(value: timedelta) -> str:
    """A duration as a manifest has it, exact to a millisecond."""
    return format_duration(timedelta(milliseconds=round(value / timedelta(milliseconds=1))))
