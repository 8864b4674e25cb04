"""The history of a training that loses an attempt: it shows what was lost, and outlives the checkpoints."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.trainer.stores import LAUNCHER, REPOSITORY, variables
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Every, Keep
from holdfast_train.commitlog import log
from holdfast_train.format.names import log_seq
from holdfast_train.series.history import History, read_history
from holdfast_train.series.segment import attempt_of
from holdfast_train.storage.folder import FolderStorage

PROGRAM: Final = """
import math, os, signal, time
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

counter, attempt = Counter(), int(os.environ["HOLDFAST_ATTEMPT"])
with Run(counter=counter) as run:
    for step in run.steps(60):
        while run.step >= 20 and run._progress.checkpoint is None and attempt == 1:
            time.sleep(0.01)  # the first checkpoint is on its way
        counter.add(step)
        metrics = {"accuracy": step / 100, "attempt": attempt}
        run.report(loss=math.nan if step == 5 else 1 / (step + 1), samples=8, metrics=metrics)
        if run.step == 30 and attempt == 1:
            run._checkpointer.series.flush()  # as its thread does every second
            os.kill(os.getpid(), signal.SIGKILL)
"""


def train(storage: FolderStorage, folder: Path, attempt: int) -> int:
    more = {"every": Every(20), "keep": Keep(1)}
    env = {
        **os.environ,
        **variables(storage.uri, attempt, HOLDFAST_VERDICT_DIR=str(folder), **more),
        "PYTHONPATH": str(REPOSITORY / "images/trainer"),
    }
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=env, check=False, timeout=120).returncode


# Breaks if rows of a lost attempt are missing or look kept, if retention deletes the history with the checkpoints, or
# if commits do not name their segments.
def test_a_lost_attempt_is_seen_in_the_history(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "prefix")
    assert train(storage, tmp_path, 1) != 0

    def lost() -> History | None:
        found = read_history(storage)
        return found if found.parts and found.parts[0].rows[-1].step == 30 else None

    wait_for(lost, 30, "the writer of the killed trainer to write its last rows")
    assert train(storage, tmp_path, 2) == 0
    found = read_history(storage)
    assert found.gaps == []
    first, second = found.parts
    assert (first.attempt, first.kept_through) == (1, 20)
    assert [row.step for row in first.rows] == list(range(1, 31))
    assert (second.attempt, second.kept_through) == (2, 60)
    assert [row.step for row in second.rows] == list(range(21, 61))
    assert first.rows[5].values["loss"] != first.rows[5].values["loss"]  # NaN
    assert second.rows[0].values["accuracy"] == 0.2
    assert {row.values["attempt"] for row in second.rows} == {2.0}
    numbers = filter(None, map(log_seq, storage.keys("log/")))
    commits = [record.commit for record, _ in (log.read(storage, seq) for seq in numbers) if record.commit]
    named = [key for commit in commits for key in commit.series]
    assert set(named) <= set(storage.keys("series/"))
    assert {attempt_of(key) for key in named} == {1, 2}
    assert len(set(named)) == len(named)
