"""Pods that only look like those of a job: our finalizer must not hold them, and their namespace, for ever."""

from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_pod

from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.strays import Stray, Strays

A = Key("ns", "a")
DELETED = "2026-11-21T12:00:00Z"


def forged(name: str = "a-1000000000-0", **more: Any) -> dict[str, Any]:
    """A pod whose number no attempt has."""
    return raw_pod(name, "p9", attempt=1_000_000_000, **more)


@pytest.mark.parametrize("name", ["a-1000000000-0", "copy-of-a"])
def test_a_pod_that_is_deleted_and_is_none_of_ours_is_a_stray(name: str) -> None:
    strays = Strays()
    assert strays.put(forged(name, deleted=DELETED)) == A
    assert strays.of(A) == (Stray(name, "p9"),)
    assert strays.keys() == {A}


def test_a_pod_without_a_job_is_found_under_its_own_name() -> None:
    raw = forged("x", deleted=DELETED)
    raw["metadata"]["labels"] = {}
    assert Strays().put(raw) == ("ns", "x")


def test_a_pod_that_lives_or_has_no_finalizer_is_not_a_stray() -> None:
    strays = Strays()
    assert strays.put(forged()) is None
    assert strays.put(forged(deleted=DELETED, finalizers=["other"])) is None


def test_a_stray_that_was_released_or_is_gone_is_forgotten() -> None:
    strays = Strays()
    strays.put(forged(deleted=DELETED))
    strays.put(forged(deleted=DELETED, finalizers=[]))
    assert (strays.of(A), strays.keys()) == ((), set())
    strays.put(forged(deleted=DELETED))
    strays.drop("p9")
    strays.drop("p9")
    assert strays.of(A) == ()


def test_the_cache_finds_strays_and_their_jobs() -> None:
    cache = Cache()
    assert cache.put_pod(forged()) == set()
    assert cache.put_pod(forged(version=11, deleted=DELETED)) == {A}
    assert cache.job_keys() == {A}
    assert cache.pods(A) == ()
    cache.drop("pods", forged(version=12))
    assert cache.job_keys() == set()


def test_a_pod_that_cannot_be_read_is_a_stray_too() -> None:
    cache = Cache()
    raw = raw_pod("a-1-0", "p1", deleted=DELETED)
    raw["status"]["conditions"] = [{"no": "type"}]
    assert cache.put_pod(raw) == {A}
    assert cache.strays.of(A) == (Stray("a-1-0", "p1"),)
