"""The decision: pure, level-triggered, and total. Everything Holdfast does to a job starts here."""

from holdfast.core.decision import Decision
from holdfast.core.draft import Draft, Role
from holdfast.core.errors import UndecidedError
from holdfast.core.observe.situation import Sight
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.status.progress import take_progress
from holdfast.core.status.wrap_up import wrap_up
from holdfast.core.table import candidates
from holdfast.core.turn import take_turn

_NOTHING = frozenset((Sight.NOTHING,))
ROW_LIMIT = 24  # far above the longest chain of rows; reaching it is a bug in the table


def decide(snapshot: Snapshot) -> Decision:
    """What to do about one job now.

    A decision depends on what is seen, never on which event arrived: deciding again from the state that a decision
    leads to changes nothing. Raises UndecidedError, which names the rows, if rows of the table fire without end.
    """
    draft = Draft(snapshot)
    job = snapshot.job
    alive = job.metadata.deletion_timestamp is None and not job.status.is_over
    if alive:
        _settle(draft)
    if draft.created and draft.status is job.status:  # a new job's first pod, which waits for no status
        return draft.finish()
    if alive:
        before = draft.status
        take_progress(draft, draft.situation())
        if draft.status is not before:  # policies depend on how far the work has come
            _settle(draft)
    wrap_up(draft, draft.situation())
    return draft.finish()


def _settle(draft: Draft) -> None:
    """Fire rows of the table until none fits."""
    for _ in range(ROW_LIMIT):
        if draft.status.is_over:
            return
        if not (_fire(draft, Role.CURRENT) or _fire(draft, Role.SUCCESSOR)):
            return
    raise UndecidedError(draft.trace)


def _fire(draft: Draft, role: Role) -> bool:
    """Fire the first row that fits the job and its current attempt, or the successor; False if no row fits."""
    turn = take_turn(draft, role)
    if turn is None and role is Role.SUCCESSOR:
        return False
    state, sights = (turn.attempt.state, turn.situation.sights) if turn else (None, _NOTHING)
    for row in candidates(state, sights, successor=role is Role.SUCCESSOR):
        subject = draft if row.about_job else turn
        found = row.when(subject)
        if found is None or found is False:
            continue
        draft.trace.append(row.name)
        row.do(subject) if found is True else row.do(subject, found)
        return True
    return False
