"""Times that an earlier leader wrote by a clock that was an hour ahead: every one of them is pulled back, once."""

from datetime import timedelta

import pytest
from tests.support.decisions.snapshots import at, attempt, decide, drain, job, pod, snapshot, status, stepped, stored

from holdfast.api.attempt import Attempt, AttemptState, Departure, Drain
from holdfast.api.model import Model
from holdfast.api.status import DecisionNote, Progress, TrainingJobStatus
from holdfast.core.attempt import clock_ahead
from holdfast.core.attempt.clock_ahead import clock_difference, pull_back
from holdfast.core.draft import Draft

HOUR = 3600.0


def draft(given):
    return Draft(snapshot(job(given), pod()))


def pulled(given):
    made = draft(given)
    ahead = clock_difference(made)
    assert ahead is not None
    pull_back(made, ahead)
    assert clock_difference(made) is None, "otherwise the row would fire again and again"
    return made.status


PAST = [
    *({"current": attempt(**{name: at(HOUR)})} for name in clock_ahead._ATTEMPT.past),
    {"successor": attempt(2, AttemptState.INTENDED, raised_at=at(HOUR))},
    {"current": attempt(state=AttemptState.DRAINING, drain=drain(at=at(HOUR)))},
    {"current": attempt(state=AttemptState.DRAINING, drain=drain(deleted_at=at(HOUR), kill_at=at(HOUR + 30)))},
    {"current": attempt(state=AttemptState.DRAINING, drain=drain(acknowledged_at=at(HOUR)))},
    {"current": attempt(departure=Departure(reason="R", at=at(HOUR), deadline=at(HOUR), leave_at=at(HOUR)))},
    {"started_at": at(HOUR)},
    {"suspended_at": at(HOUR)},
    {"failed_at": (at(-9), at(HOUR))},
    {"progress": Progress(updated_at=at(HOUR))},
    {"decision": DecisionNote(action="Wait", message="r", at=at(HOUR))},
    {"tiers": ({"tier": "spot", "since": at(HOUR), "seen_at": at(HOUR)},)},
]


@pytest.mark.parametrize("fields", PAST, ids=lambda fields: next(iter(fields)))
def test_no_time_of_the_past_stays_in_the_future(fields):
    found = pulled(status(**{"current": attempt(), **fields}))
    assert "2026-11-21T10" not in found.model_dump_json()


def test_deadlines_move_by_as_much_as_the_clock_was_ahead():
    given = attempt(state=AttemptState.DRAINING, drain=drain(at=at(HOUR), deadline=at(HOUR + 98)))
    found = pulled(status(given)).current.drain
    assert (found.at, found.deadline) == (at(0), at(98))


def test_an_order_by_a_clock_that_was_right_keeps_its_deadline():
    given = attempt(state=AttemptState.DRAINING, started_at=at(HOUR), drain=drain())
    assert pulled(status(given)).current.drain == drain()


def test_progress_is_written_although_the_last_write_was_by_a_clock_ahead():
    given = status(attempt(fenced=True, first_step=1), progress=Progress(step=1, updated_at=at(HOUR)))
    found = decide(snapshot(job(given), pod()))
    assert found.status.progress.updated_at == at(0)


def test_clocks_of_servers_differ():
    assert clock_difference(draft(status(attempt(), started_at=at(5)))) is None
    assert clock_difference(draft(status(attempt(), started_at=at(5.1)))) == timedelta(seconds=5.1)


# Fields that are handled where they start a delay.
ELSEWHERE = {TrainingJobStatus: {"finished_at", "failed_at"}}


@pytest.mark.parametrize(
    ("model", "known"),
    [(TrainingJobStatus, clock_ahead._JOB), (Attempt, clock_ahead._ATTEMPT), (Drain, clock_ahead._DRAIN),
     (Departure, clock_ahead._DEPARTURE)],
)  # fmt: skip
def test_every_time_is_named(model: type[Model], known: clock_ahead._Times):
    times = {name for name, field in model.model_fields.items() if "datetime.datetime" in repr(field.annotation)}
    assert times == {*known.past, *known.deadlines, *ELSEWHERE.get(model, ())}


def test_the_second_decision_has_nothing_to_do():
    given = snapshot(job(status(attempt(created_at=at(HOUR)))), pod())
    first = decide(given)
    assert first.trace == ("clock ahead",)
    again = Draft(snapshot(stored(given.job, first.status), pod()))
    assert clock_difference(again) is None


def test_a_clock_that_was_set_back_while_reports_arrive_causes_one_correction():
    """Otherwise each decision would write the times of the report again, and the next one would pull them back."""
    told = stepped(received_at=at(HOUR), step_at=at(HOUR))
    current = attempt(fenced=True, first_step=1, last_step_at=at(HOUR))
    given = snapshot(job(status(current, progress=Progress(updated_at=at(HOUR)))), pod(), reports=[told])
    first = decide(given)
    again = decide(snapshot(stored(given.job, first.status), pod(), reports=[told]))
    assert (first.trace, again.trace) == (("clock ahead",), ())
    assert again.status == stored(given.job, first.status).status
