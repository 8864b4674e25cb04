"""Each alert fires when it should and only then: Prometheus' own rule engine (promtool) runs them on made-up series."""

import json
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml
from scripts.generate.dashboards.files import ALL
from tests.support.tools.catalogue import PINT, PROMTOOL

from holdfast_local import toolchain

RULES = Path(__file__).resolve().parents[3] / "charts" / "holdfast" / "files" / "alerts.yaml"
PINT_SETTINGS = Path(__file__).resolve().parents[3] / ".pint.hcl"
RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
ALERTS = {
    rule["alert"]: rule for group in yaml.load(RULES.read_text(), yaml.CSafeLoader)["groups"] for rule in group["rules"]
}
MINUTES = 300  # of the series
JOB = 'job_namespace="ns",job_name="a"'
RUNS = f'holdfast_job_phase{{{JOB},phase="Running"}}'
RUNNING = {RUNS: "1x300"}


@dataclass(frozen=True)
class Case:
    """Series, one value a minute in promtool's notation: in `fires` minutes the alert fires, in `quiet` it does not."""

    alert: str
    series: dict[str, str]
    fires: tuple[int, ...] = ()
    quiet: tuple[int, ...] = ()
    also: str = field(default="", compare=False)  # what tells it from another case of this alert


def condition(alert: str, kind: str, after: int) -> Case:
    """True from minute 10 to 30: it fires `after` minutes later, and goes on for ten minutes."""
    series = {f'holdfast_job_condition{{{JOB},condition="{kind}"}}': "0x9 1x20 0x270"}
    return Case(alert, RUNNING | series, fires=(10 + after + 1, 30, 38), quiet=(9, 10 + after - 1, 45))


def over(alert: str, kind: str) -> Case:
    """The same of a job that has failed."""
    series = {
        f'holdfast_job_condition{{{JOB},condition="{kind}"}}': "1x300",
        f'holdfast_job_phase{{{JOB},phase="Failed"}}': "1x300",
    }
    return Case(alert, series, quiet=(60,), also="over")


QUIET, ERROR = (f'holdfast_reconcile_total{{result="{result}"}}' for result in ("quiet", "error"))
LAG = {bound: f'holdfast_event_loop_lag_seconds_bucket{{le="{bound}"}}' for bound in ("1", "2.5", "+Inf")}
CASES = (
    Case("HoldfastDown", {'holdfast_leading{pod="x"}': "1x9 0x290"}, fires=(16, 299), quiet=(9, 14)),
    Case("HoldfastDown", {'holdfast_leading{pod="x"}': "1x9 0x1 1x289"}, quiet=(10, 20, 60), also="a new leader"),
    Case("HoldfastQueueStuck", {"holdfast_queue_oldest_seconds": "0x9 70x20 0x270"}, fires=(16, 38), quiet=(14, 45)),
    Case(
        "HoldfastReconcileErrors",
        {QUIET: "0+100x300", ERROR: "0+10x300"},
        fires=(40,),
    ),
    Case(
        "HoldfastReconcileErrors",
        {QUIET: "0+100x300", ERROR: "0+2x300"},
        quiet=(40,),
        also="few",
    ),
    Case("HoldfastApiErrors", {'holdfast_api_requests_total{code="503"}': "0+12x300"}, fires=(30,), quiet=(8,)),
    Case("HoldfastApiErrors", {'holdfast_api_requests_total{code="409"}': "0+12x300"}, quiet=(30,), also="conflicts"),
    Case("HoldfastWatchSilent", {'holdfast_watch_age_seconds{resource="pods"}': "30x9 200x20 1x270"}, (12,), (9, 45)),
    Case("HoldfastEventLoopBlocked", {LAG["1"]: "0+90x300", LAG["2.5"]: "0+95x300", LAG["+Inf"]: "0+100x300"},
         (30,), (8,)),
    Case("HoldfastEventLoopBlocked", {LAG["1"]: "0+100x300", LAG["+Inf"]: "0+100x300"}, (), (30,),
         "in time"),
    Case("HoldfastMalformedJobs", {"holdfast_malformed_jobs": "0x9 2x290"}, fires=(25,), quiet=(9, 15)),
    Case("TrainingJobFailed", {RUNS: "1x9 _x290", f'holdfast_job_phase{{{JOB},phase="Failed"}}': "_x10 1x289"},
         fires=(10, 60), quiet=(9, 90)),
    Case("TrainingJobWaitsLong", {f'holdfast_job_phase{{{JOB},phase="Acquiring"}}': "1x60 _x240"}, (40, 65), (20, 90)),
    condition("TrainingJobStartBlocked", "StartBlocked", 15),
    condition("TrainingJobMisconfigured", "Misconfigured", 1),
    over("TrainingJobMisconfigured", "Misconfigured"),
    Case("TrainingJobStuck", RUNNING | {f"holdfast_job_step{{{JOB}}}": "0+10x60 600x239"}, (110,), (60, 85)),
    Case("TrainingJobStuck", RUNNING | {f"holdfast_job_step{{{JOB}}}": "0+1x300"}, quiet=(40, 299), also="trains"),
    Case("TrainingJobStuck", RUNNING, quiet=(299,), also="tells no step"),
    condition("TrainingJobProgressUnreachable", "ProgressUnreachable", 5),
    Case("TrainingJobLossNotFinite", {f"holdfast_job_training_loss_finite{{{JOB}}}": "1x9 0x290"}, (12,), (9,)),
    Case("TrainingJobInterruptionStorm", {f"holdfast_job_interruptions_total{{{JOB}}}": "0x9 0+1x10 10x280"},
         fires=(20, 60), quiet=(9, 120)),
    Case("TrainingJobFenced", {'holdfast_moves_total{reason="Fenced"}': "0x9 1x290"}, fires=(12, 20), quiet=(9, 60)),
    condition("TrainingJobCheckpointFailing", "CheckpointFailing", 5),
    over("TrainingJobCheckpointFailing", "CheckpointFailing"),
    replace(condition("TrainingJobCheckpointFailing", "StorageUnreachable", 5), also="the storage is away"),
    Case("TrainingJobNoCheckpoint", RUNNING, fires=(65, 299), quiet=(55,)),
    Case("TrainingJobNoCheckpoint", RUNNING | {f"holdfast_job_checkpoint_timestamp_seconds{{{JOB}}}": "_x30 1800x270"},
         quiet=(55, 299), also="saved"),
    Case(
        "TrainingJobCheckpointOverdue",
        RUNNING | {f"holdfast_job_checkpoint_timestamp_seconds{{{JOB}}}": "600x300",
                   f"holdfast_job_checkpoint_interval_seconds{{{JOB}}}": "600x300"},
        fires=(120,), quiet=(30, 69),
    ),
    Case(
        "TrainingJobCheckpointOverdue",
        RUNNING | {f"holdfast_job_checkpoint_timestamp_seconds{{{JOB}}}": "600x300",
                   f"holdfast_job_checkpoint_interval_seconds{{{JOB}}}": "7200x300"},
        quiet=(120, 299), also="every two hours",
    ),
    condition("TrainingJobDeadlineAtRisk", "DeadlineAtRisk", 5),
    over("TrainingJobDeadlineAtRisk", "DeadlineAtRisk"),
    condition("TrainingJobBudgetAtRisk", "BudgetAtRisk", 5),
    Case(
        "TrainingJobSavesCostly",
        RUNNING | {f"holdfast_job_checkpoint_timestamp_seconds{{{JOB}}}": "0+600x300",
                   f"holdfast_job_save_cost_seconds{{{JOB}}}": "10x300"},
        fires=(120,), quiet=(20,),
    ),
    Case(
        "TrainingJobSavesCostly",
        RUNNING | {f"holdfast_job_checkpoint_timestamp_seconds{{{JOB}}}": "0+600x300",
                   f"holdfast_job_save_cost_seconds{{{JOB}}}": "1x300"},
        quiet=(120,), also="cheap",
    ),
    Case("TrainingJobGoodputLow", RUNNING | {f"holdfast_job_goodput_ratio{{{JOB}}}": "0.7x300"}, (200,), (170,)),
    Case("TrainingJobGoodputLow", RUNNING | {f"holdfast_job_goodput_ratio{{{JOB}}}": "0.95x300"}, (), (200,), "high"),
)  # fmt: skip


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' tool for rules, built once into the user's cache."""
    return toolchain.build(PROMTOOL)


@pytest.fixture(scope="session")
def pint() -> Path:
    """Another tool for rules, built once into the user's cache."""
    return toolchain.build(PINT)


def run(promtool: Path, *args: str) -> None:
    done = subprocess.run([promtool, *args], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_good(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def queries_as_rules(file: Path, variable: str) -> Path:
    """Every query of the dashboards as a recording rule, with this in the place of each variable."""
    asked = [(f"{one.uid} {panel.title}", query.expr) for one in ALL for panel in one.panels for query in panel.queries]
    asked += [(f"{one.uid} {note.name}", note.expr) for one in ALL for note in one.annotations]
    rules = []
    for number, (where, expr) in enumerate(asked):
        plain = expr.replace("$__rate_interval", "5m").replace("$__range", "1h")
        for name in ("$namespace", "$job", "$instance"):
            plain = plain.replace(name, variable)
        rules.append({"record": "of:panel", "expr": plain, "labels": {"panel": where, "number": str(number)}})
    file.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    return file


# Breaks if a panel shows an error in place of a curve.
def test_every_query_of_the_dashboards_is_promql(promtool: Path, tmp_path: Path) -> None:
    run(promtool, "check", "rules", "--lint=none", str(queries_as_rules(tmp_path / "queries.yaml", variable=".*")))


def lint(pint: Path, rules: Path) -> None:
    command = [pint, "--offline", "--no-color", "--config", PINT_SETTINGS, "lint", "--fail-on", "warning", rules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Breaks if an alert has no runbook or severity, or a query that is always true, never true, or fragile.
def test_pint_finds_nothing_wrong_with_the_alerts(pint: Path) -> None:
    lint(pint, RULES)


def test_pint_finds_nothing_wrong_with_the_dashboards(pint: Path, tmp_path: Path) -> None:
    lint(pint, queries_as_rules(tmp_path / "queries.yaml", variable="a|b"))


def expectation(case: Case, minute: int, *, fires: bool) -> dict[str, object]:
    expr = f'count(ALERTS{{alertname="{case.alert}",alertstate="firing"}})'
    return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": [{"value": 1}] if fires else []}


def as_test(case: Case) -> dict[str, object]:
    """The case as promtool reads it."""
    asked = [expectation(case, minute, fires=True) for minute in case.fires]
    asked += [expectation(case, minute, fires=False) for minute in case.quiet]
    assert asked
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    name = f"{case.alert} {case.also}".strip()
    return {"name": name, "interval": "1m", "input_series": series, "promql_expr_test": asked}


def test_each_alert_fires_when_it_should(promtool: Path, tmp_path: Path) -> None:
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [as_test(case) for case in CASES]}
    (tmp_path / "test.yaml").write_text(json.dumps(content))
    run(promtool, "test", "rules", str(tmp_path / "test.yaml"))


def test_every_alert_has_a_case_in_which_it_fires_and_a_page() -> None:
    assert {case.alert for case in CASES if case.fires} == set(ALERTS)
    pages = {path.stem for path in RUNBOOKS.glob("*.md")}
    assert pages == {*ALERTS, "HoldfastSpendRate"}, "HoldfastSpendRate is in the chart's template"
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == f"RUNBOOKS/{name}.md"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule.get("keep_firing_for") or name == "TrainingJobFailed"
