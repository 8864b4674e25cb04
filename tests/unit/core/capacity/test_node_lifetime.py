"""Expected lifetime of a node: from interruptions, from assumptions, and as the pod's environment has it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import CONFIG, TIERS, at, job, profile, settled, snapshot, status
from tests.support.decisions.tier_views import known

from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity.node_lifetime import REMEMBERED, interruptions_and_node_time, mean_lifetime
from holdfast.core.decision import CreatePod
from holdfast.core.observe.config import Assumptions

HOUR = timedelta(hours=1)
NOW = at(0)
ASSUMED = Assumptions()


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
    return {var["name"]: var.get("value") for var in container["env"]}["HOLDFAST_SECONDS_BETWEEN_LOSSES"]


def test_a_pod_gets_the_lifetime_that_is_known_of_its_tier():
    other = known("dedicated", interruptions=50, node_time=HOUR, seen_at=NOW)
    assert told(status()) == "7200"
    assert told(status(tiers=(seen(3, 10), other))) == "10800"
    assert told(status(tiers=(seen(3, 10), other)), shared=(seen(9, 98),)) == "36000"
    assert told(status(), shared=(other,)) == "7200"
