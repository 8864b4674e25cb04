"""The operator is killed, or is absent: the next one continues from what the API server and the storage have."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from tests.support.cluster.local_cluster import apply, delete, get, items
from tests.support.cluster.pod_history import PodWatch
from tests.support.cluster.training_jobs import (
    Job,
    Pool,
    Raw,
    brief,
    has_ended,
    job_manifest,
    kinds,
    restarts,
    s3_secret,
    storage_log,
    stub,
    submit,
)
from tests.support.operator.operator_main import FIRST_STEP, FROZEN
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.cluster import Cluster

Make = Callable[..., OperatorProcess]

STEPS = 2400  # four minutes in a first attempt, whose node is taken, a few seconds in the next
NOTICE = timedelta(seconds=10)  # all pods of a group save at once; past the deadline they get 5 s more
KILL_AFTER = timedelta(seconds=30)  # all pods of a group leave at once: on a busy machine none may die unheard
PLAN = {
    "goal": {"steps": STEPS},
    "checkpoint": {"every": "800 steps"},
}  # rarely, otherwise trainers that resume slow down those that save
TRAIN = """
if [ "$HOLDFAST_ATTEMPT" = 1 ]; then pace=0.1; else pace=0.001; fi
exec python -m holdfast_train.examples.stub --step-seconds $pace
"""
# No progress writes between the others: the writes of a failover are then the same for each job. Trainers report as
# rarely, but after each save too, so that an operator that has just started soon knows them.
STEADY = {"status_interval": 600}


class Group:
    """Jobs that share a node until it is reclaimed, and then its neighbour.

    They train slowly before that, so that none is done while others still start, and fast afterwards.
    """

    command: Sequence[str] = ("sh", "-c", TRAIN)

    def __init__(self, cluster: Cluster, namespace: str, pool: Pool) -> None:
        self.cluster, self.namespace, self.pool = cluster, namespace, pool
        self.jobs: list[Job] = []
        self.tier = pool.tier("spot", acquireTimeout="2m")
        cluster.kubectl("cordon", pool.node("spot-2"))

    def submit(self, names_of_jobs: Sequence[str]) -> None:
        """Apply jobs of these names at once."""
        for name in names_of_jobs:
            manifest = job_manifest(
                self.cluster, self.namespace, name, [self.tier], self.command, trainer=self.trainer(name), **PLAN
            )
            self.jobs.append(Job(self.cluster, self.namespace, name, manifest))
        apply(self.cluster, s3_secret(self.cluster), namespace=self.namespace)
        apply(self.cluster, *(job.manifest for job in self.jobs))

    def trainer(self, name: str) -> Raw:
        """What spec.trainer of this job is beside image and command."""
        return {"resources": {"cpu": "100m", "memory": "512Mi"}, "acceleratorsPerNode": 0}

    def statuses(self) -> dict[str, Raw]:
        """The status of each job."""
        found = items(self.cluster, "trainingjob", self.namespace)
        own = {job.name for job in self.jobs}
        return {o["metadata"]["name"]: o.get("status") or {} for o in found if o["metadata"]["name"] in own}

    def wait_training(self) -> None:
        """Until each job's first step is in status."""

        def none_is_missing() -> bool:
            late = {job.name for job in self.jobs} - self.training()
            assert not late, {name: brief(status) for name, status in self.statuses().items() if name in late}
            return True

        wait_for(none_is_missing, 150, "every job to train", every=0.5)

    def training(self) -> set[str]:
        """Jobs whose first step is in status."""
        return {name for name, s in self.statuses().items() if (s.get("current") or {}).get("firstStep")}

    def reclaim(self) -> None:
        """Take the first node away; the second one is there now."""
        self.cluster.kubectl("uncordon", self.pool.node("spot-2"))
        self.cluster.reclaim(self.pool.node("spot-1"), NOTICE, kill_after=KILL_AFTER)

    def over(self) -> set[str]:
        """Jobs that are over and have no pod that is held by our finalizer."""
        pods = items(self.cluster, "pod", self.namespace)
        held = {p["metadata"]["labels"][names.LABEL_JOB] for p in pods if p["metadata"].get("finalizers")}
        final = {name for name, s in self.statuses().items() if s.get("phase") in ("Completed", "Failed")}
        return final - held

    @staticmethod
    def assert_failed_over_once(job: Job) -> None:
        """One interruption, no step lost, none trained twice, nothing left behind."""
        status = job.status()
        assert status["phase"] == "Completed", status
        assert restarts(status) == (1, 0, 0), status["history"]
        interruption = next(entry for entry in status["history"] if entry["kind"] == "Interruption")
        last = status["history"][-1]
        assert last["kind"] == "Completed"
        assert interruption.get("stepsLost", 0) == 0, f"{status['history']}\n{job.logs(interruption['number'])[-2000:]}"
        printed = job.logs(last["number"])
        resumed = int(re.findall(r"resumed from step (\d+) ", printed)[0])
        # Perhaps no operator got a report of the last attempt; then none knows that the attempt before it came further.
        unheard = "firstStep" not in last and resumed > interruption["lastStep"]
        assert resumed == interruption["lastStep"] or unheard, status["history"]
        assert f"total {STEPS * (STEPS + 1) // 2}" in printed
        known = {entry["number"] for entry in status["history"]}
        for pod in job.pods():
            assert int(pod["metadata"]["labels"][names.LABEL_ATTEMPT]) in known
            assert has_ended(pod)
            assert not pod["metadata"].get("finalizers")


def writes_of_a_failover(group: Group) -> list[Raw]:
    """The writes of the operator on one job that loses its node and completes."""
    group.submit(["clean"])
    group.wait_training()
    group.reclaim()
    wait_for(lambda: len(group.over()) == 1, 90, "the job to complete", every=0.5)
    group.assert_failed_over_once(group.jobs[0])
    return group.jobs[0].writes()


def attempt_of(pod: Raw) -> int:
    """The number of a pod's attempt."""
    return int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])


def predecessor(pod: Raw) -> int:
    """The attempt that a pod waits for, 0 if for none."""
    env = {var["name"]: var.get("value") for var in pod["spec"]["containers"][0]["env"]}
    return int(env.get("HOLDFAST_PREDECESSOR", 0))


def kill_after_each_write(make_operator: Make, make_group: Callable[[], Group]) -> list[Job]:
    """Run a failover once, then once for each of its writes, with an operator that is killed right after that write.

    Return the jobs of the second part; each failed over once.
    """
    operator = make_operator(patience=STEADY, workers=64).start()
    writes = writes_of_a_failover(make_group())
    assert len(writes) >= 12, "a failover is an intent, a pod, its way to training, twice, and an end in between"
    first_step = next(n for n, w in enumerate(writes, 1) if '"firstStep"' in json.dumps(w["requestObject"]))
    operator.stop()

    # The operator of these jobs stops dead for each of them after another write, then it is killed.
    early, late = make_group(), make_group()
    # On a busy machine a job's first step may need another write or two, so the later ones are counted from there.
    before = {f"w{number}": str(number) for number in range(1, first_step)}
    after = {f"w{number}": f"{FIRST_STEP}{number - first_step}" for number in range(first_step, len(writes) + 1)}
    freeze = before | after
    operator.start(freeze=freeze)
    late.submit([*after])
    early.submit([*before])

    def frozen() -> set[str]:
        return {line["job"] for line in operator.log_lines() if line["message"] == FROZEN}

    late.wait_training()
    late.reclaim()
    # On a busy machine some writes of the clean run fall into one; then some jobs are past their turn.
    left = lambda: frozen() | early.training() | late.over()  # noqa: E731
    wait_for(lambda: left() >= freeze.keys(), 90, "each job to be left after its write", every=0.5)
    assert len(frozen()) >= len(freeze) - 6, "nearly all were left in the middle"
    operator.bury()

    operator.start()
    early.wait_training()
    early.reclaim()
    jobs = [*early.jobs, *late.jobs]
    wait_for(lambda: len(early.over() | late.over()) == len(jobs), 150, "every job to complete", every=0.5)
    for job in jobs:
        early.assert_failed_over_once(job)
    return jobs


@pytest.mark.thorough
def test_operator_killed_after_each_write_of_a_failover(
    cluster: Cluster, namespace: str, lone_operator: Make, pools: Callable[[], Pool]
) -> None:
    """Breaks if two writes must both happen: then a pod has no intent, an interruption counts twice, a pod is never
    released."""
    with PodWatch(cluster, namespace) as watch:
        kill_after_each_write(lone_operator, lambda: Group(cluster, namespace, pools()))
        for name, alive in watch.most_alive().items():
            oldest, *followers = sorted(alive, key=attempt_of)
            assert len(followers) <= 1, f"pods of {name} that lived at once"
            assert all(predecessor(pod) == attempt_of(oldest) for pod in followers), "it waits for the one that trains"


@pytest.mark.thorough
def test_operator_down_while_the_job_completes_and_its_pod_is_deleted(
    cluster: Cluster, namespace: str, lone_operator: Make, pool: Pool
) -> None:
    """Breaks if the pod does not wait, deleted or not, until its end is in status."""
    operator = lone_operator().start()
    job = submit(cluster, namespace, [pool.tier("cpu")], stub("--step-seconds", 0.02))
    job.wait_step(1)
    operator.bury()
    wait_for(lambda: phase(job) == "Succeeded", 30, "the trainer to complete")
    delete(cluster, "pod/job-1-0", namespace)
    wait_for(lambda: get(cluster, "pod/job-1-0", namespace)["metadata"].get("deletionTimestamp"), 10, "the deletion")

    operator.start()

    done = job.wait_phase("Completed", "Failed")
    assert [entry["kind"] for entry in done["history"]] == ["Completed"]
    assert restarts(done) == (0, 0, 0)
    wait_for(lambda: not job.pods(), 20, "the pod to go")


@pytest.mark.thorough
def test_operator_down_while_the_pod_ends_and_is_lost(
    cluster: Cluster, namespace: str, lone_operator: Make, pool: Pool
) -> None:
    """Breaks if a job that ended without an operator is trained again although its log says that it is complete."""
    operator = lone_operator().start()
    job = submit(cluster, namespace, [pool.tier("cpu")], stub("--step-seconds", 0.02))
    job.wait_step(1)
    operator.bury()
    wait_for(lambda: phase(job) == "Succeeded", 30, "the trainer to complete")
    delete(cluster, "pod/job-1-0", namespace)
    cluster.kubectl(
        "patch", "pod", "-n", namespace, "job-1-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )
    wait_for(lambda: not job.pods(), 20, "the pod to go")

    operator.start()

    done = job.wait_phase("Completed", "Failed")
    one, two = done["history"]
    assert (one["kind"], one["reason"], one["estimated"]) == ("Interruption", "PodGone", True)
    assert (two["kind"], two["reason"]) == ("Completed", "AlreadyComplete")
    assert done["reason"] == "AlreadyComplete"
    assert (two.get("firstStep"), two.get("steps", 0), two["lastStep"]) == (None, 0, 200)
    assert done["progress"]["percent"] == "100.0"
    assert "loss" not in job.logs(2), "nothing was trained again"
    log = kinds(storage_log(cluster, f"{namespace}/job"))
    assert log[-1] == ("complete", 1)
    assert ("fence", 2) not in log


def phase(job: Job) -> str | None:
    """The phase of its first pod."""
    pod = job.pod(1)
    return pod["status"].get("phase") if pod else None
