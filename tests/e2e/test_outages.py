"""Parts of the platform go away and come back: training goes on, nothing is lost, nothing is counted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.cluster.local_cluster import apply, items
from tests.support.cluster.training_jobs import Job, Pool, Raw, s3_secret, storage_log, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

ENDLESS = stub("--step-seconds", 0.05)  # 20 steps, and so one save, a second
GOAL = {"steps": 1_000_000}  # nobody waits for it


@pytest.fixture
def control_plane(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster. Its controllers, which return from an outage after up to 30 s, are started afresh at the end."""
    yield cluster
    for part in ("kube-controller-manager", "kube-scheduler"):
        cluster.kill_component(part)
        cluster.start_component(part)


@pytest.mark.thorough
def test_storage_is_down_when_a_save_is_due(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a save that fails ends the training, is not tried again, or leaves a commit that cannot be read.

    A save is given up after 10 s, and tried again 15 s later: the storage is down for more than half a minute.
    """
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], ENDLESS, goal={"steps": 750})
    before = job.wait_checkpoint(20)["checkpoint"]["step"]
    with down(cluster, "s3"):
        job.wait("the storage to be named, before a save is given up", storage_is_away, 10)
        log = wait_for(lambda: given_up_twice(job.logs(1)), 90, "a save to be given up, and another")
        wait_for(lambda: newest_step(job.logs(1)) > newest_step(log) + 40, 30, "training to go on without storage")
        assert job.status()["checkpoint"]["step"] >= before
    job.wait("the storage to answer again", lambda status: not storage_is_away(status), 30)
    job.wait_checkpoint(before + 21)
    done = job.wait_phase("Completed", "Failed")
    assert_untouched(job, done)
    assert "total 281625" in job.logs(1), "750 steps, each exactly once"
    assert storage_log(cluster, f"{namespace}/job")[-1].kind == "complete"
    assert commits(job) == sorted(set(commits(job)))


@pytest.mark.thorough
def test_the_keys_in_the_secret_change(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a running pod keeps the keys with which it began, or a job that cannot save does not say so."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], ENDLESS, goal=GOAL)
    job.wait_checkpoint(20)
    apply(cluster, s3_secret(cluster, AWS_SECRET_ACCESS_KEY="replaced"), namespace=namespace)
    failing = job.wait("a condition", lambda s: checkpoint_failing(s)["status"] == "True", 90)
    assert "SignatureDoesNotMatch" in checkpoint_failing(failing)["message"]
    apply(cluster, s3_secret(cluster), namespace=namespace)
    job.wait("saves to succeed", lambda s: checkpoint_failing(s)["status"] == "False", 90)
    wait_commit(job, 40)
    end_untouched(job)


@pytest.mark.thorough
def test_api_server_is_down_while_a_job_trains(
    control_plane: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if an operator that cannot write stops a training, or one that comes back takes it for lost."""
    job = submit(control_plane, namespace, [calm_pool.tier("cpu")], ENDLESS, goal=GOAL)
    job.wait_checkpoint(20)
    with down(control_plane, "kube-apiserver"):
        wait_for(lambda: not operator.health()["leading"], 30, "the lease to run out")
        wait_commit(job, 600)  # half a minute
    operator.wait_ready(60)
    wait_until_ready(control_plane, calm_pool)
    end_untouched(job)


def test_etcd_is_killed_while_a_job_trains(
    control_plane: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if an API server that answers with errors makes the operator forget, fail or repeat anything."""
    job = submit(control_plane, namespace, [calm_pool.tier("cpu")], ENDLESS, goal=GOAL)
    job.wait_checkpoint(20)
    with down(control_plane, "etcd"):
        wait_commit(job, 120)
    operator.wait_ready(60)
    wait_until_ready(control_plane, calm_pool)
    end_untouched(job)


@pytest.mark.thorough
def test_operator_is_killed_and_started_again_while_a_job_trains(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess], calm_pool: Pool
) -> None:
    """Breaks if an operator that starts does not find in status and pods what runs, and begins again."""
    operator = lone_operator().start()
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], ENDLESS, goal=GOAL)
    job.wait_checkpoint(20)
    operator.kill()
    wait_commit(job, 40)
    operator.start()
    end_untouched(job)


@pytest.mark.thorough
def test_all_nodes_fall_silent_at_once(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if an outage of the network or the control plane is taken for the death of every node."""
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], ENDLESS, goal=GOAL)
    plain = submit(cluster, namespace, [calm_pool.tier("cpu")], ["sleep", "3600"], "plain")
    plain.wait_phase("Running")
    job.wait_step(20)
    alive = ready_nodes(cluster)
    with paused(cluster, "agent"):
        wait_for(lambda: not ready_nodes(cluster), 60, "every node to be NotReady")
        for each in (job, plain):
            each.wait("the operator to see it", lambda s: s.get("reason") == "NodeSilent", 20)
        wait_commit(job, 120)  # 6 s: the operator's patience with a single silent node is over
        for each in (job, plain):
            assert (each.status()["attempt"], each.status()["phase"]) == (1, "Running"), each.name
    wait_for(lambda: ready_nodes(cluster) >= alive, 60, "all nodes to be Ready again")
    assert_untouched(plain, plain.wait("its node's silence to be over", lambda s: not s.get("reason")))
    plain.delete()
    end_untouched(job)


@contextmanager
def down(cluster: Cluster, part: str) -> Iterator[None]:
    """A part of the cluster is dead inside, and runs again afterwards."""
    cluster.kill_component(part)
    try:
        yield
    finally:
        cluster.start_component(part)


@contextmanager
def paused(cluster: Cluster, part: str) -> Iterator[None]:
    """A part of the cluster does nothing inside, and goes on afterwards."""
    cluster.pause_component(part)
    try:
        yield
    finally:
        cluster.resume_component(part)


def ready_nodes(cluster: Cluster) -> set[str]:
    """The names of the nodes that are Ready."""
    ready = {"type": "Ready", "status": "True"}
    return {
        node["metadata"]["name"]
        for node in items(cluster, "node")
        if any(ready.items() <= condition.items() for condition in node["status"]["conditions"])
    }


def wait_until_ready(cluster: Cluster, pool: Pool) -> None:
    """Wait until the nodes of a pool are Ready: an outage of the control plane may have them called silent."""
    wait_for(lambda: ready_nodes(cluster).issuperset(pool.nodes), 60, f"the nodes of pool {pool.name} to be Ready")


def commits(job: Job) -> list[int]:
    """The steps in the storage's commit log, in its order: it can be read without the API server."""
    records = storage_log(job.cluster, f"{job.namespace}/{job.name}")
    return [record.commit.step for record in records if record.commit is not None]


def wait_commit(job: Job, steps: int) -> None:
    """Wait until this many more steps are saved."""
    begun = commits(job)[-1]
    wait_for(lambda: commits(job)[-1] >= begun + steps, 60, "training to go on")


def checkpoint_failing(status: Raw) -> Raw:
    """The condition; its status is empty before the first save has failed."""
    conditions = (one for one in status.get("conditions") or () if one["type"] == "CheckpointFailing")
    return next(conditions, {"status": "", "message": ""})


def storage_is_away(status: Raw) -> bool:
    """True if the job says that its storage does not answer."""
    return any(one["type"] == "StorageUnreachable" and one["status"] == "True" for one in status["conditions"])


def given_up_twice(log: str) -> str:
    """The log if it contains two saves that failed."""
    return log if log.count("could not be saved") >= 2 else ""


def newest_step(log: str) -> int:
    """The last step that the stub printed."""
    return max((int(line.split()[1]) for line in log.splitlines() if line.startswith("step ")), default=0)


def end_untouched(job: Job) -> None:
    """Wait for a report of new steps. Nothing else may have happened, and the job still carries out requests."""
    step = commits(job)[-1]
    assert_untouched(job, job.wait(f"a report beyond step {step}", lambda s: s["progress"]["step"] > step))
    job.patch({"suspend": True})
    (end,) = job.wait_phase("Suspended")["history"]
    assert (end["kind"], end["reason"], end["lastStep"]) == ("Stopped", "Suspended", commits(job)[-1])


def assert_untouched(job: Job, status: Raw) -> None:
    """One attempt, one pod, nothing counted, and the operator deleted nothing."""
    assert status["phase"] in ("Running", "Completed"), status.get("decision")
    assert status["attempt"] == 1
    assert not any((status.get("restarts") or {}).values())
    (pod,) = job.pods()
    assert "deletionTimestamp" not in pod["metadata"]
    assert not [write for write in job.writes() if write["verb"] == "delete"]
