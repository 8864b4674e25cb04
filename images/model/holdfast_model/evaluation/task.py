"""What a package's model is asked: to name a class, or to predict the next token. It follows from the problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from holdfast_model.evaluation.errors import EvaluationError
from holdfast_model.package.errors import ProblemError
from holdfast_model.package.folder import Opened
from holdfast_model.package.problem import Pixels, Tensor, check_classes

MOST_BATCH: Final = 64
MOST_BATCH_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Task:
    """`output`: the array that is scored. `size`: its classes or tokens. `classes`: their names, perhaps none."""

    kind: Literal["classes", "tokens"]
    inputs: Mapping[str, Tensor]
    dims: Mapping[str, tuple[int, int]]
    output: str
    size: int
    classes: tuple[str, ...]
    pixels: Pixels | None = None

    def class_name(self, number: int) -> str:
        """For people."""
        return self.classes[number] if self.classes else str(number)


def task_of(package: Opened, output: str | None, pixels: Pixels | None = None) -> Task:
    """`output`: default: the only one that has scores for classes or tokens. EvaluationError if there is none.

    `pixels`: default: those of the package.
    """
    place = package.folder
    if output is not None and output not in package.outputs:
        raise EvaluationError(f"{place} has no output {output!r}; it has: {', '.join(package.outputs)}")
    first = {str(tensor.shape[0]) if tensor.shape else "" for tensor in package.inputs.values()}
    if len(first) != 1 or "" in first:
        raise EvaluationError(
            f"the inputs of {place} do not have the number of samples as their first dimension; "
            "give a function with --score"
        )
    fits = {
        name: tensor for name, tensor in package.outputs.items()
        if (output is None or name == output) and _is_scored(tensor)
    }  # fmt: skip
    if len(fits) != 1:
        found = f"{len(fits)} of its outputs are" if fits else "none of its outputs is"
        raise EvaluationError(
            f"{place} can be scored only if one output is of floating-point numbers for (samples, classes) or "
            f"(samples, time, tokens), and {found}: "
            + ("name one with --output" if fits else "give a function with --score")
        )
    name, tensor = next(iter(fits.items()))
    kind: Literal["classes", "tokens"] = "classes" if len(tensor.shape) == 2 else "tokens"
    size = int(tensor.shape[-1])
    return Task(kind, package.inputs, package.dims, name, size, _classes(package, size), pixels or _pixels(package))


def _is_scored(tensor: Tensor) -> bool:
    return tensor.dtype.startswith("float") and len(tensor.shape) in (2, 3) and isinstance(tensor.shape[-1], int)


def _classes(package: Opened, size: int) -> tuple[str, ...]:
    """The names in package.json, which may be of a stranger."""
    found = package.document["problem"].get("classes", [])
    if not isinstance(found, list):
        raise EvaluationError(f"problem.classes of {package.folder} is not a list of names")
    try:
        check_classes(found, {"output": Tensor("float32", (size,))})
    except ProblemError as error:
        raise EvaluationError(f"problem of {package.folder}: {error}") from error
    return tuple(found)


def _pixels(package: Opened) -> Pixels | None:
    found = package.document["problem"].get("pixels")
    if found is None:
        return None
    try:
        mean, std = (tuple(float(one) for one in found[key]) for key in ("mean", "std"))
        return Pixels(mean, std)
    except (TypeError, KeyError, ValueError, ProblemError) as error:
        raise EvaluationError(f"problem.pixels of {package.folder} is damaged: {error}") from error


def batch_limits(task: Task, dims: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> tuple[int, int]:
    """The least and largest number of samples of a call. `dims`: of the variant. `sizes`: of the other symbols."""
    first = next(iter(task.inputs.values())).shape[0]
    least, most = dims[first] if isinstance(first, str) else (first, first)
    each = sum(_bytes(tensor, dims, sizes) for tensor in task.inputs.values())
    fitting = max(1, MOST_BATCH_BYTES // max(each, 1))
    return least, max(least, min(most, MOST_BATCH, fitting))


def _bytes(tensor: Tensor, dims: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> int:
    """Of one sample."""
    count = np.dtype(tensor.dtype).itemsize
    for part in tensor.shape[1:]:
        count *= part if isinstance(part, int) else sizes.get(part, dims[part][0])
    return int(count)
