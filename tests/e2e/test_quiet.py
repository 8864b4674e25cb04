"""A cluster in which nothing happens: the operator writes nothing."""

from collections.abc import Callable

import pytest
from tests.support.cluster.local_cluster import audit_events
from tests.support.cluster.training_jobs import OPERATOR_USER, Pool, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

ASIDE = ("leases", "tokenreviews")


def writes(cluster: Cluster) -> list[str]:
    """What the operator wrote, the Lease aside: verb, resource and name."""
    found = []
    for event in audit_events(cluster, OPERATOR_USER):
        ref = event.get("objectRef", {})
        if event["verb"] in ("create", "patch", "update", "delete") and ref.get("resource") not in ASIDE:
            found.append(f"{event['verb']} {ref.get('resource')} {ref.get('namespace')}/{ref.get('name')}")
    return found


@pytest.mark.thorough
def test_resyncs_of_converged_jobs_write_nothing(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess], calm_pool: Pool
) -> None:
    """Breaks if what a decision makes of a converged job is not what is stored: at a thousand jobs that is a storm."""
    tiers = [calm_pool.tier("cpu")]
    small = {"trainer": {"resources": {"cpu": "200m", "memory": "512Mi"}}}
    command = ["sh", "-c", "while [ ! -e /tmp/never ]; do sleep 0.2; done"]
    operator = lone_operator(resync_every=1, patience={"status_interval": 600}).start()
    training = submit(cluster, namespace, tiers, stub("--step-seconds", 0.1, "--steps", 9999), name="training", **small)
    foreign = submit(cluster, namespace, tiers, command, name="foreign", **small)
    completed = submit(cluster, namespace, tiers, stub("--step-seconds", 0.01, "--steps", 5), name="completed", **small)
    failed = submit(cluster, namespace, tiers, stub("--fail-at", 2), name="failed", failure={"maxFailures": 0}, **small)
    suspended = submit(cluster, namespace, tiers, stub(), name="suspended", suspend=True, **small)
    waiting = submit(
        cluster,
        namespace,
        [{"name": "nowhere", "kind": "CPU", "nodeSelector": {"test/none": "yes"}}],
        stub(),
        name="waiting",
        **small,
    )
    training.wait("a step", lambda s: s.get("phase") == "Running" and s["current"].get("firstStep"))
    foreign.wait_phase("Running")
    completed.wait_phase("Completed")
    failed.wait_phase("Failed")
    suspended.wait_phase("Suspended")
    waiting.wait_phase("Acquiring")

    def resyncs() -> float:
        return operator.metric("holdfast_api_requests_total", verb="list", resource="trainingjobs")

    def quiet_through_two_resyncs() -> bool:
        before, start = writes(cluster), resyncs()
        saved = training.logs(1).count("saved step")
        wait_for(lambda: resyncs() >= start + 3, 20, "two whole resyncs")
        after = writes(cluster)
        assert after == before, after[len(before) :]
        return training.logs(1).count("saved step") >= saved

    # The first rounds may still see the end of what was going on: events, a finalizer.
    wait_for(quiet_through_two_resyncs, 30, "two resyncs without a write")
    assert quiet_through_two_resyncs(), "and it stays so, while a job trains and commits"
