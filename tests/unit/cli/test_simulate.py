"""`holdfast simulate` as a person types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app

SMALL = ("--work", "6h", "--load", "0.8", "--windows", "1")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "zone.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 1, 1, 0, 1, 1] * 40}))
    return path


def simulate(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_table_by_policy(trace: Path) -> None:
    lines = [line.split() for line in simulate("--traces", str(trace)).splitlines()]
    assert ["POLICY", "JOBS", "MEAN", "MEDIAN", "P95", "LATE", "MOVES", "A", "DAY"] in lines
    names = [line[0] for line in lines if len(line) == 7]
    assert names == ["deadline", "uniform-progress", "greedy", "ordered-eager", "ordered"]
    assert {line[5] for line in lines if len(line) == 7} == {"0"}, "nothing is late"


def test_json_has_every_job(trace: Path) -> None:
    found = json.loads(simulate("--traces", str(trace.parent), "--policy", "deadline,greedy", "--json"))["windows"]
    assert [row["policy"] for row in found] == ["deadline", "greedy"]
    assert set(found[0]) == {"policy", "trace", "start", "load", "cost", "omniscient", "missed", "moves"}
    assert found[0]["trace"] == "zone"


def test_made_up_markets_together_and_billed() -> None:
    arguments = ("--synthetic", "--zones", "together", "--observation", "billed", "--policy", "deadline", "--by-load")
    assert " 0.8 " in simulate(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--traces FILE or FOLDER, or --synthetic"),
        (("--synthetic", "--policy", "cheapest"), "'cheapest' is not known"),
        (("--synthetic", "--load", "a"), "--load: must be numbers"),
        (("--synthetic", "--changeover", "20"), "--changeover: "),
        (("--synthetic", "--price-ratio", "-1"), "--price-ratio: "),
        (("--traces", "nowhere.json"), "nowhere.json: No such file"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert result.exit_code == 1
    assert words in result.output


def test_a_bad_trace_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"metadata": {"gap_seconds": 600}, "data": [1, 2]}')
    result = CliRunner().invoke(app, ["simulate", "--traces", str(tmp_path)])
    assert "bad.json, data[1]: must be 0 or 1; got 2" in " ".join(result.output.split())
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["simulate", "--traces", str(tmp_path / "empty")])
    assert "there is no .json or .csv in this folder" in " ".join(result.output.split())
