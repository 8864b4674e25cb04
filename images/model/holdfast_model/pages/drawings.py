"""Drawings as SVG, without styles or scripts of their own: a bar, a matrix of shares, a reliability diagram."""

from collections.abc import Sequence
from html import escape
from typing import Final

from holdfast_model.pages.fragments import Markup

__all__ = ["Bin", "bar", "matrix", "reliability"]

CELL: Final = 30
ABOVE: Final = 96
BESIDE: Final = 120
RIGHT: Final = 64
"""Room for the name of the last column, which is turned."""
NAME: Final = 15
"""Characters of a name in a drawing; the rest is cut."""
Bin = tuple[int, float, float]
"""Of predictions with about the same confidence: how many, their mean confidence, the share that is right."""


def bar(share: float, kind: str = "") -> Markup:
    """A bar of 0 to 1."""
    width = max(0.0, min(1.0, share)) * 100
    return Markup(
        f'<svg class="bar {escape(kind)}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="whole" width="100" height="8"/><rect class="done" width="{width:.2f}" height="8"/></svg>'
    )


def matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """A confusion matrix: a row for each true class, a column for each predicted one, darker for larger shares."""
    side = CELL * len(names)
    parts = [
        f'<svg class="matrix" viewBox="0 0 {BESIDE + side + RIGHT} {ABOVE + side + 2}" '
        f'width="{BESIDE + side + RIGHT}" role="img" aria-label="confusion matrix">',
        f'<text class="axis" x="0" y="{ABOVE - 8}">true class</text>',
        f'<text class="axis" x="{BESIDE}" y="11">predicted class</text>',
    ]
    for number, name in enumerate(names):
        at = number * CELL + CELL // 2
        parts.append(f'<text x="{BESIDE - 8}" y="{ABOVE + at + 4}" text-anchor="end">{_short(name)}</text>')
        x, y = BESIDE + at + 4, ABOVE - 8
        parts.append(f'<text x="{x}" y="{y}" transform="rotate(-50 {x} {y})">{_short(name)}</text>')
    for row, line in enumerate(counts):
        total = sum(line)
        for column, count in enumerate(line):
            parts.append(_cell(names, row, column, count, total))
    return Markup("".join(parts) + "</svg>")


def _cell(names: Sequence[str], row: int, column: int, count: int, total: int) -> str:
    share = count / total if total else 0.0
    x, y = BESIDE + column * CELL, ABOVE + row * CELL
    kind = "right" if row == column else "wrong"
    said = f"{names[row]} taken for {names[column]}: {count:,} of {total:,} ({share:.0%})"
    opacity = 0 if not count else 0.12 + 0.88 * share
    strong, at, below = " strong" if opacity > 0.55 else "", x + CELL / 2, y + CELL / 2 + 4
    text = f'<text class="count{strong}" x="{at}" y="{below}">{_count(count)}</text>'
    return (
        f'<g><title>{escape(said)}</title><rect class="frame" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>'
        f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill-opacity="{opacity:.3f}"/>'
        f"{text if count else ''}</g>"
    )


def _count(count: int) -> str:
    """At most four characters."""
    return f"{count}" if count < 10_000 else f"{count // 1000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


def reliability(bins: Sequence[Bin]) -> Markup:
    """How often predictions are right, by their confidence. On the line a model is as good as it says."""
    left, top, side = 46, 12, 300
    total = max(1, sum(count for count, _, _ in bins))
    width = side / len(bins)
    parts = [
        f'<svg class="reliability" viewBox="0 0 {left + side + 24} {top + side + 44}" '
        f'width="{left + side + 24}" role="img" aria-label="reliability diagram">'
    ]
    for tenth in range(0, 11, 2):
        share = tenth / 10
        x, y = left + share * side, top + (1 - share) * side
        parts.append(f'<line class="grid" x1="{left}" x2="{left + side}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{x:.1f}" y="{top + side + 18}" text-anchor="middle">{share:.0%}</text>')
    for number, (count, confidence, accuracy) in enumerate(bins):
        if not count:
            continue
        x, height = left + number * width, accuracy * side
        said = (
            f"{count:,} predictions ({count / total:.0%}) with a mean confidence of {confidence:.1%}: "
            f"{accuracy:.1%} are right"
        )
        parts.append(
            f'<g><title>{escape(said)}</title><rect class="done" x="{x + 1:.1f}" y="{top + side - height:.1f}" '
            f'width="{width - 2:.1f}" height="{height:.1f}" fill-opacity="{0.3 + 0.7 * count / total:.2f}"/>'
            f'<circle class="mean" cx="{left + confidence * side:.1f}" cy="{top + side - height:.1f}" r="3.5"/></g>'
        )
    parts.append(f'<line class="ideal" x1="{left}" y1="{top + side}" x2="{left + side}" y2="{top}"/>')
    parts.append(
        f'<text class="axis" x="{left + side / 2}" y="{top + side + 38}" text-anchor="middle">confidence</text>'
    )
    parts.append(f'<text class="axis" x="{left + 6}" y="{top + 12}">share that is right</text></svg>')
    return Markup("".join(parts))


def _short(name: str) -> str:
    return escape(name if len(name) <= NAME else name[: NAME - 1] + "…")
