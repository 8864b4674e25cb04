"""Policy Deadline, case by case. tests/unit/cli/simulate shows that it is never late."""

import sys
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view, views

from holdfast.core.capacity.deadline import LOOK, deadline, outage_wait, proof, span
from holdfast.core.capacity.policy_input import View

HOUR = 3600.0
OUT = replace(SPOT, available=False)
REFUSED = replace(DEDICATED, available=False)


def held(tier, seconds):
    return replace(tier, spell_age=seconds)


def test_a_job_on_spot_stays():
    choice = deadline(view(held(SPOT, 2 * HOUR), DEDICATED, tier="spot"))
    assert choice.tier == "spot"
    assert choice.reason == "spot: up for 2.0 h, stay; 8.0 h of slack for 40.0 h of work"
    assert choice.promised


def test_a_job_without_a_node_takes_spot():
    assert deadline(view()).tier == "spot"
    assert deadline(view(tier="gone")).tier == "spot"  # a tier that left the grid


def test_spot_of_unknown_state_is_tried():
    unknown = replace(SPOT, available=None, spell_age=None)
    assert deadline(view(unknown, DEDICATED)).tier == "spot"
    assert deadline(view(unknown, replace(SPOT, name="known"), DEDICATED)).tier == "known"
    assert deadline(view(unknown, DEDICATED, tier="dedicated")).tier == "dedicated"
    assert deadline(view(unknown, DEDICATED, tier="spot")).tier == "spot"


def test_spot_must_prove_itself_before_the_job_leaves_dedicated():
    need = 600 * (1.5 / 2 + 0.2 / (8 / 40))  # 1,050 s
    young = deadline(view(held(SPOT, need - 100), DEDICATED, tier="dedicated"))
    assert (young.tier, young.again_within) == ("dedicated", pytest.approx(100))
    assert young.reason.startswith("dedicated: spot has been up for 16 min; going back pays after 18 min")
    old = deadline(view(held(SPOT, need + 1), DEDICATED, tier="dedicated"))
    assert (old.tier, old.again_within) == ("spot", 600)  # a slow tier uses up slack from then on


def test_a_job_on_dedicated_stays_while_spot_is_out():
    stays = deadline(view(OUT, DEDICATED, tier="dedicated"))
    assert (stays.tier, "Spot is out" in stays.reason) == ("dedicated", True)
    unseen = deadline(view(OUT, replace(SPOT, name="b", available=None), DEDICATED, tier="dedicated"))
    assert (unseen.tier, "Spot is not known to be up" in unseen.reason) == ("dedicated", True)


def test_a_job_waits_while_the_outage_is_young():
    wait = 300 / (1 - 4 * 8 / 40)  # 1,500 s
    young = deadline(view(held(OUT, wait - 100), DEDICATED, tier="spot"))
    assert young.tier is None
    assert young.again_within == pytest.approx(82.9, abs=0.1)  # the wait gets shorter while slack is used up
    later = view(held(OUT, wait - 100 + 82.9), DEDICATED, left=48 * HOUR - 82.9, tier="spot")
    assert deadline(later).again_within == 1
    assert young.reason.startswith("wait: Spot has been out for 23 min; wait up to 25 min")
    assert deadline(view(held(OUT, wait + 1), DEDICATED)).tier == "dedicated"


def test_an_outage_of_several_tiers_begins_with_the_last_of_them():
    young, old = held(OUT, 600), held(replace(OUT, name="old"), 9 * HOUR)
    assert deadline(view(old, young, DEDICATED)).tier is None


def test_with_ample_slack_a_job_waits_without_limit():
    choice = deadline(view(held(OUT, 9 * HOUR), DEDICATED, left=51 * HOUR))
    assert (choice.tier, choice.again_within) == (None, LOOK)
    assert "ample" in choice.reason


@pytest.mark.parametrize(
    ("slack", "tier", "words"),
    [
        (4300, "dedicated", "Spot has been out"),
        (4100, "dedicated", "keep one round trip"),  # 3 * 1,200 and a step
        (3000, None, "wait for Spot"),
        (2400, "dedicated", "too little for Spot"),
        (1500, "dedicated", "it is time to go"),
    ],
)
def test_the_last_slack(slack, tier, words):
    choice = deadline(view(held(OUT, 400), DEDICATED, left=40 * HOUR + slack))
    assert (choice.tier, words in choice.reason) == (tier, True), choice.reason
    assert choice.promised


def test_the_job_leaves_spot_before_the_net_is_lost():
    assert deadline(view(tier="spot", left=40 * HOUR + 1200)).tier == "spot"
    left = deadline(view(tier="spot", left=40 * HOUR + 1199))
    assert (left.tier, "an interruption of spot could make the job late" in left.reason) == ("dedicated", True)
    assert deadline(view(tier="spot", left=40 * HOUR + 1200, at_risk=60)).tier == "dedicated"


def test_too_little_slack_to_leave_dedicated():
    choice = deadline(view(held(SPOT, 99 * HOUR), DEDICATED, tier="dedicated", left=40 * HOUR + 2399))
    assert choice.tier == "dedicated"
    assert "stay until the work is done" in choice.reason


@pytest.mark.parametrize("available", [True, False])
@pytest.mark.parametrize("tier", [None, "spot"])
def test_a_deadline_that_cannot_be_met(tier, available):
    choice = deadline(view(replace(SPOT, available=available), DEDICATED, tier=tier, left=38 * HOUR))
    assert (choice.tier, choice.late, choice.promised) == ("dedicated", 2 * HOUR + 600, False)
    assert choice.reason.endswith("the work takes 40.0 h here: 2.2 h late if no node is lost")


def test_a_deadline_that_has_passed():
    choice = deadline(view(tier="dedicated", left=-HOUR))
    assert (choice.tier, choice.late) == ("dedicated", 41 * HOUR)
    assert "the deadline has passed" in choice.reason


def test_in_time_without_interruptions_is_not_a_promise():
    choice = deadline(view(left=40 * HOUR + 900))  # between the typical and the worst changeover
    assert (choice.tier, choice.late, choice.promised) == ("dedicated", 0, False)


def test_work_that_is_done():
    assert deadline(view(tier="spot", work=0)).tier == "spot"
    assert deadline(view(work=0)).tier is None


# Without a net


@pytest.mark.parametrize(
    ("tiers", "on", "tier"),
    [
        ((SPOT, CPU), None, "spot"),
        ((SPOT, CPU), "cpu", "spot"),
        ((OUT, CPU), None, "cpu"),
        ((OUT, CPU), "spot", "cpu"),
        ((OUT,), "spot", None),
        ((OUT, replace(SPOT, name="unknown", available=None)), None, "unknown"),
        ((SPOT, REFUSED), None, "spot"),
        ((OUT, REFUSED), None, "dedicated"),
        ((OUT, REFUSED, CPU), None, "cpu"),  # a slow tier is better than none
        ((OUT, REFUSED, CPU), "cpu", "cpu"),
        ((OUT, REFUSED, replace(CPU, available=False)), "cpu", "cpu"),
        ((OUT, REFUSED, replace(CPU, available=False)), None, "dedicated"),
        ((), None, None),
    ],
)
def test_a_job_without_a_net_is_not_promised(tiers, on, tier):
    choice = deadline(View(tiers, on, 40 * HOUR, 48 * HOUR))
    assert (choice.tier, choice.promised) == (tier, False)
    assert "the deadline cannot be promised" in choice.reason


def test_a_cpu_tier_that_is_fast_enough_promises():
    fast = replace(CPU, speed=0.9)
    choice = deadline(view(OUT, fast, tier="cpu"))
    assert (choice.tier, choice.promised) == ("cpu", True)


# Prices


def test_the_oldest_spot_tier_wins_weighted_by_price():
    old, young = held(SPOT, 5 * HOUR), replace(SPOT, name="young")
    assert deadline(view(young, old, DEDICATED)).tier == "spot"
    assert deadline(view(young, replace(old, price=Decimal("1.2")), DEDICATED)).tier == "spot"
    assert deadline(view(young, replace(old, price=Decimal("1.6")), DEDICATED)).tier == "young"
    assert deadline(view(young, replace(old, speed=0.5), DEDICATED)).tier == "young"


def test_the_fallback_is_the_cheapest_dedicated_tier_that_is_up_and_in_time():
    cheap = replace(DEDICATED, name="cheap", price=Decimal(2))
    tiers = (OUT, DEDICATED, cheap)
    assert deadline(view(*tiers, left=40 * HOUR + 2000)).tier == "cheap"
    assert deadline(view(*tiers, tier="dedicated")).tier == "cheap"
    assert deadline(view(OUT, DEDICATED, replace(cheap, available=False), tier="dedicated")).tier == "dedicated"
    assert deadline(view(OUT, DEDICATED, replace(cheap, price=Decimal("2.9")), tier="dedicated")).tier == "dedicated"
    slow = replace(cheap, speed=0.7)
    assert deadline(view(OUT, DEDICATED, slow, left=40 * HOUR + 2000)).tier == "dedicated"


@pytest.mark.parametrize("price", [Decimal(3), Decimal(4)])
def test_spot_that_is_not_cheaper_is_not_used(price):
    assert deadline(view(replace(SPOT, price=price), DEDICATED)).tier == "dedicated"


def test_the_job_leaves_spot_that_became_more_expensive():
    assert deadline(view(replace(SPOT, price=Decimal(4)), DEDICATED, tier="spot")).tier == "dedicated"
    assert deadline(view(replace(SPOT, price=Decimal("3.1")), DEDICATED, tier="spot")).tier == "spot"


@pytest.mark.parametrize(
    ("spot", "dedicated"), [(None, None), (None, Decimal(3)), (Decimal(1), None), (Decimal(0), Decimal(3))]
)
def test_without_prices_spot_counts_as_cheaper(spot, dedicated):
    tiers = replace(SPOT, price=spot), replace(DEDICATED, price=dedicated)
    assert deadline(view(*tiers)).tier == "spot"


def test_all_tiers_are_free():
    free = Decimal(0)
    assert deadline(view(replace(SPOT, price=free), replace(DEDICATED, price=free))).tier == "dedicated"


def test_a_slow_tier_is_a_place_to_wait_only_if_its_work_is_cheap():
    waiting = {"left": 60 * HOUR}
    assert deadline(view(OUT, DEDICATED, CPU, **waiting)).tier is None  # 0.1 / 0.02 is 5 for a useful hour
    free = replace(CPU, price=Decimal(0))
    assert deadline(view(OUT, DEDICATED, free, **waiting)).tier == "cpu"
    assert deadline(view(SPOT, DEDICATED, free, tier="cpu", **waiting)).tier == "spot"
    assert deadline(view(OUT, DEDICATED, free, tier="cpu", left=40 * HOUR + 1500)).tier == "dedicated"


def test_a_job_stays_on_a_slower_dedicated_tier_that_is_in_time():
    slow = replace(DEDICATED, name="slow", speed=0.9, price=Decimal(2))
    given_view = view(OUT, DEDICATED, slow, tier="slow", left=70 * HOUR)
    assert deadline(given_view).tier == "slow"
    assert deadline(replace(given_view, tier=None)).tier is None  # ample slack


# Paid watching


def test_a_paid_proof_is_half_as_long():
    young = view(held(SPOT, 600), DEDICATED, tier="dedicated")
    assert deadline(young).tier == "dedicated"
    assert deadline(replace(young, paid_watch=True)).tier == "spot"


def test_a_paid_proof_is_not_longer_than_the_watch_limit():
    young = replace(view(held(SPOT, 300), DEDICATED, tier="dedicated"), watch_limit=300.0)
    assert deadline(young).tier == "dedicated"  # watching is free, so the proof has its full length
    assert deadline(replace(young, paid_watch=True)).tier == "spot"
    assert deadline(replace(young, paid_watch=True, watch_limit=600.0)).tier == "dedicated"


@pytest.mark.parametrize(
    ("given_view", "watch"),
    [
        (view(OUT, DEDICATED), True),
        (view(OUT, DEDICATED, tier="dedicated"), True),
        (view(SPOT, DEDICATED, tier="spot"), False),
        (view(OUT, DEDICATED, tier="dedicated", left=40 * HOUR + 2399), False),  # too late to leave
        (view(OUT, DEDICATED, tier="dedicated", work=300), False),  # 2 * 300 s saved, a changeover of 600 s
        (view(OUT, DEDICATED, tier="dedicated", work=301), True),
        (view(DEDICATED, tier="dedicated"), False),
        (view(work=0, tier="dedicated"), False),
        (view(left=HOUR), False),
    ],
)
def test_spot_is_watched_only_where_it_matters(given_view, watch):
    assert deadline(given_view).watch is watch


def test_a_move_for_the_last_minutes_does_not_pay():
    assert deadline(view(held(SPOT, 9 * HOUR), DEDICATED, tier="dedicated", work=300)).tier == "dedicated"
    assert deadline(view(held(SPOT, 9 * HOUR), DEDICATED, tier="dedicated", work=301)).tier == "spot"


# When to go back


def test_eager_goes_back_at_once_but_never_at_a_risk():
    young = view(held(SPOT, 1), DEDICATED, tier="dedicated", returns="Eager")
    eager = deadline(young)
    assert (eager.tier, eager.reason.split(";")[0]) == ("spot", "spot: up for 1 s, and returnPolicy is Eager")
    assert deadline(replace(young, left=40 * HOUR + 2399)).tier == "dedicated"
    assert deadline(replace(young, work=300)).tier == "dedicated"  # it does not pay even without an interruption


def test_never_goes_back_unless_the_deadline_requires_it():
    cheap = replace(DEDICATED, name="cheap", price=Decimal(2))
    stays = view(held(SPOT, 99 * HOUR), cheap, DEDICATED, tier="dedicated", returns="Never")
    choice = deadline(stays)
    assert (choice.tier, choice.watch, choice.promised) == ("dedicated", False, True)
    assert "returnPolicy is Never" in choice.reason
    assert deadline(replace(stays, tier=None)).tier == "spot"
    dearer = replace(SPOT, price=Decimal(4))
    assert deadline(view(dearer, DEDICATED, tier="spot", returns="Never")).tier == "spot"
    assert deadline(view(tier="spot", left=40 * HOUR + 1199, returns="Never")).tier == "dedicated"
    slow = replace(DEDICATED, name="slow", speed=0.5)
    assert deadline(view(OUT, slow, DEDICATED, tier="slow", left=50 * HOUR, returns="Never")).tier != "slow"


# Shape


def test_slow_spot_uses_up_slack():
    slow = replace(SPOT, speed=0.5, price=Decimal("0.5"))
    choice = deadline(view(slow, DEDICATED, tier="spot", left=40 * HOUR + 1200 + 300 + 500))
    assert (choice.tier, choice.again_within) == ("spot", pytest.approx(1000))
    assert deadline(view(slow, DEDICATED, tier="spot", left=40 * HOUR + 1200 + 299)).tier == "dedicated"


def test_thresholds():
    free = view(SPOT, DEDICATED)
    assert proof(free, 600, 3, 0.2) == pytest.approx(600 * 1.75)
    assert proof(free, 600, 1.0, 0.2) == proof(free, 600, 1.1, 0.2)
    assert outage_wait(600, 3, 0.5) == pytest.approx(600)
    assert outage_wait(600, 3, 0.0) == float("inf")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "an unknown time"), (40, "40 s"), (1500, "25 min"), (11520, "3.2 h"), (345_600, "4.0 d")],
)
def test_spans(seconds, words):
    assert span(seconds) == words


def test_without_a_promise_every_tier_is_asked_before_one_is_asked_again():
    asked = replace(SPOT, available=None, spell_age=None, refused_ago=1000.0)
    other = replace(asked, name="other", price=Decimal(2), refused_ago=None)
    assert deadline(view(asked, other, CPU)).tier == "other"
    assert deadline(view(asked, replace(other, refused_ago=900.0), CPU)).tier == "cpu"
    assert deadline(view(asked, replace(other, refused_ago=900.0), replace(CPU, refused_ago=800.0))).tier == "spot"


@given(views())
def test_any_view_gets_an_answer(given_view):
    choice = deadline(given_view)
    assert choice.tier in {None, *(tier.name for tier in given_view.tiers)}
    assert 1 <= choice.again_within <= LOOK
    assert 0 <= choice.late < float("inf")
    assert choice.reason
    assert deadline(given_view) == choice


@given(views())
def test_what_is_promised_rests_on_a_tier(given_view):
    choice = deadline(given_view)
    if choice.promised and given_view.work > 0:
        assert choice.late == 0
        assert any(tier.dependable and given_view.left >= given_view.work / tier.speed for tier in given_view.tiers), (
            "no tier makes it"
        )


def calls(of):
    """How many Python functions a call of `of` calls."""
    counted = []
    sys.setprofile(lambda _frame, event, _: counted.append(None) if event == "call" else None)
    try:
        of()
    finally:
        sys.setprofile(None)
    return len(counted)


def test_its_work_grows_no_faster_than_the_number_of_tiers():
    """It is asked for every job at every event, so it may not compare each tier with each other tier."""

    def work(number):
        spots = [replace(SPOT, name=f"spot-{n}", available=False, spell_age=600.0 * n) for n in range(number)]
        crowded = view(*spots, DEDICATED, CPU)
        return calls(lambda: deadline(crowded))

    few, many = work(2), work(14)
    assert many <= few * 14 / 2, (few, many)


def test_only_the_last_moment_is_urgent():
    """Then the job goes to the net even if a successor has no time to start beside it."""
    assert not deadline(view(tier="spot")).urgent
    assert not deadline(view(tier="spot", left=38 * HOUR)).urgent  # late: a break saves nothing
    assert deadline(view(tier="spot", left=40 * HOUR + 1199)).urgent
    assert deadline(view(replace(SPOT, available=False), DEDICATED, left=40 * HOUR + 1799)).urgent
