"""The page of all jobs: totals, filter, order, and names that are HTML."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.support.manifests.fleet import fleet
from tests.support.manifests.observed_jobs import running_job

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast_cli.pages.jobs_page import LONGEST_FILTER, ROWS, JobRow, Jobs, Query, filled, jobs_page

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


def row(name: str, **changes: Any) -> JobRow:
    given: dict[str, Any] = {
        "namespace": "demo", "name": name, "phase": Phase.RUNNING, "reason": "", "tier": "spot", "node": "spot-1",
        "step": 10, "steps": 100, "eta": None, "spent": Decimal(1), "expected": None, "slack": None, "late": None,
        "interruptions": 0, "created": NOW,
    }  # fmt: skip
    return JobRow(**{**given, **changes})


def shown(rows: list[JobRow], query: Query | None = None, **more: Any) -> str:
    page, found = jobs_page(Jobs(rows, total=len(rows), namespace="demo", **more), query or Query())
    return "".join(one.html for one in filled(page, found).fragments)


def names(rows: list[JobRow], query: Query) -> list[str]:
    return [one.name for one in query.chosen(rows)]


# Breaks if any of what the table promises is not in it.
@pytest.mark.parametrize(
    "text",
    ["job", "Running", "dedicated", "250", "/ 1,000", "25.0%", "12.35", "2026-11-21T09:05:00Z", "2026-11-21T09:00:00Z"],
)
def test_a_row_shows_the_job(text: str) -> None:
    assert text in JobRow.of(running_job()).html


def test_a_job_that_is_over_has_neither_eta_nor_slack() -> None:
    found = JobRow.of(running_job({"phase": "Completed", "current": None, "forecast": {"late": "1h"}}))
    assert found.eta is None
    assert found.late is None
    assert found.share == 1.0


def test_words_of_the_filter_must_all_be_there() -> None:
    rows = [row("llm-a"), row("llm-b", phase=Phase.FAILED, reason="MaxFailures"), row("vit", tier="cpu")]
    assert names(rows, Query("LLM failed")) == ["llm-b"]
    assert names(rows, Query("maxfail")) == ["llm-b"]
    assert names(rows, Query("cpu")) == ["vit"]
    assert len(names(rows, Query("demo/"))) == 3


@pytest.mark.parametrize(
    ("sort", "order"),
    [("name", "abc"), ("-name", "cba"), ("cost", "bca"), ("-cost", "acb"), ("eta", "cab"), ("-eta", "acb"),
     ("-slack", "abc"), ("slack", "bac"), ("nonsense", "abc"), ("-age", "abc"), ("", "abc"), ("-__class__", "abc")],
)  # fmt: skip
def test_order(sort: str, order: str) -> None:
    """Breaks if jobs without a value come first, if lateness counts as slack, or if an unknown order is an error."""
    later = NOW + timedelta(hours=1)
    rows = [
        row("b", spent=Decimal(1), late=timedelta(hours=1), created=NOW - timedelta(1)),
        row("a", spent=Decimal(9), eta=later, slack=timedelta(hours=5)),
        row("c", spent=Decimal(3), eta=NOW, created=NOW - timedelta(2)),
    ]
    assert "".join(names(rows, Query.parse("", sort))) == order


def test_only_the_first_rows_are_drawn_and_the_rest_is_counted() -> None:
    rows = [row(f"j{number:05}") for number in range(ROWS + 234)]
    html = shown(rows)
    assert html.count("<tr data-key") == ROWS
    assert "234 more are not" in html
    assert "1 of 1,234 jobs match" in shown(rows, Query("j00007"))


def test_totals_count_all_jobs() -> None:
    html = shown([row("a", spent=Decimal("1.5"), expected=Decimal(4), interruptions=2), row("b", late=timedelta(1))])
    assert "<dt>spent</dt><dd>2.50</dd>" in html
    assert "<dt>expected in the end</dt><dd>5.00</dd>" in html
    assert "<dt>late</dt><dd>1</dd>" in html


def test_jobs_that_are_not_read_yet_are_counted() -> None:
    page, _ = jobs_page(Jobs([row("a")], [("demo/bad", "field x")], total=5, namespace="demo"), Query())
    html = "".join(one.html for one in page.fragments)
    assert "3 are being read" in html
    assert "demo/bad" in html


def test_a_filter_is_bounded() -> None:
    assert len(Query.parse("x" * 5000, "").filter) == LONGEST_FILTER


def test_the_page_does_not_change_while_only_time_passes() -> None:
    jobs = [JobRow.of(TrainingJob.parse(raw)) for raw in fleet(30, NOW)]
    assert shown(jobs) == shown([JobRow.of(TrainingJob.parse(raw)) for raw in fleet(30, NOW)])


def test_the_namespace_is_a_column_only_for_all_namespaces() -> None:
    page, rows = jobs_page(Jobs([row("a")], total=1, namespace=None), Query())
    assert "<td>demo</td>" in rows[0].html
    assert "Namespace" in "".join(one.html for one in page.fragments)
    assert "Namespace" not in shown([row("a")])
