"""Order a pod to save and leave, and act if it does not."""

from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from holdfast.api.attempt import Attempt, AttemptState, Drain, EndKind, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import end as ends
from holdfast.core.attempt.fence import why_wait
from holdfast.core.attempt.pause import PauseReason, pause_message, pause_reason
from holdfast.core.attempt.placement import tier_to_start
from holdfast.core.attempt.survivors import survivors
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.observe.members import is_member
from holdfast.core.observe.notices import Notice
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Member, Sight
from holdfast.core.turn import Turn

LAST_GRACE = timedelta(seconds=5)  # what a pod gets after its deadline has passed

# --- orders to leave --------------------------------------------------------------------------------------------------


def notice_to_drain_on(turn: Turn) -> Notice | None:
    """The notice if the node or the pod is about to be lost, and the attempt is not departing already."""
    return turn.notice if turn.attempt.departure is None else None


def drain_on_notice(turn: Turn, notice: Notice) -> None:
    """Order it to save and leave. The next attempt's number is raised now, so that its pod can start at once."""
    draft, now = turn.draft, turn.now
    deadline = max(min(notice.deadline, grace_end(draft)), now)
    turn.drain(notice.reason, notice.message, deadline, EndKind.INTERRUPTION)
    intend_successor(draft, avoid=(notice.node,) if notice.node else ())
    seconds = ceil((deadline - now).total_seconds())
    text = f"{notice.reason}: {notice.message}; saving and leaving within {seconds} s"
    draft.explain("Migrate", text)
    draft.event("Notice", text, warning=True)


def drain_to_suspend(turn: Turn, reason: PauseReason) -> None:
    """Order it to save and leave: the user suspended the job, or its budget is used up."""
    draft, text = turn.draft, f"{pause_message(turn.draft)}: saving and leaving"
    suspended = reason is EndReason.SUSPENDED
    turn.drain(reason, pause_message(draft), grace_end(draft), EndKind.STOPPED)
    draft.explain("Suspend", text)
    draft.event("Suspending" if suspended else reason, text, warning=not suspended)


def drain_for_edit(turn: Turn, fields: tuple[str, ...]) -> None:
    """Order it to save and leave: `fields` of spec say something else than what it runs."""
    draft, text = turn.draft, other_work_words(turn.attempt, fields)
    turn.drain(EndReason.SPEC_CHANGED, text, grace_end(draft), EndKind.STOPPED)
    intend_successor(draft)
    draft.explain("Migrate", f"{text}: saving and leaving")
    draft.event(EndReason.SPEC_CHANGED, f"{text}: saving and leaving", warning=True)


def other_work_words(attempt: Attempt, fields: tuple[str, ...]) -> str:
    """Why an attempt has to leave that runs something else than `fields` of spec say."""
    if not attempt.made_from:
        return f"nothing shows that attempt {attempt.number} runs what spec says"
    return f"attempt {attempt.number} does not run what {' and '.join(f'spec.{name}' for name in fields)} says"


def drain_silent(turn: Turn, lost: Turn) -> None:
    """Delete a pod on a silent node that may do harm, and wait until it is confirmed gone."""
    draft, before, node = turn.draft, turn.attempt.drain, lost.pod.node if lost.pod else None
    text = (
        f"node {node} is silent, and {why_wait(draft, turn.attempt)}, so its replacement waits until the "
        "old pod is confirmed gone (delete the Node, taint it node.kubernetes.io/out-of-service, or it comes back)"
    )
    kind = before.kind if before else EndKind.INTERRUPTION
    turn.drain(EndReason.NODE_SILENT, text, turn.now, kind, deleted_at=turn.now)
    if lost.pod:
        draft.delete_pod(lost.pod)
    intend_successor(draft, avoid=(node,) if node else ())
    draft.explain("Wait", text)
    draft.event("NodeSilent", text, warning=True)


def drain_to_move(turn: Turn, tier_name: str | None, node: str | None) -> None:
    """Order it to save and leave for that tier or, without one, for the policy's tier away from `node`."""
    draft = turn.draft
    turn.drain(EndReason.MOVE_REQUESTED, "a move was requested", grace_end(draft), EndKind.STOPPED)
    if successor := draft.status.successor:
        elsewhere = tier_name is not None and tier_name != successor.tier.name
        there = [pod.node for pod in draft.snapshot.pods if is_member(successor, pod)]
        if elsewhere or (tier_name is None and node in there):
            ends.drop_successor(draft, EndReason.MOVE_REQUESTED)
    intend_successor(draft, tier_name=tier_name, avoid=(node,) if node and tier_name is None else ())
    where = f"to {tier_name}" if tier_name else f"away from {node}"
    draft.explain("Migrate", f"a move {where} was requested: saving and leaving")
    draft.event("Moving", f"a move {where} was requested: saving and leaving")


def intend_successor(draft: Draft, *, tier_name: str | None = None, avoid: tuple[str, ...] = ()) -> None:
    """Raise the number of the attempt that follows the current one; its pod waits until that one is over.

    If pods of the current one go on, the tier is theirs, as they were made.
    """
    tiers, current = draft.snapshot.grid, draft.status.current
    if draft.status.successor or pause_reason(draft):
        return
    keep = survivors(draft, current, draft.situation(), avoid) if current and tier_name is None else {}
    if current and keep:
        draft.set(successor=draft.raise_attempt(current.tier, avoid=avoid, keep=keep))
    elif tiers:
        tier = find_tier(tiers, tier_name or "") or tier_to_start(draft, avoid)
        draft.set(successor=draft.raise_attempt(tier, avoid=avoid))


def redirect(draft: Draft, tier: ProfileTier) -> None:
    """Send the successor of an attempt that leaves already to another tier. It takes over no pod of this one."""
    successor = draft.status.successor
    if successor is None or successor.tier.name == tier.name:
        return
    if successor.state is AttemptState.INTENDED:
        draft.set(successor=successor.model_copy(update={"tier": tier, "members": ()}))
    else:
        ends.drop_successor(draft, EndReason.MOVE_REQUESTED)
        intend_successor(draft, tier_name=tier.name)


def grace_end(draft: Draft) -> datetime:
    """When the grace of a pod ends that is ordered to leave now."""
    return draft.now + draft.snapshot.job.spec.checkpoint.grace_period


# --- an open order ----------------------------------------------------------------------------------------------------


def has_earlier_deadline(turn: Turn) -> Drain | None:
    """The drain with its new deadline if a notice leaves clearly less time than the order said."""
    drain = turn.attempt.drain
    deadline = earlier_deadline(turn, drain.deadline) if drain else None
    return drain.model_copy(update={"deadline": deadline}) if drain and deadline else None


def earlier_deadline(turn: Turn, deadline: datetime) -> datetime | None:
    """When the notice's time ends, not before now; None if that is not clearly earlier than `deadline`."""
    if turn.notice is None:
        return None
    earlier = max(turn.notice.deadline, turn.now)
    return earlier if deadline - earlier >= timedelta(seconds=1) else None


def was_acknowledged(turn: Turn) -> Drain | None:
    """The drain with the time if the trainer has read the order."""
    drain, report = turn.attempt.drain, turn.report
    if drain is None or drain.acknowledged_at or report is None or report.acknowledged < drain.order:
        return None
    return drain.model_copy(update={"acknowledged_at": report.acknowledged_at or turn.now})


def update_drain(turn: Turn, drain: Drain) -> None:
    """Write down what has become known of the order."""
    turn.set_attempt(drain=drain)


# --- a pod that does not leave ----------------------------------------------------------------------------------------


class Unanswered(NamedTuple):
    """An order to leave, and the pods that do not follow it."""

    drain: Drain
    pods: tuple[PodView, ...]


def must_delete(turn: Turn) -> Unanswered | None:
    """The order and its pod if the order was not acknowledged in time, or its deadline is over.

    With several nodes and a notice there may be no such pod: those that have to leave have ended, and the programs of
    the others wait for them in a collective. Then too the time of the order is what they get.
    """
    drain, pods, config = turn.attempt.drain, living_pods(turn), turn.draft.snapshot.config
    others_wait = drain is not None and drain.kind is EndKind.INTERRUPTION and bool(turn.situation.members)
    if drain is None or drain.deleted_at or not (pods or others_wait):
        return None
    limit = drain.deadline
    if turn.sight is Sight.PLACED or config.progress_url is None:
        limit = turn.now  # no trainer can read the order
    elif drain.acknowledged_at is None:
        limit = min(limit, drain.at + config.acknowledge_timeout)
    return Unanswered(drain, pods) if turn.draft.is_due(limit) else None


def living_pods(turn: Turn) -> tuple[PodView, ...]:
    """The pods that have to leave, have not ended, and were not deleted yet.

    With several nodes and a notice, only those leave whose nodes go; the launchers of the others end their programs.
    """
    members = turn.situation.members
    pods = [turn.pod] if not members else [one.pod for one in members if has_to_leave(turn.draft, turn.attempt, one)]
    return tuple(pod for pod in pods if pod is not None and not pod.deleted_at and not pod.ended)


def has_to_leave(draft: Draft, attempt: Attempt, member: Member) -> bool:
    """True if the pod itself has to leave, not only its program: also if the job has to pause since the order."""
    notice = attempt.drain is not None and attempt.drain.kind is EndKind.INTERRUPTION
    stays = notice or (member.pod is not None and is_member(draft.status.successor, member.pod))
    return not (stays and member.goes_on) or pause_reason(draft) is not None


def delete_drained(turn: Turn, order: Unanswered) -> None:
    """Delete the pod with the grace that is left."""
    drain, now = order.drain, turn.now
    full = turn.draft.snapshot.job.spec.checkpoint.grace_period
    left = max(drain.deadline - now, min(LAST_GRACE, full))
    if drain.kind is EndKind.STOPPED and drain.acknowledged_at is None:
        left = full  # nothing is urgent, and the program gets its first signal now
    grace = max(ceil(left.total_seconds()), 1)
    turn.set_attempt(drain=drain.model_copy(update={"deleted_at": now, "kill_at": now + timedelta(seconds=grace)}))
    for pod in order.pods:
        turn.draft.delete_pod(pod, grace)


def delete_again(draft: Draft, pod: PodView) -> None:
    """Delete the current attempt's pod if status says that it was deleted, but the DELETE failed or was never sent.

    The grace is what is left of the first one, and never 0: that would take the pod out of the API while its program
    may still run.
    """
    drain = draft.status.current.drain if draft.status.current else None
    if drain is None or drain.deleted_at is None:
        return
    if drain.kill_at is None or drain.kill_at == drain.deleted_at:  # with the pod's own grace
        draft.delete_pod(pod)
    else:
        draft.delete_pod(pod, max(ceil((drain.kill_at - draft.now).total_seconds()), 1))


def outlived_grace(turn: Turn) -> bool:
    """True if the deleted pod is still there long after its grace, and the job goes on without its end."""
    since = outlived_grace_since(turn) if why_wait(turn.draft, turn.attempt) is None else None
    return since is not None and turn.draft.is_due(since)


def outlived_grace_since(turn: Turn) -> datetime | None:
    """When a pod that leaves has to have ended, with a margin; None if it was not deleted."""
    drain, pod = turn.attempt.drain, turn.pod
    if drain is None:
        return None
    killed = drain.kill_at
    if killed is None and pod and pod.deleted_at:  # another client deleted it; its clock may be behind the order's
        killed = max(pod.deleted_at, drain.deadline)
    return None if killed is None else killed + turn.draft.snapshot.config.end_margin
