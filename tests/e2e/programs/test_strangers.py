"""Programs in the style of strangers lose a node with a notice, and one without: nothing is lost that need not be."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.programs.test_guards_and_branches import holdfast
from tests.e2e.test_programs_as_they_are import history
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Pool, kinds, restarts, storage_log, submit
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(900)]
PROGRAMS = REPOSITORY / "tests/support/trainer/strangers"
ACCELERATE = ["accelerate", "launch", "--cpu", "--num_processes", "1", "--mixed_precision", "no"]
SAVE_STEPS = 10
STEPS = 90
# Steps that a notice may cost: a file that is half written; seconds until what has no known format counts as whole.
COSTS = {"in_place": SAVE_STEPS, "stubborn": 5 * SAVE_STEPS}
SECONDS = {"stubborn": 0.8}  # of a step


def command(program: str, folder: str, seconds: float) -> list[str]:
    start = [*ACCELERATE, "--dynamo_backend", "no"] if program == "with_accelerate" else ["python"]
    return [*start, str(PROGRAMS / f"{program}.py"), folder, str(STEPS), str(seconds)]


def result(notes: Path) -> str:
    """The digest of the weights at the end."""
    return notes.read_text(encoding="utf-8").partition("result ")[2].strip()


def alone(program: str, folder: Path) -> str:
    """The digest of the program that nobody interrupts."""
    folder.mkdir()
    start, *rest = command(program, str(folder), 0)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBEFLOW_")}
    environment["NOTES"] = f"{folder}-notes"
    subprocess.run(
        [str(Path(sys.executable).with_name(start)), *rest],
        env=environment, capture_output=True, check=True, timeout=240,
    )  # fmt: skip
    return result(Path(f"{folder}-notes"))


def starts(notes: Path) -> list[tuple[int, int]]:
    """Of each start of the program: the step at which it began, and the last step that it saved."""
    found = []
    for one in notes.read_text(encoding="utf-8").partition("result ")[0].split("start ")[1:]:
        first, *saved = one.replace("saved ", "").split()
        found.append((int(first), int(saved[-1]) if saved else int(first)))
    return found


def saved(job: Job, attempt: int) -> int:
    """How many checkpoints an attempt has saved."""
    return kinds(storage_log(job.cluster, f"{job.namespace}/{job.name}")).count(("commit", attempt))


def take_nodes(cluster: Cluster, job: Job) -> None:
    """One with a notice, and one without, each after the attempt on it has saved a checkpoint."""
    for count in range(2):
        status = job.wait("a node", lambda s: s.get("phase") == "Running" and restarts(s)[0] == count, 120)  # noqa: B023
        attempt = status["attempt"]
        wait_for(lambda: saved(job, attempt) > 0, 120, f"a checkpoint of attempt {attempt}")  # noqa: B023
        node = job.status()["node"]
        if count:
            cluster.crash(node)
            delete(cluster, f"node/{node}")
        else:
            cluster.reclaim(node, timedelta(seconds=25))
        job.wait(f"interruption {count + 1}", lambda s: restarts(s)[0] > count, 90)  # noqa: B023


# Breaks if a program's own checkpoints are not recognised, or not put back so that it finds them; if a notice costs a
# checkpoint that was written; or if the step of a checkpoint is not that of its save.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "pattern", "lines"),
    [
        pytest.param("in_place", None, "tqdm", id="tqdm-in-place"),
        pytest.param("with_accelerate", None, "tqdm", id="accelerate-launch"),
        pytest.param("with_lightning", None, "lightning", id="lightning-trainer"),
        pytest.param("stubborn", "*/step?*", "loss={loss} at {step} of {total}", id="ignores-sigterm"),
    ],
)  # fmt: skip
def test_a_stranger_that_loses_nodes_ends_as_one_that_does_not(
    cluster: Cluster,
    namespace: str,
    pool: Pool,
    tmp_path: Path,
    *,
    program: str,
    pattern: str | None,
    lines: str,
) -> None:
    notes, folder = tmp_path / "notes", "/outputs"
    checkpoint: dict[str, Any] = {"folder": folder, **({"pattern": pattern} if pattern else {})}
    job = submit(
        cluster, namespace, [pool.tier(kind) for kind in ("spot", "dedicated", "cpu")],
        command(program, folder, SECONDS.get(program, 0.35)),
        checkpoint=checkpoint, goal={"steps": STEPS}, progress={"patterns": [lines]},
        trainer={
            "volumes": [{"name": "outputs", "mountPath": folder, "emptyDir": {}}],
            "env": [{"name": "NOTES", "value": str(notes)}],
        },
    )  # fmt: skip
    take_nodes(cluster, job)
    done = job.wait_phase("Completed", "Failed", timeout=180)
    assert (done["phase"], restarts(done)) == ("Completed", (2, 0, 0)), done["history"]
    (_, noticed), (second, crashed), (third, last) = starts(notes)
    assert max(1, noticed - COSTS.get(program, 0)) <= second <= noticed, starts(notes)
    assert 0 < third <= crashed, starts(notes)
    assert (last, done["progress"]["step"]) == (STEPS, STEPS)
    assert STEPS - SAVE_STEPS <= done["checkpoint"]["step"] <= STEPS, "a bar is not told at each step"
    assert "complete at step" in holdfast(job, "checkpoints", "list", job.name)
    kept = [step for _, step, is_lost in history(job, tmp_path / "history.csv") if not is_lost]
    assert kept == sorted(set(kept))
    assert kept[0] < SAVE_STEPS, "what was trained before the first checkpoint is not lost"
    assert kept[-1] > STEPS - SAVE_STEPS
    assert len(result(notes)) == 64
    assert result(notes) == alone(program, tmp_path / "alone")
