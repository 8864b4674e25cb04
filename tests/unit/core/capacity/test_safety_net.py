"""The safety net: what remains when the worst happens at the worst moment."""

from dataclasses import replace

import pytest
from tests.support.decisions.tier_views import CPU, DEDICATED, SPOT, view

from holdfast.core.capacity.safety_net import find_net, spare

HOUR = 3600.0


def test_slack_and_reserve():
    net = find_net(view(work=10 * HOUR, left=12 * HOUR, at_risk=300))
    assert (net.tier, net.slack, net.reserve) == (DEDICATED, 2 * HOUR, 1500)


def test_no_net():
    assert find_net(view(SPOT)) is None


def test_the_fastest_is_the_net():
    fast = replace(DEDICATED, name="fast", speed=2.0)
    assert find_net(view(SPOT, CPU, DEDICATED, fast)).tier is fast


def test_a_tier_that_is_out_is_the_safety_net_only_if_there_is_no_other():
    gone = replace(DEDICATED, name="gone", speed=2.0, available=False)
    assert find_net(view(SPOT, gone, DEDICATED)).tier is DEDICATED
    assert find_net(view(SPOT, gone)).tier is gone
    assert find_net(view(SPOT, gone, DEDICATED, tier="gone")).tier is gone


def test_close_to_the_deadline_a_changeover_counts_more_than_speed():
    fast = replace(DEDICATED, name="fast", speed=1.1)
    given = view(SPOT, DEDICATED, fast, tier="dedicated", work=2 * HOUR, left=2.1 * HOUR)
    assert find_net(given).tier is DEDICATED


@pytest.mark.parametrize(
    ("tier", "given", "room"),
    [
        (None, {}, 7200 - 1200 - 600),  # a step without a decision, then the worst changeover
        (SPOT, {}, 7200 - 1200 - 1200),  # lost at the end of the worst changeover, then the next one
        (SPOT, {"at_risk": 500}, 7200 - 1200 - 1700),
        (SPOT, {"tier": "spot", "changing": 400}, 7200 - 400 - 1200),
        (replace(SPOT, available=None), {}, 7200 - 1200 - 1200 - 600),  # the try may end without a node
        (replace(SPOT, speed=0.5), {}, 7200 - 1200 - 1200 - 300),  # half of a step's slack is used up by a step
        (replace(SPOT, speed=2.0), {}, 7200 - 1200 - 1200),
        (CPU, {}, 7200 - 1200 - 600),  # as good as nowhere
        (DEDICATED, {}, 6000),  # in time by itself
        (DEDICATED, {"tier": "dedicated", "changing": 100}, 7100),
        (replace(SPOT, speed_assumed=True), {}, 7200 - 1200 - 1200 - 600),  # it may do nothing in a step
        (replace(DEDICATED, name="new", speed_assumed=True), {}, 7200 - 1200 - 1200 - 600),  # as if it were Spot
    ],
)
def test_room(tier, given, room):
    shown = view(work=10 * HOUR, left=12 * HOUR, **given)
    assert find_net(shown).room(shown, tier) == pytest.approx(room)


def test_spare():
    given = view(work=10 * HOUR, left=12 * HOUR)
    assert spare(given, DEDICATED) == 2 * HOUR - 1200
    assert spare(given, replace(DEDICATED, speed=2.0)) == 7 * HOUR - 1200
    assert spare(given, CPU) < -400 * HOUR
