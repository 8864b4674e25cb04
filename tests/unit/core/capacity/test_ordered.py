"""Policy Ordered, and what a move back has to fulfil."""

from dataclasses import replace
from math import inf

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.ordered import better_in_order, ordered

OUT = replace(SPOT, available=False)
UNKNOWN = replace(SPOT, available=None, spell_age=None)
NEED = 600 * 1.5 / 2  # seconds that Spot at a third of the price must be up, at a changeover of 600 s
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
def test_a_job_without_a_node_takes_the_first_tier_that_may_be_up(tiers, tier):
    for nowhere in (None, "gone"):
        assert ordered(view(*tiers, tier=nowhere)).tier == tier
    assert ordered(view(*tiers, tier="spot")).tier == tier  # it has just been lost, or was up all the while


RESTS = replace(SPOT, spell_age=9000.0, resting=True)


def test_a_tier_that_rests_is_left_out():
    assert ordered(view(RESTS, DEDICATED)).tier == "dedicated"
    assert ordered(view(RESTS, replace(DEDICATED, available=False))).tier == "spot"  # better than none
    stays = ordered(view(RESTS, DEDICATED, tier="dedicated"))
    assert (stays.tier, stays.watch) == ("dedicated", False)
    assert stays.reason == "dedicated: stay; the tiers above rest"
    two = view(RESTS, replace(RESTS, name="second", resting=False), DEDICATED, tier="dedicated")
    assert ordered(two).tier == "second"


def test_the_job_goes_back_to_a_tier_that_was_up_long_enough():
    young = ordered(view(replace(SPOT, spell_age=NEED - 100), DEDICATED, tier="dedicated"))
    assert (young.tier, young.again_within, young.watch) == ("dedicated", pytest.approx(100), True)
    assert young.reason == "dedicated: stay; spot: up for 6 min, and going back pays only after 8 min"
    old = ordered(view(replace(SPOT, spell_age=NEED), DEDICATED, tier="dedicated"))
    assert old.tier == "spot"
    assert old.reason == "spot: up for 8 min, and going back pays after 8 min"


def test_the_job_goes_back_to_the_best_tier_above():
    old = replace(SPOT, spell_age=9000.0)
    two = view(OUT, replace(old, name="second"), DEDICATED, tier="dedicated")
    assert ordered(two).tier == "second"
    assert ordered(view(old, replace(old, name="second"), DEDICATED, tier="dedicated")).tier == "spot"


def test_nothing_better():
    stays = ordered(view(OUT, DEDICATED, CPU, tier="dedicated"))
    assert (stays.tier, stays.reason, stays.watch) == (
        "dedicated", "dedicated: no better tier is up now", True,
    )  # fmt: skip
    assert stays.again_within == LOOK
    first = ordered(view(*GRID, tier="spot"))
    assert (first.tier, first.reason, first.watch) == ("spot", "spot: the first of the grid", False)


def test_never_and_eager():
    old, fresh = replace(SPOT, spell_age=9000.0), replace(SPOT, spell_age=0.0)
    never = ordered(view(old, DEDICATED, tier="dedicated", returns="Never"))
    assert (never.tier, never.watch, never.reason) == ("dedicated", False, "dedicated: returnPolicy is Never: stay")
    assert ordered(view(fresh, DEDICATED, tier="dedicated", returns="Eager")).tier == "spot"
    assert ordered(view(fresh, DEDICATED, tier="dedicated")).tier == "dedicated"
    assert better_in_order(view(*GRID, tier="cpu", returns="Never")) == ()
    assert better_in_order(view(*GRID)) == ()


def test_the_job_moves_to_a_dependable_tier_at_once():
    assert ordered(view(OUT, DEDICATED, CPU, tier="cpu")).tier == "dedicated"


def test_a_move_must_pay_within_the_remaining_work():
    old = replace(SPOT, spell_age=9000.0)
    assert ordered(view(old, DEDICATED, tier="dedicated", work=301)).tier == "spot"  # saves 2 * 301 s, costs 600 s
    late = ordered(view(old, DEDICATED, tier="dedicated", work=300))
    assert (late.tier, late.again_within) == ("dedicated", LOOK)
    assert "going back no longer pays" in late.reason


def test_a_move_must_pay_within_the_lifetime_of_the_node():
    """Saves twice its life; costs 600 s there, 3 * 600 s back, and 3 * 300 s for what an interruption takes."""

    def to(life, **given):
        return ordered(
            view(replace(SPOT, spell_age=9000.0, lifetime=life), DEDICATED, tier="dedicated", at_risk=300, **given)
        )

    assert to(1651.0).tier == "spot"
    stays = to(1650.0)
    assert (stays.tier, stays.watch) == ("dedicated", False)
    assert to(1650.0, returns="Eager").tier == "spot"
    assert to(1650.0, work=1650.0).tier == "spot"  # done before it is lost


def test_unknown_work_counts_as_endless():
    assert ordered(view(replace(SPOT, spell_age=NEED), DEDICATED, tier="dedicated", work=inf, left=inf)).tier == "spot"
