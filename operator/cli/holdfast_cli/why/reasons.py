"""Why a job is on its tier: runs its policy again, with the operator's own code, and keeps all figures. Pure.

The operator knows a little more: reports of the last seconds, and its own settings if they are not the defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier, Tier
from holdfast.api.status import Forecast, Ledger, Phase
from holdfast.core.attempt.pause import budget_forecast
from holdfast.core.attempt.placement import ask
from holdfast.core.books.ledger import as_of
from holdfast.core.capacity.budget import BudgetForecast
from holdfast.core.capacity.choose import Answer
from holdfast.core.capacity.move_value import cost_rate
from holdfast.core.capacity.outlook import Figures
from holdfast.core.capacity.policy_input import TierView
from holdfast.core.capacity.risk import Risk, deadline_risk
from holdfast.core.capacity.safety_net import Net, find_net
from holdfast.core.draft import Draft
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.room import Room, held_by_pods
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.status.forecast import forecast
from holdfast.core.status.never_fits import find_misfit
from holdfast.core.status.spec_conditions import find_pending
from holdfast.core.successor.change_tier import asked_again_at


@dataclass(frozen=True, slots=True)
class Reasons:
    """The policy's answer for a job at `now`, and the figures behind it.

    `answer` is None if `idle` says why there is nothing to choose, or if the job has no tier: its profile does not
    exist, and no attempt has nodes. `notes` says with which values the attempt goes on although they were changed, or
    are gone, and why no tier can hold the job. `nodes` is the number of nodes that were read, None if that was not
    allowed; `room_known`: so were the pods that hold a part of them.
    """

    job: TrainingJob
    now: datetime
    grid: tuple[ProfileTier, ...]
    nodes: int | None
    idle: str = ""
    answer: Answer | None = None
    ask_at: datetime | None = None
    net: Net | None = None
    risk: Risk | None = None
    forecast: Forecast = field(default_factory=Forecast)
    budget: BudgetForecast | None = None
    ledger: Ledger = field(default_factory=Ledger)
    notes: tuple[str, ...] = ()
    room_known: bool = False

    @property
    def rows(self) -> list[tuple[TierView, Figures]]:
        """Every tier as the policy sees it, in the order of the grid, with the figures behind it."""
        found = self.answer.outlook if self.answer else None
        return list(zip(found.view.tiers, found.figures, strict=True)) if found else []

    def hour_of_work(self, tier: TierView) -> float | None:
        """Expected cost on this tier of the work that takes an hour on the reference tier; None: no price."""
        return cost_rate(self.answer.outlook.view, tier) if self.answer else None


def find_reasons(
    job: TrainingJob,
    profile: CapacityProfile | None,
    nodes: Sequence[NodeView] | None,
    now: datetime,
    pods: Sequence[PodView] | None = None,
) -> Reasons:
    """Run the policy. `profile` is None if the job names none or it does not exist; `nodes` None: not allowed.

    `pods` are those of all jobs; None: not allowed. Then all nodes that are large enough count as free.
    """
    if nodes is None:
        job, profile = _blind_job(job), _blind_profile(profile)
    cluster, own = ClusterView(nodes or ()), tuple(one for one in pods or () if one.job_uid == job.metadata.uid)
    room = Room(cluster, held_by_pods(pods or ()))
    draft = Draft(Snapshot(now=now, job=job, pods=own, cluster=cluster, others=room, profile=profile))
    grid, looked = draft.snapshot.grid, None if nodes is None else len(nodes)
    draft.set(ledger=as_of(job.status, grid, now))
    notes = tuple([one.text for one in find_pending(draft)])
    if nodes is not None and not job.status.node and (misfit := find_misfit(draft)):
        notes = (*notes, misfit.message)
    bare = Reasons(job, now, grid, looked, ledger=draft.status.ledger, notes=notes, room_known=pods is not None)
    if idle := why_idle(job):
        paused = job.status.phase is Phase.SUSPENDED and not job.spec.suspend
        return replace(bare, idle=idle, budget=budget_forecast(draft) if paused else None)
    if (answer := ask(draft)) is None:
        return bare
    dated = job.spec.capacity.deadline is not None
    return replace(
        bare,
        answer=answer,
        ask_at=asked_again_at(draft, answer),
        net=find_net(answer.outlook.view) if dated and not answer.outlook.missing else None,
        risk=deadline_risk(answer.outlook, answer.choice) if dated else None,
        forecast=forecast(draft),
        budget=budget_forecast(draft),
    )


def why_idle(job: TrainingJob) -> str:
    """Why there is nothing to choose for this job; empty if there is."""
    phase = job.status.phase
    if phase is Phase.COMPLETED:
        return "training is complete"
    if phase is Phase.FAILED:
        return f"the job has failed for good: {job.status.reason or 'see its conditions'}"
    if job.metadata.deletion_timestamp:
        return "the job is being deleted"
    if job.spec.suspend:
        return "spec.suspend is true"
    if wrong := job.status.misconfigured:
        return f"the job needs a correction: {wrong.reason}: {wrong.message}".rstrip(": ")
    if phase is Phase.SUSPENDED:
        return f"the job is suspended: {job.status.reason or 'see its conditions'}"
    return ""


def age(since: datetime | None, now: datetime) -> timedelta | None:
    """The time since then, at least 0; None for None."""
    return None if since is None else max(now - since, timedelta(0))


def _blind_job(job: TrainingJob) -> TrainingJob:
    capacity = job.spec.capacity
    tiers = tuple([_blind(tier) for tier in capacity.tiers])
    spec = job.spec.model_copy(update={"capacity": capacity.model_copy(update={"tiers": tiers})})
    return job.model_copy(update={"spec": spec})


def _blind_profile(profile: CapacityProfile | None) -> CapacityProfile | None:
    if profile is None:
        return None
    tiers = tuple([_blind(tier) for tier in profile.spec.tiers])
    return profile.model_copy(update={"spec": profile.spec.model_copy(update={"tiers": tiers})})


def _blind(tier: Tier) -> Tier:
    """The tier for a user who cannot list nodes: the absence of idle nodes then says nothing about it."""
    return tier.model_copy(update={"observation": None}) if tier.observation == "Free" else tier
