"""Texts, tables and figures of the terminal as values of templates: their styles are classes, such as `t-red`."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_model.pages import fragments as pieces
from holdfast_model.pages.fragments import LONG, Table
from holdfast_model.pages.template import Markup, Template

_SIGNS = frozenset(("bold", "dim", "green", "yellow", "red", "cyan", "blue", "magenta", "strike"))
_HTML: Final = Template(__name__)


def styled(text: str | Text) -> str:
    """The text with its styles as classes; a plain text as it is."""
    return text if isinstance(text, str) else _HTML.styled(list(_parts(text)))


def _parts(text: Text) -> Iterator[tuple[str, str]]:
    plain, spans = text.plain, [(span.start, span.end, str(span.style)) for span in text.spans]
    spans.append((0, len(plain), str(text.style)))
    edges = sorted({0, len(plain), *(edge for start, end, _ in spans for edge in (start, end))})
    for start, end in pairwise(edges):
        yield _kinds(style for since, until, style in spans if since <= start and end <= until), plain[start:end]


def _kinds(styles: Iterable[str]) -> str:
    return " ".join(f"t-{word}" for word in sorted({word for style in styles for word in style.split()} & _SIGNS))


def pill(text: Text) -> Markup:
    """One word in a frame of its colour."""
    return _HTML.pill(kinds=_kinds([str(text.style)]), text=text.plain)


def texts(shown: RenderableType | None) -> list[str]:
    """The texts of a group that are not empty. Other members of the group are left out."""
    found = shown.renderables if isinstance(shown, Group) else [shown]
    return [styled(one) for one in found if isinstance(one, str | Text) and str(one)]


def pairs(rows: Iterable[tuple[str, str | Text]]) -> list[tuple[str, str]]:
    """Names and values."""
    return [(name, styled(value)) for name, value in rows]


class Figure(NamedTuple):
    """A large figure. `more`: a line below it, empty if there is nothing to add."""

    name: str
    value: str | Text
    more: str = ""


def figures(found: Iterable[Figure]) -> list[pieces.Figure]:
    """Large figures."""
    return [pieces.Figure(one.name, styled(one.value), one.more) for one in found]


def table(found: Fitting) -> Table:
    """The table without columns that say nothing."""
    return simple_table(found.columns, found.rows)


def simple_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> Table:
    """As `table`, for cells that are texts of any kind. A column with long cells is wrapped."""
    kept = [place for place, column in enumerate(columns) if not column.rank or not _says_nothing(rows, place)]
    kinds = [_kind(columns[place], rows, place) for place in kept]
    titles = [" ".join(columns[place].title.split()) for place in kept]
    return Table(titles, kinds, [[styled(row[place]) for place in kept] for row in rows])


def _says_nothing(rows: Sequence[Sequence[str | Text]], place: int) -> bool:
    return all(str(row[place]) in ("", formats.NOTHING) for row in rows)


def _kind(column: Column, rows: Sequence[Sequence[str | Text]], place: int) -> str:
    if column.right:
        return "right"
    return "wide" if any(len(str(row[place])) > LONG for row in rows) else ""


def cut(text: str, most: int) -> str:
    """The text, cut after `most` characters."""
    return f"{text[:most]}\n... and {formats.count(len(text) - most)} characters more" if len(text) > most else text
