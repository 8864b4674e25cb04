"""What jobs know of tiers goes into the status of their profile: the real process against the real API server."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.cluster.local_cluster import apply, audit_events, delete, get
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

USER = "system:serviceaccount:holdfast-system:holdfast"
Make = Callable[..., OperatorProcess]
TIERS = [{"name": "spot", "kind": "Spot"}, {"name": "cpu", "kind": "CPU"}]


@pytest.fixture
def profile(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A profile of the test's own."""
    manifest = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "CapacityProfile", "metadata": {"name": namespace}}
    apply(cluster, {**manifest, "spec": {"tiers": TIERS}})
    yield namespace
    delete(cluster, f"capacityprofile/{namespace}")


def writes(cluster: Cluster, profile: str) -> int:
    """How often the operator wrote the profile."""
    refs = [event["objectRef"] for event in audit_events(cluster, USER) if event["verb"] == "patch"]
    return sum(ref["resource"] == "capacityprofiles" and ref["name"] == profile for ref in refs)


def learn(jobs: Any, name: str, interruptions: int, **more: Any) -> None:
    """Write into a job's status what the operator would have written."""
    tiers = [{"tier": "spot", "interruptions": interruptions, "nodeTime": f"{interruptions}h", **more}]
    patch = json.dumps({"status": {"tiers": tiers}})
    jobs.kubectl("patch", "tj", name, "--subresource=status", "--type=merge", "-p", patch)


def test_interruptions_of_all_jobs_are_counted_once_whoever_leads(operators: Make, jobs: Any, profile: str) -> None:
    """Breaks if the right to write is missing, or a restart, a deletion or a bad status makes the count wrong."""
    cluster = jobs.cluster

    def spot() -> dict[str, Any]:
        found: list[dict[str, Any]] = get(cluster, f"capacityprofile/{profile}").get("status", {}).get("tiers") or [{}]
        return found[0]

    def counted(interruptions: int) -> None:
        wait_for(lambda: spot().get("interruptions") == interruptions, 20, f"{interruptions} interruptions")

    first = operators("quiet", profile_writes_every=300).start()
    before = first.metric("holdfast_reconcile_total")
    for name in ("a", "b"):
        jobs.create(name, capacity={"profile": profile})
    wait_for(lambda: first.metric("holdfast_reconcile_total") >= before + 2, 20, "the operator to know both")
    learn(jobs, "a", 2, state="TookBack", since="2026-11-21T09:00:00Z", seenAt="2026-11-21T09:00:00Z")
    counted(2)
    passes = first.metric("holdfast_reconcile_total")
    learn(jobs, "b", 3)
    wait_for(lambda: first.metric("holdfast_reconcile_total") > passes, 10, "the operator to see it")
    assert writes(cluster, profile) == 1, "no more than one write in five minutes"
    assert first.stop() == 0
    assert (spot()["interruptions"], spot()["nodeTime"], spot()["state"]) == (5, "5h", "TookBack"), (
        "an operator leaves nothing unsaid"
    )

    second = operators("quiet", profile_writes_every=0.2, resync_every=1).start()
    learn(jobs, "b", 4)
    counted(6)
    jobs.kubectl("delete", "tj", "a", "b")
    jobs.create("c", capacity={"profile": profile})
    wait_for(lambda: not get(cluster, f"capacityprofile/{profile}")["status"]["counted"], 20, "the level to fall")
    assert (spot()["interruptions"], spot()["state"]) == (6, "TookBack"), "jobs that are gone stay counted"
    assert writes(cluster, profile) <= 5, "a resync is no news"

    bad = json.dumps({"status": {"tiers": [{"tier": "spot", "since": "0001-01-01T00:00:00+10:00"}]}})
    cluster.kubectl("patch", "capprof", profile, "--subresource=status", "--type=merge", "-p", bad)
    counted(6)
    assert any("cannot be read" in line["message"] for line in second.log_lines())
