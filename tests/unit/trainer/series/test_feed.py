"""The feed: what the training loop hands over, without waiting for anything."""

import math
from typing import Any

import pytest
import torch
from tests.support.waiting import wait_for

from holdfast_train.series import feed as series_feed
from holdfast_train.series.feed import SAMPLES, AddRows, SeriesFeed
from holdfast_train.series.rows import MOST_NAMES, Row


class Writer:
    """Takes what is sent, unless it is `gone`."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.gone = False

    def __call__(self, message: AddRows) -> bool:
        if not self.gone:
            self.rows += message.rows
        return not self.gone


def values(writer: Writer) -> list[dict[str, float]]:
    return [dict(row.values) for row in writer.rows]


# Breaks if a tensor is read after the program has written into it again, or if a number that is not finite gets lost.
def test_values_are_those_of_their_step() -> None:
    writer = Writer()
    feed, loss = SeriesFeed(writer), torch.zeros(())
    for step, value in enumerate([0.5, math.inf, 2.0], 1):
        loss.fill_(value)
        feed.note(step, {"loss": loss, "accuracy": step}, 0.0)
    feed.close()
    assert values(writer) == [
        {"loss": 0.5, "accuracy": 1.0},
        {"loss": math.inf, "accuracy": 2.0},
        {"loss": 2.0, "accuracy": 3.0},
    ]
    assert [row.step for row in writer.rows] == [1, 2, 3]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_tensors_on_a_gpu_are_copied() -> None:
    writer = Writer()
    feed, loss = SeriesFeed(writer), torch.zeros((), device="cuda")
    for step in (1, 2):
        loss.fill_(float(step))
        feed.note(step, {"loss": loss}, 0.0)
    feed.close()
    assert values(writer) == [{"loss": 1.0}, {"loss": 2.0}]


def test_a_thread_sends_what_was_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_feed, "EVERY", 0.01)
    writer = Writer()
    feed = SeriesFeed(writer)
    feed.note(1, {"loss": 1.0}, 0.0)
    wait_for(lambda: writer.rows, 30, "the row")
    feed.close()


# Breaks if rows get lost while there is no writer process: one has ended, and the next save starts another.
def test_rows_wait_for_a_writer() -> None:
    writer = Writer()
    feed = SeriesFeed(writer)
    writer.gone = True
    feed.note(1, {"loss": 1.0}, 0.0)
    feed.flush()
    writer.gone = False
    feed.note(2, {"loss": 2.0}, 0.0)
    feed.close()
    assert [row.step for row in writer.rows] == [1, 2]


# Breaks if a program that makes up names without end fills memory or the storage.
def test_names_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer()
    feed = SeriesFeed(writer)
    for step in range(100):
        feed.note(step, {f"metric{step}": 1.0, "loss": 2.0, "a b": 3.0}, 0.0)
    feed.close()
    names = {name for row in writer.rows for name in row.values}
    assert names == {"loss", *(f"metric{n}" for n in range(MOST_NAMES - 2))}
    assert capsys.readouterr().err.count(f"more than {MOST_NAMES - 2} metrics are reported") == 1


# Breaks if the rate is that of one step: steps end in bursts where a GPU works behind.
def test_samples_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, now = Writer(), 1000.0
    monkeypatch.setattr(series_feed.time, "time", lambda: now)
    feed = SeriesFeed(writer)
    samples: Any = 0
    for step in range(1, 10):
        samples += torch.tensor(8)
        feed.note(step, {"loss": 1.0}, samples)
        now += 0.5
    feed.close()
    rates = [row.values.get(SAMPLES) for row in writer.rows]
    assert rates == [None, None, 16.0, None, 16.0, None, 16.0, None, 16.0]


def test_a_step_without_values_has_no_row() -> None:
    writer = Writer()
    feed = SeriesFeed(writer)
    feed.note(1, {}, 0.0)
    feed.close()
    assert writer.rows == []


class OnGpu:
    """A value on a GPU, which may have no memory for its copy."""

    is_cpu = False

    def __init__(self, value: float, *, has_memory: bool = True) -> None:
        self.value, self.has_memory = value, has_memory

    def clone(self) -> "OnGpu":
        if not self.has_memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self

    def __float__(self) -> float:
        return self.value


# Breaks if a copy that fails ends the training: `note` runs in its thread.
def test_a_gpu_without_memory_costs_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer()
    feed = SeriesFeed(writer)
    for step in range(1, 5):
        feed.note(step, {"loss": OnGpu(float(step), has_memory=step in (1, 4))}, 0.0)
    feed.close()
    assert values(writer) == [{"loss": 1.0}, {"loss": 4.0}]
    assert capsys.readouterr().err.count("the history lacks step 2, and perhaps others: OutOfMemoryError") == 1


# Breaks if copies fill the memory of a GPU while no thread reads them; numbers take none of it.
def test_copies_on_a_gpu_are_bounded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(series_feed, "EVERY", 3600.0)
    writer = Writer()
    feed = SeriesFeed(writer)
    for step in range(series_feed.HELD + 100):
        feed.note(step, {"loss": OnGpu(1.0)}, 0.0)
    feed.note(1000, {"loss": 2.0}, 0.0)
    feed.close()
    assert [row.step for row in writer.rows] == [*range(series_feed.HELD), 1000]
    assert capsys.readouterr().err.count("rows with values on a GPU wait") == 1
