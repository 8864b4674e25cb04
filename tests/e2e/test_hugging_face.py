"""A program that knows nothing of Holdfast: what is shown of it is true, or not there."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from tests.support.cluster.training_jobs import Pool, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast.api.objects import TrainingJob
from holdfast.cli.jobs import describe
from holdfast.local.cluster import Cluster

PROGRAM = str(REPOSITORY / "tests/support/trainer/hugging_face.py")
STEPS = 150


def metrics(operator: OperatorProcess, namespace: str) -> set[str]:
    """What the operator's page of metrics has of the job: names without `holdfast_job_`."""
    found: set[str] = set()

    def read() -> bool:
        code, page = operator.get("/metrics")
        series = [line.partition("{") for line in page.splitlines() if f'namespace="{namespace}"' in line]
        found.update(name.removeprefix("holdfast_job_") for name, _, _ in series)
        return code == 200

    wait_for(read, 20, "a page of metrics")
    return found


# Breaks if no step of it is shown, or if a figure is shown of what nobody knows: where it resumes, what it saves.
def test_an_unmodified_trainer_is_shown_and_moves(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    command = ["python", PROGRAM, str(tmp_path / "output"), str(STEPS), "0.2"]
    tiers = [pool.tier("spot", pricePerNodeHour="10"), pool.tier("cpu", pricePerNodeHour="1")]
    job = submit(cluster, namespace, tiers, command, goal={"steps": STEPS})
    running = job.wait_step(11, 120)
    assert running["progress"]["steps"] == STEPS
    assert float(running["progress"]["loss"]) > 0
    assert {"steps_lost_total", "loss"} <= metrics(operator, namespace)

    cluster.reclaim(running["node"], timedelta(seconds=6))
    moved = job.wait("a step of the next attempt", lambda s: s["ledger"].get("uncountedRestarts") == 1, 120)
    assert moved["progress"]["step"] > 10
    told = job.wait("the time that is left", lambda s: s["attempt"] == 2 and s["progress"].get("eta"), 60)
    assert "goodput" not in told["ledger"]
    assert told["ledger"].get("stepsLost", 0) == 0
    assert not {"goodput_ratio", "steps_lost_total", "saved"} & metrics(operator, namespace)
    console = Console(width=160, force_terminal=False)
    with console.capture() as screen:
        describe.show(console, TrainingJob.parse(job.get()), [], datetime.now(UTC))
    shown = " ".join(screen.get().split())
    assert "Nothing shows that it uses Holdfast's checkpoints" in shown
    assert "not known to Holdfast" in shown
    assert "steps done twice are not known" in shown
    assert "goodput" not in shown
    done = job.wait_phase("Completed", timeout=120)
    assert [record["kind"] for record in done["history"]] == ["Loss", "Completed"]
    assert "checkpoint" not in done
    assert f"done at step {STEPS}" in job.logs(2)
