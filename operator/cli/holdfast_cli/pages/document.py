"""The whole HTML document of a page: one file that needs no network, or one that a server brings up to date."""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final

from holdfast_cli.pages.assets import asset
from holdfast_cli.pages.page import Chart, Curve, Page
from holdfast_model.pages.document import sealed, served
from holdfast_model.pages.template import Markup

_LIVE: Final = ("uplot.js", "page.js", "live.js")
_INLINED: Final = ("uplot.js", "page.js")
_DIGITS: Final = 5  # of a number of a curve: more than a screen can show
_LARGEST: Final = 1e100  # a value that is larger would leave no axis for the others


def document(page: Page, *, live: bool) -> str:
    """The document. `live`: styles and scripts have addresses of the server; otherwise the document contains them."""
    sections = [(one.id, one.html) for one in page.fragments]
    data = as_json(page.charts)
    if live:
        return served(page.title, sections, "/page.css", [f"/{name}" for name in _LIVE], data)
    return sealed(page.title, sections, _text("page.css"), [_text(name) for name in _INLINED], data)


def as_json(charts: Iterable[Chart]) -> Markup:
    """The charts for page.js, as text that can stand inside of a `script` element."""
    text = json.dumps([_chart(one) for one in charts], allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(text)  # noqa: S704 - JSON without any sign of HTML


def _chart(chart: Chart) -> dict[str, Any]:
    names: dict[str, Any] = {"id": chart.id, "title": chart.title, "xLabel": chart.x_label, "yLabel": chart.y_label}
    names |= {"fromZero": chart.from_zero}
    return {**names, "curves": [_curve(one) for one in chart.curves]}


def _curve(curve: Curve) -> dict[str, Any]:
    points = {"x": list(map(_place, curve.x)), "y": list(map(_rounded, curve.y))}
    return {"label": curve.label, "lost": curve.lost, **points}


def _place(value: float) -> float:
    """A step as it is, hours to a second, and a time to a tenth of a second."""
    return _short(round(value, 4 if abs(value) < 1e6 else 1))


def _short(value: float) -> float:
    """An integer without its `.0`."""
    return int(value) if float(value).is_integer() else value


def _rounded(value: float | None) -> float | None:
    """The value with as many digits as can be seen; None if it cannot be drawn."""
    if value is None or not isfinite(value) or abs(value) > _LARGEST:
        return None
    return _short(float(f"{value:.{_DIGITS}g}"))


def _text(name: str) -> str:
    return asset(name).decode()
