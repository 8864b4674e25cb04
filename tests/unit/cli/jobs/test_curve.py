"""The loss over all attempts: what counts, what was lost, and how it is drawn."""

import io
import math

import pytest
from rich.console import Console, Group

from holdfast_cli.jobs.curve import Curve, Lost, Sparkline, attempt_marks, columns, sentences, to_curve
from holdfast_cli.terminal.formats import sparkline
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row


def part(attempt: int, first: int, last: int, kept: int | None, loss: float = 1.0) -> Part:
    rows = [Row(step, 1000.0 + step, {"loss": loss / step}) for step in range(first, last + 1)]
    return Part(attempt, rows, kept)


THREE = History([part(1, 1, 50, 40, 10.0), part(2, 41, 45, None, 99.0), part(3, 41, 100, 100, 10.0)], ["x is damaged"])


def drawn(curve: Curve, width: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width)
    with out.capture() as captured:
        out.print(Group(Sparkline(curve), *sentences(curve)))
    return captured.get().splitlines()


# Breaks if steps that were trained again count twice, or if nobody is told that steps were lost.
def test_lost_steps_are_not_on_the_curve_and_are_named() -> None:
    curve = to_curve(THREE)
    assert [step for step, _ in curve.points] == list(range(1, 101))
    assert max(loss for _, loss in curve.points) == 10.0
    assert curve.begins == ((1, 1), (3, 41))
    assert curve.lost == (Lost(1, 41, 50), Lost(2, 41, 45))
    assert curve.gaps == ("x is damaged",)
    said = [str(line) for line in sentences(curve)]
    assert said == [
        "10 at step 1, 0.1 at step 100",
        "attempt 1: steps 41–50 were lost",
        "attempt 2: steps 41–45 were lost",
        "not shown: x is damaged",
    ]


# Breaks if a line is wider than the screen, or if an attempt's number is not where it begins.
@pytest.mark.parametrize("width", [10, 80, 120, 200])
def test_the_line_is_as_wide_as_the_screen_and_attempts_are_marked(width: int) -> None:
    line, marks, *_ = drawn(to_curve(THREE), width)
    assert len(line) == min(width, 120)
    assert (line[0], line[-1]) == ("█", "▁")
    assert marks == "1".ljust(40 * (len(line) - 1) // 99) + "3"


def test_values_that_are_not_finite_are_counted_and_not_drawn() -> None:
    rows = [
        Row(1, 0.0, {"loss": 2.0}),
        Row(2, 0.0, {"loss": math.nan}),
        Row(3, 0.0, {"loss": math.inf}),
        Row(4, 0.0, {"lr": 1.0}),
    ]
    curve = to_curve(History([Part(1, rows, 4)], []))
    assert (curve.points, curve.odd) == (((1, 2.0),), 2)
    assert "2 losses are not finite (nan or inf)" in [str(line) for line in sentences(curve)]
    assert drawn(curve, 20)[0] == "▁" * 20


def test_nothing_recorded_is_said() -> None:
    assert [str(line) for line in sentences(to_curve(History([], [])))] == ["no loss is recorded"]


# Breaks if a span without a point makes a hole or a zero.
def test_a_span_without_a_point_has_the_value_before() -> None:
    assert columns([(0, 4.0), (10, 2.0)], 5) == [4.0, 4.0, 4.0, 4.0, 2.0]


def test_numbers_that_would_touch_are_left_out() -> None:
    many = tuple((number, number) for number in range(1, 101))
    marks = attempt_marks(Curve(points=((1, 1.0), (100, 0.5)), begins=many), 30)
    assert len(marks) <= 30
    assert marks.split()[0] == "1"
    assert all(int(number) in range(1, 101) for number in marks.split())


def test_what_is_seen_live_goes_on_after_the_history() -> None:
    curve = Curve(points=((1, 3.0), (2, 2.0))).and_then({4: 1.0, 3: 1.5, 2: 9.0})
    assert curve.points == ((1, 3.0), (2, 2.0), (3, 1.5), (4, 1.0))


def test_100000_points_and_200_lost_parts_are_a_few_lines() -> None:
    parts = [part(number, 500 * number + 1, 500 * number + 500, 500 * number + 400) for number in range(200)]
    lines = drawn(to_curve(History(parts, [f"gap {number}" for number in range(100)])), 80)
    assert len(lines) <= 2 + 1 + 6 + 6
    assert "and 195 more" in lines
    assert len(sparkline([1.0, 2.0], 80)) == 2
