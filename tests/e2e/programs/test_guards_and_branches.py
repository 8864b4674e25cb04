"""Losses that explode, a rollback by hand, a begin with the model of another training, and progress from a log."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cluster.training_jobs import Job, Pool, Raw, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster


def holdfast(job: Job, *arguments: str) -> str:
    """What a command of the user prints."""
    command = [str(Path(sys.executable).with_name("holdfast")), *arguments, "-n", job.namespace]
    command += ["--kubeconfig", str(job.cluster.admin_kubeconfig)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_losses_that_explode_take_the_training_back(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a loss that is a number is always believed, or if what was spoiled is resumed from."""
    program = (
        "import math, os, time; from holdfast_train import Run; from holdfast_train.examples.stub import Counter\n"
        "first = os.environ['HOLDFAST_ATTEMPT'] == '1'\n"
        "with Run(counter=Counter()) as run:\n"
        "    for step in run.steps():\n"
        "        explodes = first and step >= 300\n"
        "        run.report(loss=1e6 if explodes else 2 + math.sin(step) / 10)\n"
        "        time.sleep(0.01)\n"
    )
    job = submit(
        cluster, namespace, [calm_pool.tier("cpu")], ["python3", "-c", program], goal={"steps": 400},
        checkpoint={"every": "50 steps"}, failure={"spike": {"steps": 5, "window": 50}},
    )  # fmt: skip
    done = job.wait_phase("Completed", "Failed", timeout=120)
    first, last = done["history"]
    assert (done["phase"], first["kind"], first["reason"]) == ("Completed", "Failure", "NonFinite"), done["history"]
    assert "the loss exploded" in first["message"]
    assert 0 < last["resumedStep"] <= 200, "100 steps after a healthy checkpoint are good"


@pytest.mark.thorough
def test_a_person_takes_a_training_back(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if an attempt that was left behind commits, or if a checkpoint that is pinned goes."""
    program = (
        "import os, time; from holdfast_train import Run; from holdfast_train.examples.stub import Counter\n"
        "counter, is_first = Counter(), os.environ['HOLDFAST_ATTEMPT'] == '1'\n"
        "with Run(counter=counter) as run:\n"
        "    for step in run.steps():\n"
        "        counter.add(step)\n"
        "        time.sleep(0.5 if is_first and step > 220 else 0.02)\n"  # it must still train at the rollback
        "print('total', counter.total)\n"
    )
    job = submit(
        cluster, namespace, [calm_pool.tier("cpu")], ["python3", "-c", program], goal={"steps": 600},
        checkpoint={"every": "50 steps", "keep": {"last": 20}},
    )  # fmt: skip
    job.wait_checkpoint(200, 120)
    holdfast(job, "checkpoints", "pin", "job", "150")
    holdfast(job, "rollback", "job", "--to", "100", "--yes")
    back = job.wait("the attempt after it", lambda s: s["attempt"] == 2 and "firstStep" in s["current"], 60)
    assert back["current"]["resumedStep"] == 100
    listed = holdfast(job, "checkpoints", "list", "job").splitlines()
    assert any("200" in line and "left" in line for line in listed), listed
    done = job.wait_phase("Completed", "Failed", timeout=120)
    assert done["phase"] == "Completed", done["history"]
    assert f"total {600 * 601 // 2}" in job.logs(2)


def test_a_training_begins_with_the_model_of_another_one(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the step, or an object that is not named, comes along with the model."""
    program = (
        "from holdfast_train import Run; from holdfast_train.examples.stub import Counter\n"
        "model, schedule = Counter(), Counter()\n"
        "with Run(model=model, schedule=schedule) as run:\n"
        "    print('begins', run.step, model.total, schedule.total, flush=True)\n"
        "    for step in run.steps():\n"
        "        model.add(step), schedule.add(step)\n"
    )
    command, tiers = ["python3", "-c", program], [calm_pool.tier("cpu")]
    first = submit(cluster, namespace, tiers, command, "first", goal={"steps": 30})
    assert first.wait_phase("Completed", "Failed")["phase"] == "Completed"
    s3: Raw = first.manifest["spec"]["checkpoint"]["storage"]["s3"]
    resume = {"from": f"s3://{s3['bucket']}/{s3['prefix']}", "only": ["model"]}
    second = submit(cluster, namespace, tiers, command, "second", goal={"steps": 10}, checkpoint={"resume": resume})
    done = second.wait_phase("Completed", "Failed")
    assert done["phase"] == "Completed", done["history"]
    assert f"begins 0 {30 * 31 // 2} 0\n" in second.logs(1)


def test_a_program_shows_its_progress_by_what_it_prints(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a bar of tqdm, which ends no line, is not read, or if a full bar is taken for the end."""
    program = (
        "import sys, time\n"
        "for step in range(1, 201):\n"
        "    bar = f'{step // 2:3d}%|###       | {step}/200 [00:01<00:10, 20.00it/s, loss={4 / step:.4f}]'\n"
        "    sys.stderr.write('\\r' + bar); sys.stderr.flush(); time.sleep(0.03)\n"
        "time.sleep(9)\n"  # a busy operator has this long to show the full bar before the program ends
    )
    command = ["python3", "-c", program]
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], command, progress={"patterns": ["tqdm"]})
    seen = job.wait_step(40, 60)
    assert seen["progress"]["steps"] == 200
    assert 4 / 201 < float(seen["progress"]["loss"]) <= 4 / 40
    assert "eta" in job.wait("the time that is left", lambda s: s["progress"].get("eta"), 30)["progress"]
    full = job.wait("a full bar", lambda s: s["progress"]["step"] == 200, 60)
    assert full["phase"] == "Running"
    assert job.wait_phase("Completed", "Failed")["phase"] == "Completed"
