"""Frames between a program and the process of its model."""

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from holdfast_model.package.worker import MOST_HEAD, receive, send

ARRAYS = st.dictionaries(
    st.text("abc", min_size=1),
    st.sampled_from([np.float32, np.int64, np.uint8, np.bool_, np.float16]).flatmap(
        lambda dtype: hn.arrays(dtype, hn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    ),
    max_size=3,
)


# Breaks if a shape without dimensions or without entries, or an order in memory, is not kept.
@given(ARRAYS, st.text(max_size=20))
def test_a_frame_is_read_as_it_was_written(arrays: dict[str, np.ndarray[Any, Any]], error: str) -> None:
    file = io.BytesIO()
    send(file, {name: array.T for name, array in arrays.items()}, error)
    file.seek(0)
    found, said = receive(file)
    assert said == error
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.T.shape)
        np.testing.assert_array_equal(found[name], array.T)


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="which is too much"):
        receive(io.BytesIO(struct.pack("<QQ", MOST_HEAD + 1, 0)))


def test_the_end_of_the_other_side() -> None:
    with pytest.raises(EOFError):
        receive(io.BytesIO(struct.pack("<QQ", 5, 0) + b"{"))


# Breaks if what a worker of somebody else sends is an error of Python, and not one of the worker.
@pytest.mark.parametrize("head", [b"{", b"[]", b"[" * 100_000, b'{"arrays": [1]}', b'{"arrays": [["x", "O", [1]]]}'])
def test_a_head_that_is_none(head: bytes) -> None:
    with pytest.raises(ValueError):
        receive(io.BytesIO(struct.pack("<QQ", len(head), 0) + head))
