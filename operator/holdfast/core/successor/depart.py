"""An attempt whose node will go trains on until its successor is up."""

from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from holdfast.api.attempt import Attempt, Departure, EndKind, EndReason
from holdfast.core.attempt import drain, end, meeting
from holdfast.core.attempt.delays import backoff
from holdfast.core.attempt.fence import is_harmless
from holdfast.core.attempt.pause import pause_reason
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import inherited
from holdfast.core.observe.notices import Notice
from holdfast.core.observe.report import staging_at
from holdfast.core.observe.situation import Sight
from holdfast.core.turn import Turn


def may_overlap(draft: Draft) -> bool:
    """True if a successor may come up beside the current attempt.

    Without a fence, two programs would train at once. An attempt that starts has none yet, but is known to take it if
    the program did before. Without the progress endpoint, the successor would never be let pass. And the user may not
    want to pay for two nodes.
    """
    snapshot, current = draft.snapshot, draft.status.current
    if current is None or not is_harmless(draft, current) or snapshot.config.progress_url is None:
        return False
    if current.drain is not None and current.drain.reason == EndReason.NODE_SILENT:
        return False  # the old pod's end is waited for, perhaps for days: no node is paid for until then
    return bool(snapshot.job.spec.capacity.max_overlap) and pause_reason(draft) is None


def is_ready(draft: Draft) -> bool:
    """True if the successor waits at the fence, or has passed it, and no notice is out for it.

    A successor that takes over pods of the current attempt is ready when its other pods are: their launchers wait.
    """
    seen, successor = draft.situation(Role.SUCCESSOR), draft.status.successor
    if seen.sight not in (Sight.PLACED, Sight.RUNNING) or seen.notice is not None or successor is None:
        return False
    if inherited(successor):
        fresh = [member for member in seen.members if member.born == successor.number]
        return all(meeting.is_ready(member, successor.number, draft.now) for member in fresh)
    if seen.report is None:
        return False
    return seen.report.state == "waiting" or seen.report.fenced


def is_for_slow_node(current: Attempt, successor: Attempt) -> bool:
    """True if the successor comes up because a rank of the current attempt is slow."""
    same = current.tier.name == successor.tier.name
    return same and current.replaces is not None and current.replaces in successor.avoid_nodes


# --- its node will go -------------------------------------------------------------------------------------------------


class TimelyNotice(NamedTuple):
    """A notice, and when the attempt has to leave at the latest."""

    notice: Notice
    leave_at: datetime


def may_depart(turn: Turn) -> TimelyNotice | None:
    """The notice if its node will go, and there is time for a successor to come up: more than the last save needs.

    A pod that is being deleted has got its SIGTERM already, and leaves.
    """
    notice, draft = turn.notice, turn.draft
    if notice is None or turn.attempt.departure or _is_being_deleted(turn) or not may_overlap(draft):
        return None
    saved = turn.report.checkpoint if turn.report else None
    if saved is None:
        return None  # the duration of a save is not known
    leave_at = notice.deadline - 2 * saved.took - draft.snapshot.config.leave_margin
    return TimelyNotice(notice, leave_at) if turn.now < leave_at and not is_ready(draft) else None


def _is_being_deleted(turn: Turn) -> bool:
    """True if a pod of the attempt is being deleted, or is not there."""
    pods = [member.pod for member in turn.situation.members] or [turn.pod]
    return any(pod is None or pod.deleted_at is not None for pod in pods)


def depart(turn: Turn, found: TimelyNotice) -> None:
    """Order a save at once, train on, and bring the successor up."""
    draft, (notice, leave_at) = turn.draft, found
    departure = {"reason": notice.reason, "message": notice.message, "deadline": notice.deadline}
    turn.set_attempt(departure=Departure(**departure, at=turn.now, leave_at=leave_at))
    if draft.status.requests.checkpoint_order is None:
        draft.order_checkpoint()
    drain.intend_successor(draft, avoid=(notice.node,) if notice.node else ())
    seconds = ceil((notice.deadline - turn.now).total_seconds())
    text = f"{notice.reason}: {notice.message}; {seconds} s are left, training goes on until the next attempt is ready"
    draft.explain("Migrate", text)
    draft.event("Notice", text, warning=True)


def has_other_deadline(turn: Turn) -> Departure | None:
    """The departure with its new times if a notice leaves clearly less time, or says that it leaves more."""
    departure, notice = turn.attempt.departure, turn.notice
    if departure is None or notice is None:
        return None
    deadline = drain.earlier_deadline(turn, departure.deadline)
    if deadline is None and notice.told and notice.deadline - departure.deadline >= timedelta(seconds=1):
        deadline = notice.deadline
    if deadline is None:
        return None
    leave_at = deadline - (departure.deadline - departure.leave_at)
    return departure.model_copy(update={"deadline": deadline, "leave_at": leave_at})


def reschedule(turn: Turn, departure: Departure) -> None:
    """Depart earlier, or later."""
    turn.set_attempt(departure=departure)


def notice_withdrawn(turn: Turn) -> Departure | None:
    """The departure if it departs, and the notice was withdrawn."""
    return turn.attempt.departure if turn.notice is None and turn.node is not None else None


def stay(turn: Turn, departure: Departure) -> None:
    """Train on without a departure; the successor was for this notice alone."""
    draft = turn.draft
    end.drop_successor(draft, EndReason.NOT_NEEDED)
    turn.set_attempt(departure=None)
    text = f"the notice was withdrawn ({departure.reason}): training goes on where it is"
    draft.explain("Run", text)
    draft.event("NoticeWithdrawn", text)


class Leaving(NamedTuple):
    """A departure whose time has come, and why."""

    departure: Departure
    why: str


def must_leave(turn: Turn) -> Leaving | None:
    """The departure if it departs, and its successor waits at the fence, time is up, or its pod is being deleted."""
    departure, draft, successor = turn.attempt.departure, turn.draft, turn.draft.status.successor
    if departure is None:
        return None
    late = draft.is_due(departure.leave_at) or _is_being_deleted(turn)
    if successor and is_ready(draft):
        return Leaving(departure, f"attempt {successor.number} is ready")
    return Leaving(departure, "time is up") if late else None


def leave(turn: Turn, leaving: Leaving) -> None:
    """Order it to save and leave."""
    draft, (departure, why) = turn.draft, leaving
    deadline = max(min(departure.deadline, drain.grace_end(draft)), turn.now)
    turn.drain(departure.reason, departure.message, deadline, EndKind.INTERRUPTION)
    draft.explain("Migrate", f"{departure.reason}: {departure.message}; {why}: saving and leaving")
    draft.event("Leaving", f"{why}: saving and leaving")


def is_without_successor(turn: Turn) -> bool:
    """True if it departs, and no successor comes up."""
    draft = turn.draft
    return turn.attempt.departure is not None and draft.status.successor is None and bool(draft.snapshot.grid)


def raise_another(turn: Turn) -> None:
    """Raise another successor after one was given up; each time later."""
    draft, config = turn.draft, turn.draft.snapshot.config
    node = turn.pod.node if turn.pod and turn.attempt.nodes == 1 else turn.notice.node if turn.notice else None
    drain.intend_successor(draft, avoid=(node,) if node else ())
    if successor := draft.status.successor:
        delay = backoff(config.backoff_base, config.backoff_limit, max(turn.attempt.failed_successors, 1))
        draft.set(successor=successor.model_copy(update={"retry_at": turn.now + delay}))


# --- at the fence -----------------------------------------------------------------------------------------------------


def still_waits_at_fence(turn: Turn) -> bool:
    """True if it was let pass the fence long ago, and no report arrives.

    Neither the order to go on nor the handover may have reached it; another attempt begins without waiting.
    """
    attempt, snapshot, history = turn.attempt, turn.draft.snapshot, turn.draft.status.history
    if attempt.go is None or attempt.fenced or turn.report is not None:
        return False
    copied = staging_at(snapshot.reports, turn.pod)
    times = (attempt.started_at, snapshot.listening_since, copied, history[-1].ended_at if history else None)
    since = max((time for time in times if time), default=attempt.raised_at)
    return turn.draft.is_due(since + snapshot.config.start_timeout)
