"""Telling a pod to save and leave, and what follows if it does not."""

from datetime import datetime, timedelta
from math import ceil

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import end as ends
from holdfast.core.attempt.pause import held_back, why_held
from holdfast.core.attempt.placement import tier_to_start
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Sight, Situation

LAST_GRACE = timedelta(seconds=5)  # what a pod gets after a deadline that it let pass


def drain_on_notice(draft: Draft, s: Situation) -> None:
    """Something will take the pod: save and leave. The next attempt's number is raised now, so it starts at once."""
    if s.notice is None:
        raise AssertionError("a drain on notice needs a notice")
    deadline = max(min(s.notice.deadline, grace_end(draft, s.now)), s.now)
    draft.drain(s.notice.reason, s.notice.message, deadline, EndKind.LOSS)
    intend_successor(draft, avoid=(s.notice.node,) if s.notice.node else ())
    seconds = ceil((deadline - s.now).total_seconds())
    text = f"{s.notice.reason}: {s.notice.message}; saving and leaving within {seconds} s"
    draft.say("Migrate", text)
    draft.event("Notice", text, warning=True)


def sooner(draft: Draft, s: Situation) -> bool:
    """True if a notice leaves clearly less time than the order said; notices without a deadline count from now."""
    drain = draft.attempt.drain
    return drain is not None and earlier(drain.deadline, s)


def earlier(deadline: datetime, s: Situation) -> bool:
    """True if a notice leaves clearly less time than until `deadline`."""
    return s.notice is not None and deadline - max(s.notice.deadline, s.now) >= timedelta(seconds=1)


def hasten(draft: Draft, s: Situation) -> None:
    """A second notice leaves less time than the first."""
    drain = draft.attempt.drain
    if drain is None or s.notice is None:
        raise AssertionError("only a drain can be hastened")
    draft.set_attempt(drain=drain.model_copy(update={"deadline": max(s.notice.deadline, s.now)}))


def drain_to_suspend(draft: Draft, s: Situation) -> None:
    """The user suspended the job, or its budget is used up: save and leave."""
    hold, why = held_back(draft) or "Suspended", why_held(draft)
    draft.drain(hold, why, grace_end(draft, s.now), EndKind.STOPPED)
    draft.say("Suspend", f"{why}: saving and leaving")
    event = "Suspending" if hold == "Suspended" else hold
    draft.event(event, f"{why}: saving and leaving", warning=hold != "Suspended")


def drain_unfenced_silent(draft: Draft, s: Situation) -> None:
    """The node is silent and nothing can fence the program: wait until the pod is confirmed gone, and say so."""
    if s.pod is None:
        raise AssertionError("a silent node is seen through its pod")
    text = (
        f"node {s.pod.node} is silent, and nothing shows that the program uses Holdfast's checkpoints, so its "
        "replacement waits until the old pod is confirmed gone (delete the Node, taint it "
        "node.kubernetes.io/out-of-service, or it comes back)"
    )
    before = draft.attempt.drain
    draft.drain("NodeSilent", text, s.now, before.kind if before else EndKind.LOSS, deleted_at=s.now)
    draft.delete_pod(s.pod)
    intend_successor(draft, avoid=(s.pod.node,) if s.pod.node else ())
    draft.say("Wait", text)
    draft.event("NodeSilent", text, warning=True)


def acknowledge(draft: Draft, s: Situation) -> None:
    """The trainer has read the order: it is saving."""
    drain = draft.attempt.drain
    if drain is None or s.report is None:
        raise AssertionError("only a drain can be acknowledged")
    at = s.report.acknowledged_at or s.now
    draft.set_attempt(drain=drain.model_copy(update={"acknowledged_at": at}))


def delete_drained(draft: Draft, s: Situation) -> None:
    """Nobody answers the order, or its deadline has passed: delete the pod with what grace is left."""
    drain = draft.attempt.drain
    if drain is None or s.pod is None:
        raise AssertionError("only a draining pod is deleted")
    full = draft.snapshot.job.spec.checkpoint.grace_period
    left = max(drain.deadline - s.now, min(LAST_GRACE, full))
    if drain.kind is EndKind.STOPPED and drain.acknowledged_at is None:
        left = full  # nothing is in a hurry, and the program has not heard of it before
    grace = max(ceil(left.total_seconds()), 1)
    end = s.now + timedelta(seconds=grace)
    draft.set_attempt(drain=drain.model_copy(update={"deleted_at": s.now, "kill_at": end}))
    draft.delete_pod(s.pod, grace)


def delete_again(draft: Draft, pod: PodView) -> None:
    """A pod that status says was deleted is not: the DELETE failed, or the operator died before it.

    The grace is what is left of the first one, and never 0: that would take the pod out of the API while its program
    may still run.
    """
    drain = draft.attempt.drain
    if drain is None or drain.deleted_at is None:
        return
    if drain.kill_at is None or drain.kill_at == drain.deleted_at:  # with the pod's own grace
        draft.delete_pod(pod)
    else:
        draft.delete_pod(pod, max(ceil((drain.kill_at - draft.now).total_seconds()), 1))


def must_delete(draft: Draft, s: Situation) -> bool:
    """True if a draining pod has to be deleted now; if not yet, the decision is woken when it may have to be."""
    drain = draft.attempt.drain
    if drain is None or drain.deleted_at or s.pod is None or s.pod.deleted_at:
        return False
    if s.sight is Sight.PLACED or draft.snapshot.config.progress_url is None:
        return True  # nobody is there to read an order
    limit = drain.deadline if drain.acknowledged_at else min(
        drain.deadline, drain.at + draft.snapshot.config.acknowledge_timeout
    )  # fmt: skip
    if s.now >= limit:
        return True
    draft.wake(limit)
    return False


def harmless(draft: Draft) -> bool:
    """True if a pod that nobody hears of can do no harm once the next attempt has raised the storage fence.

    Its program holds the fence, or, not that far yet, belongs to a job whose program is known to ask for it.
    """
    return draft.attempt.fenced or draft.status.library


def outlived(draft: Draft, s: Situation) -> bool:
    """True if a deleted pod is still there long after its grace."""
    drain = draft.attempt.drain
    if drain is None or not harmless(draft):
        return False
    killed = drain.kill_at
    if killed is None and s.pod and s.pod.deleted_at:  # by somebody, whose clock may be behind the order's
        killed = max(s.pod.deleted_at, drain.deadline)
    if killed is None:
        return False
    limit = killed + draft.snapshot.config.end_margin
    if s.now < limit:
        draft.wake(limit)
    return s.now >= limit


def intend_successor(draft: Draft, *, tier_name: str | None = None, avoid: tuple[str, ...] = ()) -> None:
    """Raise the number of the attempt that follows the current one; its pod waits until that one is over."""
    tiers = draft.snapshot.grid
    if draft.status.successor or not tiers or held_back(draft):
        return
    tier = find_tier(tiers, tier_name or "") or tier_to_start(draft)
    draft.set(successor=draft.raise_attempt(tier, avoid=avoid))


def redirect(draft: Draft, tier: ProfileTier) -> None:
    """A person says where a job that leaves already is to go."""
    successor = draft.status.successor
    if successor is None or successor.tier.name == tier.name:
        return
    if successor.state is AttemptState.INTENDED:
        draft.set(successor=successor.model_copy(update={"tier": tier}))
    else:
        ends.drop_successor(draft, "MoveRequested")
        intend_successor(draft, tier_name=tier.name)


def grace_end(draft: Draft, now: datetime) -> datetime:
    """When a pod that is told to leave now has had its grace."""
    return now + draft.snapshot.job.spec.checkpoint.grace_period


def drain_to_move(draft: Draft, s: Situation, tier_name: str | None) -> None:
    """A person asked to move: save, leave, and start on that tier, or afresh from the top away from this node."""
    node = s.pod.node if s.pod else None
    draft.drain("MoveRequested", "a move was requested", grace_end(draft, s.now), EndKind.STOPPED)
    if successor := draft.status.successor:
        elsewhere = tier_name is not None and tier_name != successor.tier.name
        if elsewhere or (tier_name is None and node in [pod.node for pod in successor.pods]):
            ends.drop_successor(draft, "MoveRequested")
    intend_successor(draft, tier_name=tier_name, avoid=(node,) if node and tier_name is None else ())
    where = f"to {tier_name}" if tier_name else f"away from {node}"
    draft.say("Migrate", f"a move {where} was requested: saving and leaving")
    draft.event("Moving", f"a move {where} was requested: saving and leaving")
