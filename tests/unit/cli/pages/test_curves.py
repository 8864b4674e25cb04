"""Charts from a history."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.pages.long_job import a_history

from holdfast_cli.pages.curves import LOST, MOST_A_CURVE, MOST_A_PAGE, Run, charts, places
from holdfast_cli.pages.page import Chart, Curve
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row


def part(attempt: int, steps: range, kept: int | None, **values: float) -> Part:
    """A row a second, and the loss is the step."""
    return Part(attempt, [Row(step, 1000.0 + step, {"loss": float(step), **values}) for step in steps], kept)


def drawn(*parts: Part) -> dict[str, Chart]:
    return {chart.id: chart for chart in charts([Run(History(parts, []))])}


def test_each_attempt_has_a_curve_and_what_was_lost_too() -> None:
    loss = drawn(part(1, range(1, 6), 3), part(2, range(4, 8), 7))["chart-metric-loss"]
    assert loss.title == "Loss"
    assert loss.curves == [
        Curve("attempt 1", [1, 2, 3], [1.0, 2.0, 3.0]),
        Curve(LOST, [3, 4, 5], [3.0, 4.0, 5.0], lost=True),  # it goes on from the last step that was kept
        Curve("attempt 2", [4, 5, 6, 7], [4.0, 5.0, 6.0, 7.0]),
    ]


def test_an_attempt_of_which_nothing_was_kept() -> None:
    loss = drawn(part(1, range(1, 4), None))["chart-metric-loss"]
    assert loss.curves == [Curve(LOST, [1, 2, 3], [1.0, 2.0, 3.0], lost=True)]


def test_pace_and_time() -> None:
    found = drawn(part(1, range(1, 4), 3))
    assert found["chart-pace"].curves == [Curve("attempt 1", [2, 3], [1.0, 1.0])]
    assert found["chart-pace"].from_zero
    assert found["chart-time"].x_label == "time"
    assert found["chart-time"].curves == [Curve("attempt 1", [1001.0, 1002.0, 1003.0], [1, 2, 3])]


def test_the_loss_comes_first_and_other_metrics_by_name() -> None:
    found = list(drawn(part(1, range(1, 4), 3, zeta=1.0, grad_norm=2.0)))
    assert found[0] == "chart-metric-loss"
    assert found[1:3] == ["chart-pace", "chart-time"]
    assert [drawn(part(1, range(1, 4), 3, zeta=1.0, grad_norm=2.0))[one].title for one in found[3:]] == [
        "Gradient norm", "zeta",
    ]  # fmt: skip


# Breaks if a loss that is not a number stops a curve, or a clock that went back makes an axis that does not ascend.
def test_rows_that_are_not_as_they_should_be() -> None:
    rows = [
        Row(1, 10.0, {"loss": 1.0}),
        Row(2, 9.0, {"loss": math.nan}),
        Row(3, 9.0, {}),
        Row(4, 12.0, {"loss": math.inf}),
    ]
    found = drawn(Part(1, rows, 4))
    assert found["chart-metric-loss"].curves == [Curve("attempt 1", [1, 2, 4], [1.0, None, None])]
    assert found["chart-time"].curves == [Curve("attempt 1", [10.0, 12.0], [1, 4])]
    assert found["chart-pace"].curves == [Curve("attempt 1", [4], [1.5])]


@pytest.mark.parametrize("history", [History([], []), History([Part(1, [], None)], [])])
def test_nothing_to_draw(history: History) -> None:
    assert charts([Run(history)]) == []
    assert places([]) == ""


def test_compared_runs_share_charts_and_their_time_begins_at_zero() -> None:
    one, other = History([part(1, range(1, 4), 3)], []), History([part(1, range(3601, 7203), 7203)], [])
    found = {chart.id: chart for chart in charts([Run(one, "a"), Run(other, "b")])}
    assert [curve.label for curve in found["chart-metric-loss"].curves] == ["a", "b"]
    assert found["chart-time"].x_label == "hours"
    assert found["chart-time"].curves[1].x[-1] == pytest.approx(1, abs=1e-3)
    assert found["chart-loss-time"].curves[0].x[0] == 0


# Breaks if a page grows with the length of a training, with its metrics, or with its attempts.
def test_a_page_has_a_bounded_number_of_points() -> None:
    long = Part(1, [Row(step, float(step), {f"m{n}": 1.0 for n in range(16)}) for step in range(20_000)], 20_000)
    found = charts([Run(History([long, *(part(n, range(1, 200), 150) for n in range(2, 60))], []))])
    assert max(len(curve.x) for chart in found for curve in chart.curves) <= MOST_A_CURVE
    assert sum(len(curve.x) for chart in found for curve in chart.curves) < 1.3 * MOST_A_PAGE
    assert len(found) == 19


def test_thinned_curves_keep_their_ends() -> None:
    history = a_history(every=4)
    loss = next(chart for chart in charts([Run(history)]) if chart.title == "Loss")
    last = [curve for curve in loss.curves if not curve.lost][-1]
    assert len(last.x) < len(history.parts[-1].rows)
    assert (last.x[0], last.x[-1]) == (history.parts[-1].rows[0].step, history.parts[-1].rows[-1].step)


# Breaks if a metric's name can leave the attribute, or if two metrics are drawn at one place.
@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True))
def test_places_for_metrics_of_any_name(names: list[str]) -> None:
    rows = [Row(step, float(step), dict.fromkeys(names, 1.0)) for step in (1, 2)]
    found = charts([Run(History([Part(1, rows, 2)], []))])
    ids = [chart.id for chart in found]
    assert len(set(ids)) == len(ids)
    assert all(one.replace("-", "").isalnum() and one.isascii() for one in ids)
