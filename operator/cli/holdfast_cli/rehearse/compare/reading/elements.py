"""Types of numbers: how they are named in the formats, and how their bytes become numbers. Pure."""

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Final

# As torch names it: bytes of one element, and its code in `array`; "" if its numbers are not read.
_TYPES: Final = {
    "bool": (1, "B"), "uint8": (1, "B"), "int8": (1, "b"), "int16": (2, "h"), "uint16": (2, "H"), "int32": (4, "i"),
    "uint32": (4, "I"), "int64": (8, "q"), "uint64": (8, "Q"), "float32": (4, "f"), "float64": (8, "d"),
    "float16": (2, "e"), "bfloat16": (2, "bf"), "complex64": (8, "f"), "complex128": (16, "d"), "complex32": (4, "e"),
    "float8_e4m3fn": (1, ""), "float8_e5m2": (1, ""), "float8_e8m0fnu": (1, ""), "float8_e4m3fnuz": (1, ""),
    "float8_e5m2fnuz": (1, ""), "qint8": (1, ""), "quint8": (1, ""), "qint32": (4, ""),
}  # fmt: skip
_STORAGES: Final = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "Untyped": "uint8",
}  # fmt: skip
_SAFETENSORS: Final = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32",
    "I64": "int64", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
_NUMPY: Final = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip


def width(dtype: str) -> int | None:
    """Bytes of one element; None if the type is not known."""
    return _TYPES[dtype][0] if dtype in _TYPES else None


def is_float(dtype: str) -> bool:
    """True of types whose numbers may differ a little: floats and complex numbers."""
    return dtype.startswith(("float", "bfloat", "complex"))


def of_storage(name: str) -> str | None:
    """The type of a storage class such as `torch.FloatStorage`; None if it is not one."""
    return _STORAGES.get(name.rpartition(".")[2].removesuffix("Storage")) if name.endswith("Storage") else None


def of_torch(name: object) -> str | None:
    """The type in a name such as `torch.float32`; None if it is not one."""
    short = name.removeprefix("torch.") if isinstance(name, str) else ""
    return short if short in _TYPES else None


def of_safetensors(word: object) -> str | None:
    """The type that safetensors names so; None if it is not known."""
    return _SAFETENSORS.get(word) if isinstance(word, str) else None


def of_numpy(code: str) -> str:
    """The type in torch of a code of NumPy without its byte order, such as `f4`; `numpy S7` if torch has no such."""
    return _NUMPY.get(code, f"numpy {code}")


def numbers(dtype: str, data: bytes, *, is_swapped: bool) -> Sequence[float] | None:
    """The numbers in `data`, two of each complex one; None if the type is compared as bytes."""
    size, code = _TYPES.get(dtype, (1, ""))
    if not code:
        return None
    data = data[: len(data) // size * size]
    is_big = is_swapped == (sys.byteorder == "little")
    if code == "e":
        return struct.unpack(f"{'>' if is_big else '<'}{len(data) // 2}e", data)
    found = array("H" if code == "bf" else code, data)
    if is_swapped:
        found.byteswap()
    return found if code != "bf" else array("f", array("I", [number << 16 for number in found]).tobytes())
