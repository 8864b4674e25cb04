"""Metrics for Prometheus. Series of jobs are made from the cache at every scrape, see collectors.py."""

from collections.abc import Callable
from itertools import product
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import TierKind
from holdfast.core.status.node_exits import REASONS, moves, recoveries
from holdfast.serve.collectors import PHASES

PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ORDER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECOVERY_SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each one, which nobody reads


class Metrics:
    """The operator's own series, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter("holdfast_reconcile", "Passes over a job, by result", ["result"], registry=self.registry)
        self.pass_seconds = Histogram(
            "holdfast_reconcile_seconds", "Duration of a pass", buckets=PASS_SECONDS, registry=self.registry
        )
        self.rules = Counter("holdfast_decisions", "Rules that fired", ["rule"], registry=self.registry)
        self.calls = Counter(
            "holdfast_api_requests", "Requests to the API server", ["verb", "resource", "code"], registry=self.registry
        )
        self.watches = Counter("holdfast_watch_connects", "Watches opened", ["resource"], registry=self.registry)
        self.reports = Counter(
            "holdfast_progress_requests", "Requests of pods", ["route", "code"], registry=self.registry
        )
        self.orders = Counter("holdfast_orders_delivered", "Orders handed out", ["type"], registry=self.registry)
        self.order_seconds = Histogram(
            "holdfast_order_delivery_seconds",
            "Time from the decision to the moment the order is handed to the pod",
            buckets=ORDER_SECONDS,
            registry=self.registry,
        )
        self.moves = Counter(
            "holdfast_moves",
            "Attempts that left their node before training was complete or had failed, by reason",
            ["tier_kind", "reason"],
            registry=self.registry,
        )
        self.recovery_seconds = Histogram(
            "holdfast_recovery_seconds",
            "Duration of each phase of a recovery; together from a last step until what was lost is done again",
            ["phase"],
            buckets=RECOVERY_SECONDS,
            registry=self.registry,
        )
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Make the series of what is rare: `increase` does not count the first of a series that begins with it."""
        for kind, reason in product(get_args(TierKind), sorted(REASONS)):
            self.moves.labels(kind, reason)
        for phase in PHASES:
            self.recovery_seconds.labels(phase)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A figure that is read at every scrape."""
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
        """Count one order that reached its pod."""
        self.orders.labels(kind).inc()
        self.order_seconds.observe(seconds)

    def observe_change(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        """Count what a job's newer version tells: attempts that left their nodes, interruptions that are over."""
        if before is None or after is None:  # who has just come, or is gone, tells of what others have counted
            return
        for move in moves(before.status, after.status):
            self.moves.labels(move.kind, move.reason).inc()
        for recovery in recoveries(before.status, after.status):
            for phase in PHASES:
                self.recovery_seconds.labels(phase).observe(getattr(recovery, phase).total_seconds())

    def scrape(self) -> bytes:
        """All series in Prometheus' text format."""
        return generate_latest(self.registry)
