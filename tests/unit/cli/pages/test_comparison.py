"""Jobs side by side."""

from dataclasses import replace

from tests.support.pages.long_job import a_history, the_inputs
from tests.support.pages.read_html import Read

from holdfast_cli.pages.comparison import comparison_page
from holdfast_cli.pages.page import Page

BASE = the_inputs("vit-base")
LARGE = the_inputs("vit-large", history=replace(a_history(seed=2), gaps=["x is missing"]), notes=["no events"])


def texts(page: Page) -> dict[str, str]:
    return {one.id: Read(one.html).text for one in page.fragments}


def test_one_chart_has_the_curves_of_both_jobs_and_one_table_their_figures() -> None:
    page = comparison_page([BASE, LARGE])
    assert page.title == "vision/vit-base and vision/vit-large"
    loss = page.charts[0]
    assert loss.title == "Loss"
    assert {curve.label for curve in loss.curves} == {"vision/vit-base", "vision/vit-large", "lost steps"}
    found = texts(page)
    assert "vision/vit-base vision/vit-large Phase Running Running Step 38,700 , of 60,000" in found["figures"]
    assert found["timeline"].count("attempt 4 on spot") == 2
    assert "vision/vit-large: a part of the history is missing: x is missing" in found["curves"]
    assert "vision/vit-large: no events" in found["heading"]


# Breaks if two trainings with one name look like one, such as a job and the storage of the one before it.
def test_trainings_with_the_same_name_are_numbered() -> None:
    page = comparison_page([BASE, replace(BASE, job=None)])
    assert page.title == "vision/vit-base (1) and vision/vit-base (2)"
    assert {curve.label for curve in page.charts[0].curves} == {
        "vision/vit-base (1)", "vision/vit-base (2)", "lost steps",
    }  # fmt: skip
    assert "Phase Running -" in texts(page)["figures"]
