"""Successors: the next attempt comes up while the current one still trains, and waits at the storage fence.

This module brings a successor up, gives it up, and lets it pass the fence. `depart` and `change_tier` say when the
current attempt leaves.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndKind, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_duration
from holdfast.api.status import TrainingJobStatus
from holdfast.core.attempt import all_or_none, start
from holdfast.core.attempt import end as ends
from holdfast.core.attempt.cause import Cause
from holdfast.core.attempt.delays import backoff
from holdfast.core.attempt.pause import pause_reason
from holdfast.core.attempt.placement import other_tier
from holdfast.core.attempt.why_ended import End
from holdfast.core.capacity.grid import may_get_pods
from holdfast.core.made_from import other_work, tier_changes
from holdfast.core.observe.notices import Notice
from holdfast.core.observe.pods import ContainerView, PodView
from holdfast.core.observe.situation import Sight
from holdfast.core.observe.snapshot import Refusal
from holdfast.core.successor import change_tier, depart
from holdfast.core.turn import Turn

LONGEST_PROBE = timedelta(hours=1)

# --- coming up --------------------------------------------------------------------------------------------------------


def may_create(turn: Turn) -> Attempt | None:
    """The current attempt if that attempt holds the fence, two nodes are allowed, and no third pod lives."""
    current = turn.draft.status.current
    if current is None or current.state not in (AttemptState.RUNNING, AttemptState.DRAINING):
        return None
    return current if depart.may_overlap(turn.draft) and start.may_create(turn) else None


def note_running(turn: Turn, pod: PodView) -> None:
    """The successor's trainer runs, up to the fence."""
    start.set_running(turn, pod)
    attempt = turn.attempt
    turn.draft.event("SuccessorStarted", f"attempt {attempt.number} comes up on {pod.node} ({attempt.tier.name})")


def was_handed_over(turn: Turn) -> bool:
    """True if the current attempt reports that it has saved and left, and the successor was not let pass yet."""
    current = turn.draft.status.current
    if current is None or turn.attempt.go is not None or not current.pods:
        return False
    report = turn.draft.snapshot.reports.get(current.pods[0].uid or "")
    return report is not None and report.attempt == current.number and report.state == "left"


def let_pass(turn: Turn) -> None:
    """Let the successor pass the fence: the old program may still run, but it cannot commit any more."""
    turn.set_attempt(go=turn.draft.next_order())


# --- giving up --------------------------------------------------------------------------------------------------------


def is_unwanted(turn: Turn) -> bool:
    """True if the job must pause, its tier is not better any more, or it does not run what spec says."""
    draft, attempt, current = turn.draft, turn.attempt, turn.draft.status.current
    if other_work(attempt, draft.snapshot.job.spec):
        return True
    if current is None or (attempt.state is not AttemptState.INTENDED and pause_reason(draft)):
        return True
    if attempt.scheduled_at:
        return False
    if not (may_get_pods(draft.snapshot.grid, attempt) or _must_leave(draft.status)):
        return True  # its tier was changed or removed; one that is urgent goes to another tier at once
    if current.state is not AttemptState.RUNNING or current.departure or depart.is_for_slow_node(current, attempt):
        return False
    return not change_tier.is_wanted(draft, current, attempt)


def drop_unwanted(turn: Turn) -> None:
    """Give it up without an event: nothing is wrong with it."""
    ends.drop_successor(turn.draft, EndReason.NOT_NEEDED)


def overlaps_too_long(turn: Turn) -> bool:
    """True if two attempts have had nodes for longer than spec.capacity.maxOverlap."""
    draft, current = turn.draft, turn.draft.status.current
    if turn.attempt.scheduled_at is None or (current and current.state is AttemptState.DRAINING):
        return False  # the switch is under way, and has a deadline of its own
    return draft.is_due(turn.attempt.scheduled_at + draft.snapshot.job.spec.capacity.max_overlap)


def drop_slow(turn: Turn) -> None:
    """Give it up: it takes longer to come up than two nodes may be paid for."""
    limit = format_duration(turn.draft.snapshot.job.spec.capacity.max_overlap)
    text = f"it was not ready within spec.capacity.maxOverlap ({limit})"
    _give_up(turn, End(EndKind.STOPPED, EndReason.OVERLAP_TOO_LONG, text))


def drop_ended(turn: Turn, cause: Cause) -> None:
    """Give it up: its pod ended. A failure counts only when it happens to the attempt that trains."""
    end = cause.end
    kind = EndKind.INTERRUPTION if end.kind is EndKind.INTERRUPTION else EndKind.STOPPED
    counted = End(kind, end.reason, end.message, infrastructure=end.infrastructure)
    _give_up(turn, counted, ended_at=cause.at)


def drop_gone(turn: Turn) -> None:
    """Give it up: its pod or its node is gone, or its node is silent."""
    reasons = {Sight.SILENT: EndReason.NODE_SILENT, Sight.NODE_GONE: EndReason.NODE_GONE}
    reason = reasons.get(turn.sight, EndReason.POD_GONE)
    _give_up(turn, End(EndKind.INTERRUPTION, reason, "it is not seen any more"), estimated=True)


def notice_to_drop_on(turn: Turn) -> Notice | None:
    """The notice if its own node or pod is about to be lost."""
    return turn.notice


def drop_on_notice(turn: Turn, notice: Notice) -> None:
    """Give it up: its own node is about to be lost."""
    _give_up(turn, End(EndKind.INTERRUPTION, notice.reason, notice.message))


def drop_stuck(turn: Turn, container: ContainerView) -> None:
    """Give it up: its container cannot be made."""
    _give_up(turn, End(EndKind.STOPPED, container.waiting or "", container.message))


def was_refused_for_good(turn: Turn) -> Refusal | None:
    """The refusal if its pod was refused: for good, or while the current attempt need not leave."""
    refusal = start.was_refused(turn)
    if refusal is None or refusal.reason == start.NAME_TAKEN:
        return None
    return refusal if refusal.status == start.INVALID or not _must_leave(turn.draft.status) else None


def drop_refused(turn: Turn, refusal: Refusal) -> None:
    """Give it up: the API server never accepts its pod, or a quota is used up and the successor is not urgent."""
    turn.draft.refusal_handled = True
    reason = EndReason.POD_INVALID if refusal.status == start.INVALID else EndReason.POD_REFUSED
    _give_up(turn, End(EndKind.STOPPED, reason, refusal.message))


def other_tier_if_urgent(turn: Turn) -> ProfileTier | None:
    """The tier to try if the current attempt has to leave, and there is another tier to try."""
    if not _must_leave(turn.draft.status):
        return None  # a pending pod is the probe for capacity, and costs nothing
    other = other_tier(turn)
    return other if other is not None and tier_changes(turn.attempt.tier, other) else None


def try_other_tier(turn: Turn, other: ProfileTier) -> None:
    """Give its pod up for another tier."""
    draft = turn.draft
    ends.drop_successor(draft, EndReason.ACQUIRE_TIMEOUT)
    draft.set(successor=draft.raise_attempt(other, avoid=turn.attempt.avoid_nodes))


def drop_part(turn: Turn, part: all_or_none.Part) -> None:
    """Give a part back that is paid for and is of no use; a successor that is not urgent is given up."""
    if _must_leave(turn.draft.status):
        all_or_none.give_back(turn, part)
        return
    text = f"{turn.attempt.tier.name} gave {part.held} of {part.nodes} nodes in time"
    _give_up(turn, End(EndKind.STOPPED, EndReason.ACQUIRE_TIMEOUT, text))


def asked_again_if_not_worth_it(turn: Turn) -> datetime | None:
    """When the tier is asked again if its tier will not prove itself within spec.capacity.maxOverlap."""
    return None if _must_leave(turn.draft.status) else change_tier.asked_again_if_not_worth_it(turn)


def _give_up(turn: Turn, end: End, *, ended_at: datetime | None = None, estimated: bool = False) -> None:
    """Give it up, and try again later each time, because the reason may last. An interruption does not count for the
    delay."""
    draft, attempt, current = turn.draft, turn.attempt, turn.draft.status.current
    ends.drop_successor(draft, end, ended_at=ended_at, estimated=estimated)
    if current is not None:
        failed = current.failed_successors + int(end.kind is not EndKind.INTERRUPTION)
        later = draft.now + backoff(draft.snapshot.config.probe_every, LONGEST_PROBE, max(failed, 1))
        draft.set(current=current.model_copy(update={"failed_successors": failed, "return_after": later}))
    text = f"the successor, attempt {attempt.number} ({attempt.tier.name}), is given up: {end.reason}"
    draft.event("SuccessorGivenUp", f"{text}: {end.message}".rstrip(": "), warning=True)


def _must_leave(status: TrainingJobStatus) -> bool:
    """True if the current attempt has to leave whether or not a successor gets its nodes."""
    current = status.current
    return current is not None and (current.departure is not None or current.state is AttemptState.DRAINING)
