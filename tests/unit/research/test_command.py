"""`holdfast simulate` as a person types it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_research.command import policies_after
from holdfast_research.study import POLICIES, RULES, USUAL

KEEP = ("deadline", *RULES)  # the policies that keep the deadline
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
    assert names == list(USUAL)
    assert {line[5] for line in lines if line and line[0] in KEEP} == {"0"}, "nothing is late"


# Breaks if processes change the result, or its order.
def test_more_processes_give_the_same(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_research.command.WORTH_PROCESSES", 1)
    arguments = ("--traces", str(trace), "--policy", "deadline,ordered-slack,greedy", "--windows", "3", "--json")
    assert simulate(*arguments, "--workers", "2") == simulate(*arguments, "--workers", "1")


def test_a_trace_may_have_any_name_if_the_format_is_said(trace: Path) -> None:
    other = trace.rename(trace.with_suffix(".trace"))
    assert "deadline" in simulate("--traces", str(other), "--policy", "deadline", "--format", "sky")


def test_json_has_every_job(trace: Path) -> None:
    found = json.loads(simulate("--traces", str(trace.parent), "--policy", "deadline,greedy", "--json"))["windows"]
    assert [row["policy"] for row in found] == ["deadline", "greedy"]
    assert set(found[0]) == {"policy", "trace", "start", "load", "cost", "omniscient", "missed", "moves"}
    assert found[0]["trace"] == "zone"


def test_made_up_markets_together_and_billed() -> None:
    arguments = ("--synthetic", "--zones", "together", "--observation", "billed", "--policy", "deadline", "--by-load")
    assert " 0.8 " in simulate(*arguments)


# Breaks if a wrong option has the exit code of a simulation that failed, or is not named.
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--traces FILE or FOLDER, or --synthetic"),
        (("--synthetic", "--traces", "."), "--traces FILE or FOLDER, or --synthetic, not both"),
        (("--synthetic", "--policy", "deadline,cheap"), "--policy: 'cheap' is not known; known policies: deadline,"),
        (("--synthetic", "--workers", "0"), "--workers"),
        (("--synthetic", "--format", "xml"), "--format"),
        (("--synthetic", "--policy", ","), "--policy: at least one is needed"),
        (("--synthetic", "--load", "a"), "--load: must be numbers with commas"),
        (("--synthetic", "--load", "0.6,1.1"), "--load: a load is work over"),
        (("--synthetic", "--load", "0.99"), "--load: 0.99 leaves no time"),
        (("--synthetic", "--work", "two days"), '--work: "two days": must be a duration'),
        (("--synthetic", "--work", "90s"), "--work: must be whole minutes"),
        (("--synthetic", "--changeover", "20"), '--changeover: "20": must be a duration'),
        (("--synthetic", "--lost-work", "1m1s"), "--lost-work: must be whole minutes"),
        (("--synthetic", "--price-ratio", "-1"), '--price-ratio: "-1": must be a decimal string'),
        (("--synthetic", "--price-ratio", "0"), "--price-ratio: must be above 0"),
        (("--synthetic", "--plot", "picture.gif"), "must end in .svg or .png"),
    ],
)
def test_a_wrong_command_line_is_2_and_names_the_option(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"metadata": {"gap_seconds": 600}, "data": [1, 2]}', "zone.json, data[1]: must be 0 or 1; got 2"),
        ('{"metadata": {"gap_seconds": 600}, "data": [1, 1]}', "no trace is long enough"),
        (None, "zone.json: No such file or directory"),
    ],
)
def test_what_is_wrong_in_a_trace_is_1_and_names_the_place(trace: Path, content: str | None, words: str) -> None:
    trace.unlink()
    if content is not None:
        trace.write_text(content)
    result = CliRunner().invoke(app, ["simulate", *SMALL, "--traces", str(trace)])
    assert result.exit_code == 1
    assert words in " ".join(result.output.split())


def test_a_folder_without_traces_is_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "--traces", str(tmp_path)])
    assert result.exit_code == 1
    assert "there is no .json or .csv in this folder" in " ".join(result.output.split())


def test_a_picture_beside_the_table(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "policies.svg"
    assert "POLICY" in simulate("--traces", str(trace), "--policy", "deadline,greedy,deadline", "--plot", str(file))
    assert file.read_text().startswith("<?xml")


def test_without_matplotlib_nothing_runs_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, trace: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("holdfast_research.command.simulate", lambda _study, _workers: pytest.fail("it ran"))
    arguments = ["simulate", *SMALL, "--traces", str(trace), "--plot", str(tmp_path / "policies.png")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "pip install 'holdfast[plot]'" in result.output


def test_policies_complete_after_each_comma() -> None:
    assert policies_after("") == list(POLICIES)
    assert policies_after("or") == ["ordered-slack", "ordered-eager", "ordered-never"]
    assert policies_after("deadline,ordered-never,or") == [
        "deadline,ordered-never,ordered-slack", "deadline,ordered-never,ordered-eager",
    ]  # fmt: skip
    assert policies_after("nothing") == []
