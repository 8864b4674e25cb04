"""Arrays of NumPy: `.npy`, with one array."""

import ast
import math
from typing import Final

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.pickled_values import rows
from holdfast_cli.rehearse.compare.reading.source import Source, part_of
from holdfast_cli.rehearse.compare.reading.values import Contents, Tensor, UnreadableError

MAGIC: Final = b"\x93NUMPY"

_MOST_HEADER: Final = 10_000  # bytes, as NumPy itself allows


def read_array(source: Source) -> Contents:
    """The array of a file. UnreadableError; OSError."""
    return Contents("NumPy array", {"array": array_in(source)})


def array_in(source: Source) -> Tensor:
    """The array that `source` is. UnreadableError; OSError."""
    width = 2 if source.read(6, 1) == b"\1" else 4
    start = 8 + width
    length = int.from_bytes(source.read(8, width), "little")
    if source.read(0, 6) != MAGIC or length > _MOST_HEADER:
        raise UnreadableError("it has no header of NumPy")
    try:
        header = ast.literal_eval(source.read(start, length).decode("latin-1").strip())
        descr, shape = header["descr"], tuple(header["shape"])
        if not isinstance(descr, str) or not all(type(n) is int and 0 <= n < 1 << 60 for n in shape):
            raise UnreadableError("its type is a record, or its shape is damaged")
        code = descr.lstrip("<>|=")
        size = element_width(code)
        data = part_of(source, start + length, size * math.prod(shape))
        strides = tuple(reversed(rows(tuple(reversed(shape))))) if header["fortran_order"] and len(shape) > 1 else None
    except (SyntaxError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"its header is damaged: {error}") from error
    if start + length + data.size != source.size:
        raise UnreadableError("it has more than one array")
    return Tensor(elements.of_numpy(code), shape, data, descr.startswith(">"), strides)


def element_width(code: str) -> int:
    """Bytes of an element of a type such as `f4`. UnreadableError of objects."""
    number = code[1:].partition("[")[0]
    if code[:1] not in "bifcuSUVmM?" or not (number.isdecimal() and len(number) < 10):
        raise UnreadableError(f"arrays of the type {code[:20]} are not read")
    return int(number) * (4 if code[0] == "U" else 1)
