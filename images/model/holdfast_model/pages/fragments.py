"""What the pieces of `fragments.html` show: tables and large figures, as plain values."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast_model.pages.template import Markup

LONG: Final = 40
"""Characters from which on a cell may be wrapped."""


def size_text(count: int) -> str:
    """A number of bytes: `2.01 MB`, `4.4 kB`."""
    return f"{count / 1e6:,.2f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"


class Figure(NamedTuple):
    """A large figure. `value`: text or markup. `more`: a line below it, empty if there is nothing to add."""

    name: str
    value: str
    more: str = ""


class Table(NamedTuple):
    """A table. `kinds`: a class for the cells of each column, or nothing. `marked`: rows to be seen first."""

    columns: Sequence[str]
    kinds: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Sequence[int] = ()


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, marked: Sequence[int] = ()) -> Table:
    """A table of which so many columns on the left contain text, the others numbers. Long texts are wrapped."""
    wide = [any(len(row[place]) > LONG and not isinstance(row[place], Markup) for row in rows) for place in range(left)]
    kinds = [("wide" if wide[place] else "") if place < left else "right" for place in range(len(columns))]
    return Table(columns, kinds, rows, marked)
