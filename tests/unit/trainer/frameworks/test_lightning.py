"""What the callback for Lightning refuses, and that it does nothing outside a pod.

Trainings are in tests/integration/trainer/frameworks.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from tests.support.trainer.frameworks.slow_data import SlowData
from tests.support.trainer.stores import variables
from torch.utils.data import DataLoader, IterableDataset

from holdfast_train.errors import StateError
from holdfast_train.frameworks.lightning import HoldfastCallback

DATA: Any = torch.randn(10, 4)


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Manual(Module):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Saving(Module):
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["more"] = 1


class Averaging(Callback):
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["average"] = 1


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(DATA)


def make(callbacks: tuple[Callback, ...] = (), **options: Any) -> Trainer:
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"), False)
    options = {"max_epochs": 1, "accelerator": "cpu", "callbacks": [HoldfastCallback(), *callbacks]} | options
    return Trainer(**quiet, **options)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(f"file://{tmp_path}/prefix").items():
        monkeypatch.setenv(name, value)


# Breaks if the callback needs the variables of a pod.
def test_outside_a_pod_it_only_trains() -> None:
    trainer = make()
    trainer.fit(Module(), DataLoader(DATA, batch_size=4))
    assert trainer.global_step == 3


# Breaks if a loader whose position is not known is taken.
@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ([DataLoader(DATA), DataLoader(DATA)], "2 loaders for training"),
        (DataLoader(Endless()), "IterableDataset"),
    ],
    ids=["several", "iterable"],
)
def test_a_loader_without_a_position_is_refused(loader: Any, words: str) -> None:
    with pytest.raises(StateError, match=words):
        make(max_steps=2).fit(Module(), loader)


# Breaks if a check is left out.
@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize(
    ("module", "trainer", "words"),
    [
        (Manual(), make(), "manual optimization"),
        (Saving(), make(), "on_save_checkpoint of the module"),
        (Module(), make((Averaging(),)), "on_save_checkpoint of Averaging"),
        (Module(), make((GradientAccumulationScheduler({0: 2}),)), "the callback GradientAccumulationScheduler"),
        (Module(), make(max_time="00:00:01:00"), "the callback Timer"),
        (Module(), make(overfit_batches=2), "overfit_batches"),
        (Module(), make(reload_dataloaders_every_n_epochs=1), "reload_dataloaders_every_n_epochs"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_training_that_cannot_resume_exactly_is_refused(module: Any, trainer: Trainer, words: str) -> None:
    with pytest.raises(StateError, match=f"{words}.*cannot resume exactly"):
        trainer.fit(module, DataLoader(DATA))


# Breaks if the time that a callback or the training takes counts as waiting, or a batch does not.
@pytest.mark.usefixtures("pod")
def test_it_knows_for_how_long_training_waits_for_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SlowData(DATA, monkeypatch)
    make(max_epochs=2).fit(Module(), DataLoader(data, batch_size=2))
    assert data.read == 20
    assert data.read - 4 <= data.waited < data.read  # the first batches, before the first step is done, do not count
