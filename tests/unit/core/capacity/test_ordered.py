"""Policy Ordered, and what a move back has to fulfil."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.move_value import move, ratio
from holdfast.core.capacity.ordered import better_in_order, ordered

OUT = replace(SPOT, available=False)
UNKNOWN = replace(SPOT, available=None, held=None)
NEED = 600 * 1.5 / 2  # seconds that Spot at a third of the price has to hold, at a changeover of 600 s
GRID = (SPOT, DEDICATED, CPU)


@pytest.mark.parametrize(
    ("tiers", "tier"),
    [
        (GRID, "spot"),
        ((UNKNOWN, DEDICATED), "spot"),
        ((OUT, DEDICATED, CPU), "dedicated"),
        ((OUT, replace(DEDICATED, available=False)), "spot"),
    ],
)
def test_from_nowhere_the_first_that_may_be_had(tiers, tier):
    for nowhere in (None, "gone"):
        assert ordered(view(*tiers, tier=nowhere)).tier == tier
    assert ordered(view(*tiers, tier="spot")).tier == tier  # it has just been lost, or was up all the while


def test_a_tier_that_has_proved_itself_is_gone_back_to():
    young = ordered(view(replace(SPOT, held=NEED - 100), DEDICATED, tier="dedicated"))
    assert (young.tier, young.again_within, young.watch) == ("dedicated", pytest.approx(100), True)
    assert young.reason == "dedicated: stay; spot: up for 6 min, and going back pays only after 8 min"
    old = ordered(view(replace(SPOT, held=NEED), DEDICATED, tier="dedicated"))
    assert old.tier == "spot"
    assert old.reason == "spot: up for 8 min, and going back pays after 8 min"


def test_the_best_of_the_tiers_above_is_gone_back_to():
    old = replace(SPOT, held=9000.0)
    two = view(OUT, replace(old, name="second"), DEDICATED, tier="dedicated")
    assert ordered(two).tier == "second"
    assert ordered(view(old, replace(old, name="second"), DEDICATED, tier="dedicated")).tier == "spot"


def test_nothing_better():
    stays = ordered(view(OUT, DEDICATED, CPU, tier="dedicated"))
    assert (stays.tier, stays.reason, stays.watch) == (
        "dedicated", "dedicated: nothing better can be had now", True,
    )  # fmt: skip
    assert stays.again_within == LOOK
    first = ordered(view(*GRID, tier="spot"))
    assert (first.tier, first.reason, first.watch) == ("spot", "spot: the first of the grid", False)


def test_never_and_eager():
    old, fresh = replace(SPOT, held=9000.0), replace(SPOT, held=0.0)
    never = ordered(view(old, DEDICATED, tier="dedicated", returns="Never"))
    assert (never.tier, never.watch, never.reason) == ("dedicated", False, "dedicated: returnPolicy is Never: stay")
    assert ordered(view(fresh, DEDICATED, tier="dedicated", returns="Eager")).tier == "spot"
    assert ordered(view(fresh, DEDICATED, tier="dedicated")).tier == "dedicated"
    assert better_in_order(view(*GRID, tier="cpu", returns="Never")) == ()
    assert better_in_order(view(*GRID)) == ()


def test_to_a_tier_that_nobody_takes_away_one_goes_at_once():
    assert ordered(view(OUT, DEDICATED, CPU, tier="cpu")).tier == "dedicated"


def test_a_move_has_to_pay_for_itself_in_the_work_that_is_left():
    old = replace(SPOT, held=9000.0)
    assert ordered(view(old, DEDICATED, tier="dedicated", work=301)).tier == "spot"  # saves 2 * 301 s, costs 600 s
    late = ordered(view(old, DEDICATED, tier="dedicated", work=300))
    assert (late.tier, late.again_within) == ("dedicated", LOOK)
    assert "going back would not pay any more" in late.reason


def test_a_move_has_to_pay_for_itself_within_the_life_of_the_node():
    """Saves twice its life; costs 600 s there, 3 * 600 s back, and 3 * 300 s for what a loss takes."""

    def to(life, **given):
        return ordered(view(replace(SPOT, held=9000.0, life=life), DEDICATED, tier="dedicated", at_risk=300, **given))

    assert to(1651.0).tier == "spot"
    stays = to(1650.0)
    assert (stays.tier, stays.watch) == ("dedicated", False)
    assert to(1650.0, returns="Eager").tier == "spot"
    assert to(1650.0, work=1650.0).tier == "spot"  # done before it is lost


def test_without_work_to_reckon_with_it_is_much():
    assert ordered(view(replace(SPOT, held=NEED), DEDICATED, tier="dedicated", work=inf, left=inf)).tier == "spot"


@pytest.mark.parametrize(
    ("here", "there", "times"),
    [
        (Decimal(3), Decimal(1), 3),
        (Decimal(3), Decimal(2), 1.5),
        (Decimal(1), Decimal(3), 3),  # the grid's order has another reason than the price
        (Decimal(3), None, 3),
        (None, Decimal(3), 3),
        (Decimal(3), Decimal(0), 10),
        (Decimal(99), Decimal(1), 10),
        (Decimal(0), Decimal(0), 3),
    ],
)
def test_how_many_times_dearer(here, there, times):
    assert ratio(replace(DEDICATED, price=here), replace(SPOT, price=there)) == times


def test_the_less_is_saved_the_longer_spot_has_to_hold():
    dear = replace(SPOT, price=Decimal(2))
    assert move(view(), DEDICATED, dear).after == pytest.approx(600 * 1.5 / 0.5)
    assert move(view(), DEDICATED, replace(SPOT, held=None)).held == 0
    assert move(view(), CPU, DEDICATED).in_words == "it can be had now"
