"""Interruptions of all jobs of a profile, and the expected lifetime of a node, as the pod gets it too."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import (
    CONFIG,
    NOW,
    TIERS,
    at,
    attempt,
    drain,
    job,
    profile,
    settled,
    snapshot,
    status,
    tier,
)  # fmt: skip
from tests.support.decisions.tier_views import SECOND, known
from tests.support.trainer.pod_settings import settings_of

from holdfast.api.attempt import AttemptState, PodRecord
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import interruptions
from holdfast.core.capacity.interruptions import (
    LONG,
    MEMORY,
    REMEMBERED,
    InterruptionCount,
    interruptions_and_node_time,
    mean_lifetime,
)
from holdfast.core.decision import CreatePod
from holdfast.core.observe.config import Assumptions

HOUR = timedelta(hours=1)
ASSUMED = Assumptions()
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
    assert interruptions.of_job(job, NOW) == {
        "spot": InterruptionCount(2, HOUR + 590 * SECOND),
        "dedicated": InterruptionCount(0, 60 * SECOND),
        "x": InterruptionCount(1),
    }
    assert interruptions.of_job(status(waits), NOW) == {}
    assert interruptions.of_job(status(attempt(scheduled_at=at(9))), NOW) == {
        "spot": InterruptionCount()
    }  # another clock


def test_time_on_a_node_that_the_cluster_did_not_give_does_not_count() -> None:
    named = attempt(pods=(PodRecord(uid="u-1", node="n1", node_uid="u-n1"),))
    counted = status(named, tiers=(known(interruptions=2, node_time=HOUR),))
    assert interruptions.of_job(counted, NOW) == {"spot": InterruptionCount(2, HOUR)}


def test_a_notice_does_not_reduce_the_node_time() -> None:
    leaves = attempt(state=AttemptState.DRAINING, drain=drain())
    assert interruptions.of_job(status(leaves), NOW) == interruptions.of_job(status(attempt()), NOW)


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
        counted=interruptions.stored_level({"spot": level} if level else {}, ("spot",)),
    )
    assert interruptions.take_over(written, {"spot": now} if now else {}) == {"spot": total}


def test_the_level_is_written_for_present_tiers_only() -> None:
    level = {
        "spot": InterruptionCount(3, timedelta(days=400_000, microseconds=3600)),
        "cpu": InterruptionCount(),
        "gone": InterruptionCount(1),
    }
    assert interruptions.stored_level(level, ("cpu", "spot")) == (
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
    stored = CapacityProfileStatus(tiers=known_tiers, counted=interruptions.stored_level(level, tiers)).to_object()
    after = interruptions.take_over(CapacityProfileStatus.model_validate(stored), level)
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
    assert interruptions.fade(given_count) == kept


def seen(interruptions, hours, ago=timedelta(0)):
    return known(interruptions=interruptions, node_time=hours * HOUR, seen_at=NOW - ago)


@pytest.mark.parametrize(
    ("own", "shared", "found"),
    [
        (None, None, (0, timedelta(0))),
        (seen(1, 3), None, (1, 3 * HOUR)),
        (None, seen(5, 90), (5, 90 * HOUR)),
        (seen(1, 3), seen(5, 90), (5, 90 * HOUR)),
        (seen(9, 100), seen(5, 90), (9, 100 * HOUR)),
        (seen(1, 3), seen(0, 0), (1, 3 * HOUR)),
        (seen(1, 3, ago=REMEMBERED), None, (1, 3 * HOUR)),
        (seen(1, 3, ago=REMEMBERED + HOUR), None, (0, timedelta(0))),
    ],
)
def test_the_larger_node_time_counts(own, shared, found):
    assert interruptions_and_node_time(own, shared, NOW) == found


@pytest.mark.parametrize(
    ("kind", "interruptions", "hours", "life"),
    [
        ("Spot", 0, 0, 2),
        ("Spot", 1, 4, 3),
        ("Spot", 9, 18, 2),
        ("Dedicated", 0, 0, 720),
        ("Dedicated", 0, 80, 800),
        ("CPU", 0, 0, 720),
    ],
)
def test_mean_lifetime(kind, interruptions, hours, life):
    assert mean_lifetime(kind, interruptions, hours * HOUR, ASSUMED) == life * 3600.0


@given(st.sampled_from(["Spot", "Dedicated", "CPU"]), st.integers(0, 10**6), st.timedeltas(timedelta(0), 10**4 * HOUR))
def test_more_interruptions_are_a_shorter_life_and_more_time_a_longer_one(kind, interruptions, had):
    assert 0 < mean_lifetime(kind, interruptions + 1, had, ASSUMED) < mean_lifetime(kind, interruptions, had, ASSUMED)
    assert mean_lifetime(kind, interruptions, had + HOUR, ASSUMED) > mean_lifetime(kind, interruptions, had, ASSUMED)


def told(given_status, shared=None):
    """The next pod's environment has the mean seconds between interruptions. Deciding again changes nothing."""
    found, capacity = None, {"tiers": list(TIERS)}
    if shared is not None:
        found = profile(*TIERS).model_copy(update={"status": CapacityProfileStatus(tiers=shared)})
        capacity = {"profile": "grid"}
    decision = settled(snapshot(job(given_status, capacity=capacity), profile=found, config=CONFIG))
    (pod,) = [action.manifest for action in decision.actions if isinstance(action, CreatePod)]
    container = pod["spec"]["containers"][0]
    return settings_of(container).every.mean_time_between_interruptions


def test_a_pod_gets_the_lifetime_that_is_known_of_its_tier():
    other = known("dedicated", interruptions=50, node_time=HOUR, seen_at=NOW)
    assert told(status()) == 7200
    assert told(status(tiers=(seen(3, 10), other))) == 10800
    assert told(status(tiers=(seen(3, 10), other)), shared=(seen(9, 98),)) == 36000
    assert told(status(), shared=(other,)) == 7200
