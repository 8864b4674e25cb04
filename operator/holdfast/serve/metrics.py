"""Metrics of the operator for Prometheus. collectors.py has those of jobs, exposition.py renders the page."""

from collections.abc import Callable
from itertools import product
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import TierKind
from holdfast.core.status.node_exits import REASONS, new_recoveries, node_exits
from holdfast.serve.collectors import PHASES

PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ORDER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECOVERY_SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nothing reads


class Metrics:
    """The operator's own metrics, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter("holdfast_reconcile", "Passes over a job, by result", ["result"], registry=self.registry)
        self.pass_seconds = Histogram(
            "holdfast_reconcile_seconds", "Duration of a pass over a job", buckets=PASS_SECONDS, registry=self.registry
        )
        self.rules = Counter(
            "holdfast_decisions", "Rows of the transition table that fired", ["rule"], registry=self.registry
        )
        self.calls = Counter(
            "holdfast_api_requests", "Requests to the API server", ["verb", "resource", "code"], registry=self.registry
        )
        self.watches = Counter("holdfast_watch_connects", "Watches opened", ["resource"], registry=self.registry)
        self.reports = Counter(
            "holdfast_progress_requests",
            "Requests of pods to the progress endpoint",
            ["route", "code"],
            registry=self.registry,
        )
        self.orders = Counter("holdfast_orders_delivered", "Orders sent to pods", ["type"], registry=self.registry)
        self.order_seconds = Histogram(
            "holdfast_order_delivery_seconds",
            "Seconds from the decision until the order is sent to the pod",
            buckets=ORDER_SECONDS,
            registry=self.registry,
        )
        self.moves = Counter(
            "holdfast_moves",
            "Attempts that left their node although training was neither complete nor failed, by reason",
            ["tier_kind", "reason"],
            registry=self.registry,
        )
        self.recovery_seconds = Histogram(
            "holdfast_recovery_seconds",
            "Seconds of each phase of a recovery; their sum is from the last step until lost steps are trained again",
            ["phase"],
            buckets=RECOVERY_SECONDS,
            registry=self.registry,
        )
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Create the series of rare events with value 0: `increase` does not count the first value of a new series."""
        for kind, reason in product(get_args(TierKind), sorted(REASONS)):
            self.moves.labels(kind, reason)
        for phase in PHASES:
            self.recovery_seconds.labels(phase)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read at every scrape."""
        Gauge(f"holdfast_{name}", text, registry=self.registry).set_function(read)

    def observe_pass(self, result: str, seconds: float, rules: tuple[str, ...]) -> None:
        """Count one pass over a job."""
        self.passes.labels(result).inc()
        self.pass_seconds.observe(seconds)
        for rule in rules:
            self.rules.labels(rule.partition(":")[0][:64]).inc()

    def observe_call(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request to the API server."""
        del seconds
        self.calls.labels(verb, resource, str(status)).inc()

    def observe_request(self, route: str, status: int) -> None:
        """Count one request of a pod."""
        self.reports.labels(route, str(status)).inc()

    def observe_order(self, kind: str, seconds: float) -> None:
        """Count one order that was sent to its pod."""
        self.orders.labels(kind).inc()
        self.order_seconds.observe(seconds)

    def observe_change(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        """Count what is new in a job's status: attempts that left their nodes, recoveries that are complete."""
        if before is None or after is None:  # a job that was just added or removed: its history was counted before
            return
        for move in node_exits(before.status, after.status):
            self.moves.labels(move.kind, move.reason).inc()
        for recovery in new_recoveries(before.status, after.status):
            for phase in PHASES:
                self.recovery_seconds.labels(phase).observe(getattr(recovery, phase).total_seconds())
