"""Pieces of HTML from texts as the terminal has them: tables, figures, names with values. All of them escape."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_model.pages import fragments as pieces
from holdfast_model.pages.fragments import Markup

_SIGNS = frozenset(("bold", "dim", "green", "yellow", "red", "cyan", "blue", "magenta", "strike"))
LONG = 40  # characters from which on a cell may be wrapped


def html(text: str | Text) -> Markup:
    """The text with its styles as classes, such as `t-red`."""
    if isinstance(text, str):
        return Markup(escape(text))
    plain, spans = text.plain, [(span.start, span.end, str(span.style)) for span in text.spans]
    spans.append((0, len(plain), str(text.style)))
    edges = sorted({0, len(plain), *(edge for start, end, _ in spans for edge in (start, end))})
    parts = []
    for start, end in pairwise(edges):
        words = {word for since, until, style in spans if since <= start and end <= until for word in style.split()}
        piece, names = escape(plain[start:end]), " ".join(f"t-{word}" for word in sorted(words & _SIGNS))
        parts.append(f'<span class="{names}">{piece}</span>' if names else piece)
    return Markup("".join(parts))


def pill(text: Text) -> str:
    """One word in a frame of its colour."""
    names = " ".join(f"t-{word}" for word in sorted(set(str(text.style).split()) & _SIGNS))
    return f'<span class="phase {names}">{escape(text.plain)}</span>'


def paragraphs(shown: RenderableType | None, names: str = "") -> str:
    """Each text of a group as a paragraph. Other members of the group are left out."""
    found = shown.renderables if isinstance(shown, Group) else [shown]
    opening = f'<p class="{names}">' if names else "<p>"
    return "".join(f"{opening}{html(one)}</p>" for one in found if isinstance(one, str | Text) and str(one))


def section(title: str, *parts: str) -> str:
    """A titled part of the page; empty if all its parts are."""
    body = "".join(parts)
    return f"<h2>{escape(title)}</h2>{body}" if body else ""


def pairs(rows: Iterable[tuple[str, str | Text]]) -> str:
    """Names and values, one below the other; empty without any."""
    found = [(name, html(value)) for name, value in rows]
    return pieces.pairs(found) if found else ""


class Figure(NamedTuple):
    """A large figure. `more`: a line below it, empty if there is nothing to add."""

    name: str
    value: str | Text
    more: str = ""


def figures(found: Iterable[Figure]) -> str:
    """Large figures side by side."""
    return pieces.figures(pieces.Figure(one.name, html(one.value), one.more) for one in found)


def table(found: Fitting) -> str:
    """The table without columns that say nothing; empty if it has no rows."""
    return simple_table(found.columns, found.rows)


def simple_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> str:
    """As `table`, for cells that are texts of any kind. A column with long cells is wrapped."""
    if not rows:
        return ""
    kept = [place for place, column in enumerate(columns) if not column.rank or not _says_nothing(rows, place)]
    classes = [_class(columns[place], rows, place) for place in kept]
    titles = [" ".join(columns[place].title.split()) for place in kept]
    return pieces.grid(titles, classes, [[html(row[place]) for place in kept] for row in rows])


def _says_nothing(rows: Sequence[Sequence[str | Text]], place: int) -> bool:
    return all(str(row[place]) in ("", formats.NOTHING) for row in rows)


def _class(column: Column, rows: Sequence[Sequence[str | Text]], place: int) -> str:
    if column.right:
        return ' class="right"'
    return ' class="wide"' if any(len(str(row[place])) > LONG for row in rows) else ""


def block(text: str, most: int) -> str:
    """A text with its lines as they are, cut after `most` characters."""
    cut = f"{text[:most]}\n... and {formats.count(len(text) - most)} characters more" if len(text) > most else text
    return f"<pre>{escape(cut)}</pre>"
