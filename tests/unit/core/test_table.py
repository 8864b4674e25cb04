"""The page of decisions."""

from holdfast.core.classify import RULES
from holdfast.core.notices import TAINTS
from holdfast.core.table import render
from holdfast.core.transitions import TABLE


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
