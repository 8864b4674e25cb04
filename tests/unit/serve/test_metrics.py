"""The operator's own series: of this process, counted as it works."""

from datetime import timedelta
from itertools import pairwise

from prometheus_client import generate_latest
from tests.support.decisions.snapshots import at, job, status
from tests.support.operator.fake_api_server import T0

from holdfast.api.attempt import AttemptRecord, EndKind, Recovery
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Ledger, Phase, TierTotals
from holdfast.core.observe.report import SavedCheckpoint
from holdfast.core.status.node_exits import REASONS
from holdfast.serve.metrics import Metrics


def record(number: int, reason: str = "SpotInterruption", recovery: Recovery | None = None) -> AttemptRecord:
    return AttemptRecord(
        number=number,
        tier="spot",
        kind=EndKind.INTERRUPTION,
        reason=reason,
        raised_at=at(-900),
        scheduled_at=at(-800),
        ended_at=at(-60),
        recovery=recovery,
        steps_lost=None if recovery is None else 0,
    )


def lived(*history: AttemptRecord) -> TrainingJob:
    """A job with these attempts behind it."""
    totals = (TierTotals(tier="spot", kind="Spot", attempts=len(history)),)
    return job(status(history=history, ledger=Ledger(attempts=len(history), by_tier=totals)))


def test_the_operators_own_series() -> None:
    metrics = Metrics()
    metrics.observe_pass("applied", 0.01, ("notice: taint", "notice: taint"))
    metrics.observe_call("patch", "pods", 409, 0.1)
    metrics.observe_order("drain", 0.002)
    metrics.read("queue_depth", "x", lambda: 4)
    metrics.read("resync_age_seconds", "x", lambda: None)
    metrics.read("events_dropped_total", "x", lambda: 2)
    metrics.read_by("resource", "watch_age_seconds", "x", lambda: {"pods": 1.5})
    metrics.observe_checkpoint(SavedCheckpoint(5, "s3://b/p", 2**20, T0, timedelta(seconds=20)))
    text = generate_latest(metrics.registry).decode()
    for line in (
        'holdfast_reconcile_total{result="applied"} 1.0',
        'holdfast_decisions_total{rule="notice"} 2.0',
        'holdfast_api_requests_total{code="409",resource="pods",verb="patch"} 1.0',
        'holdfast_orders_delivered_total{type="drain"} 1.0',
        "holdfast_queue_depth 4.0",
        "# TYPE holdfast_events_dropped_total counter",
        "holdfast_events_dropped_total 2.0",
        'holdfast_watch_age_seconds{resource="pods"} 1.5',
        'holdfast_api_request_duration_seconds_sum{verb="patch"} 0.1',
        'holdfast_checkpoint_save_seconds_bucket{le="15.0"} 0.0',
        'holdfast_checkpoint_save_seconds_bucket{le="30.0"} 1.0',
        "holdfast_checkpoint_save_bytes_sum 1.048576e+06",
        "process_resident_memory_bytes",
        "python_gc_collections_total",
        "holdfast_build_info{",
    ):
        assert line in text
    assert "_created" not in text
    assert "holdfast_resync_age_seconds " not in text.replace("# HELP holdfast_resync_age_seconds ", "").replace(
        "# TYPE holdfast_resync_age_seconds ", ""
    )


SPENT = Recovery(notice=timedelta(seconds=2), acquire=timedelta(minutes=10))
# An interruption; what it took is known; the next interruption.
LIFE = (
    lived(),
    lived(record(1)),
    lived(record(1, recovery=SPENT)),
    lived(record(1, recovery=SPENT), record(2, "x" * 64)),
)


def test_moves_and_recoveries_of_all_jobs() -> None:
    metrics = Metrics()
    for before, after in pairwise(LIFE):
        metrics.observe_change(before, after)
    text = generate_latest(metrics.registry).decode()
    for line in (
        'holdfast_moves_total{reason="SpotInterruption",tier_kind="Spot"} 1.0',
        'holdfast_moves_total{reason="Other",tier_kind="Spot"} 1.0',
        'holdfast_recovery_seconds_bucket{le="300.0",phase="acquire"} 0.0',
        'holdfast_recovery_seconds_bucket{le="600.0",phase="acquire"} 1.0',
        'holdfast_recovery_seconds_sum{phase="acquire"} 600.0',
        'holdfast_recovery_seconds_sum{phase="notice"} 2.0',
        'holdfast_recovery_seconds_count{phase="replay"} 1.0',
    ):
        assert line in text
    assert "xx" not in text


# Breaks if the first interruption of a reason after a restart is not counted by `increase`, or series come without end.
def test_what_is_rare_begins_at_zero_and_is_bounded() -> None:
    lines = generate_latest(Metrics().registry).decode().splitlines()
    moves = [line for line in lines if line.startswith("holdfast_moves_total{")]
    assert len(moves) == 3 * len(REASONS)
    assert 'holdfast_moves_total{reason="KeepingDeadline",tier_kind="Spot"} 0.0' in moves
    assert 'holdfast_recovery_seconds_count{phase="restore"} 0.0' in lines


def test_the_end_of_a_job_and_what_it_repeated_are_counted_once() -> None:
    metrics = Metrics()
    trains = job(status(phase=Phase.RUNNING, ledger=Ledger(steps_lost=3)))
    over = job(status(phase=Phase.COMPLETED, ledger=Ledger(steps_lost=8)))
    for before, after in ((trains, over), (over, over), (None, trains)):
        metrics.observe_change(before, after)
    text = generate_latest(metrics.registry).decode()
    assert 'holdfast_jobs_ended_total{phase="Completed"} 1.0' in text
    assert 'holdfast_jobs_ended_total{phase="Failed"} 0.0' in text
    assert "holdfast_lost_steps_total 5.0" in text
