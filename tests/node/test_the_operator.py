"""The operator as pods on real nodes: its leader dies, moves, is upgraded, and goes. The last test uninstalls it."""

from typing import Any

from tests.node.jobs import completes, tier, train
from tests.support.cluster.local_cluster import exists, get
from tests.support.cluster.training_jobs import Job
from tests.support.operator.release import GOOD_IN, NAMESPACE, Release
from tests.support.real_node.cluster import RealCluster
from tests.support.real_node.images import Images
from tests.support.waiting import wait_for

from holdfast.api import names, rbac

BOTH = [tier("real-1"), tier("real-2")]


def _leader(release: Release) -> dict[str, Any]:
    """The pod of the operator that leads."""
    name = wait_for(lambda: release.leader() in release.ready() and release.leader(), 60, "an operator to lead")
    return get(release.cluster, f"pod/{name}", NAMESPACE)


def _both_ready(release: Release) -> None:
    wait_for(lambda: len(release.ready()) == 2, 90, "two operators")


def _train_beside(real: RealCluster, release: Release, namespace: str) -> tuple[str, str, Job]:
    """The leader's node, the other one, and a job that trains there."""
    node = _leader(release)["spec"]["nodeName"]
    other = next(name for name in real.nodes if name != node)
    job = train(real.cluster, namespace, tiers=[tier(other)], steps=200)
    job.wait_step(10)
    return node, other, job


def test_a_leader_that_is_killed_is_replaced(real: RealCluster, release: Release, namespace: str) -> None:
    """Breaks if the other operator does not take the Lease, or reports do not find it."""
    leader = _leader(release)
    held = release.holder()
    container = leader["status"]["containerStatuses"][0]["containerID"]
    real.node_of(leader).process_of(container).kill()
    wait_for(lambda: release.holder() != held, 40, "another holder of the Lease")
    completes(train(real.cluster, namespace, steps=20))
    _both_ready(release)


def test_a_leader_whose_node_is_drained_hands_over(real: RealCluster, release: Release, namespace: str) -> None:
    """Breaks if an operator that is told to leave keeps the Lease, or the drain waits for it."""
    node, other, job = _train_beside(real, release, namespace)
    try:
        real.cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", timeout=120)
        assert _leader(release)["spec"]["nodeName"] == other
        completes(job)
    finally:
        real.cluster.kubectl("uncordon", node)
    _both_ready(release)


def test_a_leader_whose_node_dies_is_replaced(real: RealCluster, release: Release, namespace: str) -> None:
    """Breaks if the Lease of a dead node is waited for, or a training beside it is disturbed."""
    node, other, job = _train_beside(real, release, namespace)
    real.nodes[node].lose_power()
    try:
        wait_for(lambda: _leader(release)["spec"]["nodeName"] == other, 90, "the other operator to lead")
        status = completes(job)
        assert [one["kind"] for one in status["history"]] == ["Completed"]
    finally:
        real.nodes[node].boot()
        real.wait_ready(node)
    _both_ready(release)


def test_an_upgrade_ends_no_attempt(real: RealCluster, release: Release, namespace: str, images: Images) -> None:
    """Breaks if a new operator does not take over what the old one began."""
    job = train(real.cluster, namespace, tiers=BOTH, steps=600)
    job.wait_step(10)
    before = {pod["metadata"]["name"] for pod in release.pods()}
    tag = images.next_operator.rpartition(":")[2]
    done = release.upgrade("--reuse-values", "--set", f"image.tag={tag}")
    assert done.returncode == 0, done.stderr
    assert not before & release.ready()
    status = completes(job)
    assert [one["kind"] for one in status["history"]] == ["Completed"]


def test_an_uninstall_leaves_the_training_and_nothing_of_its_own(
    real: RealCluster, release: Release, namespace: str
) -> None:
    """Breaks if a Lease, a key or a finalizer outlives the operator."""
    job = train(real.cluster, namespace, steps=2000)
    job.wait_step(10)
    done = release.helm("uninstall", "--wait", "--timeout", GOOD_IN)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: not release.pods(), 60, "the operators to be gone")
    assert not exists(real.cluster, f"lease/{rbac.LEASE}", NAMESPACE)
    assert not release.objects("secret", rbac.SERVING_SECRET)
    (pod,) = job.pods()
    assert names.POD_FINALIZER not in pod["metadata"].get("finalizers", [])
    assert pod["status"]["phase"] == "Running", "the training goes on"
