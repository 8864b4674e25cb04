"""Scores of answers: by hand, and at their edges."""

import math

import numpy as np
import pytest

from holdfast_model.evaluation.data import IGNORED, Batch
from holdfast_model.evaluation.scores import ClassScores, NotNumbersError, TokenScores, interval
from holdfast_model.evaluation.task import Task
from holdfast_model.package import Tensor

TASK = Task("classes", {"x": Tensor("float32", ("n", 6))}, {"n": (1, 8)}, "y", 6, tuple("abcdef"))
TOKENS = Task("tokens", {"x": Tensor("int64", ("n", "t"))}, {"n": (1, 8), "t": (1, 8)}, "y", 3, ())


def scored(values: list[list[float]], labels: list[int]) -> ClassScores:
    scores = ClassScores(TASK)
    for begin in range(0, len(labels), 2):  # in batches, as in use
        part = np.array(labels[begin : begin + 2])
        names = [f"sample {begin + number}" for number in range(len(part))]
        scores.add(Batch({}, part, names), np.array(values[begin : begin + 2], np.float32))
    return scores


def logits(largest: int, second: int = 5) -> list[float]:
    return [9.0 if at == largest else 5.0 if at == second else float(-at) for at in range(6)]


def test_accuracy_recall_and_precision() -> None:
    scores = scored([logits(0), logits(1), logits(0), logits(2)], [0, 1, 1, 0])
    assert (scores.accuracy, scores.samples) == (0.5, 4)
    a, b, c, *_ = scores.rows()
    assert (a.count, a.predicted, a.recall, a.precision) == (2, 2, 0.5, 0.5)
    assert (b.count, b.predicted, b.recall, b.precision) == (2, 1, 0.5, 1.0)
    assert (c.count, c.recall, c.precision) == (0, None, 0.0)  # a class without samples is not divided by zero
    assert scores.confusion[1, 0] == 1


# Breaks if the sixth place counts, or if a model that gives all classes the same score has a top-5 of 100%.
def test_top_five() -> None:
    assert scored([logits(0), logits(0)], [5, 4]).top == 0.5  # the second, and the sixth
    assert scored([[1.0] * 6] * 2, [0, 5]).top == 0.5
    assert scored([[1.0] * 6] * 2, [0, 5]).accuracy == 0.5  # argmax takes the first


def test_calibration() -> None:
    sure = [[0.0, 0.0, 0.0, 0.0, 0.05, 0.95]] * 4
    scores = scored(sure, [5, 5, 5, 0])
    assert scores.are_probabilities
    assert scores.calibration_error() == pytest.approx(0.2)
    assert scores.bins()[9] == (4, pytest.approx(0.95), 0.75)
    scores = scored([[math.log(one or 1e-9) for one in row] for row in sure], [5, 5, 5, 0])
    assert not scores.are_probabilities
    assert scores.calibration_error() == pytest.approx(0.2, abs=1e-4)


# Breaks if a confidence of 1, or a probability of 0, leaves the range.
def test_extreme_answers() -> None:
    scores = scored([[1e30, 0, 0, 0, 0, -1e30]] * 2, [0, 5])
    assert scores.bins()[9][0] == 2
    assert math.isfinite(scores.mean_loss)


def test_the_worst_examples_are_kept_and_no_more() -> None:
    scores = scored([logits(0) if number % 2 else [-float(number), 9, 0, 0, 0, 0] for number in range(100)], [0] * 100)
    worst = scores.worst()
    assert len(worst) == 24
    assert [one.name for one in worst[:2]] == ["sample 98", "sample 96"]
    assert (worst[0].label, worst[0].predicted) == (0, 1)
    assert scored([logits(0)] * 4, [0] * 4).worst() == []  # none of them is bad


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_output_that_is_not_a_number(bad: float) -> None:
    with pytest.raises(NotNumbersError, match="its output for sample 1 is not a number, for 1 of 2"):
        scored([logits(0), [bad, 0, 0, 0, 0, 0]], [0, 0])


def test_loss_and_perplexity_of_tokens() -> None:
    scores = TokenScores(TOKENS)
    output = np.log(np.array([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]))
    scores.add(Batch({}, np.array([[1, IGNORED]]), ["sample 0"]), output)
    scores.add(Batch({}, np.array([[0, 2]]), ["sample 1"]), output)
    assert scores.mean_loss == pytest.approx(-(math.log(0.25) + math.log(0.5) + math.log(0.8)) / 3)
    assert scores.perplexity == pytest.approx(10 ** (1 / 3))
    assert (scores.samples, scores.tokens, scores.accuracy) == (2, 3, pytest.approx(2 / 3))


def test_the_interval_of_a_share() -> None:
    low, high = interval(0.8, 400)
    assert (low, high) == (pytest.approx(0.758, abs=1e-3), pytest.approx(0.836, abs=1e-3))
    assert interval(1.0, 5)[1] == 1.0
    assert interval(0.0, 5)[0] == 0.0
