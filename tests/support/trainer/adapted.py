"""A model with a frozen base and an adapter, and its checkpoints in a folder."""

import contextlib
import math
from pathlib import Path

import torch
from tests.support.trainer.attempts import attempt
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import environment, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.errors import HoldfastTrainError, KeyMissingError
from holdfast_train.format import manifest
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Saver
from holdfast_train.save.training_state import TrainingState
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.opening import open_retrying


class Adapted(torch.nn.Module):
    """A frozen base with an adapter, as LoRA makes it. Its buffer changes with every step."""

    def __init__(self) -> None:
        super().__init__()
        self.base = torch.nn.Linear(1000, 50)
        self.base.requires_grad_(False)
        self.adapter = torch.nn.Linear(50, 3)
        self.register_buffer("running", torch.zeros(7))


class Training:
    """An adapted model whose checkpoints go into a folder. `results`: of its saves."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.where = environment(f"file://{folder}", **variables)
        self.storage = FolderStorage(folder)
        checkpoints = Checkpoints(
            open_retrying(self.where, self.where.settings.checkpoint_uri or ""), self.where.identity, Keep()
        )
        checkpoints.start("Auto")
        self.model = Adapted()
        self.optimizer = torch.optim.SGD(self.model.adapter.parameters(), lr=0.1)
        self.results: list[Saved | HoldfastTrainError] = []
        state = TrainingState({"model": self.model, "optimizer": self.optimizer}, {})
        self.saver = Saver(
            Open(self.where, 0, 1, checkpoints.log.fence), state, lambda _, result: self.results.append(result)
        )
        self.wanted: dict[int, torch.Tensor] = {}

    def save(self, step: int) -> Saved | HoldfastTrainError:
        with torch.no_grad():
            self.model.adapter.weight.fill_(step)
        self.wanted[step] = self.model.base.weight.clone()
        count = len(self.results)
        self.saver.begin(CheckpointName.new(step, 1), step, patience=0.0)
        assert self.saver.wait(lambda: math.inf)
        assert len(self.results) == count + 1
        return self.results[-1]

    def keys(self) -> dict[int, list[str]]:
        """The keys of the parts of each checkpoint. The writer may delete old ones meanwhile."""
        found = {}
        for key in self.storage.keys("manifests/"):
            with contextlib.suppress(KeyMissingError):
                read = manifest.decode(self.storage.get(key))
                found[read.step] = [part.key for part in read.parts]
        return found

    def check(self, step: int) -> None:
        """Resuming finds the newest checkpoint, `step`, with the values that it had."""
        restored = restore_whole(attempt(self.storage, identity(2)))
        assert restored is not None
        assert restored.step == step
        model = restored.state["objects"]["model"]
        assert torch.equal(model["base.weight"], self.wanted[step])
        assert torch.equal(model["adapter.weight"], torch.full((3, 50), float(step)))
