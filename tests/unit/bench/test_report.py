"""The page: a missed goal is shown as missed, and nothing names the machine."""

import platform
from dataclasses import replace
from pathlib import Path

from tests.bench import report
from tests.bench.goals import Measured

RESULTS = [Measured("notice", 0.4, note="n=40"), Measured("idle-writes", 0.0), Measured("one", 0.01, 9.4)]


def test_rows_say_what_was_missed() -> None:
    assert [row[-1] for row in report.rows(RESULTS)] == ["MISSED", "met", "met"]
    assert report.rows(RESULTS)[2][2:6] == ("9.400 s", "≤ 0.015", "0.010 s", "940×")


def test_the_page_holds_every_figure_and_no_host() -> None:
    page = report.markdown(RESULTS, "Benchmarks")
    assert page.count("\n| ") == 1 + len(RESULTS)
    assert platform.node() not in page
    assert "/tmp" not in page
    assert page.count("Run on ") == 1


def test_json_holds_the_same() -> None:
    found = report.as_json(RESULTS)["figures"]
    assert [(one["figure"], one["met"]) for one in found] == [("notice", False), ("idle-writes", True), ("one", True)]


def test_figures_of_an_earlier_run_go_onto_the_pages(tmp_path: Path) -> None:
    """Breaks if a figure is lost between two runs, or lands on the other page."""
    several = Measured("several-decide", 3.0, note="n=9")
    report.write_json([*RESULTS, several], tmp_path / "figures.json")
    read = report.read_json(tmp_path / "figures.json")
    assert [replace(one, run="") for one in read] == [*RESULTS, several]
    report.write_pages([*read, Measured("several-writes", 9.0)], tmp_path)
    pages = {path.stem: path.read_text() for path in tmp_path.glob("*.md")}
    assert {name: page.count("\n| ") - 1 for name, page in pages.items()} == {
        "benchmarks": 3,
        "benchmarks-several-nodes": 2,
    }
    assert "n=9" in pages["benchmarks-several-nodes"]


def test_each_run_says_which_figures_it_measured() -> None:
    """Breaks if a figure of a busy day looks as if a quiet one had measured it."""
    page = report.markdown([*RESULTS, Measured("switch", 1.0, run="2026-01-02, load 3.0")], "Benchmarks")
    assert "- Run on 2026-01-02, load 3.0: `switch`." in page
    assert "`notice`, `idle-writes`, `one`." in page
