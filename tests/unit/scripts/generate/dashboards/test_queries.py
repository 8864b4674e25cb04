"""The dashboards and the alerts ask for what there is."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.generate.dashboards.files import ALL
from scripts.generate.dashboards.fleet import TROUBLE
from tests.support.operator.every_metric import every_metric

from holdfast.serve.collectors import CONDITIONS

ALERTS = Path(__file__).resolve().parents[5] / "charts" / "holdfast" / "files" / "alerts.yaml"
METRIC = re.compile(r"\b(holdfast_\w+|DCGM_FI_\w+|process_\w+|python_\w+|ALERTS)\b(?:\{([^}]*)\})?")
CONDITION = re.compile(r'condition=~?"([^"]+)"')
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
TARGET = {"instance", "job"}  # labels that Prometheus adds to all series of a target

# Metrics of others, with the labels that we ask for.
OTHERS = {
    "ALERTS": {"alertname", "alertstate", "severity", "job_namespace", "job_name"},
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "python_gc_collections_total": {"generation"},
    "DCGM_FI_DEV_GPU_UTIL": {"namespace", "pod"},
    "DCGM_FI_DEV_FB_USED": {"namespace", "pod"},
    "DCGM_FI_DEV_POWER_USAGE": {"namespace", "pod"},
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": {"namespace", "pod"},
}

# Metrics of jobs and conditions that no dashboard asks for -> where people see the same.
NOT_SHOWN = {
    "holdfast_job_goal_steps": "the progress is a share of them",
    "holdfast_job_training_loss_finite": "an alert asks for it, and the curve of the loss has a gap",
}
NO_TROUBLE = {"PolicyFallback": "the job trains on", "TierResting": "the job goes on with the next tier"}

QUERIES = [(f"{one.uid}: {panel.title}", query.expr) for one in ALL for panel in one.panels for query in panel.queries]
QUERIES += [(f"{one.uid}: ${var['name']}", var["query"]["query"]) for one in ALL for var in one.variables]
QUERIES += [(f"{one.uid}: {note.name}", note.expr) for one in ALL for note in one.annotations]
QUERIES += [
    (r["alert"], r["expr"]) for g in yaml.load(ALERTS.read_text(), yaml.CSafeLoader)["groups"] for r in g["rules"]
]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Name of every metric that can be asked for -> its labels."""
    return {name: told.labels for name, told in every_metric().items()} | OTHERS


def base(name: str, known: Any) -> str:
    """The metric that a series belongs to."""
    parts = (name.removesuffix(suffix) for suffix in ("_bucket", "_sum", "_count"))
    return name if name in known else next((part for part in parts if part in known), name)


def wrong(expr: str, known: dict[str, set[str]]) -> list[str]:
    """What the query asks for, and that there is not."""
    asked = [(name, selector, base(name, known)) for name, selector in METRIC.findall(expr)]
    found = [f"no metric {name}" for name, _, metric in asked if metric not in known] if asked else ["asks for nothing"]
    labels: set[str] = {"job_namespace", "job_name"} if "label_replace" in expr else set()
    for name, selector, metric in asked:
        has = known.get(metric, set()) | TARGET
        wanted = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
        found += [f"{name} has no label {label}" for label in sorted(wanted - has)]
        labels |= has | ({"le"} if name.endswith("_bucket") else set())
    groups = (set(group.split(", ")) for group in GROUPING.findall(expr))
    return found + [f"nothing there has the labels {sorted(group - labels)}" for group in groups if not group <= labels]


# Breaks if a metric or a label is renamed and a panel, a variable or an alert goes on to ask for the old one.
def test_every_query_asks_for_metrics_and_labels_that_there_are(known: dict[str, set[str]]) -> None:
    assert [(where, found) for where, expr in QUERIES if (found := wrong(expr, known))] == []


# Breaks if the test above finds nothing wrong.
def test_queries_that_ask_for_other_things_are_found(known: dict[str, set[str]]) -> None:
    assert wrong("1 + 1", known) == ["asks for nothing"]
    assert wrong("holdfast_nothing", known) == ["no metric holdfast_nothing"]
    assert wrong('holdfast_leading{colour="red"}', known) == ["holdfast_leading has no label colour"]
    assert wrong("sum by (colour) (holdfast_leading)", known) == ["nothing there has the labels ['colour']"]


# Breaks if an alert or a panel asks for a condition that has no metric: it would never fire, and show nothing.
def test_every_condition_that_is_asked_for_has_a_metric() -> None:
    asked = {kind for _, expr in QUERIES for kinds in CONDITION.findall(expr) for kind in kinds.split("|")}
    assert {"DeadlineAtRisk", "BudgetAtRisk", "CheckpointFailing", "ProgressUnreachable", "StartBlocked"} <= asked
    assert asked <= set(CONDITIONS)


# Breaks if a new metric of jobs is in no picture, or a new condition in no table of jobs in trouble.
def test_every_metric_and_condition_of_a_job_is_in_a_picture(known: dict[str, set[str]]) -> None:
    of_jobs = {name for name in known if name.startswith("holdfast_job_")}
    shown = {name for where, expr in QUERIES for name, _ in METRIC.findall(expr) if where.startswith("holdfast-")}
    assert of_jobs - shown == set(NOT_SHOWN)
    assert set(CONDITIONS) - set(TROUBLE.split("|")) == set(NO_TROUBLE)


# Breaks if a legend shows an empty name.
def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in (panel for one in ALL for panel in one.panels):
        for query in panel.queries:
            kept = {label for group in GROUPING.findall(query.expr) for label in group.split(", ")} | TARGET
            named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
            assert named <= kept, f"{panel.title}: {query.legend}"


# Breaks if two operators, of which one begins to lead, make a job count twice.
def test_each_job_counts_once() -> None:
    for where, expr in QUERIES:
        if where.startswith("holdfast-operator"):
            continue
        for total in re.findall(r"\bsum(?: by \([^)]*\))? \(?(holdfast_job_\w+)", expr):
            raise AssertionError(f"{where} sums {total} over all operators")
