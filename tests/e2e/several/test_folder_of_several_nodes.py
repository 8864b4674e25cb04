"""A program that knows nothing of Holdfast, on nodes without a shared folder, loses one of them."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Pool, kinds, restarts, storage_log, submit
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.training, pytest.mark.usefixtures("operator")]
PROGRAM = REPOSITORY / "tests/support/trainer/strangers/parts_on_nodes.py"
STEPS, PACE = 60, 0.5


def noted(notes: Path, rank: int, what: str) -> list[str]:
    """What a rank has noted, in all its starts."""
    path = Path(f"{notes}-{rank}")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.removeprefix(f"{what} ") for line in lines if line.startswith(f"{what} ")]


def alone(place: Path) -> str:
    """The digest of the program that nobody interrupts, on two nodes that share a folder."""
    (place / "alone").mkdir()
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    subprocess.run(
        [*start, str(PROGRAM), str(place / "alone"), str(STEPS), "0"],
        env=kept | {"NOTES": str(place / "alone-notes")}, capture_output=True, check=True, timeout=240,
    )  # fmt: skip
    return noted(place / "alone-notes", 0, "result")[0]


def gang(cluster: Cluster, namespace: str, pool: Pool, notes: Path) -> Job:
    """A job on two of the pool's three nodes with an accelerator, each with a folder of its own."""
    tier = pool.tier("spot", acquireTimeout="60s", nodeSelector={"test/pool": pool.name})
    trainer: dict[str, Any] = {
        "nodes": 2,
        "acceleratorsPerNode": 1,
        "env": [{"name": "NOTES", "value": str(notes)}],
        "volumes": [{"name": "outputs", "mountPath": "/outputs", "emptyDir": {}}],
    }
    command = ["python", str(PROGRAM), "/outputs", str(STEPS), str(PACE)]
    return submit(
        cluster, namespace, [tier], command, trainer=trainer, goal={"steps": STEPS},
        checkpoint={"folder": "/outputs"}, progress={"patterns": ["step {step} loss {loss}"]},
    )  # fmt: skip


def crash(cluster: Cluster, node: str) -> None:
    cluster.crash(node)
    delete(cluster, f"node/{node}")


def reclaim(cluster: Cluster, node: str) -> None:
    cluster.reclaim(node, timedelta(seconds=30))


# Breaks if nodes resume from two moments, if a node does not find what another one has written, if a notice to one node
# does not reach the programs of all, or if the last save is not committed before the pods go.
@pytest.mark.parametrize(
    ("lose", "rank"),
    [pytest.param(crash, 1, marks=pytest.mark.thorough, id="crash"), pytest.param(reclaim, 0, id="notice")],
)
def test_a_program_on_two_nodes_loses_one(  # noqa: PLR0917 - fixtures
    cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path, lose: Callable[[Cluster, str], None], rank: int
) -> None:
    notes = tmp_path / "notes"
    job = gang(cluster, namespace, pool, notes)
    log = f"{namespace}/{job.name}"
    wait_for(lambda: ("commit", 1) in kinds(storage_log(cluster, log)), 150, "a commit of both folders")
    node = next(pod for pod in job.pods() if pod["metadata"]["name"] == f"job-1-{rank}")["spec"]["nodeName"]
    lose(cluster, node)
    done = job.wait_phase("Completed", "Failed", timeout=240)
    assert (done["phase"], restarts(done)) == ("Completed", (1, 0, 0)), done["history"]
    starts = [noted(notes, one, "start") for one in (0, 1)]
    assert starts[0] == starts[1], "both nodes resume from the same save"
    assert starts[0][0] == "0"
    assert int(starts[0][-1]) >= 10
    assert f"job-1-{1 - rank}" in {pod["metadata"]["name"] for pod in job.pods()}, "the pod of the other node stays"
    if lose is reclaim:
        assert starts[0][-1] in noted(notes, 0, "saved")
        assert done["history"][0]["stepsLost"] == 0
    assert noted(notes, 0, "result") == noted(notes, 1, "result") == [alone(tmp_path)]
