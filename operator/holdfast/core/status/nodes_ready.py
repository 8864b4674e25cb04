"""How many of the nodes of a training are ready, as `kubectl get` shows it: 3/4."""

from datetime import timedelta
from typing import Final

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.core.attempt.meeting import is_ready
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.members import holding, is_waiting, pods_by_rank
from holdfast.core.observe.situation import Sight, Situation

EVERY: Final = timedelta(seconds=5)  # a count alone is written at most so often
_PLACED = (Sight.PLACED, Sight.RUNNING)


def show_nodes(draft: Draft, s: Situation) -> None:
    """Set the text in status; None with one node, and when the job is over. Money needs how many nodes are held.

    A count alone is not worth a write while an attempt comes up quickly: pods get their nodes one after the other. An
    attempt that waits for longer shows changes, but not each of a thousand.
    """
    text, held, status = _text(draft, s), _held(draft), draft.status
    if text == status.ready_nodes and not held:
        return
    if text is not None and status.ready_nodes is not None and not draft.changed and (current := status.current):
        since = (current.created_at or current.raised_at) + draft.snapshot.config.status_interval
        if not draft.is_due(max(since, status.ready_nodes_at + EVERY) if status.ready_nodes_at else since):
            return
    draft.set(ready_nodes=text, ready_nodes_at=draft.now if text else None)
    draft.set(**held)


def _held(draft: Draft) -> dict[str, Attempt]:
    """The attempts, by role, that hold other nodes than status says, and have not got all of theirs."""
    found: dict[str, Attempt] = {}
    for role in Role:
        if (attempt := draft.attempt(role)) and is_waiting(attempt):
            holds, begun = holding(attempt, pods_by_rank(draft.snapshot.pods, attempt).values())
            if (holds, begun) != (attempt.holds, attempt.held_since):
                found[role] = attempt.model_copy(update={"holds": holds, "held_since": begun})
    return found


def _text(draft: Draft, s: Situation) -> str | None:
    current = draft.status.current
    if current is None or current.nodes == 1 or draft.status.is_over:
        return None
    if current.state is AttemptState.INTENDED:  # it may hold pods, such as when a quota refuses the others
        pods = pods_by_rank(draft.snapshot.pods, current).values()
        return f"{sum(bool(pod.node and pod.calm) for pod in pods)}/{current.nodes}"
    return f"{_count(current.state, current.number, s)}/{current.nodes}"


def _count(state: AttemptState, number: int, s: Situation) -> int:
    """Pods that have a node; while the programs are about to start, pods whose launchers are ready."""
    if state is AttemptState.STARTING:
        return sum(is_ready(member, number, s.now) for member in s.members)
    if state in (AttemptState.RUNNING, AttemptState.DRAINING):
        return sum(member.goes_on for member in s.members)
    return sum(member.sight in _PLACED for member in s.members)
