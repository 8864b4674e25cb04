"""The leader writes what is known of tiers into the status of profiles: when, after errors, and what it leads to."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_node
from tests.support.operator.profile_world import EVERY, PATH, TIERS, World

from holdfast.api.scalars import format_time
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.profile_knowledge import WRITES
from holdfast.runtime.informer.work_queue import WorkQueue

# When


def test_a_profile_of_which_nothing_is_known_is_not_written(world: World) -> None:
    world.job("a")
    for _ in range(5):
        world.pass_by()
    assert world.writes == 0


def test_news_is_written_at_once_and_then_at_a_bounded_rate(world: World) -> None:
    world.job("a")
    world.once()
    world.job("a", interruptions=1)
    world.once()
    assert (world.spot()[0], world.writes) == (1, 1)
    world.job("a", interruptions=2)
    world.pass_by(EVERY - 1)
    assert (world.spot()[0], world.writes) == (1, 1)
    world.pass_by(1)
    assert (world.spot()[0], world.writes) == (2, 2)


def test_that_a_tier_stays_up_is_written_seldom(world: World) -> None:
    world.job("a", **world.running(10))
    world.once()
    for _ in range(60):
        world.pass_by(10)
    assert world.writes == 3, "once, and then every five minutes"
    seen = world.status().tiers[0]
    assert seen.seen_at == world.clock.now()
    assert (seen.interruptions, seen.node_time) == (0, timedelta(seconds=600))


def test_idle_jobs_cost_no_write(world: World) -> None:
    for number in range(20):
        world.job(f"j{number}", interruptions=1, node_time=60, phase="Completed")
    world.once()
    for _ in range(60):
        world.pass_by()
    assert (world.writes, world.spot()) == (1, (20, timedelta(seconds=1200)))


def test_few_profiles_at_a_time(runner: asyncio.Runner) -> None:
    many = World(runner, *(f"p{number}" for number in range(2 * WRITES + 1)))
    for number in range(2 * WRITES + 1):
        many.job(f"j{number}", f"p{number}", interruptions=1)
    counts = []
    for _ in range(4):
        many.pass_by(1)
        counts.append(many.writes)
    assert counts == [WRITES, 2 * WRITES, 2 * WRITES + 1, 2 * WRITES + 1]


def test_a_follower_writes_nothing(world: World) -> None:
    world.job("a", interruptions=1)
    world.profiles._writer._gate.close()
    world.once()
    world.end()
    assert world.writes == 0


def test_an_operator_that_ends_writes_what_is_left(world: World) -> None:
    world.job("a", interruptions=1)
    world.once()
    world.job("a", interruptions=2)
    world.end()
    assert world.spot()[0] == 2
    world.end()
    assert world.writes == 2


# What a pod that waits says of its tier

FULL = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
CLAIM = '0/3 nodes are available: persistentvolumeclaim "data" not found.'


@pytest.mark.parametrize(
    ("reason", "message", "out"),
    [
        ("Unschedulable", FULL, "spot"),
        ("Unschedulable", CLAIM, ""),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", ""),
        ("", "", ""),
    ],
)
def test_only_a_pod_that_lacks_capacity_takes_a_tier_out(world: World, reason: str, message: str, out: str) -> None:
    world.waiting("a", reason, message)
    world.once()
    assert world.status().out == out


# Breaks if what pods with four accelerators were refused is written down as if they had asked for one.
def test_a_refusal_is_kept_by_the_number_of_accelerators_of_the_tier(world: World) -> None:
    four = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "acceleratorsPerNode": 4}
    raw = {"metadata": {"name": "grid", "uid": "grid"}, "spec": {"tiers": [four]}}
    world.cache.put_profile(world.client.put(f"{PATH}/grid", raw))
    world.waiting("a", "Unschedulable", FULL)
    world.once()
    assert [one.accelerators for one in world.status().tiers[0].refusals] == [4]


# Errors


def test_a_conflict_is_tried_again_on_what_is_there_by_then(world: World) -> None:
    world.job("a", interruptions=1)
    world.put_profile("grid", tiers=(*TIERS, "cpu"))
    world.once()
    assert world.spot() == (0, timedelta(0))
    world.cache.put_profile(world.client.objects[f"{PATH}/grid"])
    world.pass_by()
    assert world.spot()[0] == 1


@pytest.mark.parametrize(
    "error", [ApiError(500, "Boom", "no"), ApiError(0, "Unreachable", "no"), ApiError(404, "x", "")]
)
def test_an_error_is_tried_again(world: World, error: ApiError) -> None:
    world.client.on("PATCH", "/status$", error)
    world.job("a", interruptions=1)
    world.once()
    world.pass_by(1)
    assert world.writes == 1, "not at once"
    world.pass_by()
    assert world.spot()[0] == 1


def test_a_write_without_an_answer_counts_once(world: World) -> None:
    def lost(body: Any) -> Any:
        world.client._serve("PATCH", f"{PATH}/grid/status", body)
        raise ApiError(0, "Unreachable", "no answer")

    world.client.on("PATCH", "/status$", lost)
    world.job("a", interruptions=1)
    world.once()
    world.cache.put_profile(world.client.objects[f"{PATH}/grid"])
    world.job("a", interruptions=2)
    world.pass_by()
    assert world.spot()[0] == 2


def test_a_status_that_cannot_be_read_is_written_anew(world: World, caplog: pytest.LogCaptureFixture) -> None:
    bad = world.put_profile("grid")
    bad["status"] = {"tiers": [{"tier": 7, "interruptions": -3}], "counted": "x"}
    world.cache.put_profile(world.client.put(f"{PATH}/grid", bad))
    assert "grid" in world.cache.profiles, "jobs can use it all the same"
    world.once()
    assert world.client.objects[f"{PATH}/grid"]["status"] == {
        "up": "", "out": "", "tiers": [], "faultyNodes": [], "counted": [],
    }  # fmt: skip
    assert "replacing the status of CapacityProfile grid" in caplog.text
    assert "status.tiers[0].tier" in caplog.text
    for _ in range(3):
        world.pass_by()
    assert (world.writes, world.cache.bad_status) == (1, {})


def test_nodes_on_which_attempts_end_are_remembered(world: World) -> None:
    """Breaks if what a job finds out about a node does not reach the profile, or goes with the job."""
    world.cache.put_node(raw_node("n1"))
    ended = {
        "number": 1, "tier": "spot", "node": "n1", "kind": "Interruption", "reason": "NodeSilent",
        "raisedAt": format_time(world.clock.now()), "endedAt": format_time(world.clock.now()),
    }  # fmt: skip
    world.job("a", history=[ended])
    world.pass_by()
    (told,) = world.client.objects[f"{PATH}/grid"]["status"]["faultyNodes"]
    assert (told["node"], [one["reason"] for one in told["faults"]]) == ("n1", ["NodeSilent"])
    world.delete("a")
    world.pass_by()
    assert world.client.objects[f"{PATH}/grid"]["status"]["faultyNodes"] == [told]
    world.pass_by(24 * 3600)
    assert not world.client.objects[f"{PATH}/grid"]["status"].get("faultyNodes")


def test_a_status_that_another_client_wrote_is_corrected(world: World) -> None:
    world.job("a", interruptions=2)
    world.once()
    raw = world.client.objects[f"{PATH}/grid"]
    world.cache.put_profile(world.client.put(f"{PATH}/grid", {**raw, "status": {}}))
    world.pass_by()
    assert world.spot()[0] == 2


# What it leads to


def test_jobs_are_asked_again_when_a_tier_came_or_went_and_not_all_at_once(world: World) -> None:
    for number in range(9):
        world.job(f"j{number}", phase="Completed" if number == 0 else "Acquiring")
    world.job("other", None)
    world.job("j1", tiers=world.refused(), phase="Acquiring")
    world.once()
    assert world.queue.scheduled == 8
    due = sorted(due - world.clock() for due in world.queue._later.values())
    assert due == pytest.approx([0.25 * place for place in range(1, 9)])


def test_jobs_are_not_asked_again_for_less(world: World) -> None:
    for number in range(9):
        world.job(f"j{number}", interruptions=1, **world.running(10))
    world.once()
    world.queue = world.profiles._queue = WorkQueue(world.clock)
    for number in range(9):
        world.job(f"j{number}", interruptions=2, **world.running(10))
    world.pass_by()
    assert (world.writes, world.queue.scheduled) == (2, 0)
