"""Two writers of one training: an old pod that comes back, and a job that is made again under its name."""

import signal
from collections.abc import Iterator

import psutil
import pytest
from tests.support.cluster.local_cluster import exists
from tests.support.cluster.training_jobs import Job, Pool, Raw, kinds, processes_of, restarts, storage_log, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster
from holdfast_train.commitlog.records import replay

TOTAL = "total 20100"  # 200 steps, each exactly once


@pytest.fixture
def frozen() -> Iterator[list[psutil.Process]]:
    """Processes that a test stops. At its end they continue, also if the test fails."""
    stopped: list[psutil.Process] = []
    yield stopped
    for process in stopped:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


@pytest.mark.thorough
def test_a_zombie_commits_nothing_and_ends_by_itself(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, frozen: list[psutil.Process]
) -> None:
    """Breaks if a pod on a node that was cut off may commit after its successor has started."""
    job = submit(cluster, namespace, [pool.tier("spot")], stub("--step-seconds", 0.05))
    status = job.wait_checkpoint(20)
    node, uid = status["node"], status["current"]["pods"][0]["uid"]
    frozen += processes_of(uid)
    cluster.silence(node)
    for process in frozen:
        process.send_signal(signal.SIGSTOP)
    job.wait("the next attempt's first step", lambda s: s["attempt"] == 2 and s["current"].get("firstStep"))

    for process in frozen:
        process.send_signal(signal.SIGCONT)

    wait_for(lambda: not processes_of(uid), 60, "the zombie to end by itself")
    assert '"outcome":"fenced"' in last_words(cluster, node, uid)
    done = job.wait_phase("Completed")
    records = storage_log(cluster, f"{namespace}/job")
    fence = kinds(records).index(("fence", 2))
    assert {attempt for _, attempt in kinds(records)[fence:]} == {2}
    lost = done["history"][0]
    assert (lost["kind"], lost["reason"]) == ("Interruption", "NodeSilent")
    assert restarts(done) == (1, 0, 0)
    assert TOTAL in job.logs(2)
    cluster.restore(node)
    wait_for(lambda: job.pod(1) is None, 30, "the pod of the lost node to go")


def last_words(cluster: Cluster, node: str, pod_uid: str) -> str:
    """The verdict of a pod whose node cannot report it, as its kubelet will find it."""
    (folder,) = (cluster.root / "nodes" / node).rglob(pod_uid)
    return (folder / "messages" / "trainer.0").read_text(encoding="utf-8")


def remade(cluster: Cluster, namespace: str, pool: Pool, resume: str) -> tuple[Job, Raw]:
    """A job that was deleted after its first checkpoint and made again, and its end."""
    job = submit(cluster, namespace, [pool.tier("cpu")], stub("--step-seconds", 0.05))
    job.wait_checkpoint(20)
    job.delete()
    # A new cluster's garbage collector looks for new kinds of objects, such as TrainingJobs, every 30 s.
    wait_for(lambda: not exists(cluster, "pod/job-1-0", namespace), 90, "the first job's pod to go")
    again = submit(cluster, namespace, [pool.tier("cpu")], stub("--step-seconds", 0.01), checkpoint={"resume": resume})
    return again, again.wait_phase("Completed", "Failed")


@pytest.mark.thorough
def test_a_job_made_anew_goes_on_where_the_old_one_was(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if attempt numbers that start at 1 again are taken for a zombie's, or the checkpoints are not found."""
    job, done = remade(cluster, namespace, calm_pool, "Auto")
    assert done["phase"] == "Completed", done
    records = storage_log(cluster, f"{namespace}/job")
    taken = next(record for record in records if record.kind == "takeover")
    assert (taken.resume, taken.identity.job_uid) == ("Auto", job.get()["metadata"]["uid"])
    before = [record for record in records if record.seq < taken.seq]
    newest = [record.commit.step for record in before if record.commit is not None][-1]
    assert [(e["number"], e["resumedStep"]) for e in done["history"]] == [(1, newest)]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert kinds(records)[-1] == ("complete", 1)
    assert TOTAL in job.logs(1)


@pytest.mark.thorough
def test_a_job_made_anew_that_resumes_never_starts_at_the_first_step(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if `resume: Never` resumes, or destroys what the old job has saved."""
    job, done = remade(cluster, namespace, calm_pool, "Never")
    assert done["phase"] == "Completed", done
    (entry,) = done["history"]
    assert (entry["number"], entry["firstStep"], entry.get("resumedStep")) == (1, 1, None)
    records = storage_log(cluster, f"{namespace}/job")
    taken = next(record for record in records if record.kind == "takeover")
    assert taken.resume == "Never"
    put_aside = replay(records[: taken.seq]).set_aside
    assert put_aside, "the old checkpoints are kept, out of the way"
    assert set(put_aside) <= set(replay(records).set_aside)
    assert TOTAL in job.logs(1)
