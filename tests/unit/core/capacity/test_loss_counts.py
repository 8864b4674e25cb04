"""Counting the losses of all jobs of a profile."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import NOW, at, attempt, drain, status, tier
from tests.support.decisions.tier_views import SECOND, known

from holdfast.api.attempt import AttemptState
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import loss_counts
from holdfast.core.capacity.loss_counts import LONG, MEMORY, Tally

HOUR = timedelta(hours=1)
LOSSES = st.integers(0, MEMORY - 1)
HAD = st.integers(0, 10**8).map(lambda seconds: seconds * SECOND)
LEVELS = st.dictionaries(st.sampled_from(("spot", "cpu")), st.builds(Tally, LOSSES, HAD))


def test_what_a_job_has_counted() -> None:
    follower = attempt(2, AttemptState.STARTING, tier=tier("dedicated"), scheduled_at=at(-60))
    waits = attempt(3, AttemptState.ACQUIRING)
    job = status(attempt(), successor=follower, tiers=(known(losses=2, had=HOUR), known("cpu"), known("x", losses=1)))
    assert loss_counts.of_job(job, NOW) == {
        "spot": Tally(2, HOUR + 590 * SECOND),
        "dedicated": Tally(0, 60 * SECOND),
        "x": Tally(1),
    }
    assert loss_counts.of_job(status(waits), NOW) == {}
    assert loss_counts.of_job(status(attempt(scheduled_at=at(9))), NOW) == {"spot": Tally()}  # another clock


def test_that_a_node_will_go_does_not_take_back_the_time_it_was_had() -> None:
    leaves = attempt(state=AttemptState.DRAINING, drain=drain())
    assert loss_counts.of_job(status(leaves), NOW) == loss_counts.of_job(status(attempt()), NOW)


@pytest.mark.parametrize(
    ("before", "level", "now", "total"),
    [
        (None, None, Tally(3, 2 * HOUR), Tally(3, 2 * HOUR)),  # nothing was written yet
        (Tally(9, 9 * HOUR), Tally(2, HOUR), Tally(2, HOUR), Tally(9, 9 * HOUR)),
        (Tally(9, 9 * HOUR), Tally(2, HOUR), Tally(3, 3 * HOUR), Tally(10, 11 * HOUR)),
        (Tally(9, 9 * HOUR), Tally(2, HOUR), None, Tally(9, 9 * HOUR)),  # the jobs are gone
        (Tally(9, 9 * HOUR), Tally(2, HOUR), Tally(1, 2 * HOUR), Tally(9, 10 * HOUR)),
        (Tally(9, 9 * HOUR), None, Tally(1, HOUR), Tally(10, 10 * HOUR)),
    ],
)
def test_an_operator_takes_over(before: Tally | None, level: Tally | None, now: Tally | None, total: Tally) -> None:
    written = CapacityProfileStatus(
        tiers=(known(losses=before.losses, had=before.had),) if before else (),
        counted=loss_counts.written({"spot": level} if level else {}, ("spot",)),
    )
    assert loss_counts.taken_over(written, {"spot": now} if now else {}) == {"spot": total}


def test_the_level_is_written_for_tiers_that_are_there() -> None:
    level = {"spot": Tally(3, timedelta(days=400_000, microseconds=3600)), "cpu": Tally(), "gone": Tally(1)}
    assert loss_counts.written(level, ("cpu", "spot")) == (
        Counted(tier="spot", losses=3, hours=Decimal("9600000.000001")),
    )


@given(LEVELS, LEVELS)
def test_a_restart_while_nothing_happens_changes_nothing(totals: dict[str, Tally], level: dict[str, Tally]) -> None:
    tiers = ("spot", "cpu")
    known_tiers = tuple(known(name, losses=one.losses, had=one.had) for name, one in totals.items())
    stored = CapacityProfileStatus(tiers=known_tiers, counted=loss_counts.written(level, tiers)).to_object()
    after = loss_counts.taken_over(CapacityProfileStatus.model_validate(stored), level)
    for name in tiers:
        before, now = totals.get(name, Tally()), after.get(name, Tally())
        if name in totals or name not in level:
            assert now.losses == before.losses
            assert abs(now.had - before.had) < SECOND / 100


@pytest.mark.parametrize(
    ("given_tally", "kept"),
    [
        (Tally(MEMORY - 1, HOUR), Tally(MEMORY - 1, HOUR)),
        (Tally(MEMORY, 2 * HOUR), Tally(MEMORY // 2, HOUR)),
        (Tally(3 * MEMORY, 8 * HOUR), Tally(3 * MEMORY // 4, 2 * HOUR)),
        (Tally(1, LONG * 2), Tally(0, LONG)),
        (Tally(-1, -HOUR), Tally()),
    ],
)
def test_what_is_long_past_counts_less(given_tally: Tally, kept: Tally) -> None:
    assert loss_counts.faded(given_tally) == kept
