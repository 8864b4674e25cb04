"""The checkpoint benchmark: its arithmetic, and one small run of every way that is installed."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from tests.bench.checkpoint import report, stalls
from tests.bench.checkpoint.arms import OURS, Arm, Goal, measure
from tests.bench.checkpoint.restores import restore
from tests.bench.checkpoint.section import Section
from tests.bench.checkpoint.uploads import upload


def arm(name: str, *rates: float, cpu: float = 0.2) -> Arm:
    return Arm(name, lambda: None, list(rates), [cpu] * len(rates))


ARMS = (arm(OURS, 2.0, 1.0, 4.0), arm("slow", 1.0, 1.0, 1.0), arm("fast", 2.0, 2.0, 2.0))


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    assert Goal("a", ("slow",), 1).verdict(ARMS).cells[:2] == ("a", "2.00")
    assert Goal("a", ("slow", "fast"), 1).verdict(ARMS).cells[:2] == ("a (fast)", "1.00")
    assert Goal("a", (), cpu=0.3).verdict(ARMS).cells[:2] == ("a", "0.20")


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
def test_the_tables_show_the_truth(goal: Goal, verdict: str) -> None:
    found = Section("Upload", ("way",), (("curl",),), (goal.verdict(ARMS),), ("obstore is not installed",))
    out = io.StringIO()
    report.show([found], Console(file=out, width=160))
    assert report.as_json([found])[0]["goals"][0]["verdict"] == verdict
    for page in (out.getvalue(), report.markdown([found])):
        assert verdict in page
        assert "obstore is not installed" in page


def stall(name: str, call: float, *lost: float) -> stalls.Arm:
    return stalls.Arm(name, lambda _: lambda: True, [call] * len(lost), list(lost), [0.0] * len(lost))


def test_what_a_save_costs_is_the_median_of_all_but_the_first() -> None:
    ours, its = stall(OURS, 0.004, 3.0, 1.0, 1.0), stall(stalls.ASYNC, 0.1, 9.0, 4.0, 4.0)
    found = {v.title: v.reached for v in stalls.verdicts([ours, its], "1 MB")}
    assert found == {
        "1 MB: the save call, ms": 4.0,
        "1 MB: time lost ÷ DCP async_save": 0.25,
        "1 MB: time lost ÷ best of DCP (DCP async_save)": 0.25,
        "1 MB: time lost by the first save ÷ by later ones": 3.0,
    }


def test_a_peer_whose_stall_is_lost_in_the_noise_is_not_measured() -> None:
    found = list(stalls.verdicts([stall(OURS, 0.004, 1.0, 1.0), stall(stalls.ASYNC, 0.1, 1.0, -0.1)], "1 MB"))
    assert [verdict.cells[-1] for verdict in found] == ["met", "not measured", "not measured", "met"]


def test_every_way_has_every_place_in_the_order() -> None:
    order: list[str] = []
    arms = [Arm(name, lambda name=name: order.append(name)) for name in "abc"]  # type: ignore[misc]
    arms[0].name = OURS
    measure("order", arms, (), (), size=1, rounds=3, say=lambda _: None)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"
    assert [len(one.rates) for one in arms] == [3, 3, 3]


@pytest.mark.parametrize("figure", [upload, restore])
def test_every_way_works(figure: Callable[..., Section], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = figure(40 << 20, 1, lambda _: None)
    assert OURS in found.rounds
    assert all(rate > 0 for one in found.rounds.values() for rate in one["gigabytesPerSecond"])
