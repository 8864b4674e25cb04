"""When a silent node counts as lost."""

from holdfast.core.attempt import drain
from holdfast.core.draft import Draft
from holdfast.core.observe.nodes import TOGETHER
from holdfast.core.observe.situation import Situation


def lost_touch(draft: Draft, s: Situation) -> bool:
    """True if the node is silent, the silence is its own, and nothing says that the trainer still lives."""
    if s.node is None or s.node.ready_changed_at is None:
        return False
    config, harmless = draft.snapshot.config, drain.harmless(draft)
    # The node controller's clock may be ahead of ours; nobody is silent since a time that is still to come.
    since = min(s.node.ready_changed_at, s.now)
    # Without a fence the pod is deleted, which cannot be taken back, and its replacement waits for its end anyway.
    # There is no hurry; and in a mass outage nodes are called silent one after the other, over many seconds.
    at = since + (config.silent_settle if harmless else config.silent_hold)
    if harmless and s.node.ready_changed_at > s.now:
        at = s.now  # when it began is not known, so it cannot be waited for; what was heard still holds it
    # A trainer that reports may have said so to the operator before this one, or to nobody while this one was cut off.
    times = (
        s.report.received_at if s.report else None,
        draft.snapshot.listening_since if draft.attempt.fenced else None,
    )
    if heard := max((at for at in times if at), default=None):
        at = max(at, heard + config.silent_hold)
    if draft.snapshot.cluster.outage(s.node, s.now):
        if came_back := draft.snapshot.cluster.came_back(s.node, s.now):
            draft.wake(min(came_back) + TOGETHER)
        if not harmless:
            return False
        at = max(at, max(since, heard or since) + config.outage_hold)
    if s.now < at:
        draft.wake(at)
    return s.now >= at
