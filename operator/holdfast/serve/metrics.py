"""Metrics for Prometheus. Series of a job are made from the cache at every scrape, so they vanish with the job."""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase

PASS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ORDER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LABELS = ("namespace", "job")

log = logging.getLogger(__name__)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each one, which nobody reads


class JobCollector(Collector):
    """What every job says of itself."""

    def __init__(self, jobs: Callable[[], Iterable[TrainingJob]], now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._now = now

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series depend on the cluster."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One sample for each job and figure that it has."""
        phase = GaugeMetricFamily("holdfast_job_phase", "1 for the phase the job is in", labels=(*LABELS, "phase"))
        gauges = {
            name: GaugeMetricFamily(f"holdfast_job_{name}", text, labels=LABELS)
            for name, text in (
                ("step", "newest step that was reported"),
                ("goal_steps", "steps that the job is to reach"),
                ("loss", "newest loss that was reported"),
                ("percent_ratio", "share of the goal that is reached, 0 to 1"),
                ("attempt", "number of the newest attempt"),
                ("checkpoint_age_seconds", "time since the newest checkpoint was committed"),
                ("saved", "money saved against dedicated only; negative if more was spent"),
                ("goodput_ratio", "time in steps that were not lost over all time since the first one, 0 to 1"),
            )
        }
        counters = {
            name: CounterMetricFamily(f"holdfast_job_{name}", text, labels=LABELS)
            for name, text in (
                ("losses", "attempts that ended for a reason that is not the user's"),
                ("failures", "attempts that ended for the user's reason"),
                ("seconds_lost", "time between a last step and the next attempt's first one"),
                ("steps_lost", "steps that had to be done again"),
                ("spent", "money for nodes so far"),
            )
        }
        recovery = CounterMetricFamily(
            "holdfast_job_recovery_seconds", "time of interruptions by what was done in it", labels=(*LABELS, "part")
        )
        now = self._now()
        for job in self._jobs():
            labels = (job.metadata.namespace, job.metadata.name)
            try:
                figures, totals = list(_figures(job, now)), list(_totals(job))
                parts = list(_recovery(job))
            except Exception:  # one job must not take the metrics of all others away
                log.exception("this job's figures cannot be read", extra={"job": "/".join(labels)})
                continue
            for one in Phase:
                phase.add_metric((*labels, one.value), float(job.status.phase == one))
            for name, value in figures:
                gauges[name].add_metric(labels, value)
            for name, value in totals:
                counters[name].add_metric(labels, value)
            for name, value in parts:
                recovery.add_metric((*labels, name), value)
        yield phase
        yield from gauges.values()
        yield from counters.values()
        yield recovery


def _figures(job: TrainingJob, now: datetime) -> Iterator[tuple[str, float]]:
    status = job.status
    progress, goal = status.progress, job.spec.goal.steps or status.progress.steps
    yield "attempt", float(status.attempt)
    if progress.updated_at:
        yield "step", float(progress.step)
        if goal:
            yield "percent_ratio", min(1.0, progress.step / goal)
    if goal:
        yield "goal_steps", float(goal)
    if (loss := _number(progress.loss)) is not None:
        yield "loss", loss
    for name, text in (("saved", status.ledger.saved_versus_dedicated), ("goodput_ratio", status.ledger.goodput)):
        if (value := _number(text)) is not None:
            yield name, value
    if status.checkpoint:
        yield "checkpoint_age_seconds", max(0.0, (now - status.checkpoint.committed_at).total_seconds())


def _number(text: str | None) -> float | None:
    """The number, or None if the text is none: it came from a program that we do not know."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _totals(job: TrainingJob) -> Iterator[tuple[str, float]]:
    status = job.status
    lost: timedelta = status.ledger.seconds_lost
    yield "losses", float(status.restarts.losses)
    yield "failures", float(status.restarts.failures)
    yield "seconds_lost", lost.total_seconds()
    yield "steps_lost", float(status.ledger.steps_lost)
    yield "spent", float(status.ledger.spent)


def _recovery(job: TrainingJob) -> Iterator[tuple[str, float]]:
    parts = job.status.ledger.recovery
    for name in ("notice", "acquire", "start", "restore", "replay"):
        part: timedelta = getattr(parts, name)
        yield name, part.total_seconds()


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

    def scrape(self) -> bytes:
        """All series in Prometheus' text format."""
        return generate_latest(self.registry)
