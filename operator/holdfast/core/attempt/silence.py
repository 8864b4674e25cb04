"""When a pod on a silent node counts as lost."""

from datetime import datetime

from holdfast.api.attempt import EndReason
from holdfast.core.attempt.drain import is_harmless
from holdfast.core.observe.nodes import TOGETHER
from holdfast.core.observe.pods import PodView
from holdfast.core.turn import Turn


def was_deleted_by_force(turn: Turn) -> bool:
    """True if the pod was deleted with a grace of 0: by force, which says that nothing runs there."""
    return turn.pod is not None and turn.pod.deleted_at is not None and turn.pod.deletion_grace == 0


def is_lost_behind_fence(turn: Turn) -> bool:
    """True if its node alone is silent, or has been for very long, no report arrives, and a fence protects."""
    return is_harmless(turn.draft, turn.attempt) and _lost_touch(turn, harmless=True)


def is_lost_without_fence(turn: Turn) -> PodView | None:
    """The pod if its node alone is silent, for longer, no report arrives, and nothing fences the program."""
    drain = turn.attempt.drain
    if is_harmless(turn.draft, turn.attempt) or (drain is not None and drain.reason == EndReason.NODE_SILENT):
        return None
    return turn.pod if _lost_touch(turn, harmless=False) else None


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
        draft.snapshot.listening_since if turn.attempt.fenced else None,
    )
    if heard := max((at for at in times if at), default=None):
        at = max(at, heard + config.silent_timeout)
    if cluster.outage(node, now):
        if came_back := cluster.came_back(node, now):
            draft.wake(min(came_back) + TOGETHER)
        if not harmless:
            return False
        at = max(at, max(since, heard or since) + config.outage_timeout)
    return draft.is_due(at)


def _heard_at(turn: Turn) -> datetime | None:
    """When the silent node's trainer was heard last.

    With several nodes, a step shows that all of them train. A report alone shows that its own node lives.
    """
    report = turn.report
    if turn.attempt.nodes == 1:
        return report.received_at if report else None
    told = next((one.report for one in turn.situation.members if one.pod is turn.pod), None)
    times = (report.step_at if report else None, told.received_at if told else None)
    return max((at for at in times if at), default=None)
