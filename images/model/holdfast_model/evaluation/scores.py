"""What a model's answers are worth: of classes (accuracy, confusion, calibration), and of tokens (loss)."""

import math
from collections import Counter
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from typing import Any, Final

import numpy as np

from holdfast_model.evaluation.data import IGNORED, Batch
from holdfast_model.evaluation.pictures import as_picture
from holdfast_model.evaluation.task import Task
from holdfast_model.pages.drawings import Bin

Array = np.ndarray[Any, Any]
BINS: Final = 10
MOST_WORST: Final = 24
MOST_SIDE: Final = 128
"""Pixels of a side of a kept picture."""
TOP: Final = 5


class NotNumbersError(ArithmeticError):
    """An output of a model is not a finite number."""


@dataclass(frozen=True, order=True)
class Worst:
    """A sample whose class the model finds unlikely. `loss`: -log of its probability. `picture`: bytes, or None."""

    loss: float
    name: str
    label: int = field(compare=False)
    predicted: int = field(compare=False)
    confidence: float = field(compare=False)
    picture: Array | None = field(compare=False, default=None)


@dataclass(frozen=True)
class ClassRow:
    """`precision`: None if nothing was taken for this class; `recall`: None if it has no samples."""

    name: str
    count: int
    predicted: int
    precision: float | None
    recall: float | None


class ClassScores:
    """Adds up batches. `right`: for each sample in order, whether its class was named."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.right: list[Array] = []
        self.samples = self._in_top = 0
        self.loss = 0.0
        self.confusion: Counter[tuple[int, int]] = Counter()
        self._bins = np.zeros((BINS, 3))
        self._worst: list[Worst] = []
        self.are_probabilities: bool | None = None

    def add(self, batch: Batch, output: Array) -> None:
        """`output`: (samples, classes)."""
        values = _finite(output, batch).astype(np.float64)
        labels, rows = batch.labels, np.arange(len(batch.labels))
        own = values[rows, labels][:, None]
        before = (values > own).sum(1) + ((values == own) & (np.arange(values.shape[1]) < labels[:, None])).sum(1)
        predicted, share = values.argmax(1), self._shares(values)
        right, confidence = before == 0, share.max(1)
        self.right.append(right)
        self.samples += len(labels)
        self._in_top += int((before < TOP).sum())
        losses = -np.log(np.maximum(share[rows, labels], 1e-300))
        self.loss += float(losses.sum())
        self.confusion.update(zip(labels.tolist(), predicted.tolist(), strict=True))
        places = np.minimum((confidence * BINS).astype(int), BINS - 1)
        np.add.at(self._bins, places, np.stack([np.ones(len(labels)), confidence, right], 1))
        for row in np.argsort(-losses)[:MOST_WORST]:
            self._keep(batch, int(row), int(predicted[row]), float(confidence[row]), float(losses[row]))

    def _shares(self, values: Array) -> Array:
        """Probabilities: the values, if those of the first batch are some, otherwise their softmax."""
        if self.are_probabilities is None:
            self.are_probabilities = bool((values >= 0).all() and np.allclose(values.sum(1), 1, atol=1e-3))
        if self.are_probabilities:
            return np.clip(values, 0, 1)
        powers = np.exp(values - values.max(1, keepdims=True))
        shares: Array = powers / powers.sum(1, keepdims=True)
        return shares

    def _keep(self, batch: Batch, row: int, predicted: int, confidence: float, loss: float) -> None:
        is_full = len(self._worst) == MOST_WORST
        if is_full and loss <= self._worst[0].loss:
            return
        picture = as_picture(next(iter(batch.inputs.values()))[row], self._task) if len(batch.inputs) == 1 else None
        if picture is not None:
            step = math.ceil(max(picture.shape[:2]) / MOST_SIDE)
            picture = picture[::step, ::step].copy()
        one = Worst(loss, batch.names[row], int(batch.labels[row]), predicted, confidence, picture)
        if is_full:
            heapreplace(self._worst, one)
        else:
            heappush(self._worst, one)

    @property
    def accuracy(self) -> float:
        return float(sum(int(part.sum()) for part in self.right)) / self.samples

    @property
    def top(self) -> float | None:
        """The share whose class is among the five likeliest; None with so few classes."""
        return self._in_top / self.samples if self._task.size > TOP else None

    @property
    def mean_loss(self) -> float:
        return self.loss / self.samples

    def worst(self) -> list[Worst]:
        """The worst first: only samples to whose class the model gives less than half."""
        doubted = (one for one in self._worst if one.loss > math.log(2))
        return sorted(doubted, key=lambda one: (-one.loss, one.name))

    def bins(self) -> list[Bin]:
        """By confidence."""
        return [
            (int(count), float(confidence / max(count, 1)), float(right / max(count, 1)))
            for count, confidence, right in self._bins
        ]

    def calibration_error(self) -> float:
        """The expected calibration error: the mean distance between confidence and share that is right, over bins."""
        return sum(count * abs(right - confidence) for count, confidence, right in self.bins()) / self.samples

    def rows(self) -> list[ClassRow]:
        """One of each class, in the order of the model."""
        actual: Counter[int] = Counter()
        predicted: Counter[int] = Counter()
        for (label, named), count in self.confusion.items():
            actual[label] += count
            predicted[named] += count
        return [
            ClassRow(
                self._task.class_name(number), actual[number], predicted[number],
                self.confusion[number, number] / predicted[number] if predicted[number] else None,
                self.confusion[number, number] / actual[number] if actual[number] else None,
            )
            for number in range(self._task.size)
        ]  # fmt: skip


class TokenScores:
    """The mean loss of all tokens that have a target, in nats."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.samples = self.tokens = self._right = 0
        self.loss = 0.0

    def add(self, batch: Batch, output: Array) -> None:
        """`output`: (samples, time, tokens)."""
        _finite(output, batch)
        scored = batch.labels != IGNORED
        values, targets = output[scored].astype(np.float64), batch.labels[scored]
        self.samples += len(batch.labels)
        self.tokens += len(targets)
        if not len(targets):
            return
        largest = values.max(1)
        total = largest + np.log(np.exp(values - largest[:, None]).sum(1))
        self.loss += float((total - values[np.arange(len(targets)), targets]).sum())
        self._right += int((values.argmax(1) == targets).sum())

    @property
    def mean_loss(self) -> float:
        return self.loss / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.mean_loss, 700.0))

    @property
    def accuracy(self) -> float:
        return self._right / self.tokens if self.tokens else math.nan


def _finite(output: Array, batch: Batch) -> Array:
    bad = ~np.isfinite(output).reshape(len(output), -1).all(1)
    if bad.any():
        name = batch.names[int(bad.argmax())]
        raise NotNumbersError(
            f"its output for {name} is not a number, for {int(bad.sum())} of {len(output)} in a batch"
        )
    return output


def interval(share: float, count: int) -> tuple[float, float]:
    """Where the true share is with a probability of 95%, by `count` samples (Wilson, 1927)."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, middle - half), min(1.0, middle + half)
