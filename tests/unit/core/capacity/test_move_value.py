"""The value of a move between two tiers."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.move_value import move_value, ratio, replacement_pays


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
def test_how_many_times_more_expensive(here, there, times):
    assert ratio(replace(DEDICATED, price=here), replace(SPOT, price=there)) == times


def test_the_less_a_move_saves_the_longer_spot_must_be_up():
    expensive = replace(SPOT, price=Decimal(2))
    assert move_value(view(), DEDICATED, expensive).after == pytest.approx(600 * 1.5 / 0.5)
    assert move_value(view(), DEDICATED, replace(SPOT, spell_age=None)).up_for == 0
    assert move_value(view(), CPU, DEDICATED).in_words == "it is up now"


@pytest.mark.parametrize(
    ("share", "work", "lifetime", "pays"),
    [
        (0.4, 40 * 3600.0, inf, True),
        (0.4, 2900.0, inf, False),  # of 2,900 s it saves less than two changeovers of 600 s
        (0.4, 3100.0, inf, True),
        (0.0, inf, inf, False),
        (0.1, inf, inf, True),  # the end is not known
        (0.4, inf, 2900.0, False),  # the node is expected to be lost before it has saved that
    ],
)
def test_a_node_is_replaced_if_that_saves_more_than_two_changeovers(share, work, lifetime, pays):
    here = replace(SPOT, lifetime=lifetime)
    assert replacement_pays(view(here, tier="spot", work=work), here, share) is pays
