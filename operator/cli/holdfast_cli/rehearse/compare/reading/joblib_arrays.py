"""Arrays in a pickle of joblib: their bytes lie between two operations, behind an object that says their type."""

import io
import math
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.numpy_file import element_width
from holdfast_cli.rehearse.compare.reading.pickle_machine import Call, Mapping, load
from holdfast_cli.rehearse.compare.reading.pickled_values import is_of_objects, numpy_type, rows
from holdfast_cli.rehearse.compare.reading.source import Source, part_of
from holdfast_cli.rehearse.compare.reading.values import Tensor

WRAPPER: Final = "joblib.numpy_pickle.NumpyArrayWrapper"


def with_arrays(file: BinaryIO, source: Source, operations: Iterator[int]) -> Callable[[object], object]:
    """What `load` calls with each object: it puts an array in the place of the object that describes it.

    `file`: the bytes of `source`, which are read from on. The function raises what BROKEN names.
    """

    def built(node: object) -> object:
        if not isinstance(node, Call) or node.name != WRAPPER or not isinstance(node.state[-1], Mapping):
            return node
        about: dict[str, Any] = {key: value for key, value in node.state[-1].pairs if isinstance(key, str)}
        if is_of_objects(about["dtype"]):
            return load(file, operations=operations)
        if about.get("numpy_array_alignment_bytes") is not None:
            file.seek(file.read(1)[0], io.SEEK_CUR)
        code, order, size = _element(about["dtype"])
        shape = about["shape"]
        if not isinstance(shape, tuple) or not all(type(n) is int and 0 <= n < 1 << 60 for n in shape):
            raise TypeError("not a shape")
        data = part_of(source, file.tell(), size * math.prod(shape))
        file.seek(data.size, io.SEEK_CUR)
        strides = tuple(reversed(rows(tuple(reversed(shape))))) if about["order"] == "F" and len(shape) > 1 else None
        return Tensor(elements.of_numpy(code), shape, data, order == ">", strides)

    return built


def _element(dtype: object) -> tuple[str, str, int]:
    """Code, byte order and bytes of an element; a record, such as a node of a tree of scikit-learn, is only bytes."""
    state = dtype.state[0] if isinstance(dtype, Call) and dtype.state else ()
    if isinstance(state, tuple) and len(state) > 5 and state[3] is not None:
        size = state[5]
        if type(size) is not int or not 0 <= size < 1 << 30:
            raise TypeError("a record without a size")
        return f"V{size}", "|", size
    code, order = numpy_type(dtype)
    return code, order, element_width(code)
