"""Problems that contradict themselves, and calls that do not fit one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast_model.package import InputError, Pixels, Problem, ProblemError, Score, Tensor
from holdfast_model.package.problem import check

DIMS = {"batch": (1, 8)}
TENSORS = {"a": Tensor("float32", ("batch", 2)), "b": Tensor("int64", ("batch",))}


def arrays(rows: int = 2, other: int = 2) -> dict[str, np.ndarray[Any, Any]]:
    return {"a": np.zeros((rows, 2), np.float32), "b": np.zeros(other, np.int64)}


# Breaks if a symbol is not bound by the first array that has it.
def test_the_sizes_of_symbols_are_told() -> None:
    assert check("the call", arrays(3, 3), TENSORS, DIMS) == {"batch": 3}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"a": arrays()["a"]}, "the call lacks 'b'; needed: a, b"),
        (arrays() | {"c": np.zeros(1)}, "the call has 'c', which is not in the problem; allowed: a, b"),
        (arrays() | {"a": np.zeros((2, 2))}, "a has the type float64; needed: float32"),
        (arrays() | {"a": np.zeros(2, np.float32)}, r"a has the shape \(2\); needed: \(batch, 2\)"),
        (arrays() | {"a": np.zeros((2, 3), np.float32)}, r"a has the shape \(2, 3\); 3 must be 2"),
        (arrays(9, 9), "batch is 9, and must be 1 to 8"),
        (arrays(2, 3), "batch is 3, and is 2 elsewhere in the same call"),
        (arrays() | {"a": [[0.0, 0.0]]}, "a is a list; needed: an array of NumPy"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check("the call", call, TENSORS, DIMS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": {}}, "inputs is empty"),
        ({"inputs": {"x": Tensor("float32", ("rows", 4))}}, r"examples\[0\]: x has the shape \(2, 3\); 3 must be 4"),
        ({"inputs": {"x": Tensor("string", ("rows", 3))}}, "the type 'string' is not known; allowed: float32"),
        ({"inputs": {"x": Tensor("float32", ("lines", 3))}}, "the shape has 'lines', which dims lacks"),
        ({"inputs": {"x": Tensor("float32", ("rows", 0))}}, "the shape has 0; allowed: 1 to"),
        ({"inputs": {"../x": Tensor("float32", ("rows", 3))}}, "the name is not allowed"),
        ({"dims": {"rows": (4, 2)}}, r"dims\['rows'\] is \(4, 2\); allowed: 1 <= least <= largest"),
        ({"dims": {"rows": (1, 8), "cols": (1, 2)}}, "dims names 'cols', which no input has"),
        ({"examples": []}, "examples is empty; give at least one real input"),
        ({"dims": {"rows": 8}}, r"dims\['rows'\] is 8; allowed: the least and the largest size, as \(1, 64\)"),
        ({"inputs": {"x": ("float32", ("rows", 3))}}, r"inputs\['x'\] is a tuple; allowed: a Tensor"),
        ({"inputs": {"x": Tensor("float32", ("rows", 3.0))}}, r"the shape has 3\.0; allowed: whole numbers"),
        ({"classes": "abc"}, "classes is 'abc'; allowed: a list of names"),
        ({"classes": (1, 2, 3)}, r"classes is \(1, 2, 3\); allowed: a list of names"),
        ({"classes": ("a" * 201, "b", "c")}, "allowed: a list of names of at most 200 characters"),
        ({"classes": ("a", "b", "a")}, "classes has 'a' twice; allowed: each name once"),
        ({"classes": ("a", "b")}, "classes has 2 names, and no output has so many entries"),
        ({"files": {"../README.md": ""}}, r"files has '\.\./README\.md'; allowed: paths below"),
        ({"files": {"/etc/cron.d/x": ""}}, "files has '/etc/cron.d/x'; allowed: paths below"),
        ({"files": {"./model.safetensors": ""}}, r"files has '\./model\.safetensors'; allowed: .* not this file"),
        ({"files": {"config.json": {}}}, r"files\['config\.json'\] is a dict; allowed: text"),
        ({"score": lambda model: 1.0}, "score is a function; allowed: a Score"),
        ({"pixels": (0.5, 0.5)}, "pixels is a tuple; allowed: a Pixels"),
    ],
)
def test_a_problem_that_contradicts_itself_is_refused(problem: Problem, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        replace(problem, **change)


# Breaks if pixels of a stranger's package lead to a division by zero or to inputs that are not numbers.
@pytest.mark.parametrize(
    ("mean", "std"),
    [((), (1.0,)), ((0.5, 0.5), (1.0,)), ((float("nan"),), (1.0,)), ((0.5,), (0.0,)), ((0.5,), (-1.0,))],
)
def test_pixels_that_make_no_sense(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(ProblemError, match=r"pixels\.(mean|std) is"):
        Pixels(mean, std)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "score.name is ''; allowed: at most 64 printable characters"),
        ({"measure": 0.5}, "score.measure is a float; it has to be a function of a model"),
        ({"max_drop": float("nan")}, "score.max_drop is nan; allowed: a number from 0 on"),
        ({"max_drop": -1}, "score.max_drop is -1; allowed"),
        ({"samples": 0.5}, "score.samples is 0.5; allowed: how many samples"),
    ],
)
def test_a_score_that_cannot_be_one_is_refused(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"name": "accuracy", "measure": lambda _: 1.0, "max_drop": 0.01}
    with pytest.raises(ProblemError, match=said):
        Score(**good | change)
