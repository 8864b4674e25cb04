"""Successors: the next attempt comes up while the current one still trains, and waits at the storage fence (make before
break). This module brings a successor up, gives it up, and lets it pass; departing.py says when the current one leaves.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_duration
from holdfast.core.attempt import end as ends
from holdfast.core.attempt import start
from holdfast.core.attempt import stuck as stuck_module
from holdfast.core.attempt.pause import held_back
from holdfast.core.attempt.placement import elsewhere
from holdfast.core.attempt.why_ended import End, classify
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.successor import change_tier, depart

INVALID = 422  # HTTP
LONGEST_PROBE = timedelta(hours=1)

# --- coming up --------------------------------------------------------------------------------------------------------


def may_create(draft: Draft, s: Situation) -> bool:
    """True if the successor's pod may be created: it may overlap with the current attempt, and no third pod lives."""
    current = draft.status.current
    if current is None or current.state not in (AttemptState.RUNNING, AttemptState.DRAINING):
        return False
    return depart.may_overlap(draft) and start.may_create(draft, s)


def placed(draft: Draft, s: Situation) -> None:
    """The successor's pod is on a node: from here on two nodes are paid for."""
    start.note_placed(draft, s)


def started(draft: Draft, s: Situation) -> None:
    """The successor's trainer runs, as far as the fence."""
    attempt = start.note_running(draft, s)
    node = s.pod.node if s.pod else None
    draft.event("SuccessorStarted", f"attempt {attempt.number} comes up on {node} ({attempt.tier.name})")


def handed_over(draft: Draft, s: Situation) -> bool:
    """True if the current attempt says that it has saved and left, told or not, and the successor waits for no more."""
    current = draft.status.current
    if current is None or draft.attempt.go is not None or not current.pods:
        return False
    report = draft.snapshot.reports.get(current.pods[0].uid or "")
    return report is not None and report.state == "left"


def let_pass(draft: Draft, s: Situation) -> None:
    """The successor may pass the fence: whatever the old program still does, it cannot commit any more."""
    draft.set_attempt(go=draft.next_order())


# --- giving up --------------------------------------------------------------------------------------------------------


def not_wanted(draft: Draft, s: Situation) -> bool:
    """True if the job has no use for a successor any more, or for this one."""
    attempt, current = draft.attempt, draft.status.current
    if current is None or (attempt.state is not AttemptState.INTENDED and held_back(draft)):
        return True
    if attempt.scheduled_at:
        return False
    tier = find_tier(draft.snapshot.grid, attempt.tier.name)
    if tier and _without_price(tier) != _without_price(attempt.tier):
        return True  # its pod waits for nodes as they were described before
    if current.state is not AttemptState.RUNNING or current.departure:
        return False
    return not change_tier.wanted(draft)


def _without_price(tier: ProfileTier) -> ProfileTier:
    return tier.model_copy(update={"price_per_node_hour": None})


def drop_unwanted(draft: Draft, s: Situation) -> None:
    """Give it up without a word: somebody changed the job's mind."""
    ends.drop_successor(draft, "NotNeeded")


def overlaps_too_long(draft: Draft, s: Situation) -> bool:
    """True if two attempts have had nodes for as long as the user allows."""
    current = draft.status.current
    if draft.attempt.scheduled_at is None or (current and current.state is AttemptState.DRAINING):
        return False  # the switch is under way, and has a deadline of its own
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
    finished = s.pod.trainer.ended_at if s.pod.trainer else None
    told = End(kind, end.reason, end.message, infrastructure=end.infrastructure)
    _give_up(draft, told, ended_at=finished)


def gone(draft: Draft, s: Situation) -> None:
    """Its pod or its node is gone, or its node fell silent."""
    reason = {Sight.SILENT: "NodeSilent", Sight.NODE_GONE: "NodeGone"}.get(s.sight, "PodGone")
    _give_up(draft, End(EndKind.LOSS, reason, "it cannot be seen any more"), estimated=True)


def noticed(draft: Draft, s: Situation) -> None:
    """Its own node is about to be lost."""
    if s.notice is None:
        raise AssertionError("a successor leaves on a notice")
    _give_up(draft, End(EndKind.LOSS, s.notice.reason, s.notice.message))


def stuck(draft: Draft, s: Situation) -> None:
    """Its container cannot be made."""
    container = stuck_module.stuck_container(s)
    if container is None:
        raise AssertionError("a stuck pod has a stuck container")
    _give_up(draft, End(EndKind.STOPPED, container.waiting or "", container.message))


def refused_for_good(draft: Draft, s: Situation) -> bool:
    """True if its pod was refused, and it does not help or does not matter to try again soon."""
    refusal = draft.snapshot.refusal
    if refusal is None or not start.refused(draft, s) or refusal.reason == "NameTaken":
        return False
    return refusal.status == INVALID or not _presses(draft)


def give_up_refused(draft: Draft, s: Situation) -> None:
    """The API server would not have its pod: it never will, or a quota is used up and nothing presses."""
    refusal = draft.snapshot.refusal
    if refusal is None:
        raise AssertionError("a refusal is dealt with only if there is one")
    draft.refusal_handled = True
    reason = "PodInvalid" if refusal.status == INVALID else "PodRefused"
    _give_up(draft, End(EndKind.STOPPED, reason, refusal.message))


def no_node(draft: Draft, s: Situation) -> bool:
    """True if the current attempt has to leave, this tier has no node for the next one, and there is another to try."""
    if not _presses(draft):
        return False  # a pending pod is the probe for capacity, and costs nothing
    other = elsewhere(draft, s)
    return other is not None and other.name != draft.attempt.tier.name


def to_another_tier(draft: Draft, s: Situation) -> None:
    """Try that tier."""
    attempt, other = draft.attempt, elsewhere(draft, s)
    if other is None:
        raise AssertionError("a pod is given up for another tier")
    ends.drop_successor(draft, "AcquireTimeout")
    draft.set(successor=draft.raise_attempt(other, avoid=attempt.avoid_nodes))


def not_worth_its_node(draft: Draft, s: Situation) -> bool:
    """True if nothing presses, and its tier will not have proved itself as long as two nodes may be paid for."""
    return not _presses(draft) and change_tier.not_worth_its_node(draft, s)


def _presses(draft: Draft) -> bool:
    """True if the current attempt has to leave whether or not the successor gets a node."""
    current = draft.status.current
    return current is not None and (current.departure is not None or current.state is AttemptState.DRAINING)


def _give_up(draft: Draft, end: End, *, ended_at: datetime | None = None, estimated: bool = False) -> None:
    """Give it up, and try again later each time: what stands against it may last. That it was lost does not."""
    attempt, current, config = draft.attempt, draft.status.current, draft.snapshot.config
    ends.drop_successor(draft, end, ended_at=ended_at, estimated=estimated)
    if current is not None:
        vain = current.vain + int(end.kind is not EndKind.LOSS)
        later = draft.now + ends.backoff(config.probe_every, LONGEST_PROBE, max(vain, 1))
        draft.set(current=current.model_copy(update={"vain": vain, "return_after": later}))
    text = f"attempt {attempt.number} ({attempt.tier.name}), which was to follow, is given up: {end.reason}"
    draft.event("SuccessorGivenUp", f"{text}: {end.message}".rstrip(": "), warning=True)
