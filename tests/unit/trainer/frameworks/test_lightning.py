"""What the callback for Lightning refuses, and that it does nothing outside a pod.

Trainings are in tests/integration/trainer/frameworks.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    EarlyStopping,
    EMAWeightAveraging,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ModelCheckpoint,
    ModelPruning,
)
from tests.support.trainer.frameworks.slow_data import SlowData
from tests.support.trainer.inside import give_notice
from torch.utils.data import DataLoader, IterableDataset
from torchmetrics import MeanMetric, MetricTracker

from holdfast_train.errors import StateError
from holdfast_train.frameworks.lightning import HoldfastCallback

DATA: Any = torch.randn(10, 4)


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lr = torch.nn.Linear(4, 1), 0.01

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


class Tracking(Module):
    def __init__(self) -> None:
        super().__init__()
        self.tracker = MetricTracker(MeanMetric(), maximize=False)


class Averaging(Callback):
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["average"] = 1


class Thawing(BaseFinetuning):
    """Trains all parameters from the start, but could add some to the optimizer later."""

    def freeze_before_training(self, pl_module: Any) -> None:
        """Nothing."""

    def finetune_function(self, pl_module: Any, epoch: int, optimizer: Any) -> None:
        """Nothing."""


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(DATA)


def make(callbacks: tuple[Callback, ...] = (), **options: Any) -> Trainer:
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"), False)
    options = {"max_epochs": 1, "accelerator": "cpu", "callbacks": [HoldfastCallback(), *callbacks]} | options
    return Trainer(**quiet | options)


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
        (Module(), make((Thawing(),)), "the callback BaseFinetuning"),
        (Module(), make((LearningRateFinder(num_training_steps=2),)), "the callback LearningRateFinder"),
        (Module(), make((EMAWeightAveraging(),)), "the callback WeightAveraging"),
        (Module(), make((ModelPruning("l1_unstructured", amount=0.1),)), "the callback ModelPruning"),
        (Tracking(), make(), "MetricTracker"),
        (Module(), make(max_time="00:00:01:00"), "the callback Timer"),
        (
            Module(),
            make((ModelCheckpoint(monitor="loss"),), enable_checkpointing=True),
            r"ModelCheckpoint\(monitor='loss'\)",
        ),
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


# Breaks if a Trainer without a goal trains on, and is not saved, after the goal of the job.
def test_the_goal_of_the_job_ends_a_training_without_one(
    pod: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt in (1, 2):
        pod(attempt)
        monkeypatch.setenv("HOLDFAST_GOAL_STEPS", "4")
        trainer = make(max_epochs=-1, min_steps=9)
        trainer.fit(Module(), DataLoader(DATA, batch_size=4))
        assert (trainer.global_step, trainer.current_epoch) == (4, 2)


class Validated(Module):
    """A measurement that never improves. `at` is called in the validation after each step."""

    def __init__(self, at: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self.at = at

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.at(self.global_step)
        self.log("flat", 1.0)


class Starts(Callback):
    """Counts how often a training has begun, in its state."""

    count = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def fit(
    at: Callable[[HoldfastCallback, int], None] = lambda *_: None, patience: int = 2, **options: Any
) -> tuple[Trainer, Starts]:
    """Epochs of 3 steps, which end early after `patience` validations that are no better. `at`: of Validated."""
    starts = Starts()
    trainer = make((EarlyStopping("flat", mode="max", patience=patience), starts), **{"max_epochs": 20} | options)
    holdfast = next(one for one in trainer.callbacks if isinstance(one, HoldfastCallback))
    loader: Any = DataLoader(DATA, batch_size=4)
    trainer.fit(Validated(lambda step: at(holdfast, step)), loader, loader)
    return trainer, starts


def notice(at: int) -> Callable[[HoldfastCallback, int], None]:
    """A notice in the validation after step `at`."""

    def give(holdfast: HoldfastCallback, step: int) -> None:
        if step == at and holdfast._fit is not None:
            give_notice(holdfast._fit._run, 20.0)

    return give


# Breaks if the notice wins: later attempts would train on, or fail because their epoch has no measurement.
def test_a_notice_in_the_validation_that_ends_the_training_is_too_late(pod: Callable[[int], None]) -> None:
    assert fit(notice(9))[0].global_step == 9
    pod(2)
    assert fit()[0].global_step == 9


# Breaks if the decision to stop is lost that waits for the least number of epochs.
def test_a_decision_to_stop_that_waits_is_kept(pod: Callable[[int], None]) -> None:

    def decide(holdfast: HoldfastCallback, step: int) -> None:
        notice(12)(holdfast, step)
        if step == 3 and holdfast._fit is not None:
            holdfast._fit._trainer.should_stop = True

    with pytest.raises(SystemExit):
        fit(decide, patience=99, min_epochs=5)
    pod(2)
    assert fit(patience=99, min_epochs=5)[0].global_step == 15


# Breaks if what a callback does at the beginning of `fit` is in its state once for each attempt.
def test_a_callback_counts_the_beginning_once(pod: Callable[[int], None]) -> None:
    with pytest.raises(SystemExit):
        fit(notice(3))
    pod(2)
    trainer, starts = fit()
    assert (trainer.global_step, starts.count) == (9, 1)


# Breaks if a second callback, such as one that a configuration adds, begins a second Run.
@pytest.mark.usefixtures("pod")
def test_of_two_callbacks_the_first_one_does_it_all() -> None:
    second = HoldfastCallback()
    trainer = make((second,))
    trainer.fit(Module(), DataLoader(DATA, batch_size=4))
    assert trainer.global_step == 3
    assert second._fit is None
