"""A run that loses three nodes, in front of a real Prometheus: the ledger, the metrics and every picture show it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.conftest import PATIENCE
from tests.support.cluster.local_cluster import apply, audit_events, fresh_namespace, running_cluster
from tests.support.cluster.monitoring import STEP, has_values, of_alerts, of_dashboards, pint_online, selectors
from tests.support.cluster.training_jobs import Job, Pool, Raw, job_manifest, pool_nodes, s3_secret, stub
from tests.support.decisions import ledger_replay
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast.api.scalars import format_time
from holdfast.api.status import TrainingJobStatus
from holdfast_local.cluster import Cluster

PRICES = {"spot": "1.02", "dedicated": "3060", "cpu": "0.2"}
NOTICE = timedelta(seconds=12)
NO_GPU = "a node with NVIDIA's dcgm-exporter"

# What is empty at the end of this run -> the event that fills it. An entry that is not needed fails the test too.
EMPTY_PANELS = {
    "holdfast-fleet: Firing alerts": "an alert fires",
    "holdfast-fleet: Jobs in trouble": "a job cannot save, start, report, or meet its deadline or budget; a slow rank",
    "holdfast-fleet: GPUs": NO_GPU,
    "holdfast-fleet: Busy": NO_GPU,
    "holdfast-fleet: Tensor cores": NO_GPU,
    "holdfast-fleet: Power": NO_GPU,
    "holdfast-fleet: Jobs that use their GPUs least [0]": NO_GPU,
    "holdfast-fleet: Jobs that use their GPUs least [1]": NO_GPU,
    "holdfast-fleet: Jobs that use their GPUs least [2]": NO_GPU,
    "holdfast-fleet: Jobs that use their GPUs least [3]": NO_GPU,
    "holdfast-job: Checkpoint size": "a checkpoint with tensors: this program has none",
    "holdfast-job: Peak memory of an accelerator": "a program whose tensors are on a GPU",
    "holdfast-job: GPU busy": NO_GPU,
    "holdfast-job: Tensor cores": NO_GPU,
    "holdfast-job: GPU memory": NO_GPU,
    "holdfast-job: Power": NO_GPU,
    "holdfast-job: annotation Alerts": "an alert of the job fires",
}
QUIET_ALERTS = {
    "HoldfastDown": "no operator leads",
    "HoldfastQueueStuck": "a job waits for a worker for over a minute",
    "HoldfastReconcileErrors": "over 5 % of the passes fail",
    "HoldfastApiErrors": "the API server refuses requests, or does not answer",
    "HoldfastWatchSilent": "a watch receives nothing for three minutes",
    "HoldfastEventLoopBlocked": "the event loop stands still for over a second, often",
    "HoldfastMalformedJobs": "a job that the operator cannot read",
    "TrainingJobFailed": "a job fails",
    "TrainingJobWaitsLong": "a job waits for a node",
    "TrainingJobStartBlocked": "a pod cannot start",
    "TrainingJobMisconfigured": "a job that has run needs a correction",
    "TrainingJobStuck": "a job runs and takes no steps",
    "TrainingJobProgressUnreachable": "a pod does not reach the operator",
    "TrainingJobLossNotFinite": "a loss of NaN",
    "TrainingJobInterruptionStorm": "two more interruptions within the hour",
    "TrainingJobFenced": "an old attempt comes back",
    "TrainingJobCheckpointFailing": "the storage refuses saves",
    "TrainingJobNoCheckpoint": "a job runs and has not saved",
    "TrainingJobCheckpointOverdue": "a job runs and has not saved for an hour",
    "TrainingJobDeadlineAtRisk": "too little time until the deadline",
    "TrainingJobBudgetAtRisk": "too little budget",
    "TrainingJobGoodputLow": "a long run that loses a fifth of its time",
}
ABSENT_SERIES = {
    'holdfast_job_phase{phase="Failed"}': "a job fails",
    'holdfast_job_condition{condition="StartBlocked"}': "a pod cannot start",
    'holdfast_job_condition{condition="Misconfigured"}': "a job that has run needs a correction",
    'holdfast_job_condition{condition="ProgressUnreachable"}': "a pod does not reach the operator",
    'holdfast_job_condition{condition=~"CheckpointFailing|StorageUnreachable"}': "the storage refuses saves",
}

SOMETIMES = {'holdfast_api_requests_total{code=~"5..|0"}'}  # on a slow machine the API server is late once in a while


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of the test's own, with Prometheus and the nodes of one pool: nothing else fills a panel."""
    with running_cluster(audit=True, prometheus=True, nodes=pool_nodes(1)) as running:
        running.install()
        yield running


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[OperatorProcess]:
    with OperatorProcess(cluster, patience=PATIENCE) as running:
        cluster.scrape(f"127.0.0.1:{running.metrics_port}")
        # A rate needs a value from before: what is counted before the first scrape is in no picture.
        begun = time.time()
        wait_for(lambda: has_values(cluster, "holdfast_leading == 1", begun, time.time()), 60, "a scrape", every=0.5)
        yield running


def submit(cluster: Cluster, namespace: str, pool: Pool) -> Job:
    """A job on a profile, with a deadline and a budget that it meets."""
    tiers = [pool.tier(kind, acquireTimeout="1s", pricePerNodeHour=price) for kind, price in PRICES.items()]
    tiers[0]["acquireTimeout"] = "5s"  # two scrapes at least see that it waits
    profile = {"apiVersion": names.API_VERSION, "kind": names.PROFILE_KIND, "metadata": {"name": "grid"}}
    program = stub("--step-seconds", 0.04, "--data-seconds", 0.01, "--accuracy")
    manifest = job_manifest(cluster, namespace, "job", [], program, goal={"steps": 700})
    deadline = format_time((datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0))
    manifest["spec"]["capacity"] = {"profile": "grid", "deadline": deadline, "budget": "100000"}
    manifest["spec"]["checkpoint"]["every"] = "1s"
    apply(cluster, s3_secret(cluster), namespace=namespace)
    apply(cluster, {**profile, "spec": {"tiers": tiers}})
    apply(cluster, manifest)
    return Job(cluster, namespace, "job", manifest)


def lose_three_nodes(job: Job, cluster: Cluster) -> Raw:
    """Reclaim the node of the job three times; the status in the end."""
    seen: list[str] = []
    for kind in ("spot", "spot", "dedicated"):
        status = job.wait(
            f"running on {kind}",
            lambda s, kind=kind: (
                s.get("phase") == "Running"  # type: ignore[misc]
                and s["tier"] == kind
                and s["node"] not in seen
                and s["current"].get("firstStep")
            ),
        )
        seen.append(status["node"])
        cluster.reclaim(status["node"], NOTICE)
    return job.wait_phase("Completed")


@pytest.mark.thorough
def test_three_reclaims_are_in_the_books_and_in_every_picture(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    """Breaks if acquireTimeout is not kept, or if an attempt does not begin with the first tier.

    Or if the ledger or the operator's metrics differ from the status, or if a panel, a variable, an annotation or an
    alert asks Prometheus for what there is not.
    """
    start = time.time()
    with fresh_namespace(cluster) as namespace:
        job = submit(cluster, namespace, Pool(cluster, "p1").rent())
        done = lose_three_nodes(job, cluster)
        assert done["history"][-1]["tier"] == "cpu"
        assert done["restarts"]["interruptions"] == 3
        assert [entry["stepsLost"] for entry in done["history"] if entry["kind"] == "Interruption"] == [0, 0, 0]
        check_books(cluster, operator, job, done)
        check_pictures(cluster, start, tmp_path)


def check_books(cluster: Cluster, operator: OperatorProcess, job: Job, done: Raw) -> None:
    """The ledger and the metrics are those of the audit log and of the status."""
    replay = ledger_replay.Replay(PRICES).take(ledger_replay.statuses(job.writes()))
    ledger_replay.check(TrainingJobStatus.model_validate(done).ledger, replay)
    events = [event for event in audit_events(cluster) if event.get("objectRef", {}).get("namespace") == job.namespace]
    ledger_replay.check_times(replay, events)
    assert float(done["ledger"]["spent"]) > 0
    assert float(done["ledger"]["savedVersusDedicated"]) > 0, "dedicated costs more"
    assert operator.metric("holdfast_moves_total", reason="SpotInterruption") == 3
    assert operator.metric("holdfast_recovery_seconds_count", phase="restore") == 3
    of_job = {"job_namespace": job.namespace, "job_name": job.name}
    for one in done["ledger"]["byTier"]:
        tier = {"tier": one["tier"], **of_job}
        assert operator.metric("holdfast_job_tier_cost", **tier) == float(one["spent"])
    assert operator.metric("holdfast_job_lost_steps_total", **of_job) == 0
    assert operator.metric("holdfast_job_goodput_ratio", **of_job) == float(done["ledger"]["goodput"])


def is_quiet(cluster: Cluster, expression: str, end: float) -> bool:
    """Whether an alert has no value at the end. One scrape that was late on a busy machine makes a series absent."""
    moments = (end, end - 20, end - 40) if expression.lstrip().startswith("absent(") else (end,)
    return any(not has_values(cluster, expression, moment, moment) for moment in moments)


def check_pictures(cluster: Cluster, start: float, folder: Path) -> None:
    """No query errs, and what is empty is on a list here, which names nothing else."""
    end = wait_for_end(cluster, start)
    seconds = int(end - start) + STEP
    alerts = list(of_alerts())
    series = {one.who: selectors(cluster, one.expr) for one in alerts}
    asked = set().union(*series.values()) - SOMETIMES
    absent = {text for text in asked if not has_values(cluster, text, start, end)}
    without_series = {who for who, asked in series.items() if asked & ABSENT_SERIES.keys()}
    sometimes = {who for who, asked in series.items() if asked & SOMETIMES}
    found = {
        "panels": {one.who for one in of_dashboards() if not has_values(cluster, one.plain(seconds), start, end)},
        "alerts": {one.who for one in alerts if is_quiet(cluster, one.expr, end)},
        "series": absent,
        "of pint": {(who, problem) for who, problem in pint_online(cluster, folder) if who not in sometimes},
    }
    wanted = {
        "panels": set(EMPTY_PANELS),
        "alerts": set(QUIET_ALERTS),
        "series": set(ABSENT_SERIES),
        "of pint": {(who, "query on nonexistent series") for who in without_series},
    }
    assert {kind: found[kind] ^ wanted[kind] for kind in wanted} == {kind: set() for kind in wanted}


def wait_for_end(cluster: Cluster, start: float) -> float:
    """The moment at which Prometheus has scraped the end of the job."""
    over = 'holdfast_job_phase{phase="Completed"}'
    wait_for(lambda: has_values(cluster, over, start, time.time()), 30, "a scrape of the end of the job", every=0.5)
    return time.time()
