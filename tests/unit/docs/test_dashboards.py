"""Alerts and pages name dashboards, rows and panels that there are."""

import re
from collections.abc import Iterator

import yaml
from scripts.generate.dashboards.files import ALL
from tests.unit.docs.pages import DOCS, PAGES, ROOT, relative

ALERTS = ROOT / "charts" / "holdfast" / "files" / "alerts.yaml"
TITLES = {one.title: one for one in ALL}
DASHBOARD = re.compile(r"\bdashboard \*([^*]+)\*")
ROW = re.compile(r"\brow \*?([A-Z]\w*( [A-Z]\w*)*)\*?( of the dashboard \*([^*]+)\*)?")
PANEL = re.compile(r"\bpanel \*([^*]+)\*")


def texts() -> Iterator[tuple[str, str]]:
    """Name and text, without line breaks, of each alert and each page that people write."""
    for group in yaml.load(ALERTS.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], " ".join(rule["annotations"].values())
    for page in PAGES:
        if page.is_relative_to(DOCS) and page.parent.name in ("how-to", "runbooks"):
            yield relative(page), " ".join(page.read_text(encoding="utf-8").split())


def unknown(text: str) -> list[str]:
    """The dashboards, rows and panels that the text names, and that there are not."""
    wrong = [f"dashboard {title}" for title in DASHBOARD.findall(text) if title not in TITLES]
    for row, _, _, of in ROW.findall(text):
        among = [TITLES[of]] if of in TITLES else ALL
        if not any(row in one.rows for one in among):
            wrong.append(f"row {row}")
    panels = {panel.title for one in ALL for panel in one.panels}
    return wrong + [f"panel {title}" for title in PANEL.findall(text) if title not in panels]


# Breaks if a row, a panel or a dashboard gets another name and an alert or a page keeps the old one.
def test_what_alerts_and_pages_name_is_there() -> None:
    assert [(name, wrong) for name, text in texts() for wrong in unknown(text)] == []


# Breaks if an alert or a runbook says "the dashboard", and its reader has to find out which one of three.
def test_alerts_and_runbooks_say_which_dashboard() -> None:
    for name, text in texts():
        if not name.startswith("docs/how-to/"):
            assert len(re.findall(r"\bdashboards?\b", text)) == len(DASHBOARD.findall(text)), name


# Breaks if the test above finds no wrong name.
def test_wrong_names_are_found() -> None:
    assert unknown("the row Economy of the dashboard") == ["row Economy"]
    assert unknown("the row *GPU* of the dashboard *Holdfast: operator*") == ["row GPU"]
    assert unknown("the dashboard *Holdfast: nothing*, panel *Nothing*") == [
        "dashboard Holdfast: nothing",
        "panel Nothing",
    ]
    assert unknown("the row *Interruptions* of the dashboard *Holdfast: one job*, panel *Goodput*") == []
