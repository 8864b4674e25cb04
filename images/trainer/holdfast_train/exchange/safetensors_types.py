"""The types of safetensors, and the one that a tensor, an array or a byte string of a checkpoint gets."""

import math
from typing import Final, NamedTuple

from holdfast_train.errors import CheckpointCorruptError, StateError
from holdfast_train.restore.lazy_tensors import Lazy

# Type in torch -> type in safetensors and its bytes. The files of the library begin with the types at the end.
_TYPES: Final = {
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "int8": ("I8", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e8m0fnu": ("F8_E8M0", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "float32": ("F32", 4),
    "complex64": ("C64", 8),
    "float64": ("F64", 8),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
}
_RANK: Final = {word: rank for rank, (word, _) in enumerate(_TYPES.values())}
_OF_NUMPY: Final = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip


class Form(NamedTuple):
    """How a tensor is stored in a file."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Tensors of a higher rank come first in a file."""
        return _RANK[self.dtype]


def form_of(name: str, lazy: Lazy) -> Form:
    """Type and shape in the file: what torch does not have becomes bytes.

    StateError if safetensors lacks the type; CheckpointCorruptError if the tensor's bytes are not those of its shape.
    """
    entry = lazy.entry
    dtype = entry.dtype if entry.kind == "torch" else _numpy(entry.dtype)
    if entry.kind == "bytes" or dtype is None:
        return Form("U8", (entry.size,))
    if dtype not in _TYPES:
        raise StateError(
            f"{name} has the type {dtype}, which safetensors does not have; use holdfast-train export with --format "
            f"dcp or torch, or export only parts without it"
        )
    word, width = _TYPES[dtype]
    if width * math.prod(entry.shape) != entry.size:
        raise CheckpointCorruptError(f"{name} has {entry.size} bytes, which is not {dtype} of the shape {entry.shape}")
    return Form(word, entry.shape)


def _numpy(dtype: str) -> str | None:
    """The type in torch of a type of NumPy, such as `<f4`; None if torch has no such type."""
    return _OF_NUMPY.get(dtype[1:]) if dtype[:1] in ("<", "|") else None
