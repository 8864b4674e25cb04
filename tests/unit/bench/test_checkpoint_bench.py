"""The checkpoint benchmark: its arithmetic, and one small run of every way that is installed."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from tests.bench.checkpoint import report
from tests.bench.checkpoint.arms import OURS, Arm, Goal, Results, measure
from tests.bench.checkpoint.restores import restore
from tests.bench.checkpoint.uploads import upload


def arm(name: str, *rates: float, cpu: float = 0.2) -> Arm:
    return Arm(name, lambda: None, list(rates), [cpu] * len(rates))


def results(*goals: Goal) -> Results:
    arms = (arm(OURS, 2.0, 1.0, 4.0), arm("slow", 1.0, 1.0, 1.0), arm("fast", 2.0, 2.0, 2.0))
    return Results("Upload", arms, goals, ("curl is not installed",))


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    found = results()
    assert found.reached(Goal("", ("slow",), 1)) == (2.0, "slow")
    assert found.reached(Goal("", ("slow", "fast"), 1)) == (1.0, "fast")
    assert found.reached(Goal("", ("absent",), 1)) is None
    assert found.reached(Goal("", (), cpu=0.3)) == (0.2, "")


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal("a", ("slow",), 2.0), "met"),
        (Goal("a", ("slow",), 2.1), "MISSED"),
        (Goal("a", ("absent",), 0.1), "not measured"),
        (Goal("a", (), cpu=0.2), "met"),
        (Goal("a", (), cpu=0.1), "MISSED"),
    ],
)
def test_the_table_shows_the_truth(goal: Goal, verdict: str) -> None:
    found = results(goal)
    assert report.goal_row(found, goal)[-1] == verdict
    out = io.StringIO()
    report.show([found], Console(file=out, width=160))
    assert verdict in out.getvalue()
    assert "curl is not installed" in out.getvalue()
    assert report.as_json([found])[0]["goals"][0]["verdict"] == verdict


def test_every_way_has_every_place_in_the_order() -> None:
    order: list[str] = []
    arms = [Arm(name, lambda name=name: order.append(name)) for name in "abc"]  # type: ignore[misc]
    measure(arms, 1, 3, lambda _: None)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert [len(one.rates) for one in arms] == [3, 3, 3]


@pytest.mark.parametrize("figure", [upload, restore])
def test_every_way_works(figure: Callable[..., Results], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = figure(40 << 20, 1, lambda _: None)
    assert found.arm(OURS) is not None
    assert all(rate > 0 for one in found.arms for rate in one.rates)
