"""Metrics of the operator for Prometheus: what it does and sees happen.

collectors.py has those of jobs, fleet.py the sums over all jobs, exposition.py renders the page.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import product
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import TierKind
from holdfast.api.status import Phase
from holdfast.core.observe.report import SavedCheckpoint
from holdfast.core.status.acquisitions import RESULTS, acquisitions
from holdfast.core.status.node_exits import REASONS, new_recoveries, node_exits
from holdfast.serve.collectors import PHASES

PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ORDER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CALL_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 30)
LAG_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
SAVE_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)
SAVE_BYTES = tuple(float(4**power) for power in range(10, 22))  # 1 MiB to 4 TiB
ACQUIRE_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)
RECOVERY_SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nothing reads


class ReadAtScrape(Collector):
    """A metric whose series are read at every scrape: label values -> value."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        self._name, self._text, self._labels, self._read = name, text, labels, read

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series depend on the moment."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The series now. A name that ends with _total is a counter."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._text, labels=self._labels)
        for values, number in self._read().items():
            family.add_metric(values, number)
        yield family


class Metrics:
    """The operator's own metrics, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        build = self._gauge("build_info", "Version of the operator; always 1", "version", "python")
        build.labels(version("holdfast"), platform.python_version()).set(1)
        self.passes = self._counter("reconcile", "Passes over a job, by result", "result")
        self.pass_seconds = self._histogram("reconcile_duration_seconds", "Duration of a pass over a job", PASS_SECONDS)
        self.rules = self._counter("decisions", "Rows of the transition table that fired", "rule")
        self.calls = self._counter("api_requests", "Requests to the API server", "verb", "resource", "code")
        self.call_seconds = self._histogram(
            "api_request_duration_seconds", "Duration of a request to the API server", CALL_SECONDS, "verb"
        )
        self.lag_seconds = self._histogram(
            "event_loop_lag_seconds", "How much later than asked the event loop continues a task", LAG_SECONDS
        )
        self.watches = self._counter("watch_connects", "Watches opened", "resource")
        self.reports = self._counter("progress_requests", "Requests of pods to the progress endpoint", "route", "code")
        self.orders = self._counter("orders_delivered", "Orders sent to pods", "type")
        self.order_seconds = self._histogram(
            "order_delivery_seconds", "Seconds from the decision until the order is sent to the pod", ORDER_SECONDS
        )
        self._add_metrics_of_attempts()
        self._begin_at_zero()

    def _add_metrics_of_attempts(self) -> None:
        self.moves = self._counter(
            "moves",
            "Attempts that left their node although training was neither complete nor failed, by reason",
            "tier_kind",
            "reason",
        )
        self.ended = self._counter("jobs_ended", "Jobs that ended, by their last phase", "phase")
        self.lost_steps = self._counter("lost_steps", "Steps that were trained again after an interruption")
        self.acquire_seconds = self._histogram(
            "acquire_seconds",
            "Seconds until an attempt had its nodes, or gave up",
            ACQUIRE_SECONDS,
            "tier_kind",
            "result",
        )
        self.save_seconds = self._histogram(
            "checkpoint_save_seconds", "Seconds from the beginning of a save to its commit", SAVE_SECONDS
        )
        self.save_bytes = self._histogram("checkpoint_save_bytes", "Size of a committed checkpoint", SAVE_BYTES)
        self.recovery_seconds = self._histogram(
            "recovery_seconds",
            "Seconds of each phase of a recovery; their sum is from the last step until lost steps are trained again",
            RECOVERY_SECONDS,
            "phase",
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"holdfast_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"holdfast_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"holdfast_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _begin_at_zero(self) -> None:
        """Create the series of rare events with value 0: `increase` does not count the first value of a new series."""
        self.passes.labels("error")
        for kind, reason in product(get_args(TierKind), sorted(REASONS)):
            self.moves.labels(kind, reason)
        for phase in PHASES:
            self.recovery_seconds.labels(phase)
        for kind, result in product(get_args(TierKind), RESULTS):
            self.acquire_seconds.labels(kind, result)
        for last in (Phase.COMPLETED, Phase.FAILED):
            self.ended.labels(last.value)

    def read(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Add a metric whose value is read at every scrape; absent if it is None. A counter's name ends with _total."""

        def series() -> Mapping[tuple[str, ...], float]:
            value = read()
            return {} if value is None else {(): float(value)}

        self.registry.register(ReadAtScrape(f"holdfast_{name}", text, (), series))

    def read_by(self, label: str, name: str, text: str, read: Callable[[], Mapping[str, float]]) -> None:
        """The same with one label: `read` returns value of the label -> value."""
        full = f"holdfast_{name}"
        self.registry.register(ReadAtScrape(full, text, (label,), lambda: {(key,): v for key, v in read().items()}))

    def observe_pass(self, result: str, seconds: float, rules: tuple[str, ...]) -> None:
        """Count one pass over a job."""
        self.passes.labels(result).inc()
        self.pass_seconds.observe(seconds)
        for rule in rules:
            self.rules.labels(rule.partition(":")[0][:64]).inc()

    def observe_call(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count one request to the API server."""
        self.calls.labels(verb, resource, str(status)).inc()
        self.call_seconds.labels(verb).observe(seconds)

    def observe_request(self, route: str, status: int) -> None:
        """Count one request of a pod."""
        self.reports.labels(route, str(status)).inc()

    def observe_order(self, kind: str, seconds: float) -> None:
        """Count one order that was sent to its pod."""
        self.orders.labels(kind).inc()
        self.order_seconds.observe(seconds)

    def observe_checkpoint(self, saved: SavedCheckpoint) -> None:
        """Count one commit that a trainer reported."""
        self.save_seconds.observe(saved.took.total_seconds())
        self.save_bytes.observe(saved.bytes)

    def observe_change(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        """Count what is new in a job's status: attempts that left their nodes, recoveries that are complete."""
        if before is None or after is None:  # a job that was just added or removed: its history was counted before
            return
        for move in node_exits(before.status, after.status):
            self.moves.labels(move.kind, move.reason).inc()
        for one in acquisitions(before.status, after.status):
            self.acquire_seconds.labels(one.kind, one.result).observe(one.took.total_seconds())
        self.lost_steps.inc(max(after.status.ledger.steps_lost - before.status.ledger.steps_lost, 0))
        was, last = before.status.phase, after.status.phase
        if last and last.final and not (was and was.final):
            self.ended.labels(last.value).inc()
        for recovery in new_recoveries(before.status, after.status):
            for phase in PHASES:
                self.recovery_seconds.labels(phase).observe(getattr(recovery, phase).total_seconds())
