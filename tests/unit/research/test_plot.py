"""Pictures of a study, drawn by the real library."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast_research.errors import PlotError
from holdfast_research.plot import check_plot, plot
from holdfast_research.study import POLICIES, Row

ROW = Row("deadline", "t", 0, 0.6, cost=1.1, omniscient=1.0, missed=False, moves=3, days=2.0)
ROWS = [
    replace(ROW, policy=policy, load=load, cost=1.0 + number / 10 + extra)
    for number, policy in enumerate(POLICIES)
    for load in (0.6, 0.9)
    for extra in (0.0, 0.2, 1.5)
]


def words(file: Path) -> list[str]:
    """What is written in an SVG: matplotlib draws letters as paths and keeps the text in a comment before them."""
    builder = ElementTree.TreeBuilder(insert_comments=True)
    root = ElementTree.fromstring(file.read_text(), parser=ElementTree.XMLParser(target=builder))
    return [(node.text or "").strip() for node in root.iter() if node.tag is ElementTree.Comment]


# Breaks if a policy is left out of the picture, or an axis loses its name.
def test_a_picture_names_every_policy_and_both_axes(tmp_path: Path) -> None:
    plot(ROWS, tmp_path / "p.svg", "The title")
    found = words(tmp_path / "p.svg")
    for policy in POLICIES:
        assert found.count(policy) == 2, "beside its spread, and at the end of its line"
    assert {"The title", "cost ÷ the cheapest with the future known", "load: work ÷ time to the deadline"} < set(found)
    assert "mean 1.57" in found
    assert "p95 2.50" in found


def test_one_load_has_no_lines_over_loads(tmp_path: Path) -> None:
    plot([row for row in ROWS if row.load == 0.6], tmp_path / "p.svg", "")
    assert "mean by load" not in words(tmp_path / "p.svg")


# Breaks if the file differs from run to run: it is checked in.
def test_the_same_rows_give_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        plot(ROWS, tmp_path / name, "The title")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_a_png_of_one_job(tmp_path: Path) -> None:
    plot([ROW], tmp_path / "p.PNG", "")
    assert (tmp_path / "p.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("p.pdf", "must end in .svg or .png"), ("p", "must end in .svg or .png"), ("no/p.svg", "the folder")],
)
def test_a_picture_that_cannot_be_made_is_refused_before_the_study(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(PlotError, match=problem):
        check_plot(tmp_path / name)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "p.svg").mkdir()
    with pytest.raises(PlotError, match=r"p\.svg: Is a directory"):
        plot([ROW], tmp_path / "p.svg", "")
