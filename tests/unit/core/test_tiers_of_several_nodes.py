"""Trainings on several nodes whose tier is changed or removed, or whose profile is deleted: the good pods go on."""

from datetime import timedelta

import pytest
from tests.support.decisions.gang_world import GangWorld
from tests.support.decisions.snapshots import TIERS, node, profile

from holdfast.api.attempt import EndReason

LARGER = {**TIERS[0], "nodeSelector": {"tier": "spot", "zone": "b"}}
GRIDS = {"deleted": None, "removed": [TIERS[1]], "changed": [LARGER, TIERS[1]], "only and changed": [LARGER]}


def trains() -> GangWorld:
    """A training on four nodes of the first tier of a profile."""
    world = GangWorld(spec={"capacity": {"profile": "grid"}}, profile=profile())
    world.settle()
    world.train()
    return world


def regrid(world: GangWorld, tiers) -> None:
    """The profile has other tiers from now on, or does not exist."""
    world.profile = profile(*tiers) if tiers else None
    world.settle()


def pending(world: GangWorld):
    """The condition SettingsPending, None if there is none."""
    return next((one for one in world.status.conditions if one.type == "SettingsPending"), None)


@pytest.mark.parametrize("tiers", GRIDS.values(), ids=GRIDS)
def test_a_lost_node_is_replaced_and_no_other_pod_is_given_up(tiers):
    """Breaks if a lost node costs all nodes because the name of their tier is gone, or two kinds of nodes are mixed."""
    world = trains()
    made = world.status.current.tier
    regrid(world, tiers)
    assert (world.deleted, world.status.phase) == ([], "Running")
    others = [world.uid(rank) for rank in (0, 1, 3)]

    world.remove(world.node_of(2))
    world.settle()

    assert [world.uid(rank) for rank in (0, 1, 3)] == others
    assert world.status.current.tier == made
    assert world.created[4:] == ["vit-2-2"]
    world.train()
    assert world.status.phase == "Running"


@pytest.mark.parametrize("tiers", GRIDS.values(), ids=GRIDS)
def test_a_program_that_fails_starts_again_in_its_pods(tiers):
    world = trains()
    regrid(world, tiers)
    world.fail(1)
    world.settle()
    world.train()
    assert (world.deleted, world.created[4:], world.status.phase) == ([], [], "Running")


@pytest.mark.parametrize("tiers", GRIDS.values(), ids=GRIDS)
def test_a_node_that_goes_is_replaced_beside_the_others(tiers):
    """Breaks if the successor is given up, and raised, again and again."""
    world = trains()
    regrid(world, tiers)
    gone = world.node_of(1)
    world.notice(gone)
    world.settle()
    world.leave()
    world.settle()
    world.train()
    assert world.status.phase == "Running"
    assert world.created[4:] == ["vit-2-1"]
    assert gone not in {pod.node for pod in world.pods.values() if not pod.ended}


@pytest.mark.parametrize("name", ["removed", "only and changed"])
def test_if_no_such_node_comes_in_time_it_starts_anew_on_the_tiers_that_there_are(name):
    """Breaks if it waits for ever for a node like the others, while the tiers of today have some."""
    world = trains()
    regrid(world, GRIDS[name])
    for spare in [free for free in world.free if free not in {pod.node for pod in world.pods.values()}]:
        del world.nodes[spare]
    world.remove(world.node_of(2))
    world.settle()
    kept = {world.uid(rank) for rank in (0, 1, 3)}
    for number in range(4):
        world.free.append(f"new{number}")
        labels = {"tier": GRIDS[name][0]["name"], "zone": "b"}
        world.nodes[f"new{number}"] = node(f"new{number}", labels=labels, ready_changed_at=world.now)
        if name == "only and changed":
            world.free.remove(f"new{number}")  # the pods that wait do not fit there

    world.pass_time(240)
    assert kept <= set(world.pods), "they are kept for as long as the tier has to give a node"
    world.pass_time(120)

    assert [one.reason for one in world.status.history] == ["NodeGone", EndReason.TIER_REMOVED]
    world.free.extend(f"new{number}" for number in range(4) if f"new{number}" not in world.free)
    world.pass_time(60)
    world.train()
    assert (world.status.phase, world.status.tier) == ("Running", GRIDS[name][0]["name"])


def test_the_condition_says_what_is_gone_and_ends_when_it_is_back():
    world = trains()
    regrid(world, None)
    assert pending(world).reason == "ProfileNotFound"
    assert "capacity profile grid does not exist: attempt 1 goes on with tier spot" in pending(world).message
    regrid(world, GRIDS["removed"])
    assert pending(world).reason == "TierRemoved"
    assert "a new start is on one of dedicated" in pending(world).message
    regrid(world, GRIDS["changed"])
    assert pending(world).reason == "NextAttempt"
    assert pending(world).message.startswith("nodeSelector of tier spot in capacity profile grid: attempt 1 goes on")
    regrid(world, TIERS)
    assert pending(world) is None


def test_its_nodes_are_paid_for_at_the_price_that_was_known_last():
    """Breaks if a training costs nothing, or goes on above its budget, because the profile is gone."""
    world = trains()
    regrid(world, None)
    world.now += timedelta(hours=1)
    world.train()
    assert world.status.ledger.spent == 4 * 1 * world.status.current.tier.price_per_node_hour
