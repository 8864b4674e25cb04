"""What attempts cost, and what interruptions cost."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.ledger_replay import of
from tests.support.decisions.snapshots import (
    TIERS,
    at,
    attempt,
    container,
    ended,
    job,
    pending,
    pod,
    settled,
    snapshot,
    status,
    stepped,
    stored,
    tier,
)

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind
from holdfast.api.knowledge import MAX_TIERS
from holdfast.api.model import merge_patch
from holdfast.api.scalars import parse_money
from holdfast.api.status import Ledger, TierTotals
from holdfast.core.books import ledger

HOUR = timedelta(hours=1)


def record(number=1, **changes):
    fields = {
        "tier": "spot",
        "kind": EndKind.INTERRUPTION,
        "reason": "NodeGone",
        "raised_at": at(-3700),
        "ended_at": at(-60),
    }
    return AttemptRecord(**{"number": number, **fields, **changes})


def running(**changes):
    """An attempt that has its node for an hour, and has trained 100 steps in 900 s."""
    fields = {"scheduled_at": at(-3600), "first_step": 1, "progress_at": at(-1000), "last_step": 100}
    return attempt(**{"fenced": True, "last_step_at": at(-100), **fields, **changes})


@given(price=st.decimals("0", "999999.999999", places=6), seconds=st.integers(0, 10**8), micro=st.integers(0, 999_999))
def test_money_is_exact_to_half_a_hundredth_of_a_cent(price, seconds, micro):
    found = ledger.price_of(price, timedelta(seconds=seconds, microseconds=micro))
    exact = price * (seconds * 1_000_000 + micro) / 3_600_000_000
    assert abs(found - exact) <= Decimal("0.00005")


def test_an_absurd_price_makes_no_status_that_the_api_server_refuses():
    dear = running(tier=tier().model_copy(update={"price_per_node_hour": Decimal("999999999999.999999")}))
    grid = [{**one, "pricePerNodeHour": "999999999999.999999"} for one in TIERS]
    over = settled(snapshot(job(status(dear), capacity={"tiers": grid}), ended(1, 1), now=at(7200))).status
    again = ledger.add_record(over.ledger, over.history[-1], "Spot")
    for amount in (over.history[-1].cost, over.ledger.spent, again.by_tier[0].spent):
        assert amount == parse_money(amount)


def test_time_that_runs_backwards_costs_nothing():
    assert ledger.price_of(Decimal(3), timedelta(seconds=-5)) == 0
    assert ledger.hours(timedelta(seconds=-5)) == 0


def test_the_cost_so_far_alone_is_not_written():
    given = job(status(running()))
    first = settled(snapshot(given, pod(), reports=[stepped()]))
    assert first.status.ledger.spent == Decimal("1.0200")  # an hour at 1.02
    later = snapshot(stored(given, first.status), pod(), reports=[stepped()], now=at(2))
    assert merge_patch(first.status, settled(later).status) == {}


def test_a_new_price_applies_from_now_on():
    raised = running(tier=tier().model_copy(update={"price_per_node_hour": Decimal(4)}))
    changed = settled(snapshot(job(status(raised)), pod())).status  # the grid says 1.02
    assert (changed.current.charged, changed.current.priced_at) == (Decimal("4.0000"), at(0))
    assert changed.current.tier.price_per_node_hour == Decimal("1.02")
    gone = ended(1, 1, trainer=container(ended=True, exit_code=1, ended_at=at(1800)))
    assert settled(snapshot(stored(job(), changed), gone, now=at(1801))).status.history[-1].cost == Decimal("4.5100")


def test_a_price_that_changes_before_there_is_a_node_costs_nothing():
    raised = attempt(state=AttemptState.ACQUIRING, tier=tier().model_copy(update={"price_per_node_hour": None}))
    changed = settled(snapshot(job(status(raised)), pending())).status.current
    assert (changed.charged, changed.priced_at, changed.tier.price_per_node_hour) == (0, None, Decimal("1.02"))


def test_a_removed_price_keeps_the_charge_so_far():
    free = ledger.reprice(running(), None, at(0))
    assert ledger.charge(free, free.scheduled_at, at(7200)) == Decimal("1.0200")


def test_an_attempt_that_was_not_seen_on_its_node_costs_the_same():
    """The operator was down from before the pod had a node until after its end."""
    raised = attempt(state=AttemptState.ACQUIRING, raised_at=at(-4000))
    over = settled(snapshot(job(status(raised)), ended(1, 1, scheduled_at=at(-3601)))).status
    assert over.history[-1].scheduled_at == at(-3601)
    assert over.history[-1].cost == Decimal("1.0200")


def test_an_end_that_was_not_seen_is_marked():
    lost = settled(snapshot(job(status(running())))).status
    (totals,) = lost.ledger.by_tier
    assert totals.estimated == totals.spent == Decimal("1.0200")


def test_money_saved_versus_dedicated():
    """100 steps at 9 s each on dedicated at 3.06 an hour, minus an hour of spot."""
    given = status(running())
    assert ledger.as_of(given, (tier("spot"), tier("dedicated")), at(0)).saved_versus_dedicated == "-0.2550"
    assert ledger.as_of(given, (tier("spot"), tier("cpu")), at(0)).saved_versus_dedicated is None
    slow = status(running(tier=tier("cpu")))  # a CPU tier says nothing about the pace on dedicated
    assert ledger.as_of(slow, (tier("dedicated"),), at(0)).saved_versus_dedicated is None


# Breaks if an edit of trainer.nodes changes what steps would have cost that other nodes have done.
def test_money_saved_is_that_of_the_nodes_which_an_attempt_had():
    two = running(nodes=2, pods=())
    trainer = {"image": "r/train:1", "command": ["python"], "nodes": 4, "acceleratorsPerNode": 1}
    over = settled(snapshot(job(status(two), trainer=trainer))).status
    (sums,) = over.ledger.by_tier
    assert (sums.training_hours, sums.spent) == (Decimal("0.5"), Decimal("2.0400"))
    told = ledger.as_of(over, (tier("dedicated"),), at(0))
    assert told.saved_versus_dedicated == "-0.5100"
    present = ledger.as_of(status(two), (tier("dedicated"),), at(0))
    assert present.saved_versus_dedicated == "-0.5100"


@pytest.mark.parametrize(
    ("lost", "paused", "goodput"), [(0, 0, "0.900"), (50, 0, "0.450"), (0, 100, "1.000"), (0, 2000, None)]
)
def test_goodput(lost, paused, goodput):
    sums = TierTotals(
        tier="spot", kind="Spot", attempts=1, steps_trained=100, steps_lost=lost, training=timedelta(seconds=900)
    )
    given = status(ledger=Ledger(by_tier=(sums,), ran_at=at(-1000)), suspended_for=timedelta(seconds=paused))
    assert ledger.as_of(given, (), at(0)).goodput == goodput


# Breaks if a program that has reported once is said to have done nothing useful.
def test_one_step_is_no_goodput_of_0():
    sums = TierTotals(tier="spot", kind="Spot", attempts=1, steps_trained=1)
    assert ledger.as_of(status(ledger=Ledger(by_tier=(sums,), ran_at=at(-1000))), (), at(0)).goodput is None


# Breaks if figures are told that rest on steps which nobody has counted.
def test_without_a_count_of_the_steps_lost_there_is_no_goodput():
    quarter = {"training": timedelta(seconds=900), "training_hours": Decimal("0.25")}
    sums = TierTotals(tier="dedicated", kind="Dedicated", attempts=1, steps_trained=100, **quarter)
    known = Ledger(by_tier=(sums,), ran_at=at(-1000))
    told = ledger.as_of(status(ledger=known), (tier("dedicated"),), at(0))
    assert (told.goodput, told.saved_versus_dedicated) == ("0.900", "0.7650")
    unknown = known.model_copy(update={"uncounted_restarts": 1})
    told = ledger.as_of(status(ledger=unknown), (tier("dedicated"),), at(0))
    assert (told.goodput, told.saved_versus_dedicated) == (None, None)


def test_a_present_suspension_is_not_lost_time():
    sums = TierTotals(tier="spot", kind="Spot", attempts=1, steps_trained=100, training=timedelta(seconds=900))
    given = status(ledger=Ledger(by_tier=(sums,), ran_at=at(-9000)), suspended_at=at(-8000))
    assert ledger.as_of(given, (), at(0)).goodput == "0.900"


@given(st.lists(st.integers(-10_000, 10_000), min_size=5, max_size=5), st.integers(0, 100))
def test_the_parts_of_a_recovery_sum_up_with_any_clocks(marks, lost):
    since, over, scheduled, started, first = (at(seconds) for seconds in marks)
    before = record(ended_at=over, steps_trained=11, first_step_at=at(-100), last_step_at=at(-50))
    parts = ledger.split(before, since, attempt(2, scheduled_at=scheduled, started_at=started), first, lost)
    named = (parts.notice, parts.acquire, parts.start, parts.restore)
    assert all(part >= timedelta(0) for part in named)
    assert sum(named, timedelta(0)) == max(first - since, timedelta(0))
    assert parts.replay == lost * timedelta(seconds=5)


def test_a_recovery_by_its_parts():
    before = record(ended_at=at(-90))
    parts = ledger.split(before, at(-100), attempt(2, scheduled_at=at(-60), started_at=at(-55)), at(0), 0)
    seconds = [part.total_seconds() for part in (parts.notice, parts.acquire, parts.start, parts.restore)]
    assert seconds == [10, 30, 5, 55]


def test_steps_that_a_checkpoint_proves_are_added_to_their_tier():
    sums = Ledger(by_tier=(TierTotals(tier="spot", kind="Spot", attempts=1, steps_trained=1),))
    after = ledger.settle(sums, record(steps_trained=1), record(steps_trained=148, steps_lost=3), {"spot": 3})
    assert (of(after)["spot"].steps, of(after)["spot"].steps_lost, after.steps_lost) == (148, 3, 3)


def test_very_many_tiers_share_the_last_place():
    found = Ledger()
    for number in range(40):
        one = record(number, tier=f"t{number}", scheduled_at=at(-3660), cost=Decimal(1), steps_trained=1)
        found = ledger.add_record(found, one, "Spot")
    assert len(found.by_tier) == MAX_TIERS
    assert sum(one.spent for one in found.by_tier) == 40
    assert found.by_tier[-1].attempts == 40 - MAX_TIERS + 1
    again = ledger.settle(
        found, record(tier="t39", steps_trained=1), record(tier="t39", steps_trained=1, steps_lost=1), {"t39": 1}
    )
    assert again.by_tier[-1].steps_lost == 1


def test_an_attempt_without_a_node_is_counted_and_costs_nothing():
    found = ledger.add_record(Ledger(), record(), "Spot")
    assert (found.attempts, found.by_tier) == (1, ())


def test_hours_of_nodes():
    found = ledger.add_record(Ledger(), record(scheduled_at=at(-60) - 2 * HOUR), "Spot")
    assert found.by_tier[0].node_hours == 2


def test_no_goodput_is_claimed_of_a_program_that_has_not_reported_two_steps():
    ran = status(attempt(started_at=at(-3600), scheduled_at=at(-3700)))
    assert ledger.as_of(ran, (), at(0)).goodput is None
    stepped_once = {"started_at": at(-3600), "scheduled_at": at(-3700), "first_step": 1}
    assert ledger.as_of(status(attempt(**stepped_once, last_step=1)), (), at(0)).goodput is None
    assert ledger.as_of(status(attempt(**stepped_once, last_step=2)), (), at(0)).goodput is not None
