"""Counting the interruptions of all jobs of a profile."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import NOW, at, attempt, drain, status, tier
from tests.support.decisions.tier_views import SECOND, known

from holdfast.api.attempt import AttemptState, PodRecord
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import interruption_counts
from holdfast.core.capacity.interruption_counts import LONG, MEMORY, InterruptionCount

HOUR = timedelta(hours=1)
INTERRUPTIONS = st.integers(0, MEMORY - 1)
HAD = st.integers(0, 10**8).map(lambda seconds: seconds * SECOND)
LEVELS = st.dictionaries(st.sampled_from(("spot", "cpu")), st.builds(InterruptionCount, INTERRUPTIONS, HAD))


def test_what_a_job_has_counted() -> None:
    follower = attempt(2, AttemptState.STARTING, tier=tier("dedicated"), scheduled_at=at(-60))
    waits = attempt(3, AttemptState.ACQUIRING)
    job = status(
        attempt(),
        successor=follower,
        tiers=(known(interruptions=2, node_time=HOUR), known("cpu"), known("x", interruptions=1)),
    )
    assert interruption_counts.of_job(job, NOW) == {
        "spot": InterruptionCount(2, HOUR + 590 * SECOND),
        "dedicated": InterruptionCount(0, 60 * SECOND),
        "x": InterruptionCount(1),
    }
    assert interruption_counts.of_job(status(waits), NOW) == {}
    assert interruption_counts.of_job(status(attempt(scheduled_at=at(9))), NOW) == {
        "spot": InterruptionCount()
    }  # another clock


def test_time_on_a_node_that_the_cluster_did_not_give_does_not_count() -> None:
    named = attempt(pods=(PodRecord(uid="u-1", node="n1", node_uid="u-n1"),))
    counted = status(named, tiers=(known(interruptions=2, node_time=HOUR),))
    assert interruption_counts.of_job(counted, NOW) == {"spot": InterruptionCount(2, HOUR)}


def test_a_notice_does_not_reduce_the_node_time() -> None:
    leaves = attempt(state=AttemptState.DRAINING, drain=drain())
    assert interruption_counts.of_job(status(leaves), NOW) == interruption_counts.of_job(status(attempt()), NOW)


@pytest.mark.parametrize(
    ("before", "level", "now", "total"),
    [
        (None, None, InterruptionCount(3, 2 * HOUR), InterruptionCount(3, 2 * HOUR)),  # nothing was written yet
        (
            InterruptionCount(9, 9 * HOUR),
            InterruptionCount(2, HOUR),
            InterruptionCount(2, HOUR),
            InterruptionCount(9, 9 * HOUR),
        ),
        (
            InterruptionCount(9, 9 * HOUR),
            InterruptionCount(2, HOUR),
            InterruptionCount(3, 3 * HOUR),
            InterruptionCount(10, 11 * HOUR),
        ),
        (
            InterruptionCount(9, 9 * HOUR),
            InterruptionCount(2, HOUR),
            None,
            InterruptionCount(9, 9 * HOUR),
        ),  # the jobs are gone
        (
            InterruptionCount(9, 9 * HOUR),
            InterruptionCount(2, HOUR),
            InterruptionCount(1, 2 * HOUR),
            InterruptionCount(9, 10 * HOUR),
        ),
        (InterruptionCount(9, 9 * HOUR), None, InterruptionCount(1, HOUR), InterruptionCount(10, 10 * HOUR)),
    ],
)
def test_a_new_operator_adds_the_rise_of_the_level(
    before: InterruptionCount | None,
    level: InterruptionCount | None,
    now: InterruptionCount | None,
    total: InterruptionCount,
) -> None:
    written = CapacityProfileStatus(
        tiers=(known(interruptions=before.interruptions, node_time=before.node_time),) if before else (),
        counted=interruption_counts.stored_level({"spot": level} if level else {}, ("spot",)),
    )
    assert interruption_counts.take_over(written, {"spot": now} if now else {}) == {"spot": total}


def test_the_level_is_written_for_present_tiers_only() -> None:
    level = {
        "spot": InterruptionCount(3, timedelta(days=400_000, microseconds=3600)),
        "cpu": InterruptionCount(),
        "gone": InterruptionCount(1),
    }
    assert interruption_counts.stored_level(level, ("cpu", "spot")) == (
        Counted(tier="spot", interruptions=3, hours=Decimal("9600000.000001")),
    )


@given(LEVELS, LEVELS)
def test_a_restart_while_nothing_happens_changes_nothing(
    totals: dict[str, InterruptionCount], level: dict[str, InterruptionCount]
) -> None:
    tiers = ("spot", "cpu")
    known_tiers = tuple(
        known(name, interruptions=one.interruptions, node_time=one.node_time) for name, one in totals.items()
    )
    stored = CapacityProfileStatus(
        tiers=known_tiers, counted=interruption_counts.stored_level(level, tiers)
    ).to_object()
    after = interruption_counts.take_over(CapacityProfileStatus.model_validate(stored), level)
    for name in tiers:
        before, now = totals.get(name, InterruptionCount()), after.get(name, InterruptionCount())
        if name in totals or name not in level:
            assert now.interruptions == before.interruptions
            assert abs(now.node_time - before.node_time) < SECOND / 100


@pytest.mark.parametrize(
    ("given_count", "kept"),
    [
        (InterruptionCount(MEMORY - 1, HOUR), InterruptionCount(MEMORY - 1, HOUR)),
        (InterruptionCount(MEMORY, 2 * HOUR), InterruptionCount(MEMORY // 2, HOUR)),
        (InterruptionCount(3 * MEMORY, 8 * HOUR), InterruptionCount(3 * MEMORY // 4, 2 * HOUR)),
        (InterruptionCount(1, LONG * 2), InterruptionCount(0, LONG)),
        (InterruptionCount(-1, -HOUR), InterruptionCount()),
    ],
)
def test_old_counts_fade(given_count: InterruptionCount, kept: InterruptionCount) -> None:
    assert interruption_counts.fade(given_count) == kept
