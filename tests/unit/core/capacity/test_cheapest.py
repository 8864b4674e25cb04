"""Policy Cheapest: expected cost per useful step."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.cheapest import cheaper, cheapest
from holdfast.core.capacity.deadline import LOOK
from holdfast.core.capacity.move_value import cost_rate, useful

HOUR = 3600.0
OUT = replace(SPOT, available=False)
OLD = replace(SPOT, spell_age=9 * HOUR)
IN_VAIN = replace(SPOT, available=None, refused_ago=1000.0)  # so long ago that its state is not known


def test_the_price_of_work():
    endless = view(work=inf, left=inf)
    assert cost_rate(endless, SPOT) == 1
    assert cost_rate(endless, CPU) == 5  # 50 times slower is rarely cheap
    assert cost_rate(endless, replace(SPOT, price=None)) is None
    assert cost_rate(view(work=6000), SPOT) == pytest.approx(1.1)  # a start of 600 s for 6,000 s of work
    assert cost_rate(view(work=6000, tier="spot"), SPOT) == 1
    assert cost_rate(view(work=6000, tier="spot", changing=300), SPOT) == pytest.approx(1.05)


def test_interruptions_make_a_tier_more_expensive():
    lost = replace(SPOT, lifetime=HOUR)
    assert useful(view(), lost) == pytest.approx(1 - 600 / HOUR)
    assert useful(view(at_risk=600), lost) == pytest.approx(1 - 900 / HOUR)  # half of it on average
    assert useful(view(at_risk=600), replace(lost, speed=2.0)) == pytest.approx(1 - 750 / HOUR)
    assert useful(view(), replace(SPOT, lifetime=1.0)) == 0.01
    assert useful(view(), SPOT) == 1


@pytest.mark.parametrize(
    ("tiers", "tier"),
    [
        ((DEDICATED, SPOT), "spot"),
        ((DEDICATED, replace(SPOT, available=None)), "spot"),  # trying it costs nothing
        ((OUT, DEDICATED, CPU), "dedicated"),
        ((OUT, DEDICATED, replace(CPU, price=Decimal("0.05"))), "cpu"),
        ((replace(SPOT, lifetime=700.0), DEDICATED), "dedicated"),  # lost again before it has done anything
        ((replace(SPOT, price=None), DEDICATED), "dedicated"),
        ((replace(SPOT, speed=0.3), DEDICATED), "dedicated"),
        ((OUT, replace(DEDICATED, available=False)), "spot"),
        ((IN_VAIN, DEDICATED), "dedicated"),
        ((IN_VAIN, replace(DEDICATED, refused_ago=1000.0), CPU), "cpu"),
        ((IN_VAIN, replace(DEDICATED, refused_ago=1001.0)), "dedicated"),  # the longest ago
        ((IN_VAIN, replace(DEDICATED, available=False)), "spot"),
    ],
)
def test_a_job_without_a_node_takes_the_cheapest_tier_that_may_be_up(tiers, tier):
    assert cheapest(view(*tiers)).tier == tier
    assert cheapest(view(*tiers, tier="gone")).tier == tier


def test_the_reasons():
    assert cheapest(view()).reason == "spot: 1.00 for an hour's work, the cheapest of 2 that may be up"
    all_out = cheapest(view(OUT, replace(DEDICATED, available=False)))
    assert all_out.reason == "spot: no tier is up now; wait for the cheapest"
    other = cheapest(view(IN_VAIN, DEDICATED)).reason
    assert other == "dedicated: 3.01 for an hour's work, the cheapest of 1 that may be up, and has not refused yet"
    again = cheapest(view(IN_VAIN, replace(DEDICATED, available=False))).reason
    assert again == "spot: 1.00 for an hour's work; all tiers that may be up refused, this one longest ago"
    back = cheapest(view(OLD, DEDICATED, tier="dedicated"))
    assert back.reason == (
        "spot: 1.00 for an hour's work, 3.00 for an hour's work on dedicated; "
        "up for 9.0 h, and going back pays after 8 min"
    )
    assert cheapest(view(replace(SPOT, price=None))).reason.startswith("spot: no price")


def test_a_job_leaves_a_lost_tier():
    assert cheapest(view(OUT, DEDICATED, tier="spot")).tier == "dedicated"


def test_a_cheaper_tier_must_be_up_for_some_time():
    young = cheapest(view(SPOT, DEDICATED, tier="dedicated"))
    assert (young.tier, young.again_within, young.watch) == ("dedicated", pytest.approx(450), True)
    assert young.reason.endswith("up for 0 s, and going back pays only after 8 min")
    assert cheapest(view(OLD, DEDICATED, tier="dedicated")).tier == "spot"
    assert cheapest(view(SPOT, DEDICATED, tier="dedicated", returns="Eager")).tier == "spot"
    never = cheapest(view(OLD, DEDICATED, tier="dedicated", returns="Never"))
    assert (never.tier, never.watch) == ("dedicated", False)


def test_an_outage_is_watched():
    out = cheapest(view(OUT, DEDICATED, tier="dedicated"))
    assert (out.tier, out.again_within, out.watch) == ("dedicated", LOOK, True)
    assert "no cheaper tier is up now" in out.reason
    assert cheapest(view(tier="spot")).watch is False


def test_a_move_needs_a_clear_gain():
    near = replace(OLD, price=Decimal("2.71"))
    assert cheaper(view(near, DEDICATED, tier="dedicated", work=inf, left=inf)) == []
    clear = replace(OLD, price=Decimal("2.69"))
    assert cheaper(view(clear, DEDICATED, tier="dedicated", work=inf, left=inf)) == [clear]


def test_a_job_on_spot_moves_to_a_cheaper_tier_too():
    half = replace(OLD, name="half", price=Decimal("0.5"))
    assert cheapest(view(SPOT, half, DEDICATED, tier="spot")).tier == "half"
    assert [tier.name for tier in cheaper(view(SPOT, half, CPU, DEDICATED, tier="cpu"))] == [
        "half",
        "spot",
        "dedicated",
    ]


def test_a_job_stays_if_prices_are_not_known():
    free = replace(DEDICATED, price=None)
    assert cheapest(view(OLD, free, tier="dedicated")).tier == "dedicated"
    assert cheaper(view(replace(OLD, price=None), DEDICATED, tier="dedicated")) == []


def test_work_that_is_done():
    assert cheapest(view(tier="dedicated", work=0)).tier == "dedicated"
    assert cheapest(view(work=0)).tier is None
