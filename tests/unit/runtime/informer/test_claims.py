"""The claims of all jobs, as pods and jobs change."""

from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_job, raw_pod

from holdfast.api import names
from holdfast.runtime.informer.cache import Cache, Key

A, B, SINGLE = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")
TIER = {"name": "cpu", "kind": "CPU"}
WHEN = "2026-11-21T11:00:00Z"


def gang(name: str = "a", version: int = 1, state: str = "Acquiring", **more: Any) -> dict[str, Any]:
    """A job with three nodes whose first attempt is in this state."""
    current = {"number": 1, "state": state, "tier": TIER, "raisedAt": WHEN, "nodes": 3, **more}
    found = raw_job(name, f"u-{name}", version, attempt=1, phase="Acquiring", current=current)
    found["spec"]["trainer"]["nodes"] = 3
    return found


def waiting(name: str, version: int = 1) -> dict[str, Any]:
    """A job that waits for its turn."""
    return gang(name, version, "Intended", inLineSince=WHEN)


def rank(number: int, version: int, *, node: str | None = None, name: str = "a") -> dict[str, Any]:
    """A pod of the job; without a node, the scheduler has found none."""
    pod = raw_pod(f"{name}-1-{number}", f"p-{name}{number}", version, job=name, job_uid=f"u-{name}", node=node)
    pod["metadata"]["labels"][names.LABEL_RANK] = str(number)
    if node is None:
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        pod["status"]["conditions"] = [refusal]
    return pod


@pytest.fixture
def cache() -> Cache:
    """A job that holds one of three nodes, and a pod of it that gets none."""
    cache = Cache()
    cache.put_job(gang())
    cache.put_pod(rank(0, 10, node="n1"))
    cache.put_pod(rank(1, 11))
    return cache


def test_others_see_what_a_job_lacks(cache: Cache) -> None:
    (found,) = cache.rivals(B)
    assert (found.job, found.held, found.short) == ("a", 1, True)
    assert cache.rivals(A) == ()


def test_a_change_of_a_pod_is_seen(cache: Cache) -> None:
    assert cache.rivals(B)
    cache.put_pod(rank(1, 12, node="n2"))
    assert cache.rivals(B) == ()
    cache.put_pod(rank(2, 13))
    (found,) = cache.rivals(B)
    assert found.held == 2
    cache.drop("pods", rank(1, 14, node="n2"))
    assert cache.rivals(B)[0].held == 1


@pytest.mark.parametrize("gone", ["placed", "deleted", "deletion began", "not found", "malformed"])
def test_those_that_wait_are_decided_again_when_their_turn_may_have_come(cache: Cache, gone: str) -> None:
    cache.put_job(waiting("b"))
    assert cache.put_job(gang(version=2)) == {A}, "nothing has changed for b"
    match gone:
        case "placed":
            assert cache.put_job(gang(version=3, state="Starting")) == {A, B}
        case "deleted":
            assert cache.drop("jobs", gang(version=3)) == {A, B}
        case "deletion began":
            raw = gang(version=3)
            raw["metadata"]["deletionTimestamp"] = WHEN
            assert cache.put_job(raw) == {A, B}
        case "not found":
            cache.forget_job(A, "u-a")
        case "malformed":
            raw = gang(version=3)
            raw["metadata"]["generation"] = 2
            raw["spec"]["trainer"]["nodes"] = "many"
            assert cache.put_job(raw) == {A, B}
    assert cache.rivals(B) == ()


def test_a_job_that_waits_is_a_rival(cache: Cache) -> None:
    cache.put_job(waiting("b"))
    assert sorted(claim.job for claim in cache.rivals(SINGLE)) == ["a", "b"]
    assert [claim.job for claim in cache.rivals(A)] == ["b"]


def test_a_job_with_one_node_is_never_one() -> None:
    cache = Cache()
    cache.put_job(waiting("b"))
    single = {"number": 1, "state": "Acquiring", "tier": TIER, "raisedAt": WHEN}
    assert cache.put_job(raw_job("c", "u-c", attempt=1, current=single)) == {SINGLE}
    cache.put_pod(raw_pod("c-1-0", "p-c", job="c", job_uid="u-c"))
    assert [claim.job for claim in cache.rivals(A)] == ["b"]
