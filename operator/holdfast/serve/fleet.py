"""Metrics of all jobs together, and of capacity profiles. One look at every job is taken at each rendering."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.api.knowledge import Seen
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.books.ledger import by_tier
from holdfast.serve.collectors import spend_by_kind


class Fleet(Collector):
    """Sums over all jobs. `begin`, `add` for every job and `end` make the sums that the next scrapes show.

    The costs are a counter, which goes on when a job is deleted: what a job spends is added from the moment at which
    this process first sees it.
    """

    def __init__(self) -> None:
        self._jobs: Counter[tuple[str, str]] = Counter()
        self._rates: dict[str, float] = {}
        self._omitted = 0
        self._cost: dict[str, float] = {}
        self._seen: dict[str, Mapping[str, float]] = {}  # by job UID: cost by kind of tier
        self._next = _Sums()

    def begin(self) -> None:
        """Start over with no job."""
        self._next = _Sums()

    def add(self, job: TrainingJob, now: datetime) -> None:
        """Count one job."""
        status, sums = job.status, self._next
        sums.jobs[job.metadata.namespace, status.phase.value if status.phase else "Pending"] += 1
        for kind, rate in spend_by_kind(status).items():
            sums.rates[kind] = sums.rates.get(kind, 0.0) + rate
        spent: dict[str, float] = {}
        for one in by_tier(status, now):
            spent[one.kind] = spent.get(one.kind, 0.0) + float(one.spent)
        before = self._seen.get(job.metadata.uid, spent)
        for kind, amount in spent.items():
            grown = max(amount - before.get(kind, 0.0), 0.0)
            self._cost[kind] = self._cost.get(kind, 0.0) + grown
        sums.seen[job.metadata.uid] = {kind: max(spent[kind], before.get(kind, 0.0)) for kind in spent}

    def omit(self) -> None:
        """Note that one job has no series of its own."""
        self._next.omitted += 1

    def end(self) -> None:
        """Show these sums."""
        sums = self._next
        self._jobs, self._rates, self._omitted, self._seen = sums.jobs, sums.rates, sums.omitted, sums.seen

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series depend on the cluster."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The sums of the last rendering."""
        jobs = GaugeMetricFamily("holdfast_jobs", "Jobs, by phase", labels=("job_namespace", "phase"))
        for (namespace, phase), number in sorted(self._jobs.items()):
            jobs.add_metric((namespace, phase), number)
        yield jobs
        yield GaugeMetricFamily(
            "holdfast_jobs_omitted", "Jobs that have no series of their own, because there are too many", self._omitted
        )
        rates = GaugeMetricFamily(
            "holdfast_spend_per_hour",
            "Money per hour for the nodes that all jobs have now, in the currency of the prices",
            labels=("tier_kind",),
        )
        for kind, rate in sorted(self._rates.items()):
            rates.add_metric((kind,), rate)
        yield rates
        cost = CounterMetricFamily(
            "holdfast_cost", "Money spent on nodes while this process led, in the currency of the prices",
            labels=("tier_kind",),
        )  # fmt: skip
        for kind, amount in sorted(self._cost.items()):
            cost.add_metric((kind,), amount)
        yield cost


class _Sums:
    """The sums of a rendering that is not complete."""

    def __init__(self) -> None:
        self.jobs: Counter[tuple[str, str]] = Counter()
        self.rates: dict[str, float] = {}
        self.omitted = 0
        self.seen: dict[str, Mapping[str, float]] = {}


class ProfileCollector(Collector):
    """What the jobs of the cluster observed of the tiers of capacity profiles."""

    def __init__(self, profiles: Callable[[], Iterable[CapacityProfile]]) -> None:
        self._profiles = profiles

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series depend on the cluster."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One sample for each tier that was observed."""
        up = GaugeMetricFamily(
            "holdfast_profile_tier_up",
            "1 if the tier gave a node when it was last observed, 0 if it gave none in time or took one back",
            labels=("profile", "tier", "tier_kind"),
        )
        for profile in self._profiles():
            known = {one.tier: one.state for one in profile.status.tiers}
            for tier in profile.spec.tiers:
                if state := known.get(tier.name):
                    up.add_metric((profile.metadata.name, tier.name, tier.kind), float(state is Seen.UP))
        yield up
