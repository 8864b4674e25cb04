from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_job, raw_node, raw_pod
from tests.support.operator.whole_lists import replace_all

from holdfast.api import names
from holdfast.runtime.informer.cache import Cache, Key

A = Key("ns", "a")


@pytest.fixture
def cache() -> Cache:
    return Cache()


def acquiring(name: str, uid: str) -> dict[str, Any]:
    tier = {"name": "cpu", "kind": "CPU"}
    current = {"number": 1, "state": "Acquiring", "tier": tier, "raisedAt": "2026-11-21T11:00:00Z"}
    return raw_job(name, uid, attempt=1, phase="Acquiring", current=current)


def test_an_older_version_never_replaces_a_newer_one(cache: Cache) -> None:
    assert cache.put_job(raw_job(version=10, phase="Running", attempt=2)) == {A}
    assert cache.put_job(raw_job(version=9, phase="Acquiring", attempt=1)) == set()
    assert cache.put_job(raw_job(version=10, phase="Acquiring", attempt=1)) == set()
    assert cache.jobs[A].status.attempt == 2


def test_resource_versions_are_numbers_not_text(cache: Cache) -> None:
    cache.put_job(raw_job(version=99, attempt=1))
    assert cache.put_job(raw_job(version=100, attempt=2)) == {A}


def test_a_deleted_object_does_not_come_back(cache: Cache) -> None:
    cache.put_job(raw_job(version=10))
    assert cache.drop("jobs", raw_job(version=11)) == {A}
    assert cache.put_job(raw_job(version=11)) == set()
    assert A not in cache.jobs
    assert cache.put_job(raw_job(uid="u2", version=13)) == {A}
    assert cache.jobs[A].metadata.uid == "u2"


def test_the_late_end_of_an_earlier_job_does_not_remove_its_namesake(cache: Cache) -> None:
    cache.put_job(raw_job(uid="u1", version=10))
    cache.put_job(raw_job(uid="u2", version=12))
    assert cache.drop("jobs", raw_job(uid="u1", version=11)) == set()
    assert cache.jobs[A].metadata.uid == "u2"


def test_a_spec_is_read_again_only_when_its_generation_changed(cache: Cache) -> None:
    first = raw_job(version=10)
    cache.put_job(first)
    spec = cache.jobs[A].spec
    cache.put_job(raw_job(version=11, attempt=2))
    assert cache.jobs[A].spec is spec
    assert cache.jobs[A].status.attempt == 2
    for version, change in ((12, {"generation": 2}), (13, {"generation": 2, "uid": "u2"})):
        changed = raw_job(version=version)
        changed["metadata"] |= change
        changed["spec"]["suspend"] = version == 12
        cache.put_job(changed)
        assert cache.jobs[A].spec.suspend is (version == 12)


# Breaks if each label or annotation that people and programs write costs a decision, or if a request is not seen.
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"annotations": {"example.org/seen": "1"}}, False),
        ({"labels": {"team": "vision"}}, False),
        ({"finalizers": ["example.org/keep"]}, False),
        ({"annotations": {names.ANNOTATION_MOVE: "1"}}, True),
        ({"annotations": {names.ANNOTATION_CHECKPOINT: "1"}}, True),
        ({"generation": 2}, True),
        ({"deletionTimestamp": "2026-11-21T12:00:00Z"}, True),
    ],
)
def test_only_what_decisions_read_of_a_job_queues_it(cache: Cache, change: dict[str, Any], seen: bool) -> None:
    cache.put_job(raw_job(version=10))
    changed = raw_job(version=11)
    changed["metadata"] |= change
    assert cache.put_job(changed) == ({A} if seen else set())
    assert cache.jobs[A].metadata.resource_version == "11"


def test_a_pod_wakes_its_job_only_if_a_decision_may_depend_on_the_change(cache: Cache) -> None:
    assert cache.put_pod(raw_pod(version=1)) == {A}
    assert cache.put_pod(raw_pod(version=2)) == set()
    assert cache.pods(A)[0].resource_version == "2"
    assert cache.put_pod(raw_pod(version=3, phase="Running", node="n1")) == {A}
    assert cache.drop("pods", raw_pod(version=4)) == {A}
    assert cache.pods(A) == ()
    assert cache.put_pod(raw_pod(version=3)) == set()


def test_a_node_was_chosen_by_the_scheduler_if_the_pod_was_seen_without_it(cache: Cache) -> None:
    """Breaks if a pod counts as scheduled whose creator wrote the name of a node into it."""
    cache.put_pod(raw_pod(version=1))
    assert not cache.pods(A)[0].bound
    for version in (2, 3):
        cache.put_pod(raw_pod(version=version, phase="Running", node="n1"))
        assert cache.pods(A)[0].bound
    cache.put_pod(raw_pod(uid="p2", version=4, node="n1"))
    cache.put_pod(raw_pod(uid="p2", version=5, node="n1", phase="Running"))
    assert not cache.pods(A)[0].bound


def test_a_pod_that_took_the_name_of_another_replaces_it(cache: Cache) -> None:
    cache.put_pod(raw_pod(uid="p1", version=1))
    cache.put_pod(raw_pod(uid="p2", version=5))
    assert [pod.uid for pod in cache.pods(A)] == ["p2"]
    assert cache.pod("p1") is None


def test_a_pod_that_is_not_ours_touches_nothing(cache: Cache) -> None:
    raw = raw_pod()
    raw["metadata"]["labels"] = {}
    assert cache.put_pod(raw) == set()


def test_a_pod_that_cannot_be_read_stops_nothing(cache: Cache) -> None:
    raw = raw_pod()
    raw["metadata"]["deletionTimestamp"] = "yesterday"
    assert cache.put_pod(raw) == {A}  # it is being deleted, and our finalizer must not hold it
    assert cache.put_pod(raw_pod("b-1-0", "p2", job="b")) == {Key("ns", "b")}


def test_heartbeats_of_a_node_do_not_rebuild_the_cluster(cache: Cache) -> None:
    cache.put_node(raw_node(version=1))
    before = cache.cluster
    assert cache.put_node(raw_node(version=2)) == set()
    assert cache.cluster is before


def test_a_taint_touches_the_jobs_on_that_node(cache: Cache) -> None:
    for name in ("n1", "n2"):
        cache.put_node(raw_node(name))
    cache.put_pod(raw_pod(node="n1"))
    cache.put_pod(raw_pod("b-1-0", "p2", job="b", job_uid="u2", node="n2"))
    taints = [{"key": "aws-node-termination-handler/spot-itn", "value": "i", "effect": "NoSchedule"}]
    assert cache.put_node(raw_node("n1", version=9, taints=taints)) == {A}


def test_another_silent_node_touches_every_job_on_silent_nodes(cache: Cache) -> None:
    for name in ("n1", "n2", "n3", "n4"):
        cache.put_node(raw_node(name))
    cache.put_pod(raw_pod(node="n1"))
    cache.put_pod(raw_pod("b-1-0", "p2", job="b", job_uid="u2", node="n2"))
    assert cache.put_node(raw_node("n1", version=9, ready=False)) == {A}
    assert cache.put_node(raw_node("n2", version=10, ready=False)) == {A, Key("ns", "b")}


def test_a_new_node_touches_jobs_that_wait_for_one(cache: Cache) -> None:
    cache.put_job(acquiring("a", "u1"))
    cache.put_job(raw_job("b", "u2", phase="Running"))
    assert cache.put_node(raw_node("new")) == {A}
    assert cache.drop("nodes", raw_node("new", version=9)) == {A}
    assert cache.cluster.nodes == {}


def test_a_new_node_touches_no_job_that_has_its_node_or_is_gone(cache: Cache) -> None:
    for name in "abc":
        cache.put_job({**acquiring(name, f"u-{name}")})
    cache.put_job(raw_job("a", "u-a", version=5, phase="Running"))
    cache.put_job({**raw_job("b", "u-b", version=6), "spec": {}})  # it cannot be read
    cache.put_job(raw_job("b", "u-b", version=7, phase="Running"))
    cache.drop("jobs", raw_job("c", "u-c", version=8))
    assert cache.put_node(raw_node("new")) == set()


def test_a_node_does_not_cost_a_look_at_every_job(cache: Cache) -> None:
    """Breaks if a leader that reads 5,000 nodes and 10,000 jobs compares each of them with each."""

    class NotWalked(dict[Key, Any]):
        def items(self) -> Any:
            raise AssertionError

        __iter__ = values = items

    cache.put_job(acquiring("a", "u1"))
    cache.jobs = NotWalked(cache.jobs)
    assert cache.put_node(raw_node("new")) == {A}


def test_a_profile_touches_the_jobs_that_use_it(cache: Cache) -> None:
    job = raw_job("a")
    job["spec"]["capacity"] = {"profile": "default"}
    cache.put_job(job)
    cache.put_job(raw_job("b", "u2"))
    profile = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "CapacityProfile",
        "metadata": {"name": "default", "uid": "c1", "resourceVersion": "3"},
        "spec": {"tiers": [{"name": "cpu", "kind": "CPU"}]},
    }
    assert cache.put_profile(profile) == {A}
    newer = {**profile, "metadata": {**profile["metadata"], "resourceVersion": "4"}}  # type: ignore[dict-item]
    assert cache.put_profile(newer) == set()
    broken = {**profile, "metadata": {**profile["metadata"], "resourceVersion": "5"}, "spec": {"tiers": 3}}  # type: ignore[dict-item]
    assert cache.put_profile(broken) == {A}
    assert "default" not in cache.profiles
    assert "default" in cache.bad_profiles


def test_a_profile_whose_status_cannot_be_read_is_used_without_it(cache: Cache) -> None:
    job = raw_job("a")
    job["spec"]["capacity"] = {"profile": "default"}
    cache.put_job(job)
    profile: dict[str, Any] = {
        "metadata": {"name": "default", "uid": "c1", "resourceVersion": "3"},
        "spec": {"tiers": [{"name": "cpu", "kind": "CPU"}]},
        "status": {"tiers": [{"tier": "cpu", "interruptions": "many"}]},
    }
    assert cache.put_profile(profile) == {A}
    assert cache.profiles["default"].status.tiers == ()
    assert "status.tiers[0].interruptions" in cache.bad_status["default"]
    profile["metadata"]["resourceVersion"], profile["status"] = "4", {"tiers": [{"tier": "cpu", "interruptions": 3}]}
    assert cache.put_profile(profile) == set(), "no job is woken by a new status"
    assert cache.profiles["default"].status.tiers[0].interruptions == 3
    assert cache.bad_status == {}


# Breaks if what is counted from it is counted twice.
def test_listeners_get_each_change_of_a_job_once(cache: Cache) -> None:
    told: list[tuple[str, ...]] = []

    def listen(before: Any, after: Any) -> None:
        told.append(
            tuple(f"{job.metadata.uid}@{job.metadata.resource_version}" if job else "" for job in (before, after))
        )

    cache.listeners.append(listen)
    cache.put_job(raw_job(version=10))
    cache.put_job(raw_job(version=12))
    cache.put_job(raw_job(version=12))  # the answer to a write, and its event
    replace_all(cache, "jobs", [raw_job(version=12)], 12)
    cache.put_job(raw_job(version=11))
    cache.put_job(raw_job(version=13, phase=7))  # it cannot be read, but is not gone
    cache.put_job(raw_job(version=14))
    cache.put_job(raw_job(uid="u2", version=15))
    cache.drop("jobs", raw_job(uid="u2", version=16))
    cache.put_job(raw_job(uid="u3", version=17))
    cache.forget_job(A, "u3")
    assert told == [
        ("", "u1@10"), ("u1@10", "u1@12"), ("", "u1@14"), ("u1@14", ""), ("", "u2@15"), ("u2@15", ""),
        ("", "u3@17"), ("u3@17", ""),
    ]  # fmt: skip


def test_a_malformed_job_is_kept_aside(cache: Cache) -> None:
    raw = raw_job(version=5)
    raw["spec"]["trainer"] = 7
    assert cache.put_job(raw) == {A}
    assert A not in cache.jobs
    assert "spec.trainer" in cache.malformed[A].message
    cache.put_job(raw_job(version=6))
    assert A in cache.jobs
    assert A not in cache.malformed


def test_a_sweep_drops_what_is_not_listed_and_not_newer(cache: Cache) -> None:
    cache.put_job(raw_job("old", "u1", version=5))
    cache.put_job(raw_job("kept", "u2", version=6))
    cache.put_job(raw_job("new", "u3", version=50))
    touched = replace_all(cache, "jobs", [raw_job("kept", "u2", version=6), raw_job("seen", "u4", version=7)], 40)
    assert touched == {Key("ns", "old"), Key("ns", "seen")}
    assert {key.name for key in cache.jobs} == {"kept", "new", "seen"}


def test_a_sweep_of_every_kind(cache: Cache) -> None:
    cache.put_pod(raw_pod(node="n1"))
    cache.put_node(raw_node("n1"))
    assert replace_all(cache, "nodes", [], 100) == {A}
    assert replace_all(cache, "pods", [], 100) == {A}
    assert cache.job_keys() == set()


def test_a_pod_that_lost_its_label_may_come_back() -> None:
    cache = Cache()
    cache.put_pod(raw_pod(version=10))
    cache.drop("pods", raw_pod(version=12))
    assert cache.put_pod(raw_pod(version=11)) == set()  # an answer to a write that was made before
    assert cache.pods(Key("ns", "a")) == ()
    assert cache.put_pod(raw_pod(version=13)) == {Key("ns", "a")}


def test_what_is_kept_of_a_malformed_job_has_no_managed_fields() -> None:
    cache, raw = Cache(), raw_job()
    raw["spec"]["trainer"] = 3
    raw["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cache.put_job(raw)
    assert set(cache.malformed[A].raw["metadata"]) == set(raw["metadata"]) - {"managedFields"}
