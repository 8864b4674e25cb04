"""Views for tests of the capacity rules: Spot at 1, dedicated at 3, a CPU tier that is 50 times slower."""

from decimal import Decimal

from holdfast.core.capacity.view import TierView, View

SPOT = TierView("spot", "Spot", Decimal(1), 1.0, True, 0.0, 600, 1200)
DEDICATED = TierView("dedicated", "Dedicated", Decimal(3), 1.0, True, None, 600, 1200)
CPU = TierView("cpu", "CPU", Decimal("0.1"), 0.02, True, None, 60, 120)


def view(*tiers: TierView, tier: str | None = None, work: float = 40 * 3600.0, left: float = 48 * 3600.0, **given):
    """A job of 40 h with 8 h of slack, on Spot and dedicated if no tiers are given."""
    return View(tiers or (SPOT, DEDICATED), tier, work, left, **given)
