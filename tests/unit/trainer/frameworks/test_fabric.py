"""What is refused, and how steps are counted. Trainings are in tests/integration/trainer/frameworks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins import MixedPrecision
from tests.support.trainer.stores import variables
from torch.utils.data import DataLoader, IterableDataset

from holdfast_train.errors import StateError
from holdfast_train.frameworks.fabric import FabricRun


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])


@pytest.fixture(autouse=True)
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(f"file://{tmp_path}/prefix").items():
        monkeypatch.setenv(name, value)


def prepared(data: Any) -> tuple[Fabric, Any]:
    fabric = Fabric(accelerator="cpu", devices=1)
    return fabric, fabric.setup_dataloaders(DataLoader(data, batch_size=2))


# Breaks if a loader without a known position is taken.
def test_a_loader_without_a_position_is_refused() -> None:
    fabric, loader = prepared(Endless())
    with pytest.raises(StateError, match="IterableDataset"):
        FabricRun(fabric, loader)
    with pytest.raises(StateError, match=r"is a DataLoader: give FabricRun.*setup_dataloaders"):
        FabricRun(fabric, DataLoader([1, 2]))  # type: ignore[arg-type]


# Breaks if an object of the program replaces one that FabricRun saves.
def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(StateError, match=r"'shape'.*choose another name"):
        FabricRun(*prepared([1, 2]), shape=torch.nn.Linear(1, 1))


# Breaks if the scaler of Fabric is taken for an object of the program, which may contain a schedule.
def test_a_schedule_that_was_forgotten_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    scaled = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))
    fabric = Fabric(accelerator="cpu", devices=1, plugins=[scaled])
    layer = torch.nn.Linear(1, 1)
    model, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    torch.optim.lr_scheduler.LinearLR(optimizer.optimizer)
    loader = fabric.setup_dataloaders(DataLoader([1, 2], batch_size=2))  # type: ignore[arg-type]
    with FabricRun(fabric, loader, model=model, optimizer=optimizer) as run:
        assert "scaler" in run._run._objects
        for _ in run.epochs(1):
            for _batch in run.batches():
                run.report(loss=1.0)
    assert "(SGD) has a schedule that Run was not given" in capsys.readouterr().err


def test_a_step_of_no_batches_is_refused() -> None:
    with pytest.raises(StateError, match="accumulate is 0; allowed: 1 or more"):
        FabricRun(*prepared([1, 2]), accumulate=0)


# Breaks if a batch that does not end a step is counted as one, or the end of an epoch is not a step.
def test_a_step_is_a_step_of_the_optimizer() -> None:
    seen = []
    with FabricRun(*prepared([1, 2, 3, 4, 5]), accumulate=2) as run:
        for epoch in run.epochs(2):
            for _ in run.batches():
                seen.append((epoch, run.step, run.is_accumulating))
    assert seen == [(0, 0, True), (0, 0, False), (0, 1, False), (1, 2, True), (1, 2, False), (1, 3, False)]
    assert run.step == 4
