"""The dashboard and the alerts ask for what there is, and the dashboard can be read."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.generate.dashboard import ROWS, VARIABLES
from scripts.generate.grafana import WIDTH, Panel, Query, dashboard
from tests.support.operator.every_metric import every_metric

from holdfast.serve.collectors import CONDITIONS

ALERTS = Path(__file__).resolve().parents[4] / "charts" / "holdfast" / "files" / "alerts.yaml"
METRIC = re.compile(r"(holdfast_\w+)(?:\{([^}]*)\})?")
CONDITION = re.compile(r'condition=~?"([^"]+)"')
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")

PANELS = [panel for panels in ROWS.values() for panel in panels]
QUERIES = [(panel.title, query.expr) for panel in PANELS for query in panel.queries]
QUERIES += [(variable["name"], variable["query"]["query"]) for variable in VARIABLES]
QUERIES += [(r["alert"], r["expr"]) for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]

Box = dict[str, int]


def base(name: str, known: Any) -> str:
    """The metric that a series belongs to."""
    parts = (name.removesuffix(suffix) for suffix in ("_bucket", "_sum", "_count"))
    return name if name in known else next((part for part in parts if part in known), name)


# Breaks if a metric or a label is renamed and a panel, a variable or an alert goes on to ask for the old one.
@pytest.mark.parametrize(("where", "expr"), QUERIES, ids=[where for where, _ in QUERIES])
def test_every_query_asks_for_metrics_and_labels_that_there_are(where: str, expr: str) -> None:
    known = every_metric()
    asked = METRIC.findall(expr)
    assert asked, f"{where} asks for nothing of ours"
    labels: set[str] = set()
    for name, selector in asked:
        metric = known[base(name, known)]
        wanted = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
        assert wanted <= metric.labels, f"{where}: {name} has no label {wanted - metric.labels}"
        labels |= metric.labels | ({"le"} if name.endswith("_bucket") else set())
    for group in GROUPING.findall(expr):
        assert set(group.split(", ")) <= labels, f"{where}: nothing there has the labels {group}"


# Breaks if an alert asks for a condition that has no metric: it would never fire.
def test_every_condition_that_is_asked_for_has_a_metric() -> None:
    asked = {kind for _, expr in QUERIES for kinds in CONDITION.findall(expr) for kind in kinds.split("|")}
    assert {"DeadlineAtRisk", "BudgetAtRisk", "CheckpointFailing", "ProgressUnreachable", "StartBlocked"} == asked
    assert asked <= set(CONDITIONS)


# Breaks if a legend shows an empty name.
def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in PANELS:
        for query in panel.queries:
            kept = GROUPING.search(query.expr)
            named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
            assert named <= set(kept[1].split(", ") if kept else ()), f"{panel.title}: {query.legend}"


def overlap(one: Box, other: Box) -> bool:
    across = one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
    return across and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"]


# Breaks if two panels stand on the same place, or one beyond the edge.
@pytest.mark.parametrize("rows", [ROWS, {"a": PANELS[:3], "b": PANELS[4:9], "c": PANELS[5:]}])
def test_panels_stand_side_by_side(rows: Any) -> None:
    panels = dashboard("u", "t", "a", VARIABLES, rows)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    boxes = [panel["gridPos"] for panel in panels]
    assert all(box["x"] >= 0 and box["x"] + box["w"] <= WIDTH for box in boxes)
    assert not [(one, other) for one, other in combinations(boxes, 2) if overlap(one, other)]


def test_a_lower_panel_begins_below_the_highest_of_the_line() -> None:
    low, high = (Panel("p", "a", "stat", (Query("up"),), width=12, height=height) for height in (4, 9))
    panels = dashboard("u", "t", "a", (), {"row": (high, low, low)})["panels"]
    assert [panel["gridPos"]["y"] for panel in panels] == [0, 1, 1, 10]


def test_every_panel_says_what_it_shows() -> None:
    assert all(panel.title and panel.about.endswith(".") for panel in PANELS)
    assert len({panel.title for panel in PANELS}) == len(PANELS)
