"""Strides of tensors and arrays whose values do not lie row by row, such as those in the memory format channels_last.

A checkpoint has all values row by row. A tensor that comes back must lie in memory as it did: an optimizer with
`fused=True` works on the memory of a parameter and on that of its state at the same places.
"""

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from holdfast_train.errors import StateError

Strides: TypeAlias = tuple[int, ...]  # in values, not in bytes
_FEW: Final = 1 << 16  # shapes whose strides are remembered


def of_tensor(tensor: Any) -> Strides | None:
    """The strides of a copy of `tensor`, which has all values of an expanded one; None if it lies row by row."""
    if tensor.stride() == by_rows(tuple(tensor.shape)) or not tensor.numel():
        return None
    torch: Any = sys.modules["torch"]
    found = tuple(torch.empty_like(tensor, device="meta").stride())
    return None if found == by_rows(tuple(tensor.shape)) else found


def of_array(array: Any) -> Strides | None:
    """As `of_tensor`, of a NumPy array."""
    if array.flags.c_contiguous or not array.nbytes:
        return None
    found = sys.modules["numpy"].empty_like(array)
    return None if found.flags.c_contiguous else tuple(stride // array.itemsize for stride in found.strides)


@lru_cache(_FEW)
def by_rows(shape: tuple[int, ...]) -> Strides:
    """The strides of a tensor of this shape whose values lie row by row."""
    found, step = [], 1
    for length in reversed(shape):
        found.append(step)
        step *= max(length, 1)
    return tuple(reversed(found))


def with_strides(array: Any, strides: Strides) -> Any:
    """A copy of `array`, a tensor or an array of NumPy, that lies in memory as `strides` say.

    StateError if they do not give each value a place of its own, with no gap: a damaged checkpoint must not ask for
    more memory than its values need.
    """
    if not _is_dense(array.shape, strides):
        raise StateError(
            f"the checkpoint contains an array of shape {list(array.shape)} with the strides {list(strides)}: allowed "
            "are those that give each value one place, with no gap"
        )
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, numpy.ndarray):
        torch: Any = sys.modules["torch"]
        return torch.empty_strided(array.shape, strides, dtype=array.dtype).copy_(array)
    made = numpy.ndarray(array.shape, array.dtype, strides=[stride * array.itemsize for stride in strides])
    made[...] = array
    return made


def _is_dense(shape: Sequence[int], strides: Strides) -> bool:
    step = 1
    for stride, length in sorted(zip(strides, shape, strict=False)):
        if length != 1 and stride != step:
            return False
        step *= length
    return len(strides) == len(shape)
