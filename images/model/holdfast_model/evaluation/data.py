"""Samples with labels, in batches that fit a model."""

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.evaluation.task import Task
from holdfast_model.package.errors import InputError
from holdfast_model.package.problem import Arrays, Tensor, check

LABELS: Final = ("labels", "label", "targets", "target")
IGNORED: Final = -100
"""A token that is not scored, as for cross_entropy of torch."""
MOST_DAMAGED: Final = 0.05
MOST_BYTES: Final = 16 << 30


class Batch(NamedTuple):
    """`labels`: of classes (samples), or of tokens (samples, time). `names`: of the samples, for people."""

    inputs: dict[str, np.ndarray[Any, Any]]
    labels: np.ndarray[Any, Any]
    names: Sequence[str]


@dataclass
class Damage:
    """Samples that cannot be read: name -> why. They are found once, and then left out for every model."""

    total: int
    place: str
    found: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False

    def add(self, name: str, why: str) -> None:
        """EvaluationError if these are too many, or if all samples could be read before."""
        if self.is_complete:
            raise EvaluationError(f"{self.place} has changed while it was read: {name}: {why}; evaluate it again")
        self.found[name] = why
        if len(self.found) > MOST_DAMAGED * self.total:
            some = "; ".join(f"{name}: {why}" for name, why in list(self.found.items())[:5])
            raise EvaluationError(
                f"over {MOST_DAMAGED:.0%} of the {self.total:,} samples in {self.place} cannot be read, so a score "
                f"would say little: {some}"
            )


class Data(Protocol):
    """What models are evaluated on."""

    place: str
    damage: Damage

    def __len__(self) -> int: ...

    def fit(self, task: Task) -> dict[str, int]:
        """The sizes of the symbols of a sample. EvaluationError if the data does not fit this task."""

    def batches(self, task: Task, size: int) -> Iterator[Batch]:
        """All samples that can be read, in the same order each time."""


class ArrayData:
    """Arrays in memory by the names of the inputs, with labels. The first dimension is the number of samples."""

    def __init__(self, place: str, arrays: Arrays) -> None:
        self.place = place
        self._arrays = dict(arrays)
        named = [name for name in LABELS if name in self._arrays]
        self._labels = self._arrays.pop(named[0]) if named else None
        self._count = len(next(iter(self._arrays.values()), ()))
        self.damage = Damage(self._count, place)

    def __len__(self) -> int:
        return self._count

    def fit(self, task: Task) -> dict[str, int]:
        """See `Data`. All labels are looked at."""
        if not self._count:
            raise EvaluationError(f"{self.place} has no samples; needed: arrays {', '.join(task.inputs)} and labels")
        for name in task.inputs:
            if name in self._arrays and self._arrays[name].shape[:1] != (self._count,):
                raise EvaluationError(f"{self.place}: {name} has another number of samples than the other arrays")
        first = next(iter(task.inputs.values())).shape[0]
        dims = {symbol: limits for symbol, limits in task.dims.items() if symbol != first} | {
            str(first): (1, max(self._count, 1))
        }
        tensors = {name: Tensor(tensor.dtype, (str(first), *tensor.shape[1:])) for name, tensor in task.inputs.items()}
        try:
            sizes = check(self.place, self._arrays, tensors, dims)
        except InputError as error:
            raise EvaluationError(str(error)) from error
        self._check_labels(task)
        return {symbol: size for symbol, size in sizes.items() if symbol != str(first)}

    def _check_labels(self, task: Task) -> None:
        labels = self._labels
        if labels is None:
            if task.kind == "tokens":
                return
            raise EvaluationError(f"{self.place} has no array of labels; name it {' or '.join(LABELS[:2])}")
        if labels.dtype.kind not in "iu":
            raise EvaluationError(f"{self.place}: labels have the type {labels.dtype}; needed: whole numbers")
        shape = (self._count,) if task.kind == "classes" else next(iter(self._arrays.values())).shape[:2]
        if labels.shape != shape:
            raise EvaluationError(f"{self.place}: labels have the shape {labels.shape}; needed: {shape}")
        bad = (labels < 0) | (labels >= task.size)
        if task.kind == "tokens":
            bad &= labels != IGNORED
        if bad.any():
            at = np.argwhere(bad)[0]
            raise EvaluationError(
                f"{self.place}: the label of sample {at[0]} is {labels[tuple(at)]}; allowed: 0 to {task.size - 1}"
            )

    def batches(self, task: Task, size: int) -> Iterator[Batch]:
        """See `Data`."""
        for begin in range(0, self._count, size):
            inputs = {name: self._arrays[name][begin : begin + size] for name in task.inputs}
            names = [f"sample {number}" for number in range(begin, min(begin + size, self._count))]
            yield Batch(inputs, self._targets(inputs, begin, size), names)
        self.damage.is_complete = True

    def _targets(self, inputs: Arrays, begin: int, size: int) -> np.ndarray[Any, Any]:
        if self._labels is not None:
            return self._labels[begin : begin + size].astype(np.int64)
        tokens = next(iter(inputs.values())).astype(np.int64)
        targets = np.full_like(tokens, IGNORED)
        targets[:, :-1] = tokens[:, 1:]  # the token at a place is to be predicted from what is before it
        return targets


def open_arrays(path: Path) -> ArrayData:
    """A file of .npz or .safetensors. Nothing in it is run."""
    read = _npz if path.suffix.lower() == ".npz" else _safetensors
    try:
        return ArrayData(str(path), read(path))
    except MemoryError as error:  # also of a header that claims more than any memory
        raise EvaluationError(f"{path} does not fit into memory; evaluate a part of it") from error
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise EvaluationError(f"{path} cannot be read: {why}") from error


def _npz(path: Path) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        size = sum(one.file_size for one in archive.infolist())
    if size > MOST_BYTES:
        raise ValueError(f"its arrays have {size >> 30} GiB; at most {MOST_BYTES >> 30} are read")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _safetensors(path: Path) -> Arrays:
    from safetensors import SafetensorError  # noqa: PLC0415 - an extra
    from safetensors.numpy import load_file  # noqa: PLC0415

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(error) from error
