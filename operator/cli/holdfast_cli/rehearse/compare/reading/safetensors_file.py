"""Files of safetensors: a header of JSON, then the bytes of the tensors."""

import json
import math
from typing import Final

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.source import Source, part_of
from holdfast_cli.rehearse.compare.reading.values import (
    MOST_VALUES,
    Contents,
    Tensor,
    UnreadableError,
    Value,
    check_nodes,
)

MOST_HEADER: Final = 100 << 20  # bytes, as the library itself allows


def read_safetensors(source: Source) -> Contents:
    """The tensors of a file, and what it says of itself. UnreadableError; OSError."""
    length = int.from_bytes(source.read(0, 8), "little")
    if length > min(MOST_HEADER, source.size - 8):
        raise UnreadableError("its header is longer than the file, or than the format allows")
    text = source.read(8, length)
    check_nodes(text.count(b",") + text.count(b"[") + text.count(b"{"))
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"its header is damaged: {error}") from error
    if not isinstance(header, dict) or len(header) > MOST_VALUES:
        raise UnreadableError(f"its header is not a mapping of at most {MOST_VALUES:,} tensors")
    values: dict[str, Value] = {}
    for name, about in header.items():
        if name == "__metadata__":
            for key, value in about.items() if isinstance(about, dict) else ():
                values[f"(metadata).{key}"] = str(value)
        else:
            values[name] = _tensor(name, about, source, 8 + length)
    return Contents("safetensors", values)


def _tensor(name: str, about: object, source: Source, start: int) -> Tensor:
    try:
        assert isinstance(about, dict)
        dtype = elements.of_safetensors(about["dtype"]) or f"safetensors {str(about['dtype'])[:20]}"
        shape = tuple(about["shape"])
        first, last = about["data_offsets"]
        size = elements.width(dtype)
        assert all(type(n) is int and 0 <= n < 1 << 60 for n in (*shape, first, last))
        assert size is None or math.prod(shape) * size == last - first
        return Tensor(dtype, shape, part_of(source, start + first, last - first))
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        raise UnreadableError(f"the place of {name[:200]} in it is damaged") from error
