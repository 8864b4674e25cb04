"""A loop over epochs and batches of a plain loader."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.frameworks.slow_data import SlowData
from tests.support.trainer.inside import give_notice
from tests.support.trainer.stores import variables
from torch.utils.data import DataLoader

from holdfast_protocol.settings import Every
from holdfast_train.errors import StateError
from holdfast_train.frameworks.epoch_run import EpochRun
from holdfast_train.frameworks.position import Position

EPOCH = 3  # batches, each of them a step


class Plain(EpochRun):
    """A loop over a loader of torch."""

    def __init__(self, data: Any = range(EPOCH), **objects: Any) -> None:
        self.loader: Any = DataLoader(data, shuffle=True)
        self.position = Position(self.loader, seed=0, rank=0)
        super().__init__(self.position, per_rank=None, config=None, rules=None, objects=objects)

    def _goal(self, epochs: int) -> int:
        return epochs * EPOCH

    def _loader_of_epoch(self) -> Any:
        if self._resumed is None:
            self.position.begin(self._epoch)
        else:
            self.position.begin_again(skip=True)
        return self.loader

    def _ends_step(self) -> bool:
        return True

    def _ends_epoch(self) -> bool:
        return self.position.batches == EPOCH


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From its call on this process is in the pod of an attempt."""

    def enter(number: int) -> None:
        more = {"every": Every(1)}
        for name, value in variables(f"file://{tmp_path}/prefix", number, **more).items():
            monkeypatch.setenv(name, value)

    enter(1)
    return enter


def train(epochs: int, stop: int = 100) -> list[tuple[int, int, int]]:
    """Step, epoch and sample of each batch, up to an error in step `stop`."""
    seen: list[tuple[int, int, int]] = []
    with Plain() as run:
        for epoch in run.epochs(epochs):
            for batch in run.batches():
                if saver := run._run._checkpointer:
                    assert saver.saver.wait(lambda: math.inf)
                if run.step == stop:
                    raise SystemExit(1)
                seen.append((run.step, epoch, int(batch)))
    return seen


# Breaks if an epoch or its rest does not begin where the checkpoint is, or a training that is complete begins a step.
def test_an_attempt_goes_on_in_the_middle_of_an_epoch(attempt: Callable[[int], None]) -> None:
    with pytest.raises(SystemExit):
        train(3, stop=4)
    attempt(2)
    rest = train(3)
    assert [(step, epoch) for step, epoch, _ in rest] == [(step, step // EPOCH) for step in range(4, 9)]
    assert sorted(sample for _, epoch, sample in rest if epoch == 2) == [0, 1, 2]
    attempt(3)
    assert train(3) == []


# Breaks if an epoch is read twice: the position could not tell the two apart.
@pytest.mark.usefixtures("attempt")
def test_an_epoch_is_read_once() -> None:
    with pytest.raises(SystemExit), Plain() as run:
        for _ in run.epochs(1):
            list(run.batches())
            with pytest.raises(StateError, match="twice in one epoch"):
                list(run.batches())
            raise SystemExit(1)


# Breaks if the time that the loop takes counts as waiting, or a batch does not.
@pytest.mark.usefixtures("attempt")
def test_it_knows_for_how_long_training_waits_for_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SlowData(range(EPOCH), monkeypatch)
    with Plain(data) as run:
        for _ in run.epochs(2):
            for _ in run.batches():
                data[0]  # what the loop itself does is no waiting
    assert data.read == 4 * EPOCH
    assert data.waited == 2 * EPOCH - 1  # the first batch, before the first step is done, does not count


# Breaks if a training that was left by `break` trains on in the next attempt because a notice has come in between.
def test_a_training_that_is_left_by_break_ends_also_after_a_notice(attempt: Callable[[int], None]) -> None:
    with Plain() as run:
        for _ in run.epochs(3):
            list(run.batches())
            give_notice(run._run, 20.0)
            break
    assert (run.step, run._run.left) == (EPOCH, False)
    attempt(2)
    assert train(3) == []


# Breaks if the step in which an epoch was left is not counted, or one that has not trained is.
@pytest.mark.usefixtures("attempt")
@pytest.mark.parametrize("trains", [True, False])
def test_an_epoch_may_be_left_by_break(trains: bool) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    run = Plain(optimizer=optimizer)
    seen = []
    with run:
        for epoch in run.epochs(2):
            for _ in run.batches():
                seen.append((epoch, run.step))
                if trains:
                    optimizer.step()
                if run.position.batches == 2:
                    break
                optimizer.step()
    assert seen == [(0, 0), (0, 1), (1, 2 if trains else 1), (1, 3 if trains else 2)]
    assert (run.step, run._run._ending._progress.state) == (4 if trains else 2, "completed")
