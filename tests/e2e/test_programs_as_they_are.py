"""Programs that know nothing of Holdfast: what is shown of them is true, or not there.

With checkpoint.folder they lose their nodes, and end as if they had not.
"""

import csv
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from tests.e2e.programs.test_guards_and_branches import holdfast
from tests.support.cluster.training_jobs import Job, Pool, Raw, restarts, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.trainer.stores import REPOSITORY

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs import describe
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.usefixtures("operator")
EXAMPLE = yaml.safe_load((REPOSITORY / "examples/as-it-is.yaml").read_text(encoding="utf-8"))["spec"]
STEPS = {"as_it_is.py": 240, "plain.py": 120}
SAVE_STEPS = 10
INTERRUPTIONS = 3
WITHOUT_FOLDER = str(REPOSITORY / "tests/support/trainer/hugging_face.py")


def start(cluster: Cluster, namespace: str, pool: Pool, notes: Path, *program: str) -> Job:
    """The job of the example, with this program."""
    folder, steps = EXAMPLE["checkpoint"]["folder"], str(STEPS[program[0]])
    command = ["python", str(REPOSITORY / "tests/support/trainer" / program[0]), folder, steps, *program[1:]]
    env = [{"name": "NOTES", "value": str(notes)}, {"name": "SAVE_STEPS", "value": str(SAVE_STEPS)}]
    trainer = {"volumes": EXAMPLE["trainer"]["volumes"], "env": env}
    checkpoint = {name: value for name, value in EXAMPLE["checkpoint"].items() if name != "storage"}
    tiers = [pool.tier(kind) for kind in ("spot", "dedicated", "cpu")]
    return submit(
        cluster, namespace, tiers, command, trainer=trainer, checkpoint=checkpoint, goal={"steps": int(steps)}
    )


def reclaim(cluster: Cluster, job: Job) -> None:
    """Take the node away three times, each time after the attempt on it has saved, and has shown a later step."""
    for count in range(INTERRUPTIONS):
        seen = job.wait("a checkpoint of its own, and a step after it", lambda s: _goes_on(s, count), 120)  # noqa: B023
        cluster.reclaim(seen["node"], timedelta(seconds=20))
        job.wait(f"interruption {count + 1}", lambda s: restarts(s)[0] > count, 60)  # noqa: B023


def _saved(status: Raw) -> int:
    step: int = status.get("checkpoint", {}).get("step", 0)
    return step


def _goes_on(status: Raw, interruptions: int) -> bool:
    current, saved = status.get("current") or {}, _saved(status)
    resumed, step = current.get("resumedStep", 0), status.get("progress", {}).get("step", 0)
    return (
        restarts(status)[0] == interruptions and "node" in status and "firstStep" in current and resumed < saved < step
    )


def _foreseen(status: Raw) -> bool:
    """Whether the attempt that resumed has taken a step since, and an ETA is shown."""
    resumed, progress = (status.get("current") or {}).get("resumedStep"), status["progress"]
    return resumed is not None and progress["step"] > resumed and "eta" in progress


def alone(folder: Path, program: str, *arguments: str) -> str:
    """The last line of the program that nobody interrupts."""
    path = REPOSITORY / "tests/support/trainer" / program
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBEFLOW_")}
    environment["SAVE_STEPS"] = str(SAVE_STEPS)
    made = subprocess.run(
        [sys.executable, str(path), str(folder), str(STEPS[program]), *arguments],
        env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return result(made.stdout)


def result(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("RESULT "))


def outcome(line: str) -> tuple[dict[int, float], str]:
    """The losses by step, and the digest of the weights."""
    losses, digest = json.loads(line.removeprefix("RESULT "))
    return dict(losses), digest


def notes_of(notes: Path) -> list[tuple[str, int]]:
    """What each start of the program wrote first, and how many steps it took."""
    starts = notes.read_text(encoding="utf-8").split("start")[1:]
    return [(one.partition("\n")[0].strip(), one.count("step")) for one in starts]


def history(job: Job, file: Path) -> list[tuple[int, int, bool]]:
    """Each attempt and step whose loss is in the history, and whether the step was lost."""
    holdfast(job, "checkpoints", "history", job.name, "--csv", str(file))
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["loss"]]
    return [(int(row["attempt"]), int(row["step"]), row["lost"] == "1") for row in rows]


def shown(job: Job) -> str:
    console = Console(width=160, force_terminal=False)
    with console.capture() as screen:
        describe.show(console, TrainingJob.parse(job.get()), [], datetime.now(UTC))
    return " ".join(screen.get().split())


def retrained(begun: list[int], notes: Path) -> list[int]:
    """The steps that each lost attempt took after the checkpoint at which the next one resumed."""
    took = [steps for _, steps in notes_of(notes)]
    return [before + steps - after for (before, after), steps in zip(pairwise(begun), took, strict=False)]


# Breaks if a program of Hugging Face that nobody changed loses more than the steps since its last save, resumes with
# another state, or if what is shown of it is not true.
@pytest.mark.thorough
@pytest.mark.timeout(900)  # the waits below are bounded; on a busy machine four starts of torch take minutes
@pytest.mark.parametrize("mode", ["", "jit"])
def test_an_unmodified_trainer_is_reclaimed_three_times(
    cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path, mode: str
) -> None:
    job = start(cluster, namespace, pool, tmp_path / "notes", "as_it_is.py", "0.25", *([mode] * bool(mode)))
    reclaim(cluster, job)
    job.wait("the time that is left", lambda s: restarts(s)[0] == INTERRUPTIONS and _foreseen(s), 120)
    text = shown(job)
    assert "/outputs is committed each time that it has written a save" in text
    twice_so_far = re.search(r"(\d+) steps? done twice", text)
    if mode:
        assert twice_so_far, text
        assert int(twice_so_far[1]) <= INTERRUPTIONS
    else:
        assert not re.search(r"\b0 steps done twice", text)
    done = job.wait_phase("Completed", timeout=120)
    assert done["checkpoint"]["step"] == done["progress"]["step"] == STEPS["as_it_is.py"]
    ran = [record for record in done["history"] if "firstStep" in record]
    assert [record["kind"] for record in ran] == ["Interruption"] * INTERRUPTIONS + ["Completed"]
    twice = retrained([record.get("resumedStep", 0) for record in ran], tmp_path / "notes")
    assert len(twice) == INTERRUPTIONS
    # On SIGTERM the Trainer saves in the middle of a step, ends that step, and leaves.
    assert all(0 <= steps <= (1 if mode else SAVE_STEPS) for steps in twice), twice
    drawn = history(job, tmp_path / "history.csv")
    kept = [step for _, step, is_lost in drawn if not is_lost]
    assert kept == sorted(set(kept))
    # The Trainer tells its loss at most once in 5 s, and an attempt runs for longer.
    assert {attempt for attempt, _, _ in drawn} == {record["number"] for record in ran}
    told = [record.get("stepsLost") for record in ran[:-1]]
    assert all(
        (one is None and not mode) or (one is not None and min(steps, 0 if mode else 1) <= one <= steps)
        for one, steps in zip(told, twice, strict=True)
    ), (told, twice)
    found = outcome(result(job.logs(ran[-1]["number"])))
    wanted = outcome(alone(tmp_path / "alone", "as_it_is.py", "0", *([mode] * bool(mode))))
    assert found[1] == wanted[1], "the weights, bit for bit"
    # A Trainer that saves on SIGTERM may leave between a step and its entry in its own log.
    left = {record["resumedStep"] + after for record in ran if "resumedStep" in record for after in (0, 1) if mode}
    assert wanted[0].keys() - found[0].keys() <= left
    assert {k: v for k, v in found[0].items() if k not in left} == {k: v for k, v in wanted[0].items() if k not in left}


# Breaks if a program of which nobody knows the steps loses more than those since its last save, if its files come back
# in another state, or if figures are shown that nobody knows.
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["", "lightning"])
def test_a_plain_program_is_reclaimed_three_times(
    cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path, mode: str
) -> None:
    job = start(cluster, namespace, pool, tmp_path / "notes", "plain.py", "0.5", *([mode] * bool(mode)))
    least = 1
    for count in range(INTERRUPTIONS):
        seen = job.wait("a new checkpoint", lambda s: s.get("node") and _saved(s) >= least, 120)  # noqa: B023
        assert seen["progress"]["step"] == seen["checkpoint"]["step"]
        least = seen["checkpoint"]["step"] + SAVE_STEPS + 1
        cluster.reclaim(seen["node"], timedelta(seconds=20))
        job.wait(f"interruption {count + 1}", lambda s: restarts(s)[0] > count, 60)  # noqa: B023
    job.wait("a node", lambda s: s["phase"] == "Running", 60)
    assert "steps done twice are not known" in shown(job)
    done = job.wait_phase("Completed", timeout=120)
    assert (done["checkpoint"]["step"], done["progress"]["step"]) == (STEPS["plain.py"],) * 2
    assert not {"goodput", "savedVersusDedicated"} & set(done["ledger"])
    ran = [record["number"] for record in done["history"] if record.get("startedAt")]
    begun = [int(first) for first, _ in notes_of(tmp_path / "notes")]
    twice = retrained(begun, tmp_path / "notes")
    assert len(twice) == INTERRUPTIONS
    assert all(0 <= steps <= SAVE_STEPS for steps in twice), twice
    assert result(job.logs(ran[-1])) == alone(tmp_path / "alone", "plain.py", "0", *([mode] * bool(mode)))


def metrics(operator: OperatorProcess, namespace: str) -> set[str]:
    """What the operator's page of metrics has of the job: names without `holdfast_job_`."""
    lines = operator.metrics_page().splitlines()
    series = [line.partition("{") for line in lines if f'job_namespace="{namespace}"' in line]
    return {name.removeprefix("holdfast_job_") for name, _, _ in series}


@pytest.mark.thorough
# Breaks if no step of it is shown, or if a figure is shown of what nobody knows: where it resumes, what it saves.
def test_an_unmodified_trainer_is_shown_and_moves(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, tmp_path: Path
) -> None:
    command = ["python", WITHOUT_FOLDER, str(tmp_path / "output"), "150", "0.2"]
    tiers = [pool.tier("spot", pricePerNodeHour="10"), pool.tier("cpu", pricePerNodeHour="1")]
    job = submit(cluster, namespace, tiers, command, goal={"steps": 150})
    running = job.wait_step(11, 120)
    assert running["progress"]["steps"] == 150
    assert float(running["progress"]["loss"]) > 0
    assert {"lost_steps_total", "training_loss"} <= metrics(operator, namespace)

    cluster.reclaim(running["node"], timedelta(seconds=6))
    moved = job.wait("a step of the next attempt", lambda s: s["ledger"].get("uncountedRestarts") == 1, 120)
    assert moved["progress"]["step"] > 10
    told = job.wait("the time that is left", lambda s: s["attempt"] == 2 and s["progress"].get("eta"), 60)
    assert "goodput" not in told["ledger"]
    assert told["ledger"].get("stepsLost", 0) == 0
    assert not {"goodput_ratio", "lost_steps_total", "cost_saved"} & metrics(operator, namespace)
    console = Console(width=160, force_terminal=False)
    with console.capture() as screen:
        describe.show(console, TrainingJob.parse(job.get()), [], datetime.now(UTC))
    shown = " ".join(screen.get().split())
    assert "Nothing shows that it uses Holdfast's checkpoints" in shown
    assert "not known to Holdfast" in shown
    assert "steps done twice are not known" in shown
    assert "goodput" not in shown
    done = job.wait_phase("Completed", timeout=120)
    assert [record["kind"] for record in done["history"]] == ["Interruption", "Completed"]
    assert "checkpoint" not in done
    assert "done at step 150" in job.logs(2)
