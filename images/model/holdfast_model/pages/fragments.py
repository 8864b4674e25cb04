"""Pieces of HTML: tables, large figures, names with values, notes, pictures. All of them escape."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

__all__ = [
    "Figure",
    "Markup",
    "cells",
    "figures",
    "folded",
    "grid",
    "note",
    "pairs",
    "paragraph",
    "picture",
    "size_text",
    "table",
    "title",
]

LONG: Final = 40
"""Characters from which on a cell may be wrapped."""


class Markup(str):
    """HTML that pieces of this room made: it is not escaped again."""

    __slots__ = ()


class Figure(NamedTuple):
    """A large figure. `value`: text or markup. `more`: a line below it, empty if there is nothing to add."""

    name: str
    value: str
    more: str = ""


def cells(value: str) -> str:
    """The text escaped; markup as it is."""
    return value if isinstance(value, Markup) else escape(value)


def size_text(count: int) -> str:
    """A number of bytes: `2.01 MB`, `4.4 kB`."""
    return f"{count / 1e6:,.2f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"


def title(text: str, lead: str = "") -> str:
    """The heading of a page."""
    return f"<h1>{escape(text)}</h1>" + (f'<p class="lead">{escape(lead)}</p>' if lead else "")


def paragraph(text: str, names: str = "") -> str:
    """One paragraph."""
    return f'<p class="{names}">{escape(text)}</p>' if names else f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """Something that a reader must not miss."""
    return f'<p class="note">{escape(text)}</p>'


def figures(found: Iterable[Figure]) -> str:
    """Large figures side by side."""
    lines = []
    for one in found:
        more = f"<small>{escape(one.more)}</small>" if one.more else ""
        lines.append(f"<div><dt>{escape(one.name)}</dt><dd>{cells(one.value)}{more}</dd></div>")
    return f'<dl class="figures">{"".join(lines)}</dl>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, one below the other."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{cells(value)}</dd>" for name, value in rows)
    return f'<dl class="pairs">{lines}</dl>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, marked: Sequence[int] = ()) -> str:
    """A table. `left`: so many columns contain text, the others numbers. `marked`: rows to be seen first."""
    if not rows:
        return ""
    return grid(columns, [_class(place, rows, left) for place in range(len(columns))], rows, marked)


def grid(
    columns: Sequence[str], names: Sequence[str], rows: Iterable[Sequence[str]], marked: Sequence[int] = ()
) -> str:
    """A table. `names`: of each column the attribute `class` with a blank before it, or nothing."""
    head = "".join(f'<th scope="col"{name}>{escape(column)}</th>' for name, column in zip(names, columns, strict=True))
    lines = []
    for number, row in enumerate(rows):
        opening = '<tr class="marked">' if number in marked else "<tr>"
        body = "".join(f"<td{name}>{cells(value)}</td>" for name, value in zip(names, row, strict=True))
        lines.append(f"{opening}{body}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _class(place: int, rows: Sequence[Sequence[str]], left: int) -> str:
    if place >= left:
        return ' class="right"'
    wide = any(len(row[place]) > LONG and not isinstance(row[place], Markup) for row in rows)
    return ' class="wide"' if wide else ""


def folded(heading: str, body: str) -> str:
    """A part that a reader opens. It is open on paper."""
    return f"<details><summary>{escape(heading)}</summary>{body}</details>"


def picture(png: bytes, alt: str, caption: str, lines: Sequence[str] = ()) -> str:
    """A picture inside of the page, with a caption and small lines below it."""
    data = base64.b64encode(png).decode()
    small = "".join(f"<small>{escape(line)}</small>" for line in lines)
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{escape(alt)}">'
        f"<figcaption>{escape(caption)}{small}</figcaption></figure>"
    )
