"""What a page is made of: fragments of HTML, and charts that a script draws."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast_model.pages.template import Markup


@dataclass(frozen=True)
class Fragment:
    """A part of a page that is replaced as a whole when it changes."""

    id: str
    """Unique in the page: lower-case letters, digits and hyphens."""
    html: Markup
    """From a template. It has neither `style` attributes nor scripts."""


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    label: str
    x: Sequence[float]
    """Ascending."""
    y: Sequence[float | None]
    """As many as `x`. None is a gap, such as a loss that is not a number."""
    lost: bool = False
    """Steps that were lost and trained again: drawn in grey."""


@dataclass(frozen=True)
class Chart:
    """Curves that share both axes."""

    id: str
    """As of a fragment. The page has an empty element with this id where the chart is drawn."""
    title: str
    x_label: str
    """"step", or "time" if `x` is in seconds since 1970."""
    y_label: str
    curves: Sequence[Curve]
    from_zero: bool = False
    """True if small changes of large values must not look large."""


@dataclass(frozen=True)
class Page:
    """A whole page, without the frame around it."""

    title: str
    fragments: Sequence[Fragment]
    """From top to bottom."""
    charts: Sequence[Chart] = ()
