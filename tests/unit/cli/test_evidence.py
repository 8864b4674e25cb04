"""`holdfast evidence` from the command line, on a folder."""

import json
from pathlib import Path

import pytest
from tests.unit.trainer.pod.launcher.hang.test_blame import LOADS, rank
from typer.testing import CliRunner, Result

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_train.pod import evidence
from holdfast_train.storage.folder import FolderStorage


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Attempt 3, on two nodes with two ranks each: rank 2 loads, the others wait."""
    storage = FolderStorage(tmp_path / "job")
    common = {"attempt": 3, "jobUID": "uid", "at": "2026-01-01T00:00:00+00:00", "why": "no step for 20 s after step 5"}
    for node in (1, 0):
        ranks = [rank(2 * node, LOADS if node else "", groups={"gloo 0": 6 if node else 7}), rank(2 * node + 1)]
        evidence.keep(storage, {**common, "node": node, "ranks": ranks, "lastLines": [f"step 5 on node {node}"]})
    return str(tmp_path / "job")


def holdfast(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["evidence", *args])


def test_it_says_which_rank_is_at_fault(place: str) -> None:
    """Breaks if the ranks of one node are judged without those of the other."""
    result = holdfast(place)
    assert result.exit_code == 0, result.output
    table = {line.split()[0]: line for line in result.output.splitlines() if line.strip()}
    assert "next_batch (data.py, line 88)" in table["2"]
    assert "it has entered 6 collectives of process group gloo 0, and others 7" in table["2"]
    assert "it has entered" not in table["0"] + table["1"] + table["3"]
    assert "attempt 3, node 1, 2026-01-01T00:00:00+00:00: no step for 20 s after step 5" in result.output
    assert "ranks 1, 3\n" in result.output, "the same stack once"
    assert "last lines of node 1\nstep 5 on node 1" in result.output


def test_as_json(place: str) -> None:
    found = json.loads(holdfast(place, "-o", "json").output)
    assert [one["rank"] for one in found["suspects"]] == [2]
    assert [one["node"] for one in found["nodes"]] == [0, 1]


def test_an_attempt_without_evidence(place: str) -> None:
    result = holdfast(place, "--attempt", "4")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "attempt 4 left no evidence" in result.output
