"""Counting the losses of all jobs of a profile."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import NOW, at, attempt, drain, status, tier
from tests.support.decisions.tier_views import SECOND, known

from holdfast.api.attempt import AttemptState, PodRecord
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import loss_counts
from holdfast.core.capacity.loss_counts import LONG, MEMORY, LossCount

HOUR = timedelta(hours=1)
LOSSES = st.integers(0, MEMORY - 1)
HAD = st.integers(0, 10**8).map(lambda seconds: seconds * SECOND)
LEVELS = st.dictionaries(st.sampled_from(("spot", "cpu")), st.builds(LossCount, LOSSES, HAD))


def test_what_a_job_has_counted() -> None:
    follower = attempt(2, AttemptState.STARTING, tier=tier("dedicated"), scheduled_at=at(-60))
    waits = attempt(3, AttemptState.ACQUIRING)
    job = status(
        attempt(), successor=follower, tiers=(known(losses=2, node_time=HOUR), known("cpu"), known("x", losses=1))
    )
    assert loss_counts.of_job(job, NOW) == {
        "spot": LossCount(2, HOUR + 590 * SECOND),
        "dedicated": LossCount(0, 60 * SECOND),
        "x": LossCount(1),
    }
    assert loss_counts.of_job(status(waits), NOW) == {}
    assert loss_counts.of_job(status(attempt(scheduled_at=at(9))), NOW) == {"spot": LossCount()}  # another clock


def test_time_on_a_node_that_the_cluster_did_not_give_does_not_count() -> None:
    named = attempt(pods=(PodRecord(uid="u-1", node="n1", node_uid="u-n1"),))
    counted = status(named, tiers=(known(losses=2, node_time=HOUR),))
    assert loss_counts.of_job(counted, NOW) == {"spot": LossCount(2, HOUR)}


def test_a_notice_does_not_reduce_the_node_time() -> None:
    leaves = attempt(state=AttemptState.DRAINING, drain=drain())
    assert loss_counts.of_job(status(leaves), NOW) == loss_counts.of_job(status(attempt()), NOW)


@pytest.mark.parametrize(
    ("before", "level", "now", "total"),
    [
        (None, None, LossCount(3, 2 * HOUR), LossCount(3, 2 * HOUR)),  # nothing was written yet
        (LossCount(9, 9 * HOUR), LossCount(2, HOUR), LossCount(2, HOUR), LossCount(9, 9 * HOUR)),
        (LossCount(9, 9 * HOUR), LossCount(2, HOUR), LossCount(3, 3 * HOUR), LossCount(10, 11 * HOUR)),
        (LossCount(9, 9 * HOUR), LossCount(2, HOUR), None, LossCount(9, 9 * HOUR)),  # the jobs are gone
        (LossCount(9, 9 * HOUR), LossCount(2, HOUR), LossCount(1, 2 * HOUR), LossCount(9, 10 * HOUR)),
        (LossCount(9, 9 * HOUR), None, LossCount(1, HOUR), LossCount(10, 10 * HOUR)),
    ],
)
def test_a_new_operator_adds_the_rise_of_the_level(
    before: LossCount | None, level: LossCount | None, now: LossCount | None, total: LossCount
) -> None:
    written = CapacityProfileStatus(
        tiers=(known(losses=before.losses, node_time=before.node_time),) if before else (),
        counted=loss_counts.stored_level({"spot": level} if level else {}, ("spot",)),
    )
    assert loss_counts.take_over(written, {"spot": now} if now else {}) == {"spot": total}


def test_the_level_is_written_for_present_tiers_only() -> None:
    level = {"spot": LossCount(3, timedelta(days=400_000, microseconds=3600)), "cpu": LossCount(), "gone": LossCount(1)}
    assert loss_counts.stored_level(level, ("cpu", "spot")) == (
        Counted(tier="spot", losses=3, hours=Decimal("9600000.000001")),
    )


@given(LEVELS, LEVELS)
def test_a_restart_while_nothing_happens_changes_nothing(
    totals: dict[str, LossCount], level: dict[str, LossCount]
) -> None:
    tiers = ("spot", "cpu")
    known_tiers = tuple(known(name, losses=one.losses, node_time=one.node_time) for name, one in totals.items())
    stored = CapacityProfileStatus(tiers=known_tiers, counted=loss_counts.stored_level(level, tiers)).to_object()
    after = loss_counts.take_over(CapacityProfileStatus.model_validate(stored), level)
    for name in tiers:
        before, now = totals.get(name, LossCount()), after.get(name, LossCount())
        if name in totals or name not in level:
            assert now.losses == before.losses
            assert abs(now.node_time - before.node_time) < SECOND / 100


@pytest.mark.parametrize(
    ("given_count", "kept"),
    [
        (LossCount(MEMORY - 1, HOUR), LossCount(MEMORY - 1, HOUR)),
        (LossCount(MEMORY, 2 * HOUR), LossCount(MEMORY // 2, HOUR)),
        (LossCount(3 * MEMORY, 8 * HOUR), LossCount(3 * MEMORY // 4, 2 * HOUR)),
        (LossCount(1, LONG * 2), LossCount(0, LONG)),
        (LossCount(-1, -HOUR), LossCount()),
    ],
)
def test_old_counts_fade(given_count: LossCount, kept: LossCount) -> None:
    assert loss_counts.fade(given_count) == kept
