"""Panels that several dashboards share: a large number, curves, bars, states over time, a table of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from scripts.generate.dashboards.queries import ON_JOB
from scripts.generate.grafana import WIDTH, Json, Panel, Query, thresholds

GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"
HOUR = 3600
GOODPUT_COLOURS = thresholds((None, RED), (0.8, ORANGE), (0.95, GREEN))
NONE_IS_GOOD = thresholds((None, GREEN), (1, RED))

STACKED: Json = {"stacking": {"mode": "normal"}, "fillOpacity": 40, "lineWidth": 1}
BARS: Json = {"drawStyle": "bars", "stacking": {"mode": "normal"}, "fillOpacity": 80, "lineWidth": 0}
STEPS: Json = {"lineInterpolation": "stepAfter"}
MONEY: Json = {"decimals": 2}
SHARE: Json = {"min": 0, "max": 1, "decimals": 1}

LEGEND: Json = {"showLegend": True, "displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}
TOOLTIP: Json = {"mode": "multi", "sort": "desc"}

# The job dashboard, for the job of the row of a table.
OPEN_JOB = (
    "/d/holdfast-job?var-datasource=${datasource}&var-namespace=${__data.fields.Namespace}"
    "&var-job=${__data.fields.Job}&${__url_time_range}"
)


def figure(
    title: str, about: str, expr: str, unit: str, empty: str, /, *, width: int = 3, legend: str = "", **defaults: Any
) -> Panel:
    """A large number; with a legend one for each series."""
    plain = {"color": {"mode": "thresholds"}, "thresholds": thresholds((None, GREY)), **defaults}
    options: Json = {
        "graphMode": "none", "colorMode": "value", "textMode": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }  # fmt: skip
    return Panel(title, about, "stat", (Query(expr, legend),), unit, empty, width, 4, defaults=plain, options=options)


def word(title: str, about: str, expr: str, legend: str, empty: str, /, *, width: int = 3) -> Panel:
    """A word, which is a label of the newest series."""
    options: Json = {
        "graphMode": "none", "colorMode": "none", "textMode": "name",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }  # fmt: skip
    return Panel(title, about, "stat", (Query(expr, legend, instant=True),), "none", empty, width, 4, options=options)


def curves(
    title: str, about: str, unit: str, empty: str, /, *queries: Query,
    custom: Json | None = None, overrides: Sequence[Json] = (), interval: str | None = None,
    width: int = WIDTH // 2, **defaults: Any,
) -> Panel:  # fmt: skip
    """Curves over time."""
    return Panel(
        title, about, "timeseries", queries, unit, empty, width, defaults=defaults, custom=custom or {},
        options={"legend": LEGEND, "tooltip": TOOLTIP}, overrides=overrides, interval=interval,
    )  # fmt: skip


def states(title: str, about: str, empty: str, query: Query, mappings: Sequence[Json], /, *, width: int = 12) -> Panel:
    """One line for each series, whose colour and word change with its value."""
    return Panel(
        title, about, "state-timeline", (query,), "none", empty, width,
        defaults={"mappings": list(mappings), "color": {"mode": "thresholds"}, "thresholds": thresholds((None, GREY))},
        custom={"fillOpacity": 80, "lineWidth": 0},
        options={"showValue": "auto", "mergeValues": True, "rowHeight": 0.9, "tooltip": {"mode": "single"}},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the values of a query, which has one series for each row."""

    title: str
    expr: str
    unit: str = "none"
    decimals: int | None = None


JOB_COLUMNS = {"job_namespace": "Namespace", "job_name": "Job"}


def job_table(
    title: str, about: str, empty: str, /, *columns: Column,
    labels: Mapping[str, str] = JOB_COLUMNS, shows_values: bool = True, rising: bool = False, width: int = 24,
) -> Panel:  # fmt: skip
    """A row for each series of the first column, the highest first; the name of a job leads to its dashboard.

    `labels` are the titles of the columns of labels. Without `shows_values` there are only these. `rising`: the lowest
    row is the first.
    """
    first, *others = columns
    beside = [replace(one, expr=f"({one.expr}) and {ON_JOB} ({first.expr})") for one in others]
    columns = (first, *beside)
    refs = dict(zip(ascii_uppercase, columns, strict=False))
    # Grafana names the column of values by the query, and `Value` if only one query has rows.
    titles = {"Value": columns[0].title} | {f"Value #{ref}": column.title for ref, column in refs.items()}
    hidden = {"Time": True} | ({} if shows_values else dict.fromkeys(titles, True))
    order = [*labels, *titles]
    sort = [{"displayName": columns[0].title, "desc": not rising}] if shows_values else []
    organize = {
        "excludeByName": hidden,
        "indexByName": {name: index for index, name in enumerate(order)},
        "renameByName": {**labels, **titles},
    }
    return Panel(
        title, about, "table", [Query(column.expr, instant=True, table=True) for column in columns], "none", empty,
        width, 9,
        options={"showHeader": True, "cellHeight": "sm", "sortBy": sort},
        overrides=[_column(column) for column in columns] + [_link("Job")],
        transformations=[{"id": "merge", "options": {}}, {"id": "organize", "options": organize}],
    )  # fmt: skip


def _override(name: str, properties: Json) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def _column(column: Column) -> Json:
    exact = {} if column.decimals is None else {"decimals": column.decimals}
    return _override(column.title, {"unit": column.unit, "noValue": "-", **exact})


def _link(name: str) -> Json:
    return _override(name, {"links": [{"title": "Open this job", "url": OPEN_JOB}]})
