"""Types of NumPy that a checkpoint names: the bytes of a checkpoint never become addresses of Python objects."""

import base64
from typing import Any

import numpy as np
import pytest

from holdfast_train.errors import StateError
from holdfast_train.format.numpy_types import numpy_type
from holdfast_train.format.tree import TensorEntry, Walk, unpack
from holdfast_train.restore.lazy_tensors import Lazy, read_tensors

OBJECTS = ["O", "|O", "object", "i4,O", "(2,)O"]
SCALARS = [
    np.float32(1.5),
    np.int64(-3),
    np.bool_(True),
    np.str_("ü"),
    np.bytes_(b"a"),
    np.datetime64("2026-01-01", "s"),
]


def _scalar(dtype: str, data: bytes) -> Any:
    return unpack({"$scalar": [dtype, base64.b64encode(data).decode()]}, {}, lambda *_: None)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_python_are_refused(name: str) -> None:
    with pytest.raises(StateError, match="no Python objects"):
        numpy_type(name)
    with pytest.raises(StateError, match="no Python objects"):
        _scalar(name, bytes(8))


def test_an_array_of_objects_is_refused_before_its_bytes_are_read() -> None:
    nothing: Any = None  # is read
    with pytest.raises(StateError, match="no Python objects"):
        read_tensors(nothing, nothing, [Lazy(TensorEntry("x", "numpy", "|O", (1,), ()))])


@pytest.mark.parametrize(("name", "data", "message"), [("<f8", b"\0", "only 1 bytes"), ("junk", b"", "does not know")])
def test_a_damaged_scalar_is_refused(name: str, data: bytes, message: str) -> None:
    with pytest.raises(StateError, match=message):
        _scalar(name, data)


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_scalars_come_back(value: Any) -> None:
    back = unpack(Walk().tree(value, "x"), {}, lambda *_: None)
    assert type(back) is type(value)
    assert back == value
    assert back.dtype == value.dtype
