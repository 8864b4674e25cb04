"""The values of one file in three runs."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.rehearse.compare.compare_file import compare_contents
from holdfast_cli.rehearse.compare.difference import Effort
from holdfast_cli.rehearse.compare.findings import File, Kind, Standing
from holdfast_cli.rehearse.compare.reading.read import read_source
from holdfast_cli.rehearse.compare.reading.source import Memory
from holdfast_cli.rehearse.compare.reading.values import Contents, Tensor, Value


def found(reference: Contents, again: Contents, rehearsed: Contents) -> File:
    return compare_contents("x", reference, again, rehearsed, Effort())


def texts(*three: str) -> File:
    a, b, c = (read_source(Memory(text.encode())) for text in three)
    return found(a, b, c)


def weights(*numbers: float) -> Contents:
    return Contents("safetensors", {"w": Tensor("float32", (len(numbers),), Memory(np.array(numbers, "f4").tobytes()))})


# Breaks if a tensor, a number or a text that differs is blamed on an interruption although it is noise, or is not.
def test_standings() -> None:
    a = {"same": 1, "time": 1.5, "off": "a", "lost": 1}
    b = {**a, "time": 2.5}
    c = {"same": 1, "time": 9.5, "off": "b", "new": 1}
    of = texts(*map(json.dumps, (a, b, c)))
    assert {place.place: place.standing for place in of.places} == {
        "off": Standing.DIFFERS, "lost": Standing.MISSING, "time": Standing.NOISE, "new": Standing.EXTRA,
    }  # fmt: skip
    assert (of.standing, of.equal) == (Standing.DIFFERS, {Kind.NUMBER: 1})


@pytest.mark.parametrize(("other", "is_near"), [(1.003, True), (1.5, False)])
# Breaks if the noise of a tensor is not measured, or if what is beyond it counts as near.
def test_noise_of_a_tensor(other: float, is_near: bool) -> None:
    of = found(weights(1, 2), weights(1.001, 2), weights(other, 2))
    assert (of.standing, of.weights, of.noisy_weights) == (Standing.NOISE, 1, 1)
    assert of.weight_noise == pytest.approx(0.0005, rel=1e-3)  # of the largest number, 2
    assert of.places[0].is_near is is_near


# Breaks if a log of times that a save has counts as weights that the program does not set a seed for, or if a weight
# is taken for such a log because of its name.
@pytest.mark.parametrize(("name", "is_weight"), [("hub.train/time._log_history", False), ("time_embed.weight", True)])
def test_a_log_of_times_is_no_weight(name: str, is_weight: bool) -> None:
    runs = (Contents("x", {name: weights(number).values["w"]}) for number in (1.0, 2.0, 3.0))
    of = found(*runs)
    assert (of.places[0].standing, of.noisy_weights) == (Standing.NOISE, int(is_weight))


def log(rows: list[int], *, time: float = 0.0, form: str = "json") -> str:
    """A log of these steps, with the time of each row."""
    if form == "json":
        return "".join(json.dumps({"step": n, "loss": 1 / n, "time": time + i}) + "\n" for i, n in enumerate(rows))
    if form == "csv":
        return "step,loss,time\n" + "".join(f"{n},{1 / n},{time + i}\n" for i, n in enumerate(rows))
    if form == "document":
        return json.dumps({"history": [{"step": n, "loss": 1 / n, "time": time + i} for i, n in enumerate(rows)]})
    return "".join(f"step {n}: loss {1 / n}\n" for n in rows)


TWICE = [*range(1, 38), *range(31, 61)]


@pytest.mark.parametrize("form", ["json", "csv", "document", "text"])
# Breaks if the rows of steps that are trained twice count as a difference, or if rows that are lost do not.
def test_logs(form: str) -> None:
    a, b = log([*range(1, 61)], form=form), log([*range(1, 61)], form=form, time=0.25)
    of = texts(a, b, log(TWICE, form=form, time=0.5))
    assert (of.having(Standing.DIFFERS, Standing.MISSING, Standing.EXTRA), of.repeated) == ((), 7)
    lost = texts(a, b, log([*range(31, 61)], form=form, time=0.5))
    assert (lost.standing, lost.repeated) == (Standing.DIFFERS, 0)


# Breaks if a log with another loss after the interruption counts as one with rows more.
def test_a_log_with_another_loss() -> None:
    a = log([*range(1, 61)])
    wrong = log(TWICE).replace(f'"loss": {1 / 50}', '"loss": 0.03')
    assert texts(a, a, wrong).standing is Standing.DIFFERS


@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 2, 3, 4], [1, 2, 2, 3, 4]), (["a", "b"], ["a", "b", "c"]), ([1], [1, 2]), ([[1, 2]], [[1, 2], [3, 4]]),
     ([{"b": [0] * 300}, {"b": [1] * 300}], [{"b": [0] * 300}, {"b": [7] * 300}, {"b": [1] * 300}, {"b": [2] * 299}])],
)  # fmt: skip
# Breaks if a list of numbers or texts that is longer counts as a log with more rows.
def test_a_list_is_no_log(first: list[object], second: list[object]) -> None:
    of = texts(*(json.dumps({"queue": queue}) for queue in (first, first, second)))
    is_log = isinstance(first[0], dict)
    assert (of.standing is Standing.DIFFERS, of.repeated) == (not is_log, 2 if is_log else 0)


# Breaks if the numbers of a long list in a row of a log are not compared, or NaN makes two rows differ.
def test_long_lists_in_a_log() -> None:
    rows = [{"step": n, "all": [float(n)] * 300, "x": float("nan")} for n in range(3)]
    a, b = ("".join(json.dumps(row) + "\n" for row in some) for some in (rows, [*rows, rows[2]]))
    assert texts(a, a, b).repeated == 1
    assert texts(a, a, b.replace("1.0, 1.0]", "1.0, 9.0]")).standing is Standing.DIFFERS


VALUES: st.SearchStrategy[dict[str, Value]] = st.dictionaries(
    st.sampled_from("abc"), st.none() | st.integers() | st.floats() | st.text(max_size=3), max_size=3
)


@given(VALUES, VALUES, VALUES)
# Breaks if any values raise, if a file differs from itself, or if own noise is blamed.
def test_any_values(a: dict[str, Value], b: dict[str, Value], c: dict[str, Value]) -> None:
    one, other, third = (Contents("JSON", values) for values in (a, b, c))
    found(one, other, third)
    assert found(one, one, one).standing is Standing.EQUAL
    assert found(one, other, other).standing is not Standing.DIFFERS
