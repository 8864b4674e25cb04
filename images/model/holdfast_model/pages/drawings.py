"""Drawings as SVG, without styles or scripts of their own: a bar, a matrix of shares, a reliability diagram."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast_model.pages.template import Markup, Template

CELL: Final = 30
ABOVE: Final = 96
BESIDE: Final = 120
RIGHT: Final = 64
"""Room for the name of the last column, which is turned."""
NAME: Final = 15
"""Characters of a name in a drawing; the rest is cut."""
Bin = tuple[int, float, float]
"""Of predictions with about the same confidence: how many, their mean confidence, the share that is right."""
_HTML: Final = Template(__name__)


def bar(share: float, kind: str = "") -> Markup:
    """A bar of 0 to 1."""
    return _HTML.bar(width=f"{max(0.0, min(1.0, share)) * 100:.2f}", kind=kind)


class _Cell(NamedTuple):
    """Of the matrix. `said_count`: empty if it is 0."""

    x: int
    y: int
    kind: str
    said: str
    said_count: str
    opacity: str
    strong: bool


def matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """A confusion matrix: a row for each true class, a column for each predicted one, darker for larger shares."""
    side = CELL * len(names)
    cells = [
        _cell(names, row, column, count, sum(line))
        for row, line in enumerate(counts)
        for column, count in enumerate(line)
    ]
    return _HTML.matrix(
        width=BESIDE + side + RIGHT,
        height=ABOVE + side + 2,
        beside=BESIDE,
        above=ABOVE,
        side=CELL,
        names=[name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in names],
        cells=cells,
    )


def _cell(names: Sequence[str], row: int, column: int, count: int, total: int) -> _Cell:
    share = count / total if total else 0.0
    opacity = 0 if not count else 0.12 + 0.88 * share
    return _Cell(
        x=BESIDE + column * CELL,
        y=ABOVE + row * CELL,
        kind="right" if row == column else "wrong",
        said=f"{names[row]} taken for {names[column]}: {count:,} of {total:,} ({share:.0%})",
        said_count=_count(count) if count else "",
        opacity=f"{opacity:.3f}",
        strong=opacity > 0.55,
    )


def _count(count: int) -> str:
    """At most four characters."""
    return f"{count}" if count < 10_000 else f"{count // 1000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


def reliability(bins: Sequence[Bin]) -> Markup:
    """How often predictions are right, by their confidence. On the line a model is as good as it says."""
    left, top, side = 46, 12, 300
    total = max(1, sum(count for count, _, _ in bins))
    width = side / len(bins)
    shares = []
    for tenth in range(0, 11, 2):
        share = tenth / 10
        x, y = left + share * side, top + (1 - share) * side
        shares.append({"x": f"{x:.1f}", "y": f"{y:.1f}", "below": f"{y + 4:.1f}", "text": f"{share:.0%}"})
    bars = []
    for number, (count, confidence, accuracy) in enumerate(bins):
        if not count:
            continue
        x, height = left + number * width, accuracy * side
        said = (
            f"{count:,} predictions ({count / total:.0%}) with a mean confidence of {confidence:.1%}: "
            f"{accuracy:.1%} are right"
        )
        bars.append({
            "said": said, "x": f"{x + 1:.1f}", "y": f"{top + side - height:.1f}", "width": f"{width - 2:.1f}",
            "height": f"{height:.1f}", "opacity": f"{0.3 + 0.7 * count / total:.2f}",
            "mean": f"{left + confidence * side:.1f}",
        })  # fmt: skip
    return _HTML.reliability(left=left, top=top, side=side, shares=shares, bars=bars)
