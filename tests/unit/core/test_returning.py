"""Going back to a better tier: only where the move pays for itself."""

from datetime import timedelta
from decimal import Decimal
from itertools import count

import pytest
from tests.support.core import TIERS, at, ended, pending, settled, snapshot, status, tier
from tests.support.core import pod as a_pod
from tests.support.successions import ON_DEDICATED, SAYS, follower, given
from tests.support.transitions import ACQUIRING, RUNNING

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.core.returning import CHANGEOVER, REMEMBERED, YOUNG, explain, worth

SPOT, DEDICATED = tier("spot"), tier("dedicated")
NUMBERS = count(100)


def lived(
    minutes: float, *, ago: float = 0, kind: EndKind = EndKind.LOSS, name: str = "spot", start: float | None = 60
):
    """An attempt that had its node for so many minutes and ended so many minutes ago; its start took `start` s."""
    ended = at(-60 * ago)
    scheduled = ended - timedelta(minutes=minutes)
    return AttemptRecord(
        number=next(NUMBERS), tier=name, kind=kind, reason="SpotInterruption", raised_at=scheduled,
        scheduled_at=scheduled, started_at=scheduled,
        first_step_at=None if start is None else scheduled + timedelta(seconds=start),
        ended_at=ended,
    )  # fmt: skip


def of(*history: AttemptRecord, current=DEDICATED, target=SPOT):
    return worth(status(history=history), current, target, at(0))


def test_a_tier_of_which_nothing_is_known_is_worth_a_try():
    found = of()
    assert (found.life, found.changeover, found.ratio, found.until) == (YOUNG, CHANGEOVER, Decimal(3), None)
    assert found.pays
    went = settled(snapshot(given(ON_DEDICATED), a_pod(), reports=[SAYS])).status.decision
    assert (
        went.reason
        == "training on dedicated; spot would be 3 times cheaper: a pod waits for a node, which could last 1h"
    )


@pytest.mark.parametrize(
    ("history", "life"),
    [
        ((lived(60),), timedelta(minutes=60)),
        ((lived(3), lived(3)), timedelta(minutes=22)),
        ((lived(600, kind=EndKind.STOPPED),), timedelta(minutes=660)),
        ((lived(3, name="dedicated"),), YOUNG),
        ((lived(3, ago=24 * 60),), YOUNG),
        ((lived(600, kind=EndKind.STOPPED, start=None),), YOUNG),
    ],
)
def test_how_long_a_tier_is_expected_to_last(history, life):
    assert of(*history).life == life


def test_a_tier_that_is_lost_again_and_again_is_not_gone_back_to_until_that_is_old():
    history = tuple(lived(3, ago=ago, start=179) for ago in (150, 120, 90, 60, 30, 5))
    found = of(*history)
    assert not found.pays
    assert found.until == at(-150 * 60) + REMEMBERED
    decision = settled(snapshot(given(ON_DEDICATED, history=history), a_pod(), reports=[SAYS]))
    assert decision.status.successor is None
    assert decision.requeue_at is not None
    capacity = {"tiers": list(TIERS), "returnPolicy": "Eager"}
    eager = settled(
        snapshot(given(ON_DEDICATED, history=history, spec={"capacity": capacity}), a_pod(), reports=[SAYS])
    )
    assert eager.status.successor.tier.name == "spot"
    later = settled(snapshot(given(ON_DEDICATED, history=history), a_pod(), reports=[SAYS], now=at(86_400)))
    assert later.status.successor.tier.name == "spot"


@pytest.mark.parametrize(("start", "pays"), [(14 * 60, True), (16 * 60, False)])
def test_both_nodes_are_paid_for_while_a_move_is_made(start, pays):
    """Two hours saved of three, for an hour: 7,200 s; both moves waste 4 price units for their time twice."""
    assert of(lived(60, start=start)).pays is pays


@pytest.mark.parametrize(
    ("here", "there", "ratio"),
    [
        ("3.06", "1.02", Decimal(3)),
        (None, "1", Decimal(3)),
        ("1", None, Decimal(3)),
        ("0.2", "1.02", Decimal(3)),
        ("3", "0", Decimal(1000)),
        ("0", "0", Decimal(3)),
        ("2", "1", Decimal(2)),
    ],
)
def test_prices(here, there, ratio):
    priced = [
        one.model_copy(update={"price_per_node_hour": None if price is None else Decimal(price)})
        for one, price in ((DEDICATED, here), (SPOT, there))
    ]
    assert worth(status(), priced[0], priced[1], at(0)).ratio == ratio


@pytest.mark.parametrize(("vain", "minutes"), [(0, 10), (1, 20), (4, 160), (20, 24 * 60)])
def test_a_better_tier_that_is_tried_in_vain_is_tried_later_each_time(vain, minutes):
    """What stands against it, such as a volume that only one node can mount, may last for months."""
    current = ON_DEDICATED.model_copy(update={"vain": vain})
    decision = settled(snapshot(given(current, follower(RUNNING)), a_pod(), ended(2, 1, node="n2"), reports=[SAYS]))
    assert decision.status.current.vain == vain + 1
    assert decision.status.current.return_after == at(60 * minutes)


def test_several_better_tiers_are_probed_in_turn():
    """Every ten minutes, and not as often as a pod that is waited for would change its tier."""
    on_cpu = ON_DEDICATED.model_copy(update={"tier": tier("cpu")})
    waits = follower(ACQUIRING, created_at=at(-599), acquire_deadline=at(-200))
    given_ = given(on_cpu, waits)
    assert settled(snapshot(given_, a_pod(), pending(2), reports=[SAYS])).trace == ()
    later = settled(snapshot(given_, a_pod(), pending(2), reports=[SAYS], now=at(1)))
    assert later.trace == ("no node for successor",)
    assert later.status.successor.tier.name == "dedicated"


@pytest.mark.parametrize(
    ("here", "there", "says"),
    [("0.2", "1.02", "stands above it in the grid"), (None, "1", "stands above it"), ("3", "0", "would cost nothing"),
     ("3", "2", "would be 1.5 times cheaper")],
)  # fmt: skip
def test_why_a_pod_waits_is_true(here, there, says):
    """A price is compared only where there are two, and the other is lower."""
    priced = [
        one.model_copy(update={"price_per_node_hour": None if price is None else Decimal(price)})
        for one, price in ((DEDICATED, here), (SPOT, there))
    ]
    assert says in explain(*priced, worth(status(), *priced, at(0)))
