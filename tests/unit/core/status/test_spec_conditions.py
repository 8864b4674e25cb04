"""SettingsPending: which fields count from the next attempt on, and until when that is said."""

import pytest
from tests.support.decisions.snapshots import (
    SAME,
    at,
    attempt,
    ended,
    job,
    pod,
    settled,
    snapshot,
    spec,
    status,
    stepped,
)

from holdfast.api.attempt import AttemptState
from holdfast.core.made_from import made_from

FENCED = attempt(fenced=True, first_step=500)
STORAGE = spec()["checkpoint"]["storage"]
EDITED = {
    "checkpoint": {"storage": STORAGE, "every": "1h", "keep": {"last": 9}},
    "failure": {"stallTimeout": "20m", "maxFailures": 7},
}


def pending(found):
    """The message of the condition, None if there is none."""
    return next((one.message for one in found.conditions if one.type == "SettingsPending"), None)


def edited_while_it_trains():
    """The decision about a job whose spec was edited while its attempt trains."""
    runs = FENCED.model_copy(update={"made_from": made_from(job().spec)})
    return settled(snapshot(job(status(runs, fenced_program=SAME), **EDITED), pod(), reports=[stepped()]))


def test_the_fields_that_count_from_the_next_attempt_on_are_named_once():
    decision = edited_while_it_trains()
    assert pending(decision.status).startswith(
        "spec.checkpoint.every, spec.checkpoint.keep, spec.failure.stallTimeout: attempt 1 goes on with the values"
    )
    assert [event.reason for event in decision.events] == ["SettingsPending"]
    again = settled(snapshot(job(decision.status, **EDITED), pod(), reports=[stepped()]))
    assert again.events == ()


@pytest.mark.parametrize(("fenced", "is_pending"), [(False, True), (True, False)])
def test_a_goal_is_pending_while_nothing_of_the_program_is_saved(fenced, is_pending):
    """Breaks if nobody is told that a program that cannot save goes on with the goal that it has."""
    runs = attempt(fenced=fenced, first_step=500, made_from=made_from(job().spec))
    found = settled(snapshot(job(status(runs), goal={"steps": 7}), pod())).status
    assert (pending(found) is not None) is is_pending
    assert is_pending is ("spec.goal.steps: attempt 1 goes on" in (pending(found) or ""))


def test_nothing_is_pending_once_the_edit_is_taken_back():
    found = edited_while_it_trains().status
    assert pending(settled(snapshot(job(found), pod(), reports=[stepped()])).status) is None


def test_the_next_attempt_takes_them():
    lost = settled(snapshot(job(edited_while_it_trains().status, **EDITED), ended(1, 1), now=at(1))).status
    assert (lost.current.number, pending(lost)) == (2, None)
    if lost.current.state is AttemptState.INTENDED:
        lost = settled(snapshot(job(lost, **EDITED), ended(1, 1), now=at(900))).status
    assert lost.current.made_from == made_from(job(**EDITED).spec)
