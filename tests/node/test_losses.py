"""What real kubelets say of pods, containers and nodes that are lost, and what becomes of the training."""

import pytest
from tests.node.jobs import completes, tier, train
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Raw, restarts
from tests.support.operator.release import Release
from tests.support.real_node.cluster import RealCluster
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.usefixtures("release")

BOTH = [tier("real-1"), tier("real-2")]
SPOT_TAINT = "aws-node-termination-handler/spot-itn=now:NoSchedule"


def _container(job: Job, attempt: int) -> str:
    """The ID of the trainer's container."""
    pod = job.pod(attempt)
    assert pod is not None
    statuses = pod["status"].get("containerStatuses") or ()
    running = [one["containerID"] for one in statuses if one["name"] == "trainer" and "running" in one["state"]]
    return str(running[0]) if running else ""


def _moved_without_a_loss(status: Raw) -> None:
    one, *_, last = status["history"]
    assert one["kind"] == "Interruption", status["history"]
    assert one["stepsLost"] == 0
    assert last["resumedStep"] >= one["lastStep"] > 0


def test_a_notice_of_a_reclaim_moves_the_training(cluster: Cluster, namespace: str) -> None:
    """Breaks if the taint is not a notice, or the pod is gone before it has saved."""
    job = train(cluster, namespace, tiers=BOTH, steps=400)
    job.wait_step(20)
    cluster.kubectl("taint", "node", "real-1", SPOT_TAINT)
    try:
        status = job.wait("the other node", lambda s: s.get("node") == "real-2" and s["phase"] == "Running", 90)
    finally:
        cluster.kubectl("taint", "node", "real-1", f"{SPOT_TAINT.partition('=')[0]}-")
    assert status["history"][0]["reason"] == "SpotInterruption"
    _moved_without_a_loss(completes(job))


def test_a_deleted_pod_saves_and_the_training_goes_on(cluster: Cluster, namespace: str) -> None:
    """Breaks if SIGTERM does not reach the program, or a save in the pod's grace does not count."""
    job = train(cluster, namespace)
    job.wait_step(20)
    delete(cluster, "pod/job-1-0", namespace)
    _moved_without_a_loss(completes(job))


def test_an_eviction_saves_and_the_training_goes_on(cluster: Cluster, namespace: str) -> None:
    """Breaks if an eviction by the API is anything but a notice."""
    job = train(cluster, namespace)
    job.wait_step(20)
    body = f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"job-1-0","namespace":"{namespace}"}}}}'
    path = f"/api/v1/namespaces/{namespace}/pods/job-1-0/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=body)
    _moved_without_a_loss(completes(job))


def test_a_drained_node_is_left(cluster: Cluster, namespace: str, release: Release) -> None:
    """Breaks if `kubectl drain` needs --force, or the training waits for the node that is drained."""
    job = train(cluster, namespace, tiers=BOTH, steps=400)
    job.wait_step(20)
    try:
        cluster.kubectl("drain", "real-1", "--ignore-daemonsets", "--delete-emptydir-data", timeout=120)
        job.wait("the other node", lambda s: s.get("node") == "real-2" and s["phase"] == "Running", 90)
    finally:
        cluster.kubectl("uncordon", "real-1")
    _moved_without_a_loss(completes(job))
    wait_for(lambda: len(release.ready()) == 2, 60, "two operators")


def test_killed_shims_are_losses_of_the_infrastructure(real: RealCluster, namespace: str) -> None:
    """Breaks if a container that containerd lost counts as a failure of the program."""
    job = train(real.cluster, namespace, steps=300, checkpoint={"every": "10 steps"})
    for attempt in (1, 2, 3, 4):
        job.wait(
            f"progress of attempt {attempt}",
            lambda s, a=attempt: s.get("attempt", 0) >= a and s["phase"] == "Running" and _progress(s),
            120,
        )
        number = job.status()["attempt"]
        container = wait_for(lambda n=number: _container(job, n), 20, "the container's ID")
        real.nodes["real-1"].kill_shim(container)
        job.wait("the next attempt", lambda s, n=number: s["attempt"] > n, 90)
    status = completes(job)
    lost = [one for one in status["history"] if one["kind"] != "Completed"]
    assert {one["reason"] for one in lost} == {"ContainerLost"}
    assert restarts(status)[2] == 0, "no failure"


def _progress(status: Raw) -> bool:
    now = status.get("current") or {}
    return bool(now.get("firstStep"))


def test_a_reboot_is_a_loss_and_the_training_comes_back(real: RealCluster, namespace: str) -> None:
    """Breaks if what a kubelet says after a reboot counts as a failure, or the only node is avoided."""
    job = train(real.cluster, namespace, steps=300)
    job.wait_checkpoint(20)
    real.nodes["real-1"].lose_power()
    real.nodes["real-1"].boot()
    status = completes(job, 180)
    assert status["history"][0]["kind"] == "Interruption"
    assert status["history"][-1]["resumedStep"] >= 20
    assert restarts(status)[2] == 0, "no failure"


def test_a_node_that_is_gone_is_left_at_once(real: RealCluster, namespace: str) -> None:
    """Breaks if the end of a Node object is not acted on."""
    cluster, node = real.cluster, real.nodes["real-1"]
    job = train(cluster, namespace, tiers=BOTH, steps=300)
    job.wait_checkpoint(20)
    node.lose_power()
    delete(cluster, "node/real-1")
    try:
        job.wait("the other node", lambda s: s.get("node") == "real-2" and s["phase"] == "Running", 60)
    finally:
        node.boot()
        real.wait_ready("real-1")
    status = completes(job)
    assert status["history"][0]["reason"] == "NodeGone"


def test_a_training_outlives_its_kubelet(real: RealCluster, namespace: str) -> None:
    """Breaks if a silent node ends an attempt whose program still reports."""
    node = real.nodes["real-1"]
    job = train(real.cluster, namespace, tiers=BOTH, steps=900)
    job.wait_step(20)
    node.kubelet.kill()
    try:
        wait_for(lambda: not real.is_ready("real-1"), 60, "real-1 to be silent")
        silent = job.status()["progress"]["step"]
        job.wait_step(silent + 300, 90)
    finally:
        node.boot()
        real.wait_ready("real-1")
    status = completes(job)
    assert [one["kind"] for one in status["history"]] == ["Completed"]


def test_a_training_outlives_a_restart_of_containerd(real: RealCluster, namespace: str) -> None:
    """Breaks if a container that nothing happened to counts as lost."""
    node = real.nodes["real-1"]
    job = train(real.cluster, namespace)
    job.wait_step(20)
    node.containerd.kill()
    node.boot()
    status = completes(job)
    assert [one["kind"] for one in status["history"]] == ["Completed"]
