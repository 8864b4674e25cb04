"""Views for tests of the capacity rules: Spot at 1, dedicated at 3, a CPU tier that is 50 times slower."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from tests.support.decisions.snapshots import at, attempt

from holdfast.api.attempt import Attempt
from holdfast.api.knowledge import Measured, Seen, TierKnowledge
from holdfast.core.capacity.policy_input import TierView, View
from holdfast.core.observe.nodes import ClusterView

SPOT = TierView("spot", "Spot", Decimal(1), 1.0, True, 0.0, 600, 1200)
DEDICATED = TierView("dedicated", "Dedicated", Decimal(3), 1.0, True, None, 600, 1200)
CPU = TierView("cpu", "CPU", Decimal("0.1"), 0.02, True, None, 60, 120)

NOWHERE = ClusterView([])
SECOND = timedelta(seconds=1)


def view(*tiers: TierView, tier: str | None = None, work: float = 40 * 3600.0, left: float = 48 * 3600.0, **given):
    """A job of 40 h with 8 h of slack, on Spot and dedicated if no tiers are given."""
    return View(tiers or (SPOT, DEDICATED), tier, work, left, **given)


def measured(*seconds: float, worst: float | None = None) -> Measured:
    """Times of some seconds each; the worst of them is `worst` if that is given."""
    times = tuple(timedelta(seconds=second) for second in seconds)
    return Measured(recent=times, worst=max(times) if worst is None else timedelta(seconds=worst))


def known(tier: str = "spot", **given: Any) -> TierKnowledge:
    """Knowledge of a tier: only what is given."""
    return TierKnowledge(tier=tier, **given)


def seen(state: str, since: float, seen_at: float) -> dict[str, Any]:
    """Fields of a spell, its times in seconds from NOW."""
    return {"state": Seen(state), "since": at(since), "seen_at": at(seen_at)}


def training(**changes: Any) -> Attempt:
    """An attempt on spot: 400 steps of 1 s each since step 500."""
    fields = {"first_step": 500, "progress_at": at(-400), "last_step": 900, "last_step_at": at(0)}
    return attempt(**{**fields, **changes})


AMOUNTS = st.one_of(st.sampled_from([0.0, 600.0, 3600.0]), st.floats(0, 1e7))


@st.composite
def tiers(draw, name):
    typical = draw(st.sampled_from([0.0, 60.0, 600.0]))
    return TierView(
        name,
        draw(st.sampled_from(["Spot", "Spot", "Dedicated", "CPU"])),
        draw(st.sampled_from([None, Decimal(0), Decimal("0.1"), Decimal(1), Decimal(3)])),
        draw(st.sampled_from([1.0, 1.0, 2.0, 0.5, 0.02])),
        draw(st.sampled_from([True, False, None])),
        draw(st.none() | AMOUNTS),
        typical,
        typical + draw(st.sampled_from([0.0, 600.0])),
    )


@st.composite
def views(draw):
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=5))
    grid = tuple(draw(tiers(name)) for name in names)
    on = draw(st.sampled_from([None, "z", *names]))
    left = draw(AMOUNTS) - draw(AMOUNTS)
    return View(grid, on, draw(AMOUNTS), left, draw(AMOUNTS), draw(AMOUNTS), draw(st.sampled_from([1.0, 600.0])))
