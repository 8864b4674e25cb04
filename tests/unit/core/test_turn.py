"""A turn: it has the attempt as the draft has it, and is due or wakes the decision."""

from tests.support.decisions.snapshots import at, attempt, job, pod, snapshot, status

from holdfast.api.attempt import AttemptState, EndKind
from holdfast.core.draft import Draft, Role
from holdfast.core.turn import take_turn


def draft_of(**changes):
    return Draft(snapshot(job(status(attempt(), **changes)), pod()))


def test_a_change_is_seen_in_the_turn_and_in_the_draft():
    draft = draft_of()
    turn = take_turn(draft)
    turn.set_attempt(fenced=True)
    assert turn.attempt.fenced
    assert turn.attempt is draft.status.current
    turn.drain("MoveRequested", "a move was requested", at(9), EndKind.STOPPED)
    assert draft.status.current.state is AttemptState.DRAINING
    assert draft.status.current.drain.order == draft.status.requests.orders


def test_the_last_attempt_is_known_after_it_was_removed():
    draft = draft_of()
    turn = take_turn(draft)
    turn.replace_attempt(None)
    assert draft.status.current is None
    assert turn.attempt.number == 1
    assert take_turn(draft) is None


def test_the_successor_has_a_turn_of_its_own():
    assert take_turn(draft_of(), Role.SUCCESSOR) is None
    draft = draft_of(successor=attempt(2, AttemptState.INTENDED))
    turn = take_turn(draft, Role.SUCCESSOR)
    assert (turn.attempt.number, turn.pod) == (2, None)
    turn.set_attempt(retry_at=at(5))
    assert draft.status.successor.retry_at == at(5)
    assert draft.status.current.retry_at is None


def test_a_time_to_come_wakes_the_decision():
    draft = draft_of()
    assert draft.is_due(at(0))
    assert draft.finish().requeue_at is None
    assert not draft.is_due(at(9))
    assert not draft.is_due(at(5))
    assert draft.finish().requeue_at == at(5)
