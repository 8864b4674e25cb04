"""Rules of other systems."""

from dataclasses import replace

import pytest
from tests.support.decisions.tier_views import DEDICATED, SPOT, view

from holdfast_research.baselines import eager, greedy, never_return, uniform_progress

HOUR = 3600.0
OUT = replace(SPOT, available=False)
NEVER = never_return(48 * HOUR)
UNIFORM = uniform_progress(40 * HOUR, 48 * HOUR)


@pytest.mark.parametrize(
    ("rule", "spot", "tier", "left", "wanted"),
    [
        (NEVER, SPOT, None, 48, "spot"),
        (NEVER, SPOT, "spot", 47, "spot"),
        (NEVER, OUT, "spot", 47, "dedicated"),
        (NEVER, OUT, None, 48, "dedicated"),
        (NEVER, SPOT, None, 47, "dedicated"),
        (NEVER, SPOT, "dedicated", 47, "dedicated"),
        (eager, SPOT, None, 48, "spot"),
        (eager, OUT, "spot", 48, "dedicated"),
        (eager, SPOT, "dedicated", 48, "spot"),
        (eager, SPOT, "dedicated", 40.5, "dedicated"),
        (greedy, OUT, None, 48, None),
        (greedy, OUT, None, 40.4, "dedicated"),
        (greedy, SPOT, "dedicated", 48, "dedicated"),
        (greedy, SPOT, None, 48, "spot"),
        (UNIFORM, OUT, None, 48, None),  # just begun
        (UNIFORM, OUT, None, 47, "dedicated"),  # an hour on, and nothing done
        (UNIFORM, SPOT, None, 47, "spot"),
        (UNIFORM, SPOT, "dedicated", 48, "dedicated"),
        (UNIFORM, SPOT, "spot", 40.3, "dedicated"),
    ],
)
def test_what_each_baseline_chooses(rule, spot, tier, left, wanted):
    assert rule(view(spot, DEDICATED, tier=tier, left=left * HOUR)).tier == wanted


def test_uniform_progress_goes_back_when_it_is_ahead():
    ahead = 2 * 600 * 40 / 48  # of the line two changeovers from now
    assert UNIFORM(view(tier="dedicated", work=40 * HOUR - ahead - 1)).tier == "spot"
    assert UNIFORM(view(tier="dedicated", work=40 * HOUR - ahead + 1)).tier == "dedicated"


@pytest.mark.parametrize(("done", "watch"), [(0, False), (2 * HOUR, True)])
def test_uniform_progress_watches_spot_only_when_it_is_ahead(done, watch):
    assert UNIFORM(view(OUT, DEDICATED, tier="dedicated", work=40 * HOUR - done)).watch is watch


def test_they_need_a_dependable_tier():
    with pytest.raises(ValueError, match="dependable"):
        eager(view(SPOT))
