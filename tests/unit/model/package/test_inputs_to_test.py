"""The sizes on which a variant is tested."""

from dataclasses import replace

import numpy as np

from holdfast_model.package import Problem, Tensor
from holdfast_model.package.inputs_to_test import inputs_to_test, resized


# Breaks if one, two or the largest size is left out: exporters take 1 for a constant, and forget the limit.
def test_least_two_and_most_of_each_symbol(problem: Problem) -> None:
    found, left_out = inputs_to_test(problem)
    assert [len(one["x"]) for one in found] == [2, 1, 8]  # 2 is that of the example
    assert left_out == []


def test_an_example_is_repeated_from_its_begin(problem: Problem) -> None:
    made = resized(problem, problem.examples[0], "rows", 5)["x"]
    assert np.array_equal(made, problem.examples[0]["x"][[0, 1, 0, 1, 0]])


def test_a_case_that_is_too_large_is_left_out_and_named(problem: Problem) -> None:
    huge = replace(problem, dims={"rows": (1, 1 << 20)}, outputs={"y": Tensor("float32", ("rows", 1000))})
    found, left_out = inputs_to_test(huge)
    assert [len(one["x"]) for one in found] == [2, 1]
    assert left_out == ["rows = 1048576 is not tested: it takes 4012 MiB"]
