"""How much two values differ."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.rehearse.compare.difference import MOST_OF_ONE, OTHER_BITS, Difference, Effort, difference
from holdfast_cli.rehearse.compare.reading.source import Memory
from holdfast_cli.rehearse.compare.reading.values import Raw, Tensor, Value


def tensor(array: np.ndarray[Any, Any], dtype: str | None = None) -> Tensor:
    swapped = array.dtype.byteorder == ">"
    return Tensor(dtype or array.dtype.name, array.shape, Memory(array.tobytes()), swapped)


def apart(first: Value, second: Value) -> Difference | None:
    return difference(first, second, Effort())


FLOATS = st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=40)


@given(FLOATS, st.sampled_from(["float32", "float64", "float16"]))
# Breaks if the largest difference, or the number of elements that differ, is not what NumPy computes.
def test_it_is_what_numpy_computes(pairs: list[tuple[float, float]], dtype: str) -> None:
    with np.errstate(all="ignore"):
        a, b = (np.array(one).astype(dtype) for one in zip(*pairs, strict=True))
        found = apart(tensor(a), tensor(b))
        count = int((a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")).sum())
        if found is None:
            assert count == 0
            return
        assert found.count == count
        if np.isfinite(a).all() and np.isfinite(b).all():
            wide = np.abs(a.astype("float64") - b.astype("float64"))
            assert found.absolute == wide.max()


@given(st.binary(max_size=64), st.binary(max_size=64))
# Breaks if equal bits differ, or different ones are equal, or if the order of the two matters.
def test_bits_decide(a: bytes, b: bytes) -> None:
    for make in (lambda data: Raw(Memory(data)), lambda data: tensor(np.frombuffer(data, "u1"))):
        assert (apart(make(a), make(b)) is None) == (a == b)
        assert (apart(make(a), make(b)) is None) == (apart(make(b), make(a)) is None)


@pytest.mark.parametrize(
    ("first", "second", "absolute", "relative"),
    [
        (1.0, 1.5, 0.5, 1 / 3),
        (0.0, -0.0, 0.0, 0.0),
        (math.nan, 1.0, math.inf, math.inf),
        (math.inf, 1.0, math.inf, math.inf),
        (3, 4, 1.0, 0.25),
        (1, 1.0, 0.0, 0.0),
        (10**400, 1, math.inf, math.inf),
    ],
)
# Breaks if numbers that are not finite, or zero, give no difference or an error.
def test_numbers(first: float, second: float, absolute: float, relative: float) -> None:
    found = apart(first, second)
    assert found is not None
    assert (found.absolute, found.relative) == pytest.approx((absolute, relative))


@pytest.mark.parametrize("value", [math.nan, 0.5, 3, "text", None, True])
# Breaks if a value differs from itself, as NaN does.
def test_equal_values(value: Value) -> None:
    assert apart(value, value) is None


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("a", "b", "another text"),
        (True, 1, "a number instead of true or false"),
        (None, "a", "a text instead of nothing"),
        (Raw(Memory(b"abcd")), Raw(Memory(b"abxd")), "other bytes from byte 2 on"),
        (Raw(Memory(b"abcd")), Raw(Memory(b"ab")), "other bytes from byte 2 on, 4 and 2 bytes"),
        (tensor(np.ones(2)), tensor(np.ones(3)), "float64 [3] instead of float64 [2]"),
    ],
)
# Breaks if a difference without a number is not put into words.
def test_words(first: Value, second: Value, words: str) -> None:
    found = apart(first, second)
    assert found is not None
    assert (found.words, found.absolute) == (words, None)


# Breaks if bfloat16 is read as another type, or complex numbers as whole ones.
def test_other_types() -> None:
    ones, others = torch.ones(3, dtype=torch.bfloat16), torch.tensor([1, 1.5, 1], dtype=torch.bfloat16)
    a, b = (tensor(one.view(torch.uint16).numpy(), "bfloat16") for one in (ones, others))
    found = apart(a, b)
    assert found is not None
    assert (found.absolute, found.count, found.total) == (0.5, 1, 3)
    found = apart(tensor(np.array([1 + 2j, 3])), tensor(np.array([1 + 2.5j, 3])))
    assert found is not None
    assert (found.absolute, found.count, found.total) == (0.5, 1, 2)
    found = apart(tensor(np.array([1, 2], "u1"), "float8_e5m2"), tensor(np.array([1, 3], "u1"), "float8_e5m2"))
    assert found is not None
    assert (found.absolute, found.count, found.words) == (None, 1, "other bytes")


# Breaks if two tensors that lie otherwise in their files are not equal although all their elements are.
def test_layouts() -> None:
    array = np.arange(6.0).reshape(2, 3)
    turned = Tensor("float64", (2, 3), Memory(array.T.tobytes()), strides=(1, 2))
    swapped = tensor(array.astype(">f8"))
    assert apart(tensor(array), turned) is None
    assert apart(turned, swapped) is None
    other = array.copy()
    other[1, 2] = 7
    found = apart(turned, tensor(other))
    assert found is not None
    assert (found.count, found.absolute) == (1, 2.0)


# Breaks if bytes between the elements of a view count.
def test_what_lies_between() -> None:
    a, b = (
        Tensor("float64", (2,), Memory(np.array([1.0, between, 2.0]).tobytes()), strides=(2,)) for between in (5, 6)
    )
    assert apart(a, b) is None


# Breaks if -0.0 beside 0.0, or another NaN, is put into words as a difference of size 0.
def test_other_bits_of_equal_numbers() -> None:
    for first, second in ((0.0, -0.0), (tensor(np.zeros(2)), tensor(-np.zeros(2)))):
        found = apart(first, second)
        assert found is not None
        assert (found.absolute, found.words) == (0.0, OTHER_BITS)


# Breaks if bytes that are no whole element raise or count as equal, or if a tensor with more bytes does.
def test_bytes_that_are_no_element() -> None:
    short = [Tensor("float32", (2,), Memory(b"12345678" + end)) for end in (b"a", b"b", b"")]
    for other in short[1:]:
        found = apart(short[0], other)
        assert found is not None
        assert (found.words, found.absolute) == ("other bytes", None)


# Breaks if the largest difference is that of the first elements only, with a tolerance of the user or without one.
def test_the_largest_difference_of_a_large_tensor() -> None:
    a, b = np.ones(2_000_000, "f4"), np.full(2_000_000, 1.001, "f4")
    b[1_700_000] = 9
    found = difference(tensor(a), tensor(b), Effort(is_whole=True))
    assert found is not None
    assert (found.absolute, found.count, found.looked) == (8.0, 2_000_000, 2_000_000)
    b[1_700_000:1_990_000] = 9  # a part of these is in any sample that is spread over the tensor
    found = difference(tensor(a), tensor(b), Effort())
    assert found is not None
    assert (found.absolute, found.looked < 400_000) == (8.0, True)


# Breaks if a large tensor is looked at number by number to its end, or if nothing says that it is not.
def test_a_large_tensor() -> None:
    a, b = np.zeros(400_000, "f4"), np.ones(400_000, "f4")
    found = apart(tensor(a), tensor(b))
    assert found is not None
    assert 0.9 * MOST_OF_ONE <= found.looked < found.total == 400_000
    effort = Effort(left=0)
    found = difference(tensor(a), tensor(b), effort)
    assert found is not None
    assert found.looked < 10_000
