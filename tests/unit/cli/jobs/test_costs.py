"""What a job has cost, for people."""

from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from tests.support.manifests.observed_jobs import raw_job

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs.costs import costs, sentence
from holdfast_cli.terminal import formats

SPOT = {"tier": "spot", "kind": "Spot", "attempts": 3, "nodeHours": "12.5", "spent": "12.75", "stepsTrained": 1200}


def job(**ledger: Any) -> TrainingJob:
    return TrainingJob.parse(raw_job(status={"phase": "Running", "ledger": ledger}))


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        ({}, ""),
        ({"goodput": "0.981"}, "goodput 98.1%"),
        ({"spent": "1412.3", "goodput": "0.9"}, "1,412.30 spent, goodput 90.0%"),
        ({"spent": "0.0034", "savedVersusDedicated": "0.5"}, "0.0034 spent, 0.5000 (99%) saved against dedicated only"),
        ({"spent": "5", "savedVersusDedicated": "-3.25"}, "5.00 spent, 3.25 more than on dedicated only"),
    ],
)
def test_one_sentence(ledger: dict[str, Any], text: str) -> None:
    assert sentence(job(**ledger)) == text


def test_money() -> None:
    assert [formats.money(Decimal(one)) for one in ("0", "0.0034", "0.99999", "1", "12345.678")] == [
        "0.00",
        "0.0034",
        "1.0000",
        "1.00",
        "12,345.68",
    ]


def test_nothing_is_said_before_there_is_anything_to_say() -> None:
    assert costs(job()) is None


def test_the_whole() -> None:
    parts = {"notice": "1s500ms", "acquire": "3m5s", "start": "0s", "restore": "31s", "replay": "15s"}
    cpu = {"tier": "cpu", "kind": "CPU", "attempts": 1, "nodeHours": "0.1", "spent": "0.02", "estimated": "0.02"}
    out = Console(file=StringIO(), width=100)
    out.print(costs(job(byTier=[SPOT, cpu], spent="12.77", secondsLost="3m37s500ms", recovery=parts)))
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert "12.77 spent" in printed
    assert "recovery: 1.5s notice, 3m05s acquire, 0.0s start, 31.0s restore; 15.0s of training done twice" in printed
    rows = [line.split() for line in printed.splitlines() if line.strip().startswith(("spot", "cpu"))]
    assert rows == [
        ["spot", "3", "12.500", "12.75", "1,200", "0"],
        ["cpu", "(partly", "estimated)", "1", "0.100", "0.0200", "0", "0"],
    ]
