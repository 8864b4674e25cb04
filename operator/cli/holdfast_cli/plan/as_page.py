"""The result of `holdfast plan` as one file of HTML."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.plan.comparison import Comparison
from holdfast_cli.plan.screen import grouped, headers, lease_words, lines, title
from holdfast_model.pages.template import Markup, Template

_LEFT: Final = 2  # columns of words; numbers are on the right
_HTML: Final = Template(__name__)


class _Head(NamedTuple):
    """The head of a column, and the class of the column."""

    title: str
    kind: str = ""


def as_page(found: Sequence[Comparison]) -> Page:
    """The page, with a section for the result and one for what it rests on, for each job."""
    names = ", ".join(one.job for one in found)
    fragments = [Fragment("plan", _HTML.heading(names))]
    for number, one in enumerate(found, 1):
        fragments.append(Fragment(f"ways-{number}", _ways(one)))
        fragments.append(Fragment(f"facts-{number}", _facts(one)))
    return Page(f"Plan of {names}", fragments)


def _ways(one: Comparison) -> Markup:
    heads = [_Head(text, "" if place < _LEFT else "right") for place, text in enumerate(headers(one))]
    return _HTML.ways(title=title(one), heads=heads, rows=lines(one), words=lease_words(one))


def _facts(one: Comparison) -> Markup:
    heads = [_Head(text) for text in ("FIGURE", "TIER", "VALUE", "FROM")]
    return _HTML.facts(heads=heads, rows=grouped(one.facts), hints=one.hints)
