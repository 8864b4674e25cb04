"""The operator is killed after each of its writes, while trainings on two nodes lose one of them or get a notice.

The pods are real, and so are their launchers; the program is small, so that many trainings fit on one machine.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.e2e.test_operator_death import KILL_AFTER, NOTICE, STEPS, Group, Make, kill_after_each_write
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.pod_history import PodWatch
from tests.support.cluster.small_gangs import COMMAND, environment, printed_by_rank_0
from tests.support.cluster.training_jobs import Job, Pool, Raw, has_ended, restarts

from holdfast.api import names
from holdfast_local.cluster import Cluster

TAKEN = "spot-1"


class Gangs(Group):
    """Trainings with one pod on each of two nodes. One node goes away; then a third one is there."""

    command: Sequence[str] = COMMAND

    def __init__(self, cluster: Cluster, namespace: str, pool: Pool, folder: Path) -> None:
        super().__init__(cluster, namespace, pool)
        self.folder = folder / pool.name
        self.folder.mkdir()
        self.tier = pool.tier("spot", acquireTimeout="2m", nodeSelector={"test/pool": pool.name})
        cluster.kubectl("uncordon", pool.node("spot-2"))
        cluster.kubectl("cordon", pool.node("dedicated-1"), pool.node("cpu-1"))

    def trainer(self, name: str) -> Raw:
        # Without processes that wait: the imports of so many trainings at once would need more time than the training.
        more = {"nodes": 2, "warmStart": False, "env": environment(self.folder / name, STEPS)}
        return {**super().trainer(name), **more}

    def reclaim(self) -> None:
        (self.folder / "fast").touch()
        self.cluster.kubectl("uncordon", self.pool.node("dedicated-1"))
        self.cluster.reclaim(self.pool.node(TAKEN), NOTICE, kill_after=KILL_AFTER)

    @staticmethod
    def assert_failed_over_once(job: Job) -> None:
        status = job.status()
        assert status["phase"] == "Completed", status
        interruptions, _, failures = restarts(status)
        assert (interruptions, failures) == (1, 0), status["history"]
        assert [entry["kind"] for entry in status["history"]] == ["Interruption", "Completed"]
        assert f"total {STEPS * (STEPS + 1) // 2} " in printed_by_rank_0(job)
        born = {pod["metadata"]["labels"][names.LABEL_ATTEMPT] for pod in job.pods()}
        assert str(status["history"][0]["number"]) in born, "the other member keeps its pod"
        for pod in job.pods():
            lost = pod["spec"]["nodeName"].endswith(TAKEN)  # nobody may tell how a pod on it ended
            assert lost or has_ended(pod)
            assert not pod["metadata"].get("finalizers")


class LosingGangs(Gangs):
    """The node goes away without a notice."""

    def reclaim(self) -> None:
        (self.folder / "fast").touch()
        self.cluster.kubectl("uncordon", self.pool.node("dedicated-1"))
        self.cluster.crash(self.pool.node(TAKEN))
        delete(self.cluster, f"node/{self.pool.node(TAKEN)}")


@pytest.fixture(params=[Gangs, LosingGangs], ids=["notice", "loss"])
def make_gangs(
    request: pytest.FixtureRequest, cluster: Cluster, namespace: str, pools: Callable[[], Pool], tmp_path: Path
) -> Callable[[], Gangs]:
    """Makes trainings on nodes of their own."""
    return lambda: request.param(cluster, namespace, pools(), tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_operator_killed_after_each_write_while_one_node_of_two_is_lost(
    cluster: Cluster, namespace: str, lone_operator: Make, make_gangs: Callable[[], Gangs]
) -> None:
    """Breaks if two writes must both happen: then a rank has no pod or two, or one interruption counts twice."""
    with PodWatch(cluster, namespace) as watch:
        kill_after_each_write(lone_operator, make_gangs)
        for name, alive in watch.most_alive().items():
            # Two that train, a new one, and one that an operator made and did not live to name: that one is deleted.
            assert len(alive) <= 4, f"pods of {name} that lived at once: {[p['metadata']['name'] for p in alive]}"
