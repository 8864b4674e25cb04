"""Runs for the tests of `Run` and of its endings, and trainings that save without a Run."""

import json
import math
import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer.inside import settle
from tests.support.trainer.stores import environment

from holdfast_protocol.settings import Keep
from holdfast_train import Run
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, StorageError, StorageUnreachableError
from holdfast_train.examples.stub import Counter
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Saver
from holdfast_train.save.training_state import TrainingState
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.opening import open_retrying
from holdfast_train.timings import Timings


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


def hasty(uri: str, attempt: int = 1, /, retry: float = 0.01, **more: Any) -> Environment:
    """Of a run that repeats no call of the storage, and tries a failed save again at once."""
    return replace(environment(uri, attempt, **more), timings=Timings(save=0.0, last_save=0.0, retry=retry))


class Flaky:
    """The folder store fails with `error` while `down` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = False
        self.error: StorageError = StorageUnreachableError("down")
        original = FolderStorage.put

        def put(store: FolderStorage, key: str, body: bytes | bytearray) -> None:
            if self.down:
                raise self.error
            original(store, key, body)

        monkeypatch.setattr(FolderStorage, "put", put)


class Training:
    """A model of 400 kB whose checkpoints go into a folder. `results`: of its saves."""

    def __init__(self, folder: Path, **variables: str) -> None:
        where = environment(f"file://{folder}/prefix", **variables)
        storage = open_retrying(where, where.settings.checkpoint_uri or "")
        checkpoints = Checkpoints(storage, where.identity, Keep())
        checkpoints.start("Auto")
        self.model = torch.nn.Linear(100, 1000)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.results: list[Saved | HoldfastTrainError] = []
        state = TrainingState({"model": self.model, "optimizer": self.optimizer}, {})
        opened = Open(where, 0, 1, checkpoints.log.fence)
        self.saver = Saver(opened, state, lambda _, result: self.results.append(result))

    def begin(self, step: int) -> None:
        self.saver.begin(CheckpointName(step, 1, "0123456789ab"), step, patience=0.0)

    def save(self, step: int) -> Saved | HoldfastTrainError:
        self.begin(step)
        assert self.saver.wait(lambda: math.inf)
        return self.results[-1]
