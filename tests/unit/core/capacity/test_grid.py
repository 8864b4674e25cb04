"""The order of the grid, and how long a pod waits for each tier."""

from datetime import timedelta

import pytest
from tests.support.decisions.snapshots import CONFIG, TIERS, job, node, nodes, profile, snapshot, tier

from holdfast.core.capacity.grid import acquire_timeout, find_tier, next_tier

ALL = tuple(tier(t["name"]) for t in TIERS)


def test_inline_tiers():
    assert snapshot(job()).grid == ALL


def test_a_profile():
    by_profile = job(capacity={"profile": "grid"})
    assert snapshot(by_profile, profile=profile()).grid == ALL
    assert snapshot(by_profile).grid == ()


@pytest.mark.parametrize(("name", "below"), [("spot", "dedicated"), ("cpu", "spot")])
def test_the_walk(name, below):
    assert next_tier(ALL, name).name == below


def test_find():
    assert find_tier(ALL, "cpu") == ALL[2]
    assert find_tier(ALL, "gone") is None


@pytest.mark.parametrize(
    ("own", "label", "minutes"), [("90s", "spot", 1.5), (None, "spot", 5), (None, "moon", 15), ("90s", "moon", 1.5)]
)
def test_a_tier_without_nodes_gets_longer(own, label, minutes):
    found = tier().model_copy(
        update={"acquire_timeout": timedelta(seconds=90) if own else None, "node_selector": {"tier": label}}
    )
    assert acquire_timeout(found, nodes(node()), CONFIG) == timedelta(minutes=minutes)
