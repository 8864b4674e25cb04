"""What a model is for: the names, types and shapes of its inputs and outputs, with test data and a score."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from holdfast_model.package.errors import InputError, ProblemError

Arrays = Mapping[str, np.ndarray[Any, Any]]
Call = Callable[[Arrays], Arrays]
"""A model in any form: arrays by the names of the inputs in, by those of the outputs out."""

DTYPES: Final = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MOST: Final = 1 << 20
"""The largest size of a dimension."""
MOST_NAME: Final = 64
"""Characters of the name of a score."""
MOST_CLASS: Final = 200
"""Characters of the name of a class."""
WEIGHTS: Final = "model.safetensors"
"""The file beside those of `files`."""


@dataclass(frozen=True)
class Tensor:
    """Type and shape of an input or output. A dimension is a number, or a symbol that has one value in a call."""

    dtype: str
    """A word of NumPy, such as float32."""
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Score:
    """How good a model is on data of the problem. Higher is better; for a loss, return it negated."""

    name: str
    measure: Callable[[Call], float]
    """Runs a model, in any form, over the data."""
    max_drop: float
    """A variant may score this much less than the model in torch."""
    samples: int | None = None

    def __post_init__(self) -> None:
        """ProblemError says which of them is not allowed."""
        if not (isinstance(self.name, str) and 0 < len(self.name) <= MOST_NAME and self.name.isprintable()):
            raise ProblemError(f"score.name is {self.name!r:.80}; allowed: at most {MOST_NAME} printable characters")
        if not callable(self.measure):
            raise ProblemError(f"score.measure is a {type(self.measure).__name__}; it has to be a function of a model")
        if not (isinstance(self.max_drop, (int, float)) and 0 <= self.max_drop < math.inf):  # also refuses NaN
            raise ProblemError(f"score.max_drop is {self.max_drop!r:.80}; allowed: a number from 0 on, such as 0.01")
        if self.samples is not None and not (type(self.samples) is int and self.samples > 0):
            raise ProblemError(f"score.samples is {self.samples!r:.80}; allowed: how many samples it reads, or None")


@dataclass(frozen=True)
class Pixels:
    """How values of a picture, from 0 to 1, become those of an input: (value - mean) / std.

    Each has one number, or one for each channel. ProblemError if they have not.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, 3) or not all(abs(one) < 1e6 for one in numbers):  # also refuses NaN
                raise ProblemError(f"pixels.{name} is {numbers}; allowed: one number, or three for red, green and blue")
        if not all(one > 1e-6 for one in self.std):
            raise ProblemError(f"pixels.std is {self.std}; allowed: numbers above 0")


@dataclass(frozen=True)
class Problem:
    """All that a package needs besides the weights. ProblemError says what contradicts itself."""

    model: Callable[[], Any]
    """Makes the torch module; the weights come from the checkpoint. It takes the inputs in their order, and returns a
    tensor, or a tuple or dict of tensors."""
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    examples: Sequence[Arrays]
    """Real inputs: each variant is tested on them, and on sizes that are cut and repeated from the first one."""
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Symbol -> its least and largest size."""
    calibration: Callable[[], Sequence[Arrays]] | None = None
    """Inputs such as the model meets in use. Without them there is no static int8 variant."""
    score: Score | None = None
    classes: Sequence[str] = ()
    """Names of the last dimension's entries, for a model that chooses one of them."""
    pixels: Pixels | None = None
    """For a model of pictures: `holdfast-train evaluate` makes its inputs of picture files by it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path in safetensors/ -> text, such as config.json of a Hugging Face model."""
    rename: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """The model's state_dict -> the tensors of safetensors/, for another program's names."""

    def __post_init__(self) -> None:
        check_tensors(self.inputs, self.outputs, self.dims)
        check_classes(self.classes, self.outputs)
        _check_files(self.files)
        for name, kind in (("score", Score), ("pixels", Pixels)):
            if not isinstance(found := getattr(self, name), (kind, type(None))):
                raise ProblemError(f"{name} is a {type(found).__name__}; allowed: a {kind.__name__}")
        if not self.examples:
            raise ProblemError("examples is empty; give at least one real input")
        for number, example in enumerate(self.examples):
            try:
                check("examples[" + str(number) + "]", example, self.inputs, self.dims)
            except InputError as error:
                raise ProblemError(str(error)) from error


def check_tensors(
    inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], dims: Mapping[str, tuple[int, int]]
) -> None:
    """ProblemError says which name, type or size is not allowed."""
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise ProblemError(f"{what} is empty; name at least one tensor")
        for name, tensor in tensors.items():
            _check_tensor(f"{what}[{name!r}]", name, tensor, dims)
    for symbol, limits in dims.items():
        if not NAME.fullmatch(symbol):
            raise ProblemError(f"dims[{symbol!r}] is not a name; allowed: letters, digits and _, at most 64")
        if not (isinstance(limits, (tuple, list)) and [type(size) for size in limits] == [int, int]):
            raise ProblemError(
                f"dims[{symbol!r}] is {limits!r:.80}; allowed: the least and the largest size, as (1, 64)"
            )
        least, most = limits
        if not 1 <= least <= most <= MOST:
            raise ProblemError(f"dims[{symbol!r}] is ({least}, {most}); allowed: 1 <= least <= largest <= {MOST}")
    used = {part for tensor in inputs.values() for part in tensor.shape if isinstance(part, str)}
    if unused := [symbol for symbol in dims if symbol not in used]:
        raise ProblemError(f"dims names {unused[0]!r}, which no input has; remove it, or put it into a shape")


def _check_tensor(place: str, name: str, tensor: Tensor, dims: Mapping[str, tuple[int, int]]) -> None:
    if not NAME.fullmatch(name):
        raise ProblemError(f"{place}: the name is not allowed; allowed: letters, digits and _, at most 64")
    if not isinstance(tensor, Tensor):
        raise ProblemError(f"{place} is a {type(tensor).__name__}; allowed: a Tensor, as Tensor('float32', (3, 8))")
    if tensor.dtype not in DTYPES:
        raise ProblemError(f"{place}: the type {tensor.dtype!r} is not known; allowed: {', '.join(DTYPES)}")
    for part in tensor.shape:
        if type(part) not in (int, str):
            raise ProblemError(f"{place}: the shape has {part!r:.80}; allowed: whole numbers, and symbols of dims")
        if isinstance(part, str) and part not in dims:
            raise ProblemError(f"{place}: the shape has {part!r}, which dims lacks; give its least and largest size")
        if isinstance(part, int) and not 0 < part <= MOST:
            raise ProblemError(f"{place}: the shape has {part}; allowed: 1 to {MOST}, or a symbol of dims")


def check_classes(classes: Sequence[str], outputs: Mapping[str, Tensor]) -> None:
    """ProblemError says what is wrong with the names of the classes."""
    if isinstance(classes, str) or not all(isinstance(name, str) and len(name) <= MOST_CLASS for name in classes):
        raise ProblemError(f"classes is {classes!r:.80}; allowed: a list of names of at most {MOST_CLASS} characters")
    if twice := [name for name, count in Counter(classes).items() if count > 1]:
        raise ProblemError(f"classes has {twice[0]!r:.80} twice; allowed: each name once")
    sizes = {tensor.shape[-1] for tensor in outputs.values() if tensor.shape}
    if classes and len(classes) not in sizes:
        raise ProblemError(f"classes has {len(classes)} names, and no output has so many entries in its last dimension")


def _check_files(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = PurePosixPath(name)
        if not name.isprintable() or path.is_absolute() or ".." in path.parts or str(path) in (".", WEIGHTS):
            raise ProblemError(
                f"files has {name!r:.80}; allowed: paths below the folder of {WEIGHTS}, and not this file"
            )
        if not isinstance(text, str):
            raise ProblemError(
                f"files[{name!r:.80}] is a {type(text).__name__}; allowed: text, such as json.dumps(...)"
            )


def check(
    place: str, arrays: Arrays, tensors: Mapping[str, Tensor], dims: Mapping[str, tuple[int, int]],
    known: Mapping[str, int] | None = None,
) -> dict[str, int]:  # fmt: skip
    """The size of each symbol in a call. `known`: sizes that are fixed already, such as by the inputs.

    InputError names the array, what it has, and what is allowed.
    """
    sizes: dict[str, int] = dict(known or {})
    if missing := [name for name in tensors if name not in arrays]:
        raise InputError(f"{place} lacks {missing[0]!r}; needed: {', '.join(tensors)}")
    if more := [name for name in arrays if name not in tensors]:
        raise InputError(f"{place} has {more[0]!r}, which is not in the problem; allowed: {', '.join(tensors)}")
    for name, tensor in tensors.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray):
            raise InputError(f"{place}: {name} is a {type(array).__name__}; needed: an array of NumPy")
        if array.dtype.name != tensor.dtype:
            raise InputError(f"{place}: {name} has the type {array.dtype.name}; needed: {tensor.dtype}")
        if array.ndim != len(tensor.shape):
            raise InputError(f"{place}: {name} has the shape {_said(array.shape)}; needed: {_said(tensor.shape)}")
        for part, size in zip(tensor.shape, array.shape, strict=True):
            _bind(f"{place}: {name} has the shape {_said(array.shape)}", part, size, dims, sizes)
    return sizes


def _bind(said: str, part: int | str, size: int, dims: Mapping[str, tuple[int, int]], sizes: dict[str, int]) -> None:
    if isinstance(part, int):
        if size != part:
            raise InputError(f"{said}; {size} must be {part}")
        return
    least, most = dims[part]
    if not least <= size <= most:
        raise InputError(f"{said}; {part} is {size}, and must be {least} to {most}")
    if sizes.setdefault(part, size) != size:
        raise InputError(f"{said}; {part} is {size}, and is {sizes[part]} elsewhere in the same call")


def _said(shape: Sequence[int | str]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
