"""What every decision ends with: deletion of unwanted pods, conditions, phase and reason, costs, time to live."""

from holdfast.api.attempt import AttemptState, EndReason
from holdfast.api.status import Phase
from holdfast.core.attempt.clock_ahead import TOLERATED
from holdfast.core.attempt.drain import delete_again, has_to_leave
from holdfast.core.attempt.line import waiting_for
from holdfast.core.attempt.pause import costs_so_far, pause_reason
from holdfast.core.books import ledger
from holdfast.core.capacity.grid import find_tier
from holdfast.core.decision import DeleteJob, HoldPod, ReleasePod, UnprotectPod
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import is_member
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Sight, Situation, is_live
from holdfast.core.status.conditions import set_conditions
from holdfast.core.status.forecast import forecast, set_forecast_conditions
from holdfast.core.status.last_logs import may_end_itself
from holdfast.core.status.long_waits import WAITING_FOR_TURN, explain_long_wait, explain_turn, stuck_pod
from holdfast.core.status.nodes_ready import show_nodes
from holdfast.core.status.resting_tiers import show_resting_tiers
from holdfast.core.status.slow_ranks import show_slow_ranks
from holdfast.core.status.staging import REASON, is_staging, show_staging
from holdfast.core.status.start_blocked import inspect_unprepared, show_start_trouble, trouble_of

KEPT_FOR_LOGS = 2  # pods, and at least one of each rank


def wrap_up(draft: Draft, s: Situation) -> None:
    """Bring pods and status in line with what was decided. Changes nothing the second time."""
    logs = _pods_kept_for_logs(draft)
    for pod in draft.snapshot.pods:
        _tidy_pod(draft, pod, logs)
    for pod in draft.forged:  # somebody gave it the labels of a pod; only our finalizer on it is ours
        if pod.finalized:
            draft.act(ReleasePod(pod.name, pod.uid))
    stored = draft.snapshot.job.status.phase
    if draft.snapshot.job.metadata.deletion_timestamp or _is_left_alone(draft):
        return
    if stored is None or not stored.final:
        explain_long_wait(draft, s)
        explain_turn(draft)
        show_start_trouble(draft, s)
        show_staging(draft, s)
        inspect_unprepared(draft, s)
        _set_columns(draft, s)
        if draft.status.phase is not stored:
            draft.set(phase_since=draft.now)
        set_forecast_conditions(draft)
        show_resting_tiers(draft)
        show_slow_ranks(draft, s)
        set_conditions(draft, s)
        _update_costs(draft)
        _look_again(draft)
    _delete_expired(draft)


def _is_left_alone(draft: Draft) -> bool:
    """True if the job's namespace is being deleted, and nothing happened that has to be in status."""
    return draft.snapshot.namespace_closed and draft.status is draft.snapshot.job.status


def _tidy_pod(draft: Draft, pod: PodView, logs: frozenset[str]) -> None:
    """Delete and release the pod of an attempt that is over. A pod of a later attempt than status knows stays.

    Such a pod shows that this view of the job is old: the pod may be needed, unless the job is over. These actions need
    no status patch, so they must be right in every future of this view. They are, because an attempt that was given up
    never comes back.
    """
    job, current, stored = draft.snapshot.job, draft.status.current, draft.snapshot.job.status.phase
    if job.metadata.deletion_timestamp:
        if pod.finalized and not is_live(draft.status, pod):
            draft.act(ReleasePod(pod.name, pod.uid))
        return
    successor = draft.status.successor
    wanted = is_member(current, pod) or is_member(successor, pod)
    may_be_needed = pod.attempt > draft.status.attempt and not (stored and stored.final)
    if wanted and not (pod.finalized or pod.ended or pod.deleted_at):
        draft.act(HoldPod(pod.name, pod.uid))
    if wanted or may_be_needed:
        if _is_leaving(draft, pod):
            delete_again(draft, pod)
            if pod.protected:
                draft.act(UnprotectPod(pod.name, pod.uid))
        return
    if pod.finalized and not is_live(draft.status, pod):
        draft.act(ReleasePod(pod.name, pod.uid))
    if may_end_itself(draft, pod):
        draft.dismiss(pod)
    elif pod.uid not in logs:
        draft.delete_pod(pod)


def _is_leaving(draft: Draft, pod: PodView) -> bool:
    """True if the current attempt is ordered to leave, and its pod has to end for that."""
    current = draft.status.current
    if current is None or current.state is not AttemptState.DRAINING or not is_member(current, pod):
        return False
    members = draft.situation().members  # by rank
    return pod.rank >= len(members) or has_to_leave(draft, current, members[pod.rank])


def _pods_kept_for_logs(draft: Draft) -> frozenset[str]:
    """The UIDs of the newest pods that ended on a node, and of the newest one of each rank: people read their logs."""
    ended = [p for p in draft.snapshot.pods if p.phase in ("Succeeded", "Failed") and p.node and p.deleted_at is None]
    ended.sort(key=lambda pod: pod.attempt)
    of_each_rank = {pod.rank: pod for pod in ended}
    return frozenset(pod.uid for pod in (*of_each_rank.values(), *ended[-KEPT_FOR_LOGS:]))


def _set_columns(draft: Draft, s: Situation) -> None:
    """Set phase, tier, node and reason, as `kubectl get` shows them."""
    status, generation = draft.status, draft.snapshot.job.metadata.generation
    if status.phase and status.phase.final:
        draft.set(observed_generation=generation, tier=None, node=None)
        show_nodes(draft, s)
        return
    current = status.current
    if current is None and not status.suspended_at and (profile := _missing_profile(draft)):
        _explain_missing_profile(draft, profile)
    draft.set(
        observed_generation=generation,
        phase=_phase(draft),
        tier=current.tier.name if current else None,
        node=current.pods[0].node if current and current.pods else None,
        reason=_reason(draft, s),
    )
    show_nodes(draft, s)


def _update_costs(draft: Draft) -> None:
    """Update the cost so far and the forecast, if there is another change: they alone are not a reason to write."""
    tiers = draft.snapshot.grid
    for role in Role:
        attempt = draft.attempt(role)
        tier = find_tier(tiers, attempt.tier.name) if attempt else None
        if attempt and tier and (price := tier.price_per_node_hour) != attempt.tier.price_per_node_hour:
            draft.set(**{role: ledger.reprice(attempt, price, draft.now)})
    if draft.changed:
        draft.set(ledger=costs_so_far(draft))
        draft.set(forecast=forecast(draft))


def _phase(draft: Draft) -> Phase:
    status = draft.status
    if status.current is None:
        return Phase.SUSPENDED if status.suspended_at else Phase.ACQUIRING
    match status.current.state:
        case AttemptState.INTENDED:
            return Phase.RECOVERING if status.restarts.interruptions or status.restarts.failures else Phase.ACQUIRING
        case AttemptState.ACQUIRING:
            return Phase.ACQUIRING
        case AttemptState.STARTING:
            return Phase.STARTING
        case AttemptState.RUNNING:
            if status.current.departure:
                return Phase.MIGRATING
            return Phase.STARTING if is_staging(draft) else Phase.RUNNING
        case AttemptState.DRAINING:
            drain = status.current.drain
            if drain and drain.reason == EndReason.NODE_SILENT:
                return Phase.RECOVERING
            return Phase.MIGRATING if status.successor else Phase.RUNNING


def _reason(draft: Draft, s: Situation) -> str | None:
    status, current = draft.status, draft.status.current
    if current is None:
        if status.suspended_at:
            return pause_reason(draft) or EndReason.SUSPENDED
        return "ProfileNotFound" if _missing_profile(draft) else None
    if current.state is AttemptState.DRAINING and current.drain:
        if stuck_pod(draft, s):
            return EndReason.NEVER_ENDED
        return "Suspending" if current.drain.reason == EndReason.SUSPENDED else current.drain.reason
    if current.state is AttemptState.INTENDED:
        if current.refusals:
            return EndReason.POD_REFUSED
        if current.retry_at and s.now < current.retry_at:
            return "BackOff"
        return WAITING_FOR_TURN if waiting_for(draft) else "WaitingForOldPod"
    if current.departure:
        return current.departure.reason
    if trouble := trouble_of(draft, s):
        return trouble.reason
    if s.sight is Sight.SILENT:
        return EndReason.NODE_SILENT
    return REASON if is_staging(draft) else None


def _missing_profile(draft: Draft) -> str | None:
    """The name of the job's capacity profile if no such profile exists, otherwise None."""
    return draft.snapshot.job.spec.capacity.profile if draft.snapshot.profile is None else None


def _explain_missing_profile(draft: Draft, profile: str) -> None:
    text = f"capacity profile {profile} does not exist: create it, or name another one in spec.capacity.profile"
    before = draft.status.decision
    draft.explain("Wait", text)
    if before != draft.status.decision:
        draft.event("ProfileNotFound", text, warning=True)


def _look_again(draft: Draft) -> None:
    """Decide again within an hour, also without an event. A job that has ended needs no further decision."""
    if not (draft.status.phase and draft.status.phase.final):
        draft.wake(draft.now + draft.snapshot.config.look_again)


def _delete_expired(draft: Draft) -> None:
    """Delete a finished job when its time to live is over."""
    ttl, finished = draft.snapshot.job.spec.ttl_after_finished, draft.status.finished_at
    if ttl is None or finished is None:
        return
    if finished > draft.now + TOLERATED:  # by the clock of an earlier leader
        draft.set(finished_at=draft.now)
        finished = draft.now
    if draft.is_due(finished + ttl):
        draft.act(DeleteJob(draft.snapshot.job.metadata.uid))
