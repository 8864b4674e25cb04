"""The dashboards are what Grafana's own schema reads, fill their lines, and say what they show."""

import json
import re
import warnings
from itertools import groupby
from typing import Any

import pytest
from scripts.generate.dashboards.files import ALL, files
from scripts.generate.dashboards.fleet import FLEET
from scripts.generate.dashboards.job import ONE_JOB
from scripts.generate.dashboards.panels import OPEN_JOB
from scripts.generate.grafana import WIDTH, Dashboard, Panel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # that the second form of dashboards is newer
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard as Schema

CASES = pytest.mark.parametrize("one", ALL, ids=lambda one: one.uid)
RATES = re.compile(r"\b(?:rate|increase)\([^\[]*\[([^\]]*)\]")


def missing(mine: Any, theirs: Any, where: str = "") -> list[str]:
    """What is lost or changed on the way from `mine` to `theirs`; defaults that were added do not count."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        lost = [f"{where}.{key} is lost" for key in mine.keys() - theirs.keys()]
        return lost + [one for key in mine.keys() & theirs.keys() for one in missing(mine[key], theirs[key], key)]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        return [one for index, pair in enumerate(zip(mine, theirs, strict=True)) for one in missing(*pair, str(index))]
    return [] if mine == theirs else [f"{where}: {mine!r} became {theirs!r}"]


def through_the_schema(raw: dict[str, Any]) -> dict[str, Any]:
    """What is left of a dashboard when Grafana's own types have read and written it."""
    plugins.register_default_plugins()
    made: dict[str, Any] = json.loads(json.dumps(Schema.from_json(raw), cls=JSONEncoder))
    return made


# Breaks if a key is misspelt, stands in the wrong place or has a value of another kind: Grafana would pass over it.
@CASES
def test_grafanas_schema_loses_and_changes_nothing(one: Dashboard) -> None:
    raw = json.loads(files()[f"{one.uid}.json"])
    assert missing(raw, through_the_schema(raw)) == []


# Breaks if the comparison above finds nothing although a file is wrong.
def test_the_schema_loses_a_misspelt_key_and_a_value_of_another_kind() -> None:
    raw = json.loads(files()["holdfast-job.json"])
    raw["panels"][1]["descripton"] = "misspelt"
    raw["panels"][1]["options"]["collor"] = "misspelt"
    raw["panels"][1]["targets"][0]["exprr"] = "misspelt"
    lost = missing(raw, through_the_schema(raw))
    assert sorted(lost) == ["0.exprr is lost", "1.descripton is lost", "options.collor is lost"]


# Breaks if a line has a gap: its panels are not as wide as the dashboard, or not as high as each other.
@CASES
def test_panels_fill_their_lines(one: Dashboard) -> None:
    boxes = [panel["gridPos"] for panel in one.json()["panels"]]
    top = 0
    for y, line in groupby(sorted(boxes, key=lambda box: (box["y"], box["x"])), key=lambda box: box["y"]):
        found = list(line)
        assert y == top, f"a gap or an overlap at {y}"
        assert sum(box["w"] for box in found) == WIDTH, f"the line at {y} is not full"
        assert len({box["h"] for box in found}) == 1, f"the panels of the line at {y} differ in height"
        top += found[0]["h"]


@CASES
def test_every_panel_says_what_it_shows_in_which_unit_and_why_it_is_empty(one: Dashboard) -> None:
    assert one.about.endswith(".")
    for panel in one.panels:
        assert panel.title, panel
        assert panel.about.endswith("."), panel.title
        assert panel.unit, panel.title
        assert panel.empty, panel.title
    titles = [panel.title for panel in one.panels]
    assert len(set(titles)) == len(titles)


# Breaks if a rate is over a fixed time: it is empty if the scrapes are rarer, and coarse if they are more frequent.
@CASES
def test_rates_are_over_the_time_that_grafana_chooses(one: Dashboard) -> None:
    for panel in one.panels:
        for query in panel.queries:
            ranges = set(RATES.findall(query.expr))
            expected = "$__range" if panel.kind in ("stat", "bargauge") else "$__rate_interval"
            known = {expected, "$__rate_interval"} if "event_loop_lag" in query.expr else {expected}
            assert ranges <= known, f"{panel.title}: {ranges}"


# Breaks if a dashboard is tied to the name of one data source, or can be changed only to be overwritten by the chart.
@CASES
def test_the_data_source_is_chosen_and_the_chart_owns_the_dashboard(one: Dashboard) -> None:
    made = one.json()
    assert made["templating"]["list"][0]["type"] == "datasource"
    assert made["editable"] is False
    asked = [made["panels"], made["annotations"]["list"], made["templating"]["list"][1:]]
    for found in (source for part in asked for entry in part for source in [entry.get("datasource")] if source):
        assert found["uid"] == "${datasource}"


def has_job(panel: Panel) -> bool:
    return any("{{job_name}}" in query.legend for query in panel.queries)


# Breaks if the dashboard of all jobs gets a curve for each: with 2,000 jobs nobody could read or draw it.
def test_all_jobs_together_have_no_curve_each() -> None:
    assert not [panel.title for panel in FLEET.panels if has_job(panel)]
    for table in (panel for panel in FLEET.panels if panel.kind == "table"):
        first = table.queries[0].expr
        assert first.startswith(("topk(", "bottomk(", "count by (alertname")), table.title


# Breaks if a link leads to a dashboard or a variable that there is not.
def test_tables_lead_to_the_dashboard_of_the_job() -> None:
    uid, _, query = OPEN_JOB.removeprefix("/d/").partition("?")
    assert uid == ONE_JOB.uid
    given = set(re.findall(r"var-(\w+)=", query))
    assert given == {variable["name"] for variable in ONE_JOB.json()["templating"]["list"]}
    columns = set(re.findall(r"__data\.fields\.(\w+)", query))
    for table in (panel for panel in FLEET.panels if panel.kind == "table"):
        organize = table.transformations[-1]["options"]
        assert columns <= set(organize["renameByName"].values()), table.title


# Breaks if two jobs cannot be compared in one picture.
def test_several_jobs_can_be_chosen() -> None:
    by_name = {variable["name"]: variable for variable in ONE_JOB.variables}
    assert by_name["job"]["multi"]
    assert not by_name["job"]["includeAll"], "a dashboard of one job does not show 2,000"
    for panel in ONE_JOB.panels:
        of_each = has_job(panel) or panel.kind == "table" or panel.title in ("Phase", "Tier")
        together = "together" in panel.about or "that the jobs have" in panel.about
        assert of_each or together, f"{panel.title} does not say whose it is"


# Breaks if a new attempt is no vertical line.
def test_attempts_ends_and_alerts_are_annotations() -> None:
    assert [one["name"] for one in ONE_JOB.json()["annotations"]["list"]] == ["Attempts", "Ends", "Alerts"]
