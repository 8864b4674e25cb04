"""Programs that know nothing of Holdfast, with checkpoint.folder: they lose their nodes, and end as if they had not."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.cluster.training_jobs import Job, Pool, Raw, restarts, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.as_it_is import SAVE_STEPS
from tests.support.trainer.stores import REPOSITORY

from holdfast.api.objects import TrainingJob
from holdfast.cli.jobs import describe
from holdfast.local.cluster import Cluster

OUTPUTS = {"name": "outputs", "mountPath": "/outputs", "emptyDir": {}}
STEPS = 200
LOSSES = 3


def start(cluster: Cluster, namespace: str, pool: Pool, program: str, *arguments: str) -> Job:
    command = ["python", str(REPOSITORY / "tests/support/trainer" / program), "/outputs", str(STEPS), *arguments]
    tiers = [pool.tier(kind) for kind in ("spot", "dedicated", "cpu")]
    checkpoint: Raw = {"folder": "/outputs", "gracePeriod": "15s", "keep": {"last": 2}}
    return submit(
        cluster, namespace, tiers, command, trainer={"volumes": [OUTPUTS]}, checkpoint=checkpoint, goal={"steps": STEPS}
    )


def reclaim(cluster: Cluster, job: Job) -> None:
    """Take the node away three times, each time after the attempt on it has saved, and has shown a later step."""
    for count in range(LOSSES):
        seen = job.wait("a checkpoint of its own, and a step after it", lambda s: _goes_on(s, count), 120)  # noqa: B023
        cluster.reclaim(seen["node"], timedelta(seconds=20))
        job.wait(f"loss {count + 1}", lambda s: restarts(s)[0] > count, 60)  # noqa: B023


def _goes_on(status: Raw, losses: int) -> bool:
    current, saved = status.get("current") or {}, status.get("checkpoint", {}).get("step", 0)
    resumed, step = current.get("resumedStep", 0), status.get("progress", {}).get("step", 0)
    return restarts(status)[0] == losses and "firstStep" in current and resumed < saved < step


def alone(folder: Path, program: str, *arguments: str) -> str:
    """The last line of the program that nobody interrupts."""
    path = REPOSITORY / "tests/support/trainer" / program
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBEFLOW_")}
    made = subprocess.run(
        [sys.executable, str(path), str(folder), str(STEPS), *arguments],
        env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return result(made.stdout)


def result(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("RESULT "))


def trained(job: Job, attempt: int) -> int:
    """How many steps an attempt took, by its own output."""
    return sum("'loss'" in line for line in job.logs(attempt).splitlines())


def shown(job: Job) -> str:
    console = Console(width=160, force_terminal=False)
    with console.capture() as screen:
        describe.show(console, TrainingJob.parse(job.get()), [], datetime.now(UTC))
    return " ".join(screen.get().split())


def retrained(job: Job, ran: list[Raw]) -> list[int]:
    """The steps that each lost attempt took after the checkpoint at which the next one resumed."""
    return [
        (before.get("resumedStep") or 0) + trained(job, before["number"]) - after["resumedStep"]
        for before, after in pairwise(ran)
    ]


# Breaks if a program of Hugging Face that nobody changed loses more than the steps since its last save, resumes with
# another state, or if what is shown of it is not true.
@pytest.mark.parametrize("mode", ["", "jit"])
def test_an_unmodified_trainer_is_reclaimed_three_times(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path, mode: str
) -> None:
    job = start(cluster, namespace, pool, "as_it_is.py", "0.25", *([mode] * bool(mode)))
    reclaim(cluster, job)
    last = job.wait("the time that is left", lambda s: restarts(s)[0] == LOSSES and s["progress"].get("eta"), 120)
    assert last["progress"]["step"] > last["current"]["resumedStep"]
    text = shown(job)
    assert "each complete checkpoint that it writes into /outputs is saved" in text
    assert ("0 steps done twice" in text) is (mode == "jit")
    done = job.wait_phase("Completed", timeout=120)
    assert done["checkpoint"]["step"] == done["progress"]["step"] == STEPS
    ran = [record for record in done["history"] if "firstStep" in record]
    assert [record["kind"] for record in ran] == ["Loss"] * LOSSES + ["Completed"]
    twice = retrained(job, ran)
    # On SIGTERM the Trainer saves in the middle of a step, ends that step, and leaves.
    assert all(0 <= steps <= (1 if mode else SAVE_STEPS) for steps in twice), twice
    told = [record.get("stepsLost") for record in ran[:-1]]
    assert (
        told == [0] * LOSSES
        if mode
        else all(one is None or 0 < one <= steps for one, steps in zip(told, twice, strict=True))
    ), (told, twice)  # noqa: E501
    assert result(job.logs(ran[-1]["number"])) == alone(tmp_path / "alone", "as_it_is.py", "0", *([mode] * bool(mode)))
