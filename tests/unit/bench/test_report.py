"""The page: a missed goal is shown as missed, and nothing names the machine."""

import platform

from tests.bench import report
from tests.bench.goals import Measured

RESULTS = [Measured("notice", 0.4, note="n=40"), Measured("idle-writes", 0.0), Measured("one", 0.01, 9.4)]


def test_rows_say_what_was_missed() -> None:
    assert [row[-1] for row in report.rows(RESULTS)] == ["MISSED", "met", "met"]
    assert report.rows(RESULTS)[2][2:6] == ("9.400 s", "≤ 0.015", "0.010 s", "940×")


def test_the_page_holds_every_figure_and_no_host() -> None:
    page = report.markdown(RESULTS)
    assert page.count("\n| ") == 1 + len(RESULTS)
    assert platform.node() not in page
    assert "/tmp" not in page
    assert "load average" in page


def test_json_holds_the_same() -> None:
    found = report.as_json(RESULTS)["figures"]
    assert [(one["figure"], one["met"]) for one in found] == [("notice", False), ("idle-writes", True), ("one", True)]
