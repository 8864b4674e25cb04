"""How many of the nodes of a training are ready, as `kubectl get` shows it: 3/4."""

from holdfast.api.attempt import AttemptState
from holdfast.core.attempt.meeting import is_ready
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation

_PLACED = (Sight.PLACED, Sight.RUNNING)


def nodes_ready(draft: Draft, s: Situation) -> str | None:
    """The text; None with one node.

    A count alone is not worth a write while an attempt comes up quickly: pods get their nodes one after the other. An
    attempt that waits for longer shows each change.
    """
    current, shown = draft.status.current, draft.status.nodes
    if current is None or current.nodes == 1:
        return None
    text = f"{_count(current.state, current.number, s)}/{current.nodes}"
    if text == shown or draft.changed or shown is None:
        return text
    since = current.created_at or current.raised_at
    return text if draft.is_due(since + draft.snapshot.config.status_interval) else shown


def _count(state: AttemptState, number: int, s: Situation) -> int:
    """Pods that have a node; while the programs are about to start, pods whose launchers are ready."""
    if state is AttemptState.STARTING:
        return sum(is_ready(member, number, s.now) for member in s.members)
    if state in (AttemptState.RUNNING, AttemptState.DRAINING):
        return sum(member.goes_on for member in s.members)
    return sum(member.sight in _PLACED for member in s.members)
