"""Runs for the tests of `Run` and of its endings."""

import json
import math
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast_train import Run
from holdfast_train.environment import Environment
from holdfast_train.errors import StorageError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.run import ending
from holdfast_train.run import run as session
from holdfast_train.save import job, schedule
from holdfast_train.storage.folder import FolderStorage


def verdict(folder: Path) -> dict[str, Any]:
    """What rank 0 wrote about its end."""
    found: dict[str, Any] = json.loads((folder / "rank-0.json").read_text())
    return found


def train(where: Environment | None, goal: int, stop: int | None = None) -> tuple[list[float], Run]:
    """A training whose losses depend on every generator and on its own state. `stop`: SIGTERM in this step."""
    counter, losses = Counter(), []
    with Run(counter=counter, environment=where) as run:
        for step in run.steps(goal):
            counter.add(step)
            losses.append(counter.total + random.random() + float(np.random.random()))
            settle(run)
            if step == stop:
                os.kill(os.getpid(), signal.SIGTERM)
    return losses, run


def settle(run: Run) -> None:
    """Wait for the checkpoint that is on its way: steps take no time here, and a save that is due would be skipped."""
    if run._checkpointer is not None:
        assert run._checkpointer.saver.wait(lambda: math.inf)


class Flaky:
    """The folder store fails with `error` while `down` is set. No call is repeated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = False
        self.error: StorageError = StorageUnreachableError("down")
        original = FolderStorage.put

        def put(store: FolderStorage, key: str, body: bytes | bytearray) -> None:
            if self.down:
                raise self.error
            original(store, key, body)

        monkeypatch.setattr(FolderStorage, "put", put)
        monkeypatch.setattr(session, "SAVE_PATIENCE", 0.0)
        monkeypatch.setattr(schedule, "RETRY_SECONDS", 0.0)
        monkeypatch.setattr(job, "RETRY_SECONDS", 0.05)  # of a save that is kept: its writer waits as long
        monkeypatch.setattr(ending, "FINAL_PATIENCE", 0.0)
