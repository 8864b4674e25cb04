"""Grafana dashboards as code: panels, placed from left to right, in the JSON form that Grafana imports.

It is the classic form (schemaVersion 42 and below), which every version of Grafana reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, Literal

WIDTH = 24  # columns of a dashboard
SCHEMA = 42
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "holdfast"

Json = dict[str, Any]
Kind = Literal["stat", "timeseries", "bargauge", "state-timeline", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query for Prometheus and the legend of its series; `instant` returns one value for the whole time range."""

    expr: str
    legend: str = ""
    instant: bool = False
    table: bool = False  # rows with a column for each label


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `defaults` and `custom` (the part for its kind) are those of Grafana's fieldConfig.

    `empty` is shown if there is no value: the reason why there is none.
    """

    title: str
    about: str
    kind: Kind
    queries: Sequence[Query]
    unit: str
    empty: str
    width: int = 12
    height: int = 8
    defaults: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    transformations: Sequence[Json] = ()
    interval: str | None = None


@dataclass(frozen=True, slots=True)
class Annotation:
    """Vertical lines at the times at which a query has series."""

    name: str
    expr: str
    title: str
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard with rows of panels; its first variable is the Prometheus data source."""

    uid: str
    title: str
    about: str
    variables: Sequence[Json]
    rows: Mapping[str, Sequence[Panel]]
    annotations: Sequence[Annotation] = ()
    time: str = "now-24h"  # how far back it shows at first

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panels of all rows."""
        return tuple(panel for panels in self.rows.values() for panel in panels)

    def json(self) -> Json:
        """The form that Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "editable": False,
            "graphTooltip": 1,  # the same moment is marked in all panels
            "timezone": "browser",
            "refresh": "1m",
            "time": {"from": self.time, "to": "now"},
            "links": [_siblings()],
            "annotations": {"list": [_annotation(one) for one in self.annotations]},
            "templating": {"list": [_source(), *self.variables]},
            "panels": _placed(self.rows),
        }


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Colours from these values on; the first is for all lower values."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def values(*named: tuple[float, str, str]) -> list[Json]:
    """Words and colours in the place of these numbers."""
    options = {
        f"{number:g}": {"text": text, "color": color, "index": index}
        for index, (number, text, color) in enumerate(named)
    }
    return [{"type": "value", "options": options}]


def choice(name: str, label: str, query: str, *, with_all: bool) -> Json:
    """A variable: one or more of the values that a query returns, and at first all of them if `with_all`."""
    made: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # at each change of the time range
        "sort": 1,
        "multi": True,
        "includeAll": with_all,
    }
    if with_all:
        made |= {"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
    return made


def _source() -> Json:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _siblings() -> Json:
    """Links at the top to the other dashboards, with the same data source and time."""
    return {
        "title": "Holdfast", "type": "dashboards", "tags": [TAG], "asDropdown": False, "icon": "external link",
        "includeVars": True, "keepTime": True, "targetBlank": False, "tooltip": "", "url": "",
    }  # fmt: skip


def _annotation(one: Annotation) -> Json:
    return {
        "name": one.name, "datasource": SOURCE, "enable": True, "hide": False, "iconColor": one.color,
        "expr": one.expr, "step": "1m", "titleFormat": one.title, "textFormat": one.text,
    }  # fmt: skip


def _placed(rows: Mapping[str, Sequence[Panel]]) -> list[Json]:
    """Every panel with its place: from left to right, then in the next line."""
    made: list[Json] = []
    y = 0
    for title, panels in rows.items():
        made.append(_row(len(made) + 1, title, y))
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            made.append(_panel(len(made) + 1, panel, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return made


def _row(number: int, title: str, y: int) -> Json:
    place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, x: int, y: int) -> Json:
    defaults = {"unit": panel.unit, "noValue": panel.empty, **panel.defaults, "custom": panel.custom}
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(query, ref) for query, ref in zip(panel.queries, ascii_uppercase, strict=False)],
        "fieldConfig": {"defaults": defaults, "overrides": list(panel.overrides)},
        "options": panel.options,
    }
    if panel.transformations:
        made["transformations"] = list(panel.transformations)
    return {**made, "interval": panel.interval} if panel.interval else made


def _target(query: Query, ref: str) -> Json:
    return {
        "refId": ref,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": "table" if query.table else "time_series",
        "instant": query.instant,
        "range": not query.instant,
    }
