"""What of Lightning's loops goes into a checkpoint. Whole trainings are in tests/integration/trainer/frameworks."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch.utils.data import DataLoader
from torchmetrics import MaxMetric, MeanMetric, Metric, MetricCollection, SumMetric
from torchmetrics.wrappers import MinMaxMetric, Running

from holdfast_train.frameworks.lightning_loop import LightningLoop, _without_lost_files

VALUES = [3.0, 13.0, 1.0, 5.0, 2.0, 6.0]


class InPlace(Metric):
    """A metric that counts in a tensor which is none of its states."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(())

    def update(self, value: Any) -> None:
        self.seen += value

    def compute(self) -> Any:
        return self.seen


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = torch.nn.Linear(1, 1), MeanMetric()
        self.several = MetricCollection([MaxMetric(), SumMetric()])
        self.last_two, self.extremes = Running(MeanMetric(), window=2), MinMaxMetric(MeanMetric())
        self.in_place = InPlace()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        value = batch.mean()
        self.mean(value)
        self.log("average", value, on_step=False, on_epoch=True)
        self.log("highest", value, on_step=False, on_epoch=True, reduce_fx="max")
        self.log("total", value, on_step=False, on_epoch=True, reduce_fx="sum")
        self.log("metric", self.mean, on_step=False, on_epoch=True)
        for metric in (self.several, self.last_two, self.extremes, self.in_place):
            metric.update(value)
        self.extremes.compute()
        return self.layer(batch[:, None]).mean()

    def on_train_epoch_end(self) -> None:
        self.log_dict({**self.several.compute(), "last_two": self.last_two.compute(), **self.extremes.compute()})
        self.log("in_place", self.in_place.compute())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Data(LightningDataModule):
    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.values = values
        self.seen = 0

    def train_dataloader(self) -> Any:
        return DataLoader(torch.tensor(self.values), batch_size=2)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


class Counting(Callback):
    """A callback with a state."""

    batches = 0

    def on_train_batch_end(self, *_: Any) -> None:
        self.batches += 1

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches = state["batches"]


class Between(Callback):
    """Calls `do` with the loop and the number of the next batch, and once more at the end of the epoch's batches."""

    def __init__(self, do: Callable[[LightningLoop, int], None]) -> None:
        self.do = do

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.loop = LightningLoop(trainer, self)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.do(self.loop, batch_idx)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.do(self.loop, trainer.num_training_batches)


def train(values: list[float], do: Callable[[LightningLoop, int], None]) -> tuple[dict[str, float], Counting, Data]:
    """What is logged in an epoch over `values`."""
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"), False)
    counting, data = Counting(), Data(values)
    trainer = Trainer(max_epochs=1, accelerator="cpu", callbacks=[Between(do), counting], **quiet)
    trainer.fit(Module(), data)
    return {name: value.item() for name, value in trainer.callback_metrics.items()}, counting, data


# Breaks if a sum of the epoch, a metric, what a wrapper of a metric counts by itself, or the state of a callback or of
# the data module is not in the state.
def test_what_was_logged_before_a_checkpoint_counts_after_it() -> None:
    states: list[dict[str, Any]] = []

    def save(loop: LightningLoop, batch: int) -> None:
        if batch == 2:
            loop._trainer.datamodule.seen = 4
            states.append(copy.deepcopy(loop.state_dict()))

    def load(loop: LightningLoop, batch: int) -> None:
        if batch == 0:
            progress = loop._trainer.fit_loop.state_dict()
            loop.load_state_dict(states[0] | {"fit": progress})  # the position is not what is tried here
            assert loop.state_dict()["metrics"] == states[0]["metrics"]
        else:
            loop.add_sums()

    whole, *_ = train(VALUES, save)
    rest, counting, data = train(VALUES[4:], load)
    assert rest == whole
    assert whole["average"] == whole["metric"] == sum(VALUES) / len(VALUES)
    assert (whole["highest"], whole["total"]) == (whole["MaxMetric"], whole["SumMetric"]) == (8.0, 15.0)
    assert (whole["last_two"], whole["min"], whole["max"]) == (3.5, 5.0, 8.0)
    assert (counting.batches, data.seen) == (3, 4)


# Breaks if what was logged in an epoch is added in the next one.
def test_sums_end_with_the_epoch() -> None:
    def load(loop: LightningLoop, batch: int) -> None:
        if batch == 0:
            loop._sums = {"training_step.total": {"value": torch.tensor(100.0), "samples": 0}}
            loop.begin_epoch()
        else:
            loop.add_sums()

    assert train(VALUES, load)[0]["total"] == 15.0


# Breaks if a file of a lost node is taken for one that can be read, or one that is here is forgotten.
def test_files_that_are_not_on_this_node_are_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, lost = tmp_path / "last.ckpt", "/lost/best.ckpt"
    here.touch()
    remote = "s3://bucket/best.ckpt"
    state = {"best_model_path": lost, "last_model_path": str(here), "kth_best_model_path": ""}
    found = _without_lost_files("ModelCheckpoint{}", {**state, "best_k_models": {lost: 1, str(here): 2, remote: 3}})
    assert found == {**state, "best_model_path": "", "best_k_models": {str(here): 2, remote: 3}}
    assert "ModelCheckpoint{} forgets files that this node does not have: /lost/best.ckpt" in capsys.readouterr().err
    assert _without_lost_files("Other", {"path": lost}) == {"path": lost}
