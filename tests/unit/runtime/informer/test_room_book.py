"""Which trainings on several nodes have room, as pods, jobs and nodes change."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_job, raw_node, raw_pod

from holdfast.api import names
from holdfast.runtime.informer.cache import Cache, Key

A, B, C = (Key("ns", name) for name in "abc")
TIER = {"name": "cpu", "kind": "CPU"}
WHEN = "2026-11-21T11:00:00Z"


def utc_text() -> str:
    """Now."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gang(name: str = "a", version: int = 1, state: str = "Acquiring", **more: Any) -> dict[str, Any]:
    """A job with three nodes whose first attempt is in this state."""
    current = {"number": 1, "state": state, "tier": TIER, "raisedAt": WHEN, "nodes": 3, **more}
    found = raw_job(name, f"u-{name}", version, attempt=1, phase="Acquiring", current=current)
    found["spec"]["trainer"]["nodes"] = 3
    return found


def waiting(name: str, version: int = 1) -> dict[str, Any]:
    """A job that waits for room."""
    return gang(name, version, "Intended", waitsSince=WHEN)


def rank(number: int, version: int, *, node: str | None = None, name: str = "a") -> dict[str, Any]:
    """A pod of the job."""
    pod = raw_pod(f"{name}-1-{number}", f"p-{name}{number}", version, job=name, job_uid=f"u-{name}", node=node)
    pod["metadata"]["labels"][names.LABEL_RANK] = str(number)
    return pod


@pytest.fixture
def cache() -> Cache:
    """Four nodes, three of them with a pod of job a; job b waits for three."""
    cache = Cache()
    for number in range(4):
        cache.put_node(raw_node(f"n{number}", version=number + 1))
    cache.put_job(gang(state="Running"))
    for number in range(3):
        cache.put_pod(rank(number, 10 + number, node=f"n{number}"))
    cache.put_job(waiting("b"))
    return cache


def of_three_nodes(now: Callable[[], datetime]) -> Cache:
    cache = Cache(now=now)
    for number in range(3):
        cache.put_node(raw_node(f"n{number}", version=number + 1))
    return cache


def test_a_job_that_waits_is_decided_again_when_it_has_room(cache: Cache) -> None:
    cache.put_pod(rank(0, 20, node="n0"))
    assert cache.of_room() == set(), "nothing has changed for b"
    cache.drop("pods", rank(0, 21, node="n0"))
    assert cache.of_room() == set(), "two nodes are free"
    cache.drop("pods", rank(1, 22, node="n1"))
    assert cache.of_room() == {B}


def test_a_pod_that_ended_holds_no_node(cache: Cache) -> None:
    cache.drop("pods", rank(0, 21, node="n0"))
    ended = rank(1, 22, node="n1")
    ended["status"]["phase"] = "Succeeded"
    cache.put_pod(ended)
    assert cache.of_room() == {B}


def test_new_nodes_wake_those_that_have_room_then(cache: Cache) -> None:
    cache.put_node(raw_node("n4", version=30))
    assert cache.of_room() == set()
    cache.put_node(raw_node("n5", version=31))
    assert cache.of_room() == {B}


# Breaks if what was found out of a node counts after the node has changed.
def test_a_node_that_becomes_larger_has_room_beside_its_pods(cache: Cache) -> None:
    assert cache.of_room() == set()
    for number in range(2):
        large = raw_node(f"n{number}", version=30 + number)
        large["status"]["allocatable"] = {"cpu": "64", "memory": "512Gi"}
        cache.put_node(large)
    assert cache.of_room() == {B}


def test_a_job_that_goes_makes_room(cache: Cache) -> None:
    cache.put_job(gang("c", version=40, createdAt=utc_text(), tier=TIER))
    cache.put_node(raw_node("n4", version=41))
    assert cache.put_node(raw_node("n5", version=42)) == {C}, "its three pods are about to get these nodes"
    assert cache.of_room() == set()
    assert cache.drop("jobs", gang("c", version=43)) == {C}
    assert cache.of_room() == {B}


def test_a_job_with_one_node_asks_for_none() -> None:
    cache = Cache()
    cache.put_node(raw_node("n1"))
    single = {"number": 1, "state": "Acquiring", "tier": TIER, "raisedAt": WHEN}
    assert cache.put_job(raw_job("c", "u-c", attempt=1, current=single)) == {C}
    assert cache.room().granted(datetime.now(UTC)) == ()


# Breaks if a training that holds a part of its nodes does not learn that one on a single node waits for them, whichever
# of status and pod is seen first, or hears of it after that one has got a node.
@pytest.mark.parametrize("status_first", [True, False])
def test_a_job_with_one_node_that_has_no_room_is_seen_by_those_with_a_part(*, status_first: bool) -> None:
    now = datetime.now(UTC)
    cache = Cache()
    cache.put_node(raw_node("n1"))
    single = raw_job("c", "u-c", attempt=1, current={"number": 1, "state": "Acquiring", "tier": TIER, "raisedAt": WHEN})
    pod = rank(0, 10, name="c")
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"]["conditions"] = [said | {"message": "0/1 nodes are available: 1 Insufficient cpu."}]
    for put in [lambda: cache.put_job(single), lambda: cache.put_pod(pod)][:: 1 if status_first else -1]:
        assert not cache.room().is_wanted(["n1"], "u-a", now)
        put()
    assert cache.room().is_wanted(["n1"], "u-a", now)
    assert cache.room().granted(now) == (), "no node is left to it"
    cache.put_pod(rank(0, 11, name="c", node="n1"))
    assert not cache.room().is_wanted(["n1"], "u-a", now)


def test_a_job_that_has_room_and_does_not_begin_keeps_no_node_from_others() -> None:
    """Breaks if a training whose old pod never ends keeps free nodes from all others."""
    now = datetime.now(UTC)
    cache = of_three_nodes(lambda: now)
    cache.put_job(waiting("a"))
    cache.put_job(waiting("b"))
    assert cache.of_room() == {A}
    now += timedelta(seconds=10)
    assert cache.of_room() == {A}
    now += timedelta(seconds=11)
    assert cache.of_room() == set()
    assert cache.of_room() == {B}
    cache.put_job(waiting("a", version=60))
    assert cache.of_room() == {B}, "an edit changes nothing"


def test_a_job_that_did_not_begin_has_another_turn_later() -> None:
    """Breaks if a training whose old pod took long to end is not told of room any more."""
    now = datetime.now(UTC)
    cache = of_three_nodes(lambda: now)
    cache.put_job(waiting("a"))
    assert cache.of_room() == {A}
    now += timedelta(seconds=21)
    cache.of_room()
    assert cache.of_room() == set()
    now += timedelta(seconds=61)
    assert cache.of_room() == {A}


@pytest.mark.parametrize(("hours", "first"), [(0.5, "other"), (2, "ns")])
def test_a_turn_counts_for_an_hour(hours: float, first: str) -> None:
    """Breaks if the operator keeps the time of a turn for each namespace that ever had one."""
    began = datetime(2026, 11, 21, 11, tzinfo=UTC)
    cache = Cache(now=lambda: began + timedelta(hours=hours))
    for number in range(3):
        cache.put_node(raw_node(f"n{number}", version=number + 1))
    cache.put_job(gang("c", state="Running", createdAt=WHEN))
    cache.put_job(gang("a", version=50, state="Intended", waitsSince="2026-11-21T11:10:00Z"))
    late = gang("b", version=51, state="Intended", waitsSince="2026-11-21T11:20:00Z")
    late["metadata"]["namespace"] = "other"
    cache.put_job(late)
    assert {key.namespace for key in cache.of_room()} == {first}


# Breaks if a part is kept from a training that begins to wait, or if all parts are looked at while nothing changes.
def test_a_job_with_a_part_is_decided_again_when_the_room_has_changed() -> None:
    now = datetime.now(UTC)
    cache = of_three_nodes(lambda: now)
    cache.put_job(gang(createdAt=utc_text()))
    for number in range(2):
        cache.put_pod(rank(number, 10 + number, node=f"n{number}"))
    assert cache.of_room() == {A}
    now += timedelta(minutes=1)
    assert cache.of_room() == {A}, "the time in which nodes are left to it is over"
    now += timedelta(minutes=1)
    assert cache.of_room() == set()
    cache.put_job(waiting("b"))
    assert cache.of_room() == {A}
    cache.put_job(waiting("c"))
    assert cache.of_room() == set(), "it was decided just now"
    now += timedelta(seconds=20)
    assert cache.of_room() == {A}
    retry_at = f"{now + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
    now += timedelta(seconds=20)
    cache.put_job(gang("d", 1, "Intended", waitsSince=WHEN, retryAt=retry_at))
    assert cache.of_room() == {A}
    now += timedelta(minutes=9)
    assert cache.of_room() == set()
    now += timedelta(minutes=2)
    assert cache.of_room() == {A}, "another one waits now, of which no event tells"
