"""Frameworks in pods that lose their nodes: to the last bit the losses are those of a training that loses none."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete, pod_log
from tests.support.cluster.training_jobs import Job, Pool, exit_code, restarts, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.stores import REPOSITORY, variables
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

# Starts of torch and of its frameworks take minutes on a busy machine.
pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]
PROGRAM = str(REPOSITORY / "tests/support/trainer/frameworks/in_pod.py")
EPOCHS = 12
SECONDS = 1.0  # of a step: a successor needs half a minute on a busy machine, and steps must be left after it
STEPS = {1: 11 * EPOCHS, 2: 6 * EPOCHS}  # by number of nodes, each with one rank


def program(library: str, notes: Path, seconds: float, flags: list[str]) -> list[str]:
    notes.mkdir()
    return [PROGRAM, library, str(EPOCHS), str(seconds), str(notes), *flags]


def batches(notes: Path) -> dict[int, list[list[Any]]]:
    """What each rank wrote, of all attempts."""
    return {
        int(path.name): [json.loads(line) for line in path.read_text().splitlines()]
        for path in notes.iterdir()
        if path.name.isdecimal()
    }


def logs(output: str) -> list[Any]:
    (line,) = {line for line in output.splitlines() if line.startswith("LOGS ")}
    found: list[Any] = json.loads(line.removeprefix("LOGS "))
    return found


def alone(library: str, notes: Path, nodes: int, flags: list[str]) -> list[Any]:
    """The logs of the same training without a cluster and without an interruption."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={nodes}"]
    command += program(library, notes, 0, flags)
    environment = {**os.environ, **variables(f"file://{notes}/prefix")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return logs(done.stdout)


def printed(job: Job) -> str:
    """What the pods printed that have ended well."""
    ended = [pod["metadata"]["name"] for pod in job.pods() if exit_code(pod) == 0]
    return "\n".join(pod_log(job.cluster, name, job.namespace) for name in ended)


def node_of(job: Job) -> str:
    """The node of the last rank's newest pod."""
    return str(job.pods()[-1]["spec"]["nodeName"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("library", "nodes", "flags"),
    [
        pytest.param("trainer", 2, [], id="trainer-2"),
        pytest.param("trainer", 1, [], id="trainer"),
        pytest.param("trainer", 2, ["fsdp"], id="trainer-2-fsdp"),
        pytest.param("accelerate", 2, [], id="accelerate-2"),
        pytest.param("lightning", 1, [], id="lightning"),
        pytest.param("lightning", 2, [], id="lightning-2"),
        pytest.param("fabric", 2, [], id="fabric-2"),
    ],
)
def test_a_framework_that_loses_nodes_has_the_losses_of_one_that_does_not(
    cluster: Cluster,
    namespace: str,
    operator: OperatorProcess,
    pool: Pool,
    tmp_path: Path,
    *,
    library: str,
    nodes: int,
    flags: list[str],
) -> None:
    """Breaks if a notice costs a step, or if anything that a framework needs is not restored in a new pod."""
    tier = pool.tier("spot", acquireTimeout="60s", nodeSelector={"test/pool": pool.name})
    job = submit(
        cluster, namespace, [tier], ["torchrun", *program(library, tmp_path / "job", SECONDS, flags)],
        trainer={"nodes": nodes, "acceleratorsPerNode": 1}, goal={"steps": STEPS[nodes]},
        checkpoint={"every": "10 steps"},
    )  # fmt: skip
    running = job.wait_checkpoint(10, 240)
    reclaimed = node_of(job)
    cluster.reclaim(reclaimed, timedelta(seconds=60))
    job.wait("the interruption with a notice", lambda s: restarts(s)[0] == 1, 240)
    again = job.wait("steps after it", lambda s: s["progress"]["step"] > running["progress"]["step"] + 10, 240)
    assert float(again["progress"]["loss"]) > 0
    assert again["history"][0].get("stepsLost", 0) == 0
    noticed = {rank: len(lines) for rank, lines in batches(tmp_path / "job").items()}
    cluster.crash(reclaimed)  # at once, and not at the end of its notice: it is to be used again
    cluster.restore(reclaimed)
    crashed = node_of(job)
    job.wait_checkpoint(again["history"][0]["lastStep"] + 10, 240)
    cluster.crash(crashed)
    delete(cluster, f"node/{crashed}")
    done = job.wait_phase("Completed", "Failed", timeout=300)
    assert (done["phase"], restarts(done)[0]) == ("Completed", 2), done["history"]
    wanted = alone(library, tmp_path / "alone", nodes, flags)
    found, whole = batches(tmp_path / "job"), batches(tmp_path / "alone")
    for rank, lines in whole.items():
        assert found[rank][: noticed[rank]] == lines[: noticed[rank]], "no step is done twice after a notice"
        unlike = [line for line in found[rank] if line not in lines]
        assert not unlike, f"rank {rank}"
        assert [line for line in lines if line not in found[rank]] == []
    wait_for(lambda: printed(job), 60, "the output")
    assert logs(printed(job)) == wanted
