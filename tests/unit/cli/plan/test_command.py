"""`holdfast plan` as a person types it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from holdfast.api.names import API_VERSION, JOB_KIND, PROFILE_KIND
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast_cli.main import app
from holdfast_cli.plan.sources import Given

SPOT = {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "1", "pace": "6s"}
V100 = {**SPOT, "name": "v100", "kind": "Dedicated", "pricePerNodeHour": "3"}
CPU = {"name": "cpu", "kind": "CPU", "pricePerNodeHour": "0.4"}
QUICK = ("--draws", "2", "--interruptions", "4/day", "--workers", "1")


def changed(tier: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The tier with other fields; a field of None is left out."""
    return {name: value for name, value in {**tier, **changes}.items() if value is not None}


def manifest(*tiers: Mapping[str, Any], steps: int | None = 3000, **capacity: Any) -> dict[str, Any]:
    grid = {"tiers": [dict(tier) for tier in tiers]} if tiers else {}
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {"name": "vit"},
        "spec": {
            "trainer": {"image": "train:1", "command": ["train"]},
            "capacity": {**grid, **capacity},
            "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "vit"}}},
            **({"goal": {"steps": steps}} if steps else {}),
        },
    }


PROFILE = {
    "apiVersion": API_VERSION,
    "kind": PROFILE_KIND,
    "metadata": {"name": "default"},
    "spec": {"tiers": [SPOT, V100]},
    "status": {
        "tiers": [{"tier": "spot", "start": {"recent": ["4m"], "worst": "4m"}, "interruptions": 6, "nodeTime": "18h"}]
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes manifests into a file, and returns its path."""

    def write(*objects: Mapping[str, Any], name: str = "job.yaml") -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(json.loads(json.dumps(objects))))
        return str(path)

    return write


def plan(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def ways(*arguments: str) -> list[dict[str, Any]]:
    (job,) = json.loads(plan(*arguments, *QUICK, "-o", "json"))["jobs"]
    return list(job["ways"])


def facts(*arguments: str) -> dict[tuple[str, str], tuple[str, str]]:
    (job,) = json.loads(plan(*arguments, "--draws", "1", "--workers", "1", "-o", "json"))["jobs"]
    return {(one["what"], one["tier"]): (one["value"], one["source"]) for one in job["facts"]}


# Breaks if a policy, a deadline or a tier is left out, or the table does not say what it rests on.
def test_a_table_of_policies_and_deadlines(file: Any) -> None:
    shown = plan(file(manifest(SPOT, V100)), "--deadline", "12h", "--deadline", "1d", "--month", "v100=1100", *QUICK)
    lines = [line.split() for line in shown.splitlines()]
    named = [line[:2] for line in lines if line and line[0] in ("Ordered", "Cheapest", "Deadline", "only", "v100")]
    policies = [[policy, deadline] for policy in ("Ordered", "Cheapest", "Deadline") for deadline in ("12h00m", "1d")]
    assert named == [*policies, ["only", "v100"], ["v100", "by"]]
    assert "v100: 1,100.00 a month is the price of 367 hours" in shown
    assert "vit: 3,000 steps, 2 draws of the markets" in shown
    assert ["start", "on", "a", "node", "spot,", "v100", "3m", "assumed"] in lines


def test_only_policy_deadline_depends_on_the_deadline(file: Any) -> None:
    found = ways(file(manifest(SPOT, V100)), "--deadline", "6h", "--deadline", "2d", "--policy", "Ordered")
    assert [one["deadline"] for one in found] == [21600, 172800, None]
    assert found[0]["cost"] == found[1]["cost"]
    assert found[2] | {"policy": ""} == found[2] | {"onlyTier": "v100", "policy": ""}


# Breaks if the one node that is simulated is counted, and not those for which it stands.
def test_several_nodes_cost_several_node_hours(file: Any) -> None:
    job = file(manifest(V100))
    one, four = ways(job, "--nodes", "1"), ways(job, "--nodes", "4")
    assert one[-1]["onlyTier"] == "v100"
    assert one[-1]["nodeHours"]["v100"] > 5
    assert four[-1]["nodeHours"]["v100"] == pytest.approx(4 * one[-1]["nodeHours"]["v100"], abs=0.01)
    assert float(four[-1]["cost"]["median"]) == pytest.approx(3 * four[-1]["nodeHours"]["v100"], rel=0.01)


def test_the_jobs_own_deadline_counts_from_now(file: Any) -> None:
    at = datetime.now(UTC) + timedelta(days=3)
    found = ways(file(manifest(SPOT, V100, policy="Deadline", deadline=f"{at:%Y-%m-%dT%H:%M:%SZ}")))
    assert {one["policy"] for one in found} == {"Ordered", "Cheapest", "Deadline"}
    assert found[0]["deadline"] == pytest.approx(3 * 86400, abs=120)


def test_tiers_of_a_profile_come_with_what_the_profile_knows(file: Any) -> None:
    profile = file(PROFILE, name="profile.yaml")
    found = facts(file(manifest(profile="default")), "--profile-file", profile, "--pace", "6s")
    assert found["start on a node", "spot"] == ("4m", "status of the CapacityProfile")
    assert found["start on a node", "v100"] == ("4m", "status of the CapacityProfile, on spot")
    assert found["wait for a node", "v100"] == ("1m", "assumed")
    assert found["up, on average for", "spot"][0] == "3h00m"
    assert found["time of a step", "v100"] == ("6s", "--pace")


# Breaks if measurements of another job are not used, or count more than what was typed.
def test_what_another_job_measured(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"tier": "spot", "pace": "2s", "acquire": {"recent": ["20s"], "worst": "20s"}}
    tiers = [known, {"tier": "v100", "pace": "1s"}]
    like = TrainingJob.parse({**manifest(SPOT, V100), "metadata": {"name": "before"}, "status": {"tiers": tiers}})
    profiles = {"default": CapacityProfile.parse(PROFILE)}

    def ask(given: Given, *_: Any, **__: Any) -> Given:
        return Given(given.jobs, profiles, like)

    monkeypatch.setattr("holdfast_cli.plan.command.ask_cluster", ask)
    found = facts(file(manifest(profile="default")), "--from", "before", "--pace", "v100=3s")
    assert found["time of a step", "spot"] == ("2s", "TrainingJob before")
    assert found["time of a step", "v100"] == ("3s", "--pace")
    assert found["wait for a node", "spot"] == ("20s", "TrainingJob before")


def test_options_by_tier_and_for_all(file: Any) -> None:
    two = file(manifest(SPOT, {**SPOT, "name": "spot-2"}, V100))
    spot = ("--interruptions", "2/day", "--interruptions", "spot-2=0", "--out", "45m", "--notice", "0s")
    times = ("--start", "5m", "--start", "v100=2m", "--save", "9s", "--acquire", "2m", "--restore", "10s")
    found = facts(two, *spot, *times, "--nodes", "4")
    assert found["up, on average for", "spot"] == ("12h00m (a node)", "--interruptions")
    assert found["out, on average for", "spot"] == ("45m00s", "--out")
    assert found["market", "spot-2"] == ("never lost", "--interruptions")
    assert (found["start on a node", "v100"][0], found["start on a node", "spot"][0]) == ("2m", "5m")
    assert found["nodes", ""][0] == "4"
    assert not {key for key, (_, source) in found.items() if source == "assumed"} - {("saves every", "")}


def test_recorded_markets(file: Any, tmp_path: Path) -> None:
    trace = tmp_path / "zone.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1] * 30 + [0] * 10}))
    found = facts(file(manifest(SPOT, V100)), "--traces", f"spot={trace}")
    assert found["market", "spot"] == ("1 recorded", "--traces: zone")
    assert facts(file(manifest(SPOT, V100)), "--traces", str(trace)) == found


# Breaks if a name from a manifest can put markup into the page, or a figure is missing there.
def test_a_page_of_html(file: Any) -> None:
    shown = plan(file(manifest(SPOT, changed(V100, name="v100"))), "--deadline", "12h", *QUICK, "--html", "-")
    assert shown.startswith("<!DOCTYPE html>")
    assert "<h1>What vit will cost</h1>" in shown
    assert '<td>only v100</td><td>-</td><td class="right">5h04m</td>' in shown
    assert '<td class="t-yellow">assumed</td>' in shown
    trace = Path(file(name="<script>zone.json"))
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1] * 30}))
    page = plan(file(manifest(SPOT, V100)), "--traces", str(trace), *QUICK, "--html", "-")
    assert "&lt;script&gt;zone" in page and "<script>zone" not in page


def test_a_file_of_html_and_yaml_for_programs(file: Any, tmp_path: Path) -> None:
    """Breaks if -o has other formats than the other commands, or if the page goes to another place than FILE."""
    job, page = file(manifest(V100)), tmp_path / "plan.html"
    assert f"wrote {page}" in plan(job, *QUICK, "--html", str(page)).replace("\n", "")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert yaml.safe_load(plan(job, *QUICK, "-o", "yaml")) == json.loads(plan(job, *QUICK, "-o", "json"))
    assert "give --html or --output" in plan(job, "--html", "x", "-o", "json", code=2)
    assert "give another file with --html" in plan(job, *QUICK, "--html", str(tmp_path), code=1)


# Breaks if minutes of simulation are lost because the folder of the page does not exist.
def test_a_page_that_cannot_be_written_is_known_before(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_cli.plan.command.read_files", None)
    said = plan(file(manifest(V100)), *QUICK, "--html", str(tmp_path / "none" / "plan.html"), code=1)
    assert "there is no folder" in said


def test_a_budget_shows_how_often_it_is_exceeded(file: Any) -> None:
    shown = plan(file(manifest(SPOT, V100, budget="1")), *QUICK)
    assert "OVER BUDGET" in shown and "100%" in shown


def test_several_jobs_and_a_tier_left_out(file: Any) -> None:
    other = {**manifest(SPOT, V100, CPU), "metadata": {"name": "other"}}
    found = json.loads(plan(file(other), "--without", "cpu", *QUICK, "-o", "json"))["jobs"]
    assert [(one["job"], {way["onlyTier"] for way in one["ways"]}) for one in found] == [("other", {None, "v100"})]


FREE = changed(SPOT, pricePerNodeHour=None)
PAST = {"policy": "Deadline", "deadline": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("given", "arguments", "code", "words"),
    [
        (manifest(FREE, V100), (), 1, "vit: spec.capacity.tiers: pricePerNodeHour of tier spot is not set"),
        (manifest(SPOT, changed(V100, pace=None)), (), 1, "vit: the time of a step is not known on v100"),
        (manifest(SPOT, CPU), (), 1, "give --pace cpu=12s"),
        (manifest(SPOT, V100, steps=None), (), 1, "vit: spec.goal.steps: not set"),
        (manifest(profile="default"), (), 1, "no file has the CapacityProfile default"),
        (
            manifest(SPOT, V100),
            ("--deadline", "4h"),
            1,
            "impossible: 3,000 steps and one start take 5h04m",
        ),
        (manifest(SPOT, V100, **PAST), (), 1, "spec.capacity.deadline: 2024-01-01T00:00:00Z has passed"),
        (manifest(SPOT, V100), ("--deadline", "2024-01-01T00:00:00Z"), 2, "has passed"),
        (manifest(SPOT, V100), ("--deadline", "soon"), 2, "soon: must be a duration"),
        (manifest(SPOT, V100), ("--policy", "Deadline"), 2, "policy Deadline needs a deadline"),
        (manifest(SPOT), ("--policy", "Deadline", "--deadline", "1d"), 2, "needs a tier of kind Dedicated"),
        (manifest(SPOT, V100), ("--pace", "t4=12s"), 2, "no tier is named t4; tiers of the grid: spot, v100"),
        (manifest(SPOT, V100), ("--pace", "0s"), 2, "longer than 0s"),
        (manifest(SPOT, V100), ("--pace", "999us"), 2, "999us"),
        (manifest(SPOT, V100, steps=2**53 - 1), (), 1, "steps take over 366 days on"),
        (manifest(SPOT, V100, steps=2**53 - 1), ("--deadline", "8d"), 1, "steps take over 366 days on"),
        (manifest(SPOT, V100), ("--interruptions", "v100=2/day"), 2, "no tier is named v100; tiers of the grid: spot"),
        (manifest(SPOT, V100), ("--interruptions", "often"), 2, "such as 2/day"),
        (manifest(SPOT, V100), ("--interruptions", "1000/hour"), 2, "to 60 an hour"),
        (manifest(SPOT, V100), ("--out", "20d"), 2, "must be 1m to 15d"),
        (manifest(SPOT, V100), ("--month", "spot=100"), 2, "spot: is a Spot tier"),
        (manifest(SPOT, changed(V100, pricePerNodeHour="0")), ("--month", "v100=9"), 2, "its hour costs nothing"),
        (manifest(SPOT, V100), ("--month", "v100=lots"), 2, "--month"),
        (manifest(SPOT, V100), ("--traces", "nowhere"), 2, "there is no such file or folder"),
        (manifest(SPOT, V100), ("--without", "t4"), 1, "--without t4: no tier is named so"),
        (manifest(SPOT), ("--without", "spot"), 1, "no tier of vit is left"),
        ({**PROFILE}, (), 1, "no TrainingJob in it"),
        (manifest(changed(SPOT, kind="Reserved")), (), 1, "spec.capacity.tiers[0].kind"),
    ],
)
def test_what_cannot_be_planned(
    file: Any, given: Mapping[str, Any], arguments: tuple[str, ...], code: int, words: str
) -> None:
    shown = " ".join(plan(file(given), *arguments, code=code).replace("│", " ").split())
    assert words in shown


def test_a_market_that_is_never_up_is_refused(file: Any, tmp_path: Path) -> None:
    trace = tmp_path / "zone.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [0] * 30}))
    assert "Spot is never up in zone" in plan(file(manifest(SPOT, V100)), "--traces", str(trace), code=1)


def test_a_manifest_that_is_nested_too_deeply_is_refused_in_words(tmp_path: Path) -> None:
    """Breaks if a file of brackets ends the command with a traceback."""
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 100_000)
    assert "is nested too deeply" in " ".join(plan(str(path), code=1).split())


def test_a_tier_on_which_the_job_never_ends_has_no_figures(file: Any) -> None:
    """Breaks if one slow tier ends the plan with a traceback."""
    slow = changed(V100, name="slow", pace="60000h")
    given = manifest(V100, slow, steps=10**9)
    found = ways(file(given), "--pace", "v100=1ms", "--pace", "slow=60000h", "--workers", "1")
    assert [one["finish"]["median"] for one in found if one["onlyTier"] == "slow"] == [None]


def test_a_draw_is_bounded(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a job that is lost again and again keeps the command busy for hours."""
    monkeypatch.setattr("holdfast_cli.simulate.plan.MOST_DECISIONS", 3)
    found = ways(file(manifest(SPOT, V100)), *QUICK)
    assert {one["finish"]["median"] for one in found} == {None}
