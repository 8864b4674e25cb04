"""Tables that leave out what does not fit."""

import pytest
from rich.console import Console
from rich.text import Text

from holdfast_cli.terminal.fitted_table import Column, Fitting

COLUMNS = (Column("NAME"), Column("A", rank=2, right=True), Column("EMPTY", rank=1), Column("B", rank=3))
ROWS = [["one", "1234", "-", "x"], ["three", "5", "", "yyyyyy"]]


def drawn(width, columns=COLUMNS, rows=ROWS):
    out = Console(width=width, force_terminal=False)
    with out.capture() as captured:
        out.print(Fitting(columns, [[Text(cell) for cell in row] for row in rows]))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    ("width", "kept"),
    [(80, "NAME A EMPTY B"), (26, "NAME A EMPTY B"), (25, "NAME A B"), (19, "NAME A B"), (18, "NAME A"), (11, "NAME A"),
     (10, "NAME")],
)  # fmt: skip
def test_what_says_nothing_goes_first_then_what_matters_least(width, kept):
    assert drawn(width)[0].split() == kept.split()


def test_rows_are_as_wide_as_they_have_to_be():
    assert drawn(19) == [
        "NAME      A  B",
        "───────────────────",
        "one    1234  x",
        "three     5  yyyyyy",
    ]


def test_what_must_stay_is_cut_where_it_may_be():
    columns = (Column("NAME", loose=True), Column("B"))
    assert drawn(20, columns, [["n" * 40, "whole"]])[2] == "nnnnnnnnnnnn…  whole"


def test_markup_is_text():
    assert drawn(40, (Column("NAME"),), [["[red]x[/]"]])[2] == "[red]x[/]"
