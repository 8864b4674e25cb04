"""Typical and worst times, from a few measurements."""

from tests.support.decisions.tier_views import SECOND, measured

from holdfast.api.knowledge import Measured
from holdfast.core.capacity.measured import at_worst, median


def test_typical_and_worst():
    assert median(measured(5, 900, 7)) == 7 * SECOND
    assert median(Measured(worst=SECOND)) == SECOND
    assert [at_worst(measured(*(10,) * count)) / SECOND for count in (1, 2, 4, 5)] == [20, 15, 12.5, 10]
