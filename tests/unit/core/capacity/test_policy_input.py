"""What a tier may be."""

from decimal import Decimal

import pytest

from holdfast.core.capacity.policy_input import TierView, View


@pytest.mark.parametrize(
    "wrong",
    [
        {"speed": 0.0},
        {"speed": -1.0},
        {"speed": float("nan")},
        {"changeover": -1.0},
        {"changeover": 2.0, "worst_changeover": 1.0},
        {"lifetime": 0.0},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match="tier v100: "):
        TierView("v100", "Spot", **wrong)


@pytest.mark.parametrize(
    ("price", "speed", "unit"),
    [(None, 1.0, None), (Decimal(0), 1.0, 0), (Decimal(3), 2.0, 1.5), (Decimal("0.1"), 0.02, 5)],
)
def test_the_price_of_useful_work(price, speed, unit):
    assert TierView("v100", "CPU", price, speed).unit_price == unit


def test_where_the_job_is():
    tier = TierView("v100", "Dedicated")
    assert View((tier,), "v100", 1, 1).here is tier
    assert View((tier,), "gone", 1, 1).here is None
    assert View((tier,), None, 1, 1).here is None
