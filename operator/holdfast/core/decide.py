"""The decision: pure, level-triggered, and total. Everything Holdfast does to a job starts here."""

from holdfast.core.decision import Decision
from holdfast.core.draft import Draft, Role
from holdfast.core.errors import UndecidedError
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.status.progress import take_progress
from holdfast.core.status.wrap_up import wrap_up
from holdfast.core.table import candidates

ROW_LIMIT = 24  # far above the longest chain of rows; reaching it is a bug in the table


def decide(snapshot: Snapshot) -> Decision:
    """What to do about one job now.

    A decision depends on what is, never on which event arrived: deciding again from the state that a decision leads to
    changes nothing. Raises UndecidedError if the table does not come to rest, which names the rows.
    """
    draft = Draft(snapshot)
    job = snapshot.job
    phase = job.status.phase
    alive = job.metadata.deletion_timestamp is None and not (phase and phase.final)
    if alive:
        _settle(draft)
    if draft.created and draft.status is job.status:  # a new job's first pod, which waits for no status
        return draft.finish()
    if alive:
        before = draft.status
        take_progress(draft, draft.look())
        if draft.status is not before:  # how far the work has come is what policies go by
            _settle(draft)
    wrap_up(draft, draft.look())
    return draft.finish()


def _settle(draft: Draft) -> None:
    """Fire rows of the table until none fits."""
    for _ in range(ROW_LIMIT):
        if draft.status.phase and draft.status.phase.final:
            return
        if not (_fire(draft, Role.CURRENT) or _fire(draft, Role.SUCCESSOR)):
            return
    raise UndecidedError(draft.trace)


def _fire(draft: Draft, role: Role) -> bool:
    """Fire the first row that fits the job's current attempt, or its successor; False if none does."""
    successor = role is Role.SUCCESSOR
    if successor and draft.status.successor is None:
        return False
    situation = draft.look(role)
    draft.role = role
    for row in candidates(situation.state, situation.sight, successor=successor):
        if row.when(draft, situation):
            draft.trace.append(row.name)
            row.do(draft, situation)
            draft.role = Role.CURRENT
            return True
    draft.role = Role.CURRENT
    return False
