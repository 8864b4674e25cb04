"""When a pod on a silent node counts as lost."""

from datetime import datetime, timedelta
from typing import Final

from holdfast.api.attempt import EndReason
from holdfast.core.attempt.fence import saves_folder, why_wait
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.nodes import TOGETHER
from holdfast.core.observe.situation import Sight
from holdfast.core.turn import Turn

ASK_EVERY: Final = timedelta(seconds=10)  # while its node is silent, a launcher is asked so often if it lives
ANSWER: Final = timedelta(seconds=5)  # how long it has for the answer: its call waits at the endpoint


def was_deleted_by_force(turn: Turn) -> Turn | None:
    """Its turn if the pod was deleted with a grace of 0: by force, which says that nothing runs there."""
    forced = (one for one in _silent(turn) if one.pod and one.pod.deleted_at and one.pod.deletion_grace == 0)
    return next(forced, None)


def is_lost(turn: Turn) -> Turn | None:
    """Its turn if its node alone is silent, or has been for very long, no report arrives, and the job need not wait."""
    if why_wait(turn.draft, turn.attempt) is not None:
        return None
    return next((one for one in _silent(turn) if _lost_touch(one, harmless=True)), None)


def is_lost_but_may_do_harm(turn: Turn) -> Turn | None:
    """Its turn if its node alone is silent, for longer, no report arrives, and the job has to wait."""
    drain = turn.attempt.drain
    if why_wait(turn.draft, turn.attempt) is None or (drain is not None and drain.reason == EndReason.NODE_SILENT):
        return None
    return next((one for one in _silent(turn) if _lost_touch(one, harmless=False)), None)


def lost_ranks(turn: Turn) -> frozenset[int]:
    """The ranks on silent nodes that count as lost; their pods have to be confirmed gone if the job has to wait."""
    harmless = why_wait(turn.draft, turn.attempt) is None
    return frozenset(one.pod.rank for one in _silent(turn) if one.pod and _lost_touch(one, harmless=harmless))


def _silent(turn: Turn) -> list[Turn]:
    """The turn for each pod on a silent node; with one node there is only that one."""
    members = turn.situation.members
    return [turn.at(member) for member in members if member.sight is Sight.SILENT] if members else [turn]


def _lost_touch(turn: Turn, *, harmless: bool) -> bool:
    """True if the node is silent, the silence is its own, and nothing shows that the trainer still runs."""
    node, now, draft = turn.node, turn.now, turn.draft
    if node is None or node.ready_changed_at is None:
        return False
    config, cluster = draft.snapshot.config, draft.snapshot.cluster
    # The node controller's clock may be ahead of ours: a silence does not begin in the future.
    since = min(node.ready_changed_at, now)
    # Without a fence the pod is deleted, which cannot be undone, and its replacement waits for its end anyway. So it is
    # not urgent; and in a mass outage nodes become silent one after the other, over many seconds.
    at = since + (config.silent_settle if harmless else config.silent_timeout)
    if harmless and node.ready_changed_at > now:
        at = now  # the time when it began is not known; a report may still delay the decision
    # The trainer may have reported to an earlier operator, or its reports were lost while this one was cut off.
    times = (
        _heard_at(turn),
        draft.snapshot.listening_since if _is_heard(turn) else None,
    )
    if heard := max((at for at in times if at), default=None):
        at = max(at, heard + config.silent_timeout)
    if answered := _answered_at(turn):
        at = max(at, answered)
    if cluster.outage(node, now):
        if came_back := cluster.came_back(node, now):
            draft.wake(min(came_back) + TOGETHER)
        if not harmless:
            return False
        at = max(at, max(since, heard or since) + config.outage_timeout)
    return draft.is_due(at)


def _is_heard(turn: Turn) -> bool:
    """True if a process of Holdfast in the pod reports while the attempt lives."""
    return turn.attempt.fenced or turn.attempt.nodes > 1 or saves_folder(turn.draft, turn.attempt)


def _heard_at(turn: Turn) -> datetime | None:
    """When the silent node's trainer was heard last.

    With several nodes, a step shows that all of them train. A report alone shows that its own node lives: the trainer
    of rank 0 reports while it waits in a collective for a node that is dead.
    """
    report, told = turn.report, _told(turn)
    if report is not None and (turn.attempt.nodes == 1 or (turn.pod and turn.pod.rank == 0)):
        return max(report.received_at, told.received_at) if told else report.received_at
    times = (report.step_at if report else None, told.received_at if told else None)
    return max((at for at in times if at), default=None)


def _told(turn: Turn) -> LauncherView | None:
    """What the launcher in the pod told last; None with one node."""
    members = turn.situation.members
    return members[turn.pod.rank].report if members and turn.pod is not None else None


def _answered_at(turn: Turn) -> datetime | None:
    """Until when an answer of the launcher is waited for; None with one node, or if it was heard lately.

    A launcher that lives has a call open, which may be older than the silence of a kubelet that is merely cut off. So
    it is asked, and its next call is the answer. The question to a dead node has no answer.
    """
    told, draft = _told(turn), turn.draft
    if told is None or turn.pod is None:
        return None
    if told.asked_at is not None:
        return told.asked_at + ANSWER
    if not draft.is_due(told.received_at + ASK_EVERY):
        return None
    draft.ask(turn.pod)
    return turn.now + ANSWER
