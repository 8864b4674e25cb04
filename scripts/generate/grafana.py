"""Grafana dashboards as code: panels, placed from left to right, in the JSON form that Grafana imports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, Literal

WIDTH = 24  # columns of a dashboard
SCHEMA = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]
Kind = Literal["stat", "timeseries", "bargauge", "state-timeline"]


@dataclass(frozen=True, slots=True)
class Query:
    """A query for Prometheus and the legend of its series; `instant` returns one value for the whole time range."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `defaults` and `custom` (the part for its kind) are those of Grafana's fieldConfig."""

    title: str
    about: str
    kind: Kind
    queries: Sequence[Query]
    width: int = 12
    height: int = 8
    defaults: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    interval: str | None = None


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Colours from these values on; the first is for all lower values."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def dashboard(uid: str, title: str, about: str, variables: Sequence[Json], rows: Mapping[str, Sequence[Panel]]) -> Json:
    """A dashboard with rows of panels; its first variable is the Prometheus data source."""
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["holdfast"],
        "schemaVersion": SCHEMA,
        "editable": False,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [_source(), *variables]},
        "panels": _placed(rows),
    }


def choice(name: str, query: str) -> Json:
    """A variable: some or all values that a query returns."""
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _source() -> Json:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


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
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(query, ref) for query, ref in zip(panel.queries, ascii_uppercase, strict=False)],
        "fieldConfig": {"defaults": {**panel.defaults, "custom": panel.custom}, "overrides": list(panel.overrides)},
        "options": panel.options,
    }
    return {**made, "interval": panel.interval} if panel.interval else made


def _target(query: Query, ref: str) -> Json:
    return {
        "refId": ref,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant,
        "range": not query.instant,
    }
