"""The result of `holdfast plan` as one file of HTML."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

from holdfast_cli.pages.page import Fragment, Page
from holdfast_cli.plan.comparison import Comparison
from holdfast_cli.plan.screen import grouped, headers, lease_words, lines, title

_LEFT = 2  # columns of words; numbers are on the right


def as_page(found: Sequence[Comparison]) -> Page:
    """The page, with a section for the result and one for what it rests on, for each job."""
    names = ", ".join(one.job for one in found)
    fragments = [Fragment("plan", f"<h1>What {escape(names)} will cost</h1>{_LEAD}")]
    for number, one in enumerate(found, 1):
        fragments.append(Fragment(f"ways-{number}", _ways(one)))
        fragments.append(Fragment(f"facts-{number}", _facts(one)))
    return Page(f"Plan of {names}", fragments)


_LEAD = (
    '<p class="lead">Simulated with the operator\'s own code on drawn Spot markets. Starts, checkpoints, restores and '
    "repeated steps are paid for. P95: nineteen of twenty draws are not above it.</p>"
)


def _ways(one: Comparison) -> str:
    words = "".join(f"<p>{escape(line)}</p>" for line in lease_words(one))
    return f"<h2>{escape(title(one))}</h2>{_table(headers(one), lines(one), left=_LEFT)}{words}"


def _facts(one: Comparison) -> str:
    facts = grouped(one.facts)
    rows = [(fact.what, fact.tier, fact.value, fact.source) for fact in facts]
    assumed = [number for number, fact in enumerate(facts) if fact.assumed]
    table = _table(("FIGURE", "TIER", "VALUE", "FROM"), rows, left=4, assumed=assumed)
    hints = "".join(f'<p class="note">{escape(hint)}</p>' for hint in one.hints)
    return f"<h2>What this rests on</h2>{table}{hints}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int, assumed: Collection[int] = ()) -> str:
    """`left`: so many columns contain words. `assumed`: rows whose last cell is coloured."""

    def cells(tag: str, texts: Sequence[str], *, coloured: bool = False) -> str:
        names = ["" if place < left else ' class="right"' for place in range(len(texts))]
        if coloured:
            names[-1] = ' class="t-yellow"'
        return "".join(f"<{tag}{name}>{escape(text)}</{tag}>" for text, name in zip(texts, names, strict=True))

    body = "".join(f"<tr>{cells('td', row, coloured=number in assumed)}</tr>" for number, row in enumerate(rows))
    return f'<div class="scroll"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'
