"""Successors: the next attempt comes up while the current one still trains, and waits at the storage fence (make before
break). This module brings a successor up, gives it up, and lets it pass; drains.py says when the current one leaves.
"""

from holdfast.api.scalars import format_duration
from holdfast.api.status import AttemptState, EndKind
from holdfast.core import drains, ends, lifecycle
from holdfast.core.classify import End, classify
from holdfast.core.draft import Draft
from holdfast.core.returning import better_tiers
from holdfast.core.situation import Situation
from holdfast.core.tiers import find_tier, grid, next_tier

# --- coming up --------------------------------------------------------------------------------------------------------


def may_create(draft: Draft, s: Situation) -> bool:
    """True if the successor's pod may be created: it may overlap with the current attempt, and no third pod lives."""
    current = draft.status.current
    if current is None or current.state not in (AttemptState.RUNNING, AttemptState.DRAINING):
        return False
    return drains.may_overlap(draft) and lifecycle.may_create(draft, s)


def raise_another(draft: Draft, s: Situation) -> None:
    """The successor was given up, and the current attempt has to leave all the same."""
    departure = draft.attempt.departure
    if departure is None:
        raise AssertionError("only who departs needs another successor")
    node = s.pod.node if s.pod else None
    drains.intend_successor(draft, avoid=(node,) if node else ())
    if draft.status.successor:
        retry_at = s.now + draft.snapshot.config.backoff_base
        draft.set(successor=draft.status.successor.model_copy(update={"retry_at": retry_at}))


def placed(draft: Draft, s: Situation) -> None:
    """The successor's pod is on a node: from here on two nodes are paid for."""
    lifecycle.note_placed(draft, s)


def started(draft: Draft, s: Situation) -> None:
    """The successor's trainer runs, as far as the fence."""
    attempt = lifecycle.note_running(draft, s)
    node = s.pod.node if s.pod else None
    draft.event("SuccessorStarted", f"attempt {attempt.number} comes up on {node} ({attempt.tier.name})")


def handed_over(draft: Draft, s: Situation) -> bool:
    """True if the current attempt says that it has saved and left, and the successor waits for nothing else."""
    current = draft.status.current
    if current is None or current.drain is None or draft.attempt.go is not None or not current.pods:
        return False
    report = draft.snapshot.reports.get(current.pods[0].uid or "")
    return report is not None and report.state == "left"


def let_pass(draft: Draft, s: Situation) -> None:
    """The successor may pass the fence: whatever the old program still does, it cannot commit any more."""
    draft.set_attempt(go=draft.next_order())


# --- giving up --------------------------------------------------------------------------------------------------------


def not_wanted(draft: Draft, s: Situation) -> bool:
    """True if the job has no use for a successor any more, or for this one."""
    job, attempt, current = draft.snapshot.job, draft.attempt, draft.status.current
    if current is None or (job.spec.suspend and attempt.state is not AttemptState.INTENDED):
        return True
    if current.state is not AttemptState.RUNNING or current.departure or attempt.scheduled_at:
        return False
    return attempt.tier.name not in [tier.name for tier in better_tiers(draft, current)]


def not_any_more(draft: Draft, s: Situation) -> None:
    """Give it up without a word: somebody changed the job's mind."""
    ends.drop_successor(draft, "NotNeeded")


def overlaps_too_long(draft: Draft, s: Situation) -> bool:
    """True if two attempts have had nodes for as long as the user allows."""
    if draft.attempt.scheduled_at is None:
        return False
    at = draft.attempt.scheduled_at + draft.snapshot.job.spec.capacity.max_overlap
    if s.now < at:
        draft.wake(at)
    return s.now >= at


def give_up_overlap(draft: Draft, s: Situation) -> None:
    """It takes longer to come up than two nodes may be paid for."""
    limit = format_duration(draft.snapshot.job.spec.capacity.max_overlap)
    text = f"it was not ready within spec.capacity.maxOverlap ({limit})"
    _give_up(draft, End(EndKind.STOPPED, "OverlapTooLong", text))


def ended(draft: Draft, s: Situation) -> None:
    """Its pod ended. What a failure means is judged when it happens to the attempt that trains."""
    if s.pod is None:
        raise AssertionError("an end is seen on a pod")
    end = classify(s.pod, None)
    kind = EndKind.LOSS if end.kind is EndKind.LOSS else EndKind.STOPPED
    _give_up(draft, End(kind, end.reason, end.message, infrastructure=end.infrastructure))


def gone(draft: Draft, s: Situation) -> None:
    """Its pod or its node is gone, or its node fell silent."""
    _give_up(
        draft, End(EndKind.LOSS, "PodGone", f"its pod or node cannot be seen any more ({s.sight})"), estimated=True
    )


def noticed(draft: Draft, s: Situation) -> None:
    """Its own node is about to be lost."""
    if s.notice is None:
        raise AssertionError("a successor leaves on a notice")
    _give_up(draft, End(EndKind.LOSS, s.notice.reason, s.notice.message))


def stuck(draft: Draft, s: Situation) -> None:
    """Its container cannot be made, or does not start in time."""
    container = ends.stuck_container(s)
    reason = (container.waiting if container else None) or "StartTimeout"
    _give_up(draft, End(EndKind.STOPPED, reason, container.message if container else "it did not start in time"))


def invalid(draft: Draft, s: Situation) -> bool:
    """True if the API server says that its pod can never be made."""
    refusal = draft.snapshot.refusal
    return refusal is not None and refusal.status == 422 and lifecycle.refused(draft, s)


def give_up_invalid(draft: Draft, s: Situation) -> None:
    """A tier whose pods are invalid cannot be gone to."""
    refusal = draft.snapshot.refusal
    draft.refusal_handled = True
    _give_up(draft, End(EndKind.STOPPED, "PodInvalid", refusal.message if refusal else ""))


def no_node(draft: Draft, s: Situation) -> bool:
    """True if its tier had its time, or left the grid, and there is another one to try."""
    current, attempt, tiers = draft.status.current, draft.attempt, grid(draft.snapshot)
    if current is None or not tiers:
        return False
    if find_tier(tiers, attempt.tier.name) is None:
        return True
    others = tiers if _presses(draft) else better_tiers(draft, current)
    if len(others) < 2 or attempt.acquire_deadline is None:
        return False  # a pending pod is the probe for capacity, and costs nothing
    if s.now < attempt.acquire_deadline:
        draft.wake(attempt.acquire_deadline)
    return s.now >= attempt.acquire_deadline


def to_another_tier(draft: Draft, s: Situation) -> None:
    """Try the tier below; when nothing presses, only tiers that are better than the current one."""
    current, attempt, tiers = draft.status.current, draft.attempt, grid(draft.snapshot)
    if current is None:
        raise AssertionError("a successor follows an attempt")
    others = tiers if _presses(draft) else better_tiers(draft, current)
    ends.drop_successor(draft, "AcquireTimeout")
    if others:
        draft.set(successor=draft.raise_attempt(next_tier(others, attempt.tier.name), avoid=attempt.avoid_nodes))


def _presses(draft: Draft) -> bool:
    """True if the current attempt has to leave whether or not the successor gets a node."""
    current = draft.status.current
    return current is not None and (current.departure is not None or current.state is AttemptState.DRAINING)


def _give_up(draft: Draft, end: End, *, estimated: bool = False) -> None:
    attempt, current = draft.attempt, draft.status.current
    ends.drop_successor(draft, end, estimated=estimated)
    if current is not None:
        draft.set(current=current.model_copy(update={"return_after": draft.now + draft.snapshot.config.probe_every}))
    text = f"attempt {attempt.number} ({attempt.tier.name}), which was to follow, is given up: {end.reason}"
    draft.event("SuccessorGivenUp", f"{text}: {end.message}".rstrip(": "), warning=True)
