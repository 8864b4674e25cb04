"""From a job's status to the view that rules are asked with."""

from datetime import timedelta
from math import inf
from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.outlooks import PRICED, ahead, tier_view, view
from tests.support.decisions.snapshots import TIERS, at, attempt, drain, job, profile, snapshot, status, stopped, tier
from tests.support.decisions.tier_views import SECOND, known, measured, seen, training

from holdfast.api.attempt import AttemptState, Departure
from holdfast.api.profile import CapacityProfileStatus
from holdfast.api.status import CheckpointStatus, Progress
from holdfast.core.capacity.choose import choose
from holdfast.core.made_from import made_from
from holdfast.core.observe.nodes import ClusterView

HOUR = 3600.0


def saved(step):
    return CheckpointStatus(step=step, uri="s3://runs/x", committed_at=at(-60))


# Work, time, place


def test_work_is_what_is_left_at_the_pace_that_was_measured():
    found = ahead(status(training()), deadline="2026-11-22T09:00:00Z")
    assert found.missing is None
    assert (found.view.work, found.view.left, found.view.tier) == (99_100, 24 * HOUR, "spot")
    assert (found.view.changing, found.view.step, found.view.returns) == (0, 60, "Slack")


def test_after_an_interruption_work_is_left_from_the_checkpoint_on():
    after = status(attempt(2, AttemptState.STARTING), checkpoint=saved(800), tiers=(known(pace=SECOND),))
    assert view(after).work == 99_200
    assert view(after.model_copy(update={"checkpoint": None, "progress": Progress(step=850)})).work == 99_150


def test_a_checkpoint_without_a_step_does_not_say_how_much_is_left():
    after = status(attempt(2, AttemptState.STARTING), checkpoint=saved(None), tiers=(known(pace=SECOND),))
    assert view(after.model_copy(update={"progress": Progress(step=850)})).work == 99_150
    assert view(status(training(), checkpoint=saved(None))).at_risk == view(status(training())).at_risk


def test_a_checkpoint_may_be_newer_than_what_was_said():
    assert view(status(training(), checkpoint=saved(950))).work == 99_050


# Breaks if a training that goes on with the goal that it has counts as done, or as far from it, by the goal that waits.
@pytest.mark.parametrize("says", [20, 10_000_000, None])
def test_a_goal_that_waits_for_the_next_attempt_is_not_the_work_that_is_left(says):
    runs = training(made_from=made_from(job(goal={"steps": 100_000}).spec))
    assert view(status(runs, progress=Progress(step=900, steps=100_000)), goal=says).work == 99_100
    assert view(status(runs, progress=Progress(step=900)), goal=2_000).work == 1_100  # nothing has told its own
    before = Progress(step=900, steps=100_000)
    later = status(attempt(2, AttemptState.INTENDED), progress=before, tiers=(known(pace=SECOND),))
    assert view(later, goal=2_000).work == 1_100


# Breaks if an edit of acceleratorsPerNode makes a tier count as up because it gave nodes to smaller pods.
@pytest.mark.parametrize(("accelerators", "available"), [(1, True), (0, None)])
def test_a_tier_is_up_for_pods_of_the_size_that_it_gave_nodes_to(accelerators, available):
    before = status(tiers=(known(**seen("Up", -900, -10), accelerators=accelerators),))
    assert tier_view("spot", before).available is available


# Breaks if what pods with four accelerators saw of a tier that has four a node counts as seen by pods of another size.
@pytest.mark.parametrize(("seen_by", "available"), [(4, True), (1, None)])
def test_a_tier_with_its_own_number_of_accelerators_is_known_by_that_number(seen_by, available):
    before = status(tiers=(known(**seen("Up", -900, -10), accelerators=seen_by),))
    four = [{**one, "acceleratorsPerNode": 4} if one["name"] == "spot" else one for one in TIERS]
    seen_now = snapshot(job(before, capacity={"tiers": four}), cluster=ClusterView())
    found = choose(seen_now, before, seen_now.grid)
    assert next(one for one in found.outlook.view.tiers if one.name == "spot").available is available


def test_the_users_wish_is_passed_on():
    assert view(status(), returnPolicy="Never").returns == "Never"


def test_work_that_is_done():
    assert view(status(training()), goal=900).work == 0
    assert view(status(training()), goal=800).work == 0


# Breaks if a job that is lost after its last step, and before it could say so, waits for Spot as if nothing pressed.
def test_work_that_is_done_and_lost_has_to_be_ended_somewhere():
    lost = status(attempt(2, AttemptState.ACQUIRING), checkpoint=saved(900), tiers=(known(pace=SECOND),))
    assert view(lost, goal=900).work == 1


def test_the_goal_may_come_from_the_trainer():
    told = status(training(), progress=Progress(step=900, steps=1900))
    assert view(told, goal=None).work == 1000
    assert view(told, goal=2900).work == 2000


@pytest.mark.parametrize(
    ("given_status", "goal", "reason"),
    [
        (status(training()), None, "GoalMissing"),
        (status(attempt()), 1000, "PaceUnknown"),
        (status(), 1000, "PaceUnknown"),
        (status(tiers=(known("gone", pace=SECOND),)), 1000, "PaceUnknown"),  # of a tier that left the grid
    ],
)
def test_what_is_missing_is_said(given_status, goal, reason):
    found = ahead(given_status, goal=goal)
    assert found.missing.reason == reason
    assert found.view.work == inf
    assert found.view.left == inf


def test_a_deadline_that_is_over():
    assert view(status(training()), deadline="2026-11-21T08:00:00Z").left == -HOUR


DEPARTS = Departure(reason="SpotInterruption", at=at(-10), deadline=at(90), leave_at=at(80))


@pytest.mark.parametrize(
    ("current", "tier_name"),
    [
        (training(), "spot"),
        (attempt(state=AttemptState.STARTING), "spot"),
        (attempt(state=AttemptState.ACQUIRING), None),
        (attempt(state=AttemptState.INTENDED), None),
        (training(state=AttemptState.DRAINING, drain=drain()), None),  # its node will go
        (training(state=AttemptState.DRAINING, drain=stopped()), None),  # it leaves
        (training(departure=DEPARTS), None),
        (None, None),
    ],
)
def test_where_the_job_is(current, tier_name):
    assert view(status(current)).tier == tier_name


def test_the_way_to_the_first_step():
    begun = attempt(state=AttemptState.STARTING, scheduled_at=at(-40))
    several = (known(start=measured(100, 100, 100, 100, 200)),)
    assert view(status(begun, tiers=several)).changing == 160
    late = attempt(state=AttemptState.RUNNING, scheduled_at=at(-210))
    assert view(status(late, tiers=several)).changing == 10  # overdue: it may take as long again
    later = attempt(state=AttemptState.RUNNING, scheduled_at=at(-900))
    assert view(status(later, tiers=several)).changing == 50
    assert view(status(training(), tiers=several)).changing == 0


# What an interruption can cost


@pytest.mark.parametrize(
    ("checkpoint", "at_risk"),
    [
        ({"every": "10m"}, 790),  # with the grace in which it is committed, and 90 s until the interruption is noticed
        ({"every": "50 steps"}, 240),
        ({"every": "auto"}, 3600 + 100 + 90),
        ({"every": "auto", "gracePeriod": "10m"}, 20 * 600 + 600 + 90),  # if a save takes that long, they are rarer
        ({"every": "auto", "maxLostWork": "15m"}, 900 + 90),  # which has the save in it
        ({"every": "auto", "maxLostWork": "150s"}, 2 * 100 + 90),  # not to be kept if a save takes as long as it may
        ({"every": "10m", "maxLostWork": "10m"}, 600 + 90),
        ({"every": "10m", "maxLostWork": "1h"}, 790),
        ({"every": "50 steps", "maxLostWork": "1h"}, 240),
        ({"every": "5000 steps", "maxLostWork": "1h"}, 3600 + 90),
    ],
)
def test_what_an_interruption_can_cost(checkpoint, at_risk):
    assert view(status(training(), checkpoint=saved(880)), checkpoint=checkpoint).at_risk == at_risk


def test_saves_that_fail_put_more_at_risk():
    given_status = status(training(), checkpoint=saved(100))
    assert view(given_status, checkpoint={"every": "50 steps"}).at_risk == 401 + 90  # since it resumed
    older = status(training(first_step=2, progress_at=at(-898)), checkpoint=saved(100))
    assert view(older, checkpoint={"every": "50 steps"}).at_risk == 800 + 90
    nowhere = status(tiers=(known(pace=SECOND),), progress=Progress(step=900))
    assert view(nowhere, checkpoint={"every": "50 steps"}).at_risk == 240


def test_in_the_same_time_a_faster_tier_puts_more_at_risk():
    paces = (known(pace=SECOND), known("dedicated", pace=2 * SECOND))
    assert view(status(tiers=paces), checkpoint={"every": "10m"}).at_risk == 2 * 790


# Speeds


@pytest.mark.parametrize(
    ("paces", "speeds", "work"),
    [
        ({"spot": 1}, (1, 1, 0.02), 100_000),
        ({"spot": 2, "dedicated": 1}, (0.5, 1, 0.02), 100_000),
        ({"dedicated": 4, "cpu": 100}, (1, 1, 0.04), 400_000),
        ({"cpu": 50}, (10, 10, 1), 5_000_000),  # accelerators that were never used are taken to be faster
        ({"cpu": 50, "spot": 1}, (1, 1, 0.02), 100_000),
    ],
)
def test_speeds(paces, speeds, work):
    found = view(status(tiers=tuple(known(name, pace=pace * SECOND) for name, pace in paces.items())))
    assert tuple(one.speed for one in found.tiers) == pytest.approx(speeds)
    assert found.work == work


def test_a_stated_pace_counts_until_the_job_has_measured_one():
    stated = [{**TIERS[0], "pace": "2s"}, {**TIERS[1], "pace": "1s"}, TIERS[2]]
    before = status(tiers=(known("spot", pace=3 * SECOND),))
    assert [one.speed for one in view(before, tiers=stated).tiers] == [1.0, 2.0, 0.02]
    assert [one.speed_assumed for one in view(before, tiers=stated).tiers] == [False, False, True]
    after = status(tiers=(known("spot", pace=3 * SECOND), known("dedicated", pace=3 * SECOND)))
    assert [one.speed for one in view(after, tiers=stated).tiers] == [1.0, 1.0, 0.02]
    first = ahead(status(), tiers=stated)
    assert (first.missing, first.work.reference, first.view.work) == (None, "dedicated", 100_000)


def test_two_tiers_without_accelerators_are_alike():
    two = (*TIERS, {**TIERS[2], "name": "cpu-2"})
    assert tier_view("cpu-2", status(tiers=(known("cpu", pace=SECOND),)), tiers=two).speed == 1


def test_the_pace_of_the_attempt_that_runs_is_the_newest():
    assert view(status(training(), tiers=(known(pace=9 * SECOND),))).work == 99_100


# Anything

SPELLS = st.builds(seen, st.sampled_from(("Up", "TookBack", "Refused")), st.integers(-9000, 0), st.integers(-900, 600))
MEASURED = st.none() | st.lists(st.integers(0, 9000), min_size=1, max_size=5).map(lambda times: measured(*times))
STATES = st.sampled_from(AttemptState)


@st.composite
def statuses(draw):
    tiers = tuple(
        known(
            name,
            acquire=draw(MEASURED),
            start=draw(MEASURED),
            pace=draw(st.none() | st.integers(1, 10**7).map(lambda micro: timedelta(microseconds=micro))),
            interruptions=draw(st.integers(0, 99)),
            **draw(SPELLS),
        )
        for name in draw(st.lists(st.sampled_from(PRICED), unique=True))
    )
    one = training(
        state=draw(STATES), tier=tier(draw(st.sampled_from(PRICED))), drain=draw(st.none() | st.just(drain()))
    )
    return status(draw(st.none() | st.just(one)), tiers=tiers)


@given(statuses(), st.sampled_from(("Ordered", "Cheapest", "Deadline")), st.sampled_from(("Never", "Eager", "Slack")))
def test_any_status_gets_an_answer_and_always_the_same(given_status, policy, returns):
    capacity = {"tiers": list(TIERS), "policy": policy, "returnPolicy": returns, "deadline": "2026-11-22T09:00:00Z"}
    made = snapshot(job(given_status, capacity=capacity, goal={"steps": 50_000}))
    answer = choose(made, given_status, made.grid)
    assert answer == choose(made, given_status, made.grid)
    assert answer.choice.tier in {None, *PRICED}
    assert answer.probe in {None, *PRICED} - {answer.choice.tier}
    assert answer.choice.reason
    assert "nan" not in answer.choice.reason
    assert 1 <= answer.choice.again_within <= HOUR


def test_it_takes_microseconds():
    """The best of many short runs; for four tiers of which all is known, about 100 us is usual."""
    names = [*PRICED, "spot-2"]
    full = [
        known(
            name,
            acquire=measured(1, 2, 3, 4, 5),
            start=measured(1, 2, 3, 4, 5),
            pace=SECOND,
            node_time=timedelta(hours=9),
            **seen("Up", -500, -100),
        )
        for name in names
    ]
    tiers = [*TIERS, {**TIERS[0], "name": "spot-2"}]
    capacity = {"profile": "grid", "policy": "Deadline", "deadline": "2026-11-22T09:00:00Z"}
    given_status = status(training(), tiers=tuple(full))
    shared = profile(*tiers).model_copy(update={"status": CapacityProfileStatus(tiers=tuple(full))})
    made = snapshot(job(given_status, capacity=capacity, goal={"steps": 50_000}), profile=shared)
    found = made.grid
    assert min(repeat(lambda: choose(made, given_status, found), number=20, repeat=50)) / 20 < 400e-6
