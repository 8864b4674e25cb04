"""An independent computation of a job's cost, from every status that was written and the price list."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.support.decisions.snapshots import NOW

from holdfast.api.attempt import AttemptRecord, EndKind, Recovery
from holdfast.api.names import TRAINER_CONTAINER
from holdfast.api.scalars import parse_time
from holdfast.api.status import Ledger, TrainingJobStatus
from holdfast.core.books.ledger import by_tier
from holdfast.core.status.node_exits import known_reason, new_recoveries, node_exits

Raw = Mapping[str, Any]


@dataclass
class Sums:
    """The ledger's sums of one tier as plain numbers. Money in hundredths of a cent, time in microseconds."""

    attempts: int = 0
    spent: int = 0
    estimated: int = 0
    steps: int = 0
    steps_lost: int = 0
    training: int = 0


@dataclass
class Replay:
    """All attempts of a job that are over, each as it was last written."""

    prices: Mapping[str, str]
    records: dict[int, AttemptRecord] = field(default_factory=dict)

    def take(self, statuses: Iterable[TrainingJobStatus]) -> "Replay":
        """Read statuses in the order in which they were written."""
        for status in statuses:
            self.records |= {record.number: record for record in status.history}
        return self

    def cost(self, record: AttemptRecord) -> int:
        """Hundredths of a cent for the time that it had its node."""
        if record.scheduled_at is None or record.tier not in self.prices:
            return 0
        used = max(_microseconds(record.ended_at - record.scheduled_at), 0)
        return round(Fraction(self.prices[record.tier]) * used * 10_000 / 3_600_000_000)

    def by_tier(self) -> dict[str, Sums]:
        """The sums by tier, of attempts that had a node. A lost step counts for the tier that trained it last."""
        sums: dict[str, Sums] = {}
        trained_on: dict[int, str] = {}
        for _, record in sorted(self.records.items()):
            if record.scheduled_at is None:
                continue
            one = sums.setdefault(record.tier, Sums())
            one.attempts += 1
            one.spent += self.cost(record)
            one.estimated += self.cost(record) if record.estimated else 0
            one.steps += record.steps_trained
            last = record.last_step or 0
            if record.first_step is not None:
                trained_on |= dict.fromkeys(range(record.first_step, last + 1), record.tier)
            for step in range(last - (record.steps_lost or 0) + 1, last + 1):
                sums[trained_on.get(step, record.tier)].steps_lost += 1
            if record.first_step_at and record.last_step_at:
                one.training += max(_microseconds(record.last_step_at - record.first_step_at), 0)
        return sums

    def seconds_lost(self) -> int:
        """Microseconds between last and first steps."""
        return sum(_microseconds(record.seconds_lost) for record in self.records.values() if record.seconds_lost)


def statuses(writes: Iterable[Raw]) -> Iterator[TrainingJobStatus]:
    """Every status of one job, oldest first, from the writes that the API server's audit log holds."""
    status: Raw = {}
    for write in writes:
        if write["objectRef"]["resource"] == "trainingjobs" and write["objectRef"].get("subresource") == "status":
            status = _merged(status, write["requestObject"].get("status") or {})
            yield TrainingJobStatus.model_validate(status)


def _merged(target: Raw, patch: Raw) -> Raw:
    """The object after a JSON merge patch (RFC 7386)."""
    changed = {
        key: _merged(target.get(key) or {}, value) if isinstance(value, dict) else value for key, value in patch.items()
    }
    return {key: value for key, value in {**target, **changed}.items() if value is not None}


def check_times(replay: Replay, events: Iterable[Raw]) -> None:
    """Check that the replay's times are those at which the cluster bound the pods and their trainers ended."""
    bound: dict[str, datetime] = {}
    ended: dict[str, datetime] = {}
    for event in events:
        ref, body = event["objectRef"], event.get("requestObject") or {}
        if ref.get("resource") != "pods" or event.get("stage") != "ResponseComplete" or isinstance(body, list):
            continue  # JSON patches only remove finalizers
        if ref.get("subresource") == "binding":
            bound[ref["name"]] = parse_time(event["requestReceivedTimestamp"])
        for container in (body.get("status") or {}).get("containerStatuses") or ():
            over = (container.get("state") or {}).get("terminated")
            if over and container["name"] == TRAINER_CONTAINER:
                ended[ref["name"]] = parse_time(over["finishedAt"])
    for record in replay.records.values():
        pod = next((name for name in bound if name.endswith(f"-{record.number}-0")), None)
        assert (record.scheduled_at is None) == (pod is None), (
            f"attempt {record.number} had a node exactly if a pod was bound"
        )
        if pod and record.scheduled_at:
            assert abs(record.scheduled_at - bound[pod]) < timedelta(seconds=2), "the scheduler writes whole seconds"
            assert record.estimated or record.ended_at == max(ended[pod], record.started_at or record.scheduled_at)


def of(ledger: Ledger) -> dict[str, Sums]:
    """The ledger's sums by tier."""
    return {
        one.tier: Sums(
            attempts=one.attempts,
            spent=_units(one.spent),
            estimated=_units(one.estimated),
            steps=one.steps_trained,
            steps_lost=one.steps_lost,
            training=_microseconds(one.training),
        )
        for one in ledger.by_tier
    }


def check(ledger: Ledger, replay: Replay) -> None:
    """Check that every number of the ledger is that of the replay, that they agree, and that times are in order."""
    assert of(ledger) == replay.by_tier()
    assert ledger.attempts == len(replay.records)
    assert ledger.steps_lost == sum(record.steps_lost or 0 for record in replay.records.values())
    assert _microseconds(ledger.seconds_lost) == replay.seconds_lost()
    for record in replay.records.values():
        times = [at for at in (record.raised_at, record.scheduled_at, record.started_at, record.ended_at) if at]
        assert times == sorted(times), f"attempt {record.number}: raised, on a node, started, ended, in this order"
    parts = ledger.recovery
    assert parts.notice + parts.acquire + parts.start + parts.restore == ledger.seconds_lost


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def check_counters(statuses: Sequence[TrainingJobStatus], replay: Replay) -> None:
    """Check that each event is counted once between consecutive statuses, and that growing numbers never fall."""
    steps = list(pairwise(statuses))
    left = [
        one
        for one in replay.records.values()
        if one.scheduled_at and one.kind in (EndKind.INTERRUPTION, EndKind.STOPPED)
    ]
    moved = [move for before, after in steps for move in node_exits(before, after)]
    assert sorted(move.reason for move in moved) == sorted(known_reason(one.reason) for one in left)
    spans = [recovery for before, after in steps for recovery in new_recoveries(before, after)]
    for phase in Recovery.model_fields:
        total = sum((getattr(one, phase) for one in spans), timedelta(0))
        assert total == getattr(statuses[-1].ledger.recovery, phase)
    for before, after in steps:
        had, has = ({one.tier: one.attempts for one in by_tier(status, NOW)} for status in (before, after))
        assert all(count <= has.get(tier, 0) for tier, count in had.items())


def _units(money: Decimal) -> int:
    return int(money * 10_000)
