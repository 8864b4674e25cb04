"""What every decision ends with: pods that are not wanted, conditions, columns, time to live."""

from holdfast.api.attempt import AttemptState
from holdfast.api.scalars import format_duration
from holdfast.api.status import Phase
from holdfast.core.attempt.drain import delete_again, harmless
from holdfast.core.attempt.pause import held_back
from holdfast.core.books import ledger
from holdfast.core.capacity.grid import find_tier
from holdfast.core.decision import DeleteJob, ReleasePod, UnprotectPod
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Sight, Situation, is_live
from holdfast.core.status.conditions import set_conditions
from holdfast.core.status.forecast import forecast, set_prospects

KEPT_FOR_LOGS = 2


def upkeep(draft: Draft, s: Situation) -> None:
    """Bring everything in line with what was decided. Changes nothing once it has converged."""
    logs = _worth_keeping(draft)
    for pod in draft.snapshot.pods:
        _tidy(draft, pod, logs)
    stored = draft.snapshot.job.status.phase
    if draft.snapshot.job.metadata.deletion_timestamp:
        return
    if stored is None or not stored.final:
        _say_that_it_is_held(draft, s)
        _columns(draft, s)
        set_prospects(draft)
        set_conditions(draft, s)
        _account(draft)
    _expire(draft)


def _tidy(draft: Draft, pod: PodView, logs: tuple[PodView, ...]) -> None:
    """A pod of an attempt that is over is ended, released, and in the end removed; one of a later one is left alone.

    A later attempt than status knows of means that our view of the job is stale: that pod is somebody's hope, unless
    the job is over. What is done here needs no status patch, so it must be right in every future of this view; and an
    attempt that was given up never comes back.
    """
    job, current, stored = draft.snapshot.job, draft.status.current, draft.snapshot.job.status.phase
    if job.metadata.deletion_timestamp:
        if pod.finalized and not is_live(draft.status, pod):
            draft.act(ReleasePod(pod.name, pod.uid))
        return
    successor = draft.status.successor
    wanted = [one.number for one in (current, successor) if one]
    hoped_for = pod.attempt > draft.status.attempt and not (stored and stored.final)
    if pod.attempt in wanted or hoped_for:
        draining = current is not None and current.state is AttemptState.DRAINING and pod.attempt == current.number
        if draining:
            delete_again(draft, pod)
        if draining and pod.protected:
            draft.act(UnprotectPod(pod.name, pod.uid))
        return
    if pod.finalized and not is_live(draft.status, pod):
        draft.act(ReleasePod(pod.name, pod.uid))
    if pod not in logs:
        draft.delete_pod(pod)


def _worth_keeping(draft: Draft) -> tuple[PodView, ...]:
    """The newest pods that have ended on a node: people read their logs."""
    ended = [p for p in draft.snapshot.pods if p.phase in ("Succeeded", "Failed") and p.node and p.deleted_at is None]
    return tuple(sorted(ended, key=lambda pod: pod.attempt)[-KEPT_FOR_LOGS:])


def _columns(draft: Draft, s: Situation) -> None:
    """Phase, tier, node and reason, as `kubectl get` shows them."""
    status, generation = draft.status, draft.snapshot.job.metadata.generation
    if status.phase and status.phase.final:
        draft.set(observed_generation=generation, tier=None, node=None)
        return
    current = status.current
    if current is None and not status.suspended_at and (profile := _missing_profile(draft)):
        _say_it_is_missing(draft, profile)
    draft.set(
        observed_generation=generation,
        phase=_phase(draft),
        tier=current.tier.name if current else None,
        node=current.pods[0].node if current and current.pods else None,
        reason=_reason(draft, s),
    )


def _account(draft: Draft) -> None:
    """What the job has cost by now, and what is to come; with any other change for free, but no reason to write."""
    tiers = draft.snapshot.grid
    for role in Role:
        attempt = draft.status.current if role is Role.CURRENT else draft.status.successor
        tier = find_tier(tiers, attempt.tier.name) if attempt else None
        if attempt and tier and (price := tier.price_per_node_hour) != attempt.tier.price_per_node_hour:
            draft.set(**{role: ledger.reprice(attempt, price, draft.now)})
    if draft.changed:
        draft.set(ledger=ledger.as_of(draft.status, tiers, draft.now))
        draft.set(forecast=forecast(draft))


def _say_that_it_is_held(draft: Draft, s: Situation) -> None:
    """Why nothing is done about a silent node, and that it answers again."""
    if s.attempt is None or s.attempt.state not in (AttemptState.STARTING, AttemptState.RUNNING) or s.node is None:
        return
    if s.sight is Sight.SILENT and draft.snapshot.cluster.outage(s.node, s.now):
        limit = format_duration(draft.snapshot.config.outage_hold)
        until = f"held for {limit}" if harmless(draft) else "held"
        draft.say("Hold", f"node {s.node.name} fell silent together with half of all nodes or more: {until}")
    elif s.sight is not Sight.SILENT and draft.status.decision and draft.status.decision.action == "Hold":
        draft.say("Run", f"node {s.node.name} answers again")


def _phase(draft: Draft) -> Phase:
    status = draft.status
    if status.current is None:
        return Phase.SUSPENDED if status.suspended_at else Phase.ACQUIRING
    match status.current.state:
        case AttemptState.INTENDED:
            return Phase.RECOVERING if status.restarts.losses or status.restarts.failures else Phase.ACQUIRING
        case AttemptState.ACQUIRING:
            return Phase.ACQUIRING
        case AttemptState.STARTING:
            return Phase.STARTING
        case AttemptState.RUNNING:
            return Phase.MIGRATING if status.current.departure else Phase.RUNNING
        case AttemptState.DRAINING:
            drain = status.current.drain
            if drain and drain.reason == "NodeSilent":
                return Phase.RECOVERING
            return Phase.MIGRATING if status.successor else Phase.RUNNING


def _reason(draft: Draft, s: Situation) -> str | None:
    status, current = draft.status, draft.status.current
    if current is None:
        if status.suspended_at:
            return held_back(draft) or "Suspended"
        return "ProfileNotFound" if _missing_profile(draft) else None
    if current.state is AttemptState.DRAINING and current.drain:
        return "Suspending" if current.drain.reason == "Suspended" else current.drain.reason
    if current.state is AttemptState.INTENDED:
        if current.refusals:
            return "PodRefused"
        return "BackOff" if current.retry_at and s.now < current.retry_at else "WaitingForOldPod"
    if current.departure:
        return current.departure.reason
    return "NodeSilent" if s.sight is Sight.SILENT else None


def _missing_profile(draft: Draft) -> str | None:
    """The name of the job's capacity profile if there is none of that name."""
    return draft.snapshot.job.spec.capacity.profile if draft.snapshot.profile is None else None


def _say_it_is_missing(draft: Draft, profile: str) -> None:
    text = f"capacity profile {profile} does not exist: create it, or name another one in spec.capacity.profile"
    said = draft.status.decision
    draft.say("Wait", text)
    if said != draft.status.decision:
        draft.event("ProfileNotFound", text, warning=True)


def _expire(draft: Draft) -> None:
    """A finished job goes when its time to live is over."""
    ttl, finished = draft.snapshot.job.spec.ttl_after_finished, draft.status.finished_at
    if ttl is None or finished is None:
        return
    if draft.now >= finished + ttl:
        draft.act(DeleteJob(draft.snapshot.job.metadata.uid))
    else:
        draft.wake(finished + ttl)
