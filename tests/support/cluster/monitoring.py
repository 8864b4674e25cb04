"""What the Prometheus of a local cluster knows, and the queries that people and alerts send to it."""

import json
import math
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from scripts.generate.dashboards.files import ALL
from tests.support.tools.catalogue import PINT

from holdfast_local import toolchain
from holdfast_local.cluster import Cluster
from holdfast_local.monitoring import RULES

STEP = 2  # seconds between two points of a query, as between two scrapes


@dataclass(frozen=True)
class Asked:
    """A query and who asks it."""

    who: str
    expr: str

    def plain(self, seconds: int) -> str:
        """The query as Grafana sends it when all jobs are chosen and this many seconds are shown."""
        expr = self.expr.replace("$__rate_interval", "1m").replace("$__range", f"{seconds}s")
        for variable in ("$namespace", "$job", "$instance"):
            expr = expr.replace(variable, ".*")
        return expr


def of_dashboards() -> Iterator[Asked]:
    """The queries of all panels, annotations and variables."""
    for one in ALL:
        for panel in one.panels:
            for number, query in enumerate(panel.queries):
                which = f" [{number}]" if len(panel.queries) > 1 else ""
                yield Asked(f"{one.uid}: {panel.title}{which}", query.expr)
        for note in one.annotations:
            yield Asked(f"{one.uid}: annotation {note.name}", note.expr)
        for variable in one.variables:
            series = variable["query"]["query"].removeprefix("label_values(").rpartition(",")[0]
            yield Asked(f"{one.uid}: ${variable['name']}", series)


def of_alerts() -> Iterator[Asked]:
    """The expressions of the chart's alerts."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield Asked(rule["alert"], rule["expr"])


def ask(cluster: Cluster, path: str, **query: Any) -> Any:
    """The data of an answer of Prometheus' API. Raises AssertionError with its words if it refuses the question."""
    url = f"{cluster.prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode(errors='replace')}") from error


def has_values(cluster: Cluster, expr: str, start: float, end: float) -> bool:
    """Whether the query has a number at any moment of this time."""
    found = ask(cluster, "query_range", query=expr, start=start, end=end, step=STEP)["result"]
    return any(not math.isnan(float(value)) for series in found for _, value in series["values"])


def selectors(cluster: Cluster, expr: str) -> set[str]:
    """The series that a query asks for, as Prometheus itself reads it, such as `up{job="a"}`."""
    return {_text(node) for node in _nodes(ask(cluster, "parse_query", query=expr)) if "matchers" in node}


PINT_SETTINGS = Path(__file__).resolve().parents[3] / ".pint.hcl"


def pint_online(cluster: Cluster, folder: Path) -> set[tuple[str, str]]:
    """What pint finds wrong with the chart's alerts when it also asks this Prometheus: alert and problem.

    It warns of series that come and go, as those of phases do; only what it calls a bug counts.
    """
    server = f'prometheus "local" {{\n  uri      = "{cluster.prometheus}"\n  required = true\n}}\n'
    # A series that was there between two of its looks, but is gone, would be none to pint: it has to look often.
    looks = f'check "promql/series" {{\n  lookbackRange = "10m"\n  lookbackStep  = "{STEP}s"\n}}\n'
    settings = PINT_SETTINGS.read_text(encoding="utf-8") + server + looks
    (folder / "pint.hcl").write_text(settings, encoding="utf-8")
    command = [toolchain.build(PINT), "--no-color", "--config", folder / "pint.hcl", "lint"]
    done = subprocess.run(
        [*command, "--fail-on", "fatal", "--json", folder / "pint.json", RULES],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((folder / "pint.json").read_text(encoding="utf-8"))
    lines = RULES.read_text(encoding="utf-8").splitlines()
    return {(_alert_at(lines, one["lines"][0]), one["problem"]) for one in found if one["severity"] == "Bug"}


def _alert_at(lines: list[str], number: int) -> str:
    """The name of the alert whose rule has this line, counted from 1."""
    return next(line for line in reversed(lines[:number]) if "- alert: " in line).rpartition(" ")[2]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _text(node: dict[str, Any]) -> str:
    matchers = [one for one in node["matchers"] if one["name"] != "__name__"]
    inner = ", ".join(f'{one["name"]}{one["type"]}"{one["value"]}"' for one in matchers)
    return node["name"] + (f"{{{inner}}}" if inner else "")
