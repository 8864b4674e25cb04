"""Telling a pod to save and leave, and what follows if it does not."""

from datetime import datetime, timedelta
from math import ceil

from holdfast.api.profile import ProfileTier
from holdfast.api.status import AttemptState, Departure, EndKind
from holdfast.core import ends
from holdfast.core.draft import Draft
from holdfast.core.situation import Sight, Situation
from holdfast.core.tiers import grid
from holdfast.core.views import PodView

LAST_GRACE = timedelta(seconds=5)  # what a pod gets after a deadline that it let pass


def trains_on(draft: Draft, s: Situation) -> bool:
    """True if the attempt can train on, although its node will go, while its successor comes up.

    That takes a program that a fence keeps from doing harm, a measured time to save, and a notice that leaves more than
    twice that. It is over once the successor waits at the fence.
    """
    attempt, report = draft.attempt, s.report
    if attempt.state is not AttemptState.RUNNING or report is None or report.checkpoint is None:
        return False
    deadlines = [attempt.departure.deadline] if attempt.departure else []
    deadlines += [s.notice.deadline] if s.notice else []
    if not deadlines or awaited(draft) or not may_overlap(draft):
        return False
    leave_at = min(deadlines) - 2 * report.checkpoint.took - draft.snapshot.config.leave_margin
    if s.now < leave_at:
        draft.wake(leave_at)
    return s.now < leave_at


def may_overlap(draft: Draft) -> bool:
    """True if a successor may come up beside the current attempt.

    A program that nothing fences would train beside it; one that cannot be reached would not be told to pass; and the
    user may not want to pay for two nodes.
    """
    snapshot, current = draft.snapshot, draft.status.current
    if current is None or not current.fenced or snapshot.config.progress_url is None:
        return False
    return bool(snapshot.job.spec.capacity.max_overlap) and not snapshot.job.spec.suspend


def awaited(draft: Draft) -> bool:
    """True if the successor waits at the fence, or has passed it."""
    successor = draft.status.successor
    if successor is None or not successor.pods:
        return False
    report = draft.snapshot.reports.get(successor.pods[0].uid or "")
    return report is not None and (report.state == "holding" or report.fenced)


def depart(draft: Draft, s: Situation) -> None:
    """Something will take the pod, but not now: save at once, train on, and bring the successor up beside it."""
    if s.notice is None:
        raise AssertionError("one departs on a notice")
    notice = s.notice
    told = Departure(reason=notice.reason, message=notice.message, at=s.now, deadline=notice.deadline)
    draft.set_attempt(departure=told)
    if draft.status.requests.checkpoint_order is None:
        order = draft.next_order()
        draft.set(requests=draft.status.requests.model_copy(update={"checkpoint_order": order}))
    intend_successor(draft, avoid=(notice.node,) if notice.node else ())
    seconds = ceil((notice.deadline - s.now).total_seconds())
    text = f"{notice.reason}: {notice.message}; {seconds} s are left, training goes on until the next attempt is ready"
    draft.say("Migrate", text)
    draft.event("Notice", text, warning=True)


def departs_sooner(draft: Draft, s: Situation) -> bool:
    """True if a notice leaves clearly less time than was known."""
    departure = draft.attempt.departure
    return departure is not None and s.notice is not None and _earlier(departure.deadline, s)


def hasten_departure(draft: Draft, s: Situation) -> None:
    """A second notice leaves less time than the first."""
    departure = draft.attempt.departure
    if departure is None or s.notice is None:
        raise AssertionError("only a departure can be hastened")
    draft.set_attempt(departure=departure.model_copy(update={"deadline": max(s.notice.deadline, s.now)}))


def leave(draft: Draft, s: Situation) -> None:
    """The successor waits at the fence, or time is up: save and leave."""
    departure = draft.attempt.departure
    if departure is None:
        raise AssertionError("only who departs leaves")
    deadline = max(min(departure.deadline, _grace_end(draft, s.now)), s.now)
    draft.drain(departure.reason, departure.message, deadline, EndKind.LOSS)
    ready = draft.status.successor.number if draft.status.successor and awaited(draft) else None
    why = f"attempt {ready} is ready" if ready else "time is up"
    draft.say("Migrate", f"{departure.reason}: {departure.message}; {why}: saving and leaving")
    draft.event("Leaving", f"{why}: saving and leaving")


def switch(draft: Draft, s: Situation) -> None:
    """A better tier has given a node, and its attempt waits at the fence: save and leave for it."""
    successor = draft.status.successor
    if successor is None:
        raise AssertionError("one switches to a successor")
    tier = successor.tier.name
    draft.drain("Returning", f"{tier} has a node again", _grace_end(draft, s.now), EndKind.STOPPED)
    text = f"{tier} has a node again, and attempt {successor.number} is ready: saving and leaving"
    draft.say("Migrate", text)
    draft.event("Returning", text)


def drain_on_notice(draft: Draft, s: Situation) -> None:
    """Something will take the pod: save and leave. The next attempt's number is raised now, so it starts at once."""
    if s.notice is None:
        raise AssertionError("a drain on notice needs a notice")
    deadline = max(min(s.notice.deadline, _grace_end(draft, s.now)), s.now)
    draft.drain(s.notice.reason, s.notice.message, deadline, EndKind.LOSS)
    intend_successor(draft, avoid=(s.notice.node,) if s.notice.node else ())
    seconds = ceil((deadline - s.now).total_seconds())
    text = f"{s.notice.reason}: {s.notice.message}; saving and leaving within {seconds} s"
    draft.say("Migrate", text)
    draft.event("Notice", text, warning=True)


def sooner(draft: Draft, s: Situation) -> bool:
    """True if a notice leaves clearly less time than the order said; notices without a deadline count from now."""
    drain = draft.attempt.drain
    return drain is not None and s.notice is not None and _earlier(drain.deadline, s)


def _earlier(deadline: datetime, s: Situation) -> bool:
    return s.notice is not None and deadline - max(s.notice.deadline, s.now) >= timedelta(seconds=1)


def hasten(draft: Draft, s: Situation) -> None:
    """A second notice leaves less time than the first."""
    drain = draft.attempt.drain
    if drain is None or s.notice is None:
        raise AssertionError("only a drain can be hastened")
    draft.set_attempt(drain=drain.model_copy(update={"deadline": max(s.notice.deadline, s.now)}))


def drain_to_suspend(draft: Draft, s: Situation) -> None:
    """The user suspended the job: save and leave."""
    draft.drain("Suspended", "spec.suspend is true", _grace_end(draft, s.now), EndKind.STOPPED)
    draft.say("Suspend", "spec.suspend is true: saving and leaving")
    draft.event("Suspending", "spec.suspend is true: saving and leaving")


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
    tiers = grid(draft.snapshot)
    if draft.status.successor or not tiers or draft.snapshot.job.spec.suspend:
        return
    tier = next((tier for tier in tiers if tier.name == tier_name), tiers[0])
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


def _grace_end(draft: Draft, now: datetime) -> datetime:
    return now + draft.snapshot.job.spec.checkpoint.grace_period


def drain_to_move(draft: Draft, s: Situation, tier_name: str | None) -> None:
    """A person asked to move: save, leave, and start on that tier, or afresh from the top away from this node."""
    node = s.pod.node if s.pod else None
    draft.drain("MoveRequested", "a move was requested", _grace_end(draft, s.now), EndKind.STOPPED)
    if (successor := draft.status.successor) and tier_name != successor.tier.name:
        ends.drop_successor(draft, "MoveRequested")
    intend_successor(draft, tier_name=tier_name, avoid=(node,) if node and tier_name is None else ())
    where = f"to {tier_name}" if tier_name else f"away from {node}"
    draft.say("Migrate", f"a move {where} was requested: saving and leaving")
    draft.event("Moving", f"a move {where} was requested: saving and leaving")
