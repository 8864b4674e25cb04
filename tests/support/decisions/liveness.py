"""What every job that is not over must have after a decision: a time to look again, a reason, and a next action."""

from datetime import timedelta

from holdfast.api.attempt import AttemptState
from holdfast.core.decision import Decision
from holdfast.core.observe.look import look
from holdfast.core.observe.situation import Sight
from holdfast.core.observe.snapshot import Snapshot

LATEST = timedelta(hours=1)
NEVER_ENDS = timedelta(hours=2)  # longer than every grace, notice and margin in the snapshots


def check_alive(given: Snapshot, decision: Decision) -> None:
    """Raises AssertionError if the job could be stuck without a word."""
    job, status = given.job, decision.status
    if job.metadata.deletion_timestamp or (status.phase and status.phase.final):
        return
    if decision.trace == ("first pod",):
        assert decision.actions, "a new job whose pod is not created"
        return
    assert decision.requeue_at is not None, "no event may ever come"
    assert decision.requeue_at <= given.now + LATEST
    assert status.reason or (status.decision and status.decision.message), "nothing says why it is in its phase"
    assert status.next
    assert status.next.endswith("."), status.next
    _check_waits_are_explained(given, decision)


def _check_waits_are_explained(given: Snapshot, decision: Decision) -> None:
    """A wait that only the outside world can end names what ends it."""
    status, current = decision.status, decision.status.current
    if current is None or current.state is not AttemptState.DRAINING or current.drain is None or given.namespace_closed:
        return
    seen = look(given, current)
    deleted = current.drain.kill_at or (seen.pod.deleted_at if seen.pod else None)
    if deleted is None or given.now < max(deleted, current.drain.deadline) + NEVER_ENDS:
        return
    said = status.next or ""
    if seen.sight in (Sight.PLACED, Sight.RUNNING):
        assert status.reason == "NeverEnded"
        assert "delete the pod by force" in said
    elif seen.sight is Sight.SILENT:
        assert "node" in said
        assert "force" in said or "out-of-service" in said or "is kept for" in said, said
