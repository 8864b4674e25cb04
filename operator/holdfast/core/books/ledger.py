"""The ledger: what attempts cost, and what interruptions cost. Money and hours are exact decimals, never floats.

The patch that puts an attempt into history also adds it to the totals of its tier, so a crash cannot count it twice.
The cost of an interruption is added when the next attempt takes its first step.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

from holdfast.api.attempt import Attempt, AttemptRecord, Recovery
from holdfast.api.knowledge import MAX_TIERS
from holdfast.api.profile import ProfileTier, TierKind
from holdfast.api.scalars import MONEY_MAXIMUM
from holdfast.api.status import Ledger, TierTotals, TrainingJobStatus
from holdfast.core.observe.members import births, held_time, node_time
from holdfast.core.observe.pods import PodView

MICROSECOND = timedelta(microseconds=1)
MICROSECONDS_PER_HOUR = 3_600_000_000
MONEY = Decimal("0.0001")  # to a hundredth of a cent
HOURS = Decimal("0.000001")
RATIO = Decimal("0.001")
OTHERS = "(others)"  # all further tiers of a grid that was edited very often

Sums = TypeVar("Sums", TierTotals, Recovery)


def hours(span: timedelta) -> Decimal:
    """A time span in hours, to a millionth; 0 if it is negative."""
    return (Decimal(max(span, timedelta(0)) // MICROSECOND) / MICROSECONDS_PER_HOUR).quantize(HOURS)


def price_of(price: Decimal, span: timedelta) -> Decimal:
    """The cost of a node for a time span, to a hundredth of a cent; `price` is per hour."""
    return _capped((price * (max(span, timedelta(0)) // MICROSECOND) / MICROSECONDS_PER_HOUR).quantize(MONEY))


def _capped(money: Decimal) -> Decimal:
    """The amount, at most the largest that the API can hold: an absurd price must not make the status invalid."""
    return min(money, Decimal(MONEY_MAXIMUM))


def charge(attempt: Attempt, scheduled_at: datetime | None, until: datetime) -> Decimal | None:
    """The cost of an attempt's nodes from `scheduled_at` on; None if it had no node or its tier has no price."""
    price = attempt.tier.price_per_node_hour
    if not _had_nodes(attempt, scheduled_at) or (price is None and attempt.priced_at is None):
        return None
    used = node_time(attempt, scheduled_at, until, since=attempt.priced_at)
    return _capped(attempt.charged + (price_of(price, used) if price is not None else Decimal(0)))


def _had_nodes(attempt: Attempt, scheduled_at: datetime | None) -> bool:
    return scheduled_at is not None or attempt.inherited_at is not None or bool(attempt.held_for) or attempt.holds > 0


def hold(attempt: Attempt, pods: Iterable[PodView], until: datetime) -> Attempt:
    """The attempt with the node time up to `until` of the pods that it created, while others of them have no node."""
    own = tuple(pods)
    used, since = held_time(attempt, own, until), attempt.priced_at
    new = held_time(attempt, own, until, since=since) if since else used
    return _with_time(attempt, used, new).model_copy(update={"holds": 0, "held_since": None})


def take_off(attempt: Attempt, pods: Iterable[PodView], ranks: Container[int], until: datetime) -> Attempt:
    """The attempt with the node time up to `until` of pods of several that do not count from then on."""
    gone, since, born = [pod for pod in pods if pod.rank in ranks and pod.node], attempt.priced_at, births(attempt)
    own = [pod for pod in gone if born[pod.rank] == attempt.number]
    used, new = held_time(attempt, own, until), held_time(attempt, own, until, since=since)
    if attempt.inherited_at:
        kept = sum(born[rank] != attempt.number for rank in range(attempt.nodes) if rank in ranks)
        used += kept * max(until - attempt.inherited_at, timedelta(0))
        new += kept * max(until - max(attempt.inherited_at, since or attempt.inherited_at), timedelta(0))
    return _with_time(attempt, used, new)


def _with_time(attempt: Attempt, used: timedelta, new: timedelta) -> Attempt:
    """The attempt with more node time; its price was charged already, but for the part `new`."""
    price, held = attempt.tier.price_per_node_hour, attempt.held_for + used
    if attempt.priced_at is None or price is None:  # the time is charged with all other time
        return attempt.model_copy(update={"held_for": held})
    charged = _capped(attempt.charged + price_of(price, new))
    return attempt.model_copy(update={"held_for": held, "charged": charged})


def held_before(
    attempt: Attempt, pods: Iterable[PodView], until: datetime, keep: Container[int] = ()
) -> dict[str, object]:
    """The fields of an attempt that another one gets which takes its place without a record of it.

    `pods` are its pods, of which those of the ranks `keep` go on, and are paid for as before.
    """
    gone = [rank for rank in range(attempt.nodes) if rank not in keep]
    held = take_off(attempt, pods, gone, until)
    return {"held_for": held.held_for, "charged": held.charged, "priced_at": held.priced_at}


def node_hours(attempt: Attempt, scheduled_at: datetime | None, until: datetime) -> Decimal:
    """The same in hours."""
    used = node_time(attempt, scheduled_at, until)
    return hours(used) if used else Decimal(0)


def reprice(attempt: Attempt, price: Decimal | None, now: datetime) -> Attempt:
    """The attempt with another price of its tier from now on."""
    tier = attempt.tier.model_copy(update={"price_per_node_hour": price})
    if not _had_nodes(attempt, attempt.scheduled_at):
        return attempt.model_copy(update={"tier": tier})
    charged = charge(attempt, attempt.scheduled_at, now) or Decimal(0)
    return attempt.model_copy(update={"tier": tier, "charged": charged, "priced_at": now})


def add_record(ledger: Ledger, record: AttemptRecord, kind: TierKind, nodes: int = 1) -> Ledger:
    """The ledger with one more attempt that is over; it had so many nodes at once."""
    ran = ledger.ran_at or record.started_at
    update: dict[str, Any] = {"attempts": ledger.attempts + 1, "ran_at": ran}
    if record.scheduled_at is not None or record.node_hours:
        cost, used = record.cost or Decimal(0), record.node_hours
        if used is None:
            used = hours(record.ended_at - record.scheduled_at) if record.scheduled_at else Decimal(0)
        totals = TierTotals(
            tier=record.tier,
            kind=kind,
            attempts=1,
            node_hours=used,
            spent=cost,
            estimated=cost if record.estimated else Decimal(0),
            steps_trained=record.steps_trained,
            training=trained(record),
            training_hours=nodes * hours(trained(record)),
        )
        update["by_tier"] = _add(ledger.by_tier, totals)
    return ledger.model_copy(update=update)


def settle(ledger: Ledger, before: AttemptRecord, after: AttemptRecord, lost_by_tier: Mapping[str, int]) -> Ledger:
    """The ledger with the cost of an attempt's end, once that is known; `after` is the record that contains it.

    `lost_by_tier`: the lost steps by the tier on which they were trained.
    """
    totals = list(ledger.by_tier)
    if (place := _place(ledger.by_tier, after.tier)) is not None:
        proved = after.steps_trained - before.steps_trained
        totals[place] = totals[place].model_copy(update={"steps_trained": totals[place].steps_trained + proved})
    for tier, lost in lost_by_tier.items():
        if (place := _place(ledger.by_tier, tier)) is not None:
            totals[place] = totals[place].model_copy(update={"steps_lost": totals[place].steps_lost + lost})
    update = {
        "by_tier": tuple(totals),
        "steps_lost": ledger.steps_lost + (after.steps_lost or 0),
        "uncounted_restarts": ledger.uncounted_restarts + (after.steps_lost is None),
        "seconds_lost": ledger.seconds_lost + (after.seconds_lost or timedelta(0)),
        "recovery": _sum(ledger.recovery, after.recovery or Recovery()),
    }
    return ledger.model_copy(update=update)


def counts_steps(status: TrainingJobStatus) -> bool:
    """True if it is known how many steps were trained twice. A program that tells no steps may have lost some."""
    tells = status.fenced_program or status.ledger.steps_lost or any(one.steps_trained for one in status.ledger.by_tier)
    return not status.ledger.uncounted_restarts and bool(tells or not status.restarts.interruptions)


def split(before: AttemptRecord, since: datetime, attempt: Attempt, first_step_at: datetime, lost: int) -> Recovery:
    """Split the time from `since` (the last step that counts) to the first step of `attempt` into its parts.

    The four parts are in order, and their sum is exactly that time, even if clocks differ. `lost` is the number of
    steps that are trained again afterwards.
    """
    marks = [since]
    for at in (before.ended_at, attempt.scheduled_at, attempt.started_at, first_step_at):
        marks.append(min(max(at or marks[-1], marks[-1]), max(first_step_at, since)))
    notice, acquire, start, restore = (later - earlier for earlier, later in pairwise(marks))
    pace = trained(before) / (before.steps_trained - 1) if before.steps_trained > 1 else timedelta(0)
    return Recovery(notice=notice, acquire=acquire, start=start, restore=restore, replay=pace * lost)


def trained(record: AttemptRecord) -> timedelta:
    """The time from the first step of an attempt to its last."""
    if record.first_step_at is None or record.last_step_at is None:
        return timedelta(0)
    return max(record.last_step_at - record.first_step_at, timedelta(0))


def as_of(status: TrainingJobStatus, grid: Iterable[ProfileTier], now: datetime) -> Ledger:
    """The ledger with the values that depend on the time: money so far, money saved, goodput."""
    ledger, current = status.ledger, status.current
    alive = [attempt for attempt in (current, status.successor) if attempt]
    totals = (*ledger.by_tier, *(_running(attempt, now) for attempt in alive))
    started = current.started_at if current else None
    ran_at = ledger.ran_at or started
    spent = _capped(sum((one.spent for one in totals), Decimal(0)))
    paused = status.suspended_for + (now - status.suspended_at if status.suspended_at else timedelta(0))
    return ledger.model_copy(
        update={
            "spent": spent,
            "ran_at": ran_at,
            "saved_versus_dedicated": None if ledger.uncounted_restarts else _saved(totals, grid, spent),
            "goodput": _goodput(totals, now - ran_at - paused) if ran_at and not ledger.uncounted_restarts else None,
        }
    )


def by_tier(status: TrainingJobStatus, now: datetime) -> tuple[TierTotals, ...]:
    """Sums over the attempts of each tier that had or have a node, including running attempts up to `now`.

    Attempts and steps only grow. Money may fall, by what was counted after an end that was seen late.
    """
    totals = status.ledger.by_tier
    for attempt in (status.current, status.successor):
        if attempt and _had_nodes(attempt, attempt.scheduled_at):
            totals = _add(totals, _running(attempt, now))
    return totals


def totals_of(ledger: Ledger, tier: str) -> TierTotals | None:
    """The sums that contain those of this tier; None if no attempt on it is over."""
    place = _place(ledger.by_tier, tier)
    return None if place is None else ledger.by_tier[place]


def _running(attempt: Attempt, now: datetime) -> TierTotals:
    """What an attempt that is not over would add to its tier if it ended now."""
    first, last = attempt.first_step, attempt.last_step
    steps = last - first + 1 if first is not None and last is not None and last >= first else 0
    begun, ended = attempt.progress_at, attempt.last_step_at
    training = max(ended - begun, timedelta(0)) if begun and ended else timedelta(0)
    return _ONE.model_copy(  # runs at every write of status; a copy skips validation
        update={
            "tier": attempt.tier.name,
            "kind": attempt.tier.kind,
            "node_hours": node_hours(attempt, attempt.scheduled_at, now),
            "spent": charge(attempt, attempt.scheduled_at, now) or Decimal(0),
            "steps_trained": steps,
            "training": training,
            "training_hours": attempt.nodes * hours(training),
        }
    )


_ONE = TierTotals(tier="", kind="Spot", attempts=1)


def _saved(totals: Iterable[TierTotals], grid: Iterable[ProfileTier], spent: Decimal) -> str | None:
    """The money saved. Each attempt counts with the nodes that it had: an edit of trainer.nodes changes no past."""
    prices = [t.price_per_node_hour for t in grid if t.kind == "Dedicated" and t.price_per_node_hour is not None]
    fast = [one for one in totals if one.kind != "CPU"]
    paced = sum(one.steps_trained for one in fast)
    if not prices or not paced:
        return None
    useful = sum(one.steps_trained - one.steps_lost for one in totals)
    training = sum((one.training_hours for one in fast), Decimal(0))
    dedicated = min(prices) * training * useful / paced
    return format((dedicated - spent).quantize(MONEY), "f")


def _goodput(totals: Sequence[TierTotals], wall: timedelta) -> str | None:
    """The useful share of the time; None before two steps are known: one step has no duration."""
    if wall <= timedelta(0) or not any(one.steps_trained > 1 for one in totals):
        return None
    kept = [(one, one.steps_trained - one.steps_lost) for one in totals if one.steps_trained]
    useful = sum((one.training * steps / one.steps_trained for one, steps in kept), timedelta(0))
    ratio = Decimal(useful // MICROSECOND) / (wall // MICROSECOND)
    return format(min(max(ratio, Decimal(0)), Decimal(1)).quantize(RATIO), "f")


def _place(totals: tuple[TierTotals, ...], tier: str) -> int | None:
    """The index of a tier's sums; None if there are none."""
    return next((index for index, one in enumerate(totals) if one.tier in (tier, OTHERS)), None)


def _add(totals: tuple[TierTotals, ...], more: TierTotals) -> tuple[TierTotals, ...]:
    """The totals with more of one tier. If there are too many tiers, a new one is added to the sums of the others."""
    index = _place(totals, more.tier)
    if index is not None:
        return (*totals[:index], _sum(totals[index], more), *totals[index + 1 :])
    last = len(totals) == MAX_TIERS - 1
    return (*totals, more.model_copy(update={"tier": OTHERS}) if last else more)


def _sum(one: Sums, other: Sums) -> Sums:
    """Every number added; texts are those of the first."""
    figures: dict[str, Any] = {}
    for name in type(one).model_fields:
        if not isinstance(value := getattr(one, name), str):
            total = value + getattr(other, name)
            figures[name] = _capped(total) if isinstance(total, Decimal) else total
    return one.model_copy(update=figures)
