"""The page of decisions."""

from scripts.generate.decisions_page import render

from holdfast.core.attempt.why_ended import RULES
from holdfast.core.observe.notices import TAINTS
from holdfast.core.table import TABLE


def test_every_row_rule_and_taint_is_on_the_page():
    page = render()
    for row in TABLE:
        assert f"| {row.name} |" in page
    for rule in RULES:
        assert (rule.__doc__ or "missing").splitlines()[0] in page
    for key in TAINTS:
        assert f"`{key}`" in page


def test_every_line_of_a_table_has_as_many_cells_as_its_head():
    width = 0
    for line in render().splitlines():
        cells = line.count("|")
        assert not (width and cells) or cells == width, line
        width = cells
