"""Generated markets: repeatable, with the documented hazard, and hostile ones."""

from itertools import groupby

import pytest

from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.machines import Watched
from holdfast_research.synthetic import comb, made_up, siren, sniper, weather, zones

ON, CHANGING, AWAY = Watched(True, 0), Watched(True, 600), Watched(False, 0)


def test_the_same_seed_gives_the_same_weather():
    assert weather(1, 500) == weather(1, 500)
    assert weather(1, 500).up != weather(2, 500).up


def test_old_spells_last():
    """Of the spells that reach 40 minutes, 3/8 end in the next 80 for a weight of 1/2: 1 - (60 / 140) ** 0.5."""
    seen = [weather(seed, 4000, Climate(0.5, 0.5)).up for seed in range(40)]
    spells = [steps for up in seen for steps in [len(list(same)) for _, same in groupby(up)][:-1]]
    young = sum(steps <= 4 for steps in spells) / len(spells)
    assert young == pytest.approx(1 - (20 / 60) ** 0.5, abs=0.03)
    old = [steps for steps in spells if steps > 4]
    assert sum(steps <= 12 for steps in old) / len(old) == pytest.approx(1 - (60 / 140) ** 0.5, abs=0.05)


def test_days_are_harder_than_nights():
    up = [0, 0]
    for seed in range(30):
        made = weather(seed, 6 * 24 * 20, Climate(2, 2, swing=0.8))
        for step in range(len(made)):
            up[36 <= step % 144 < 108] += made.is_up(step)
    assert up[1] < 0.8 * up[0]


def test_zones_go_together():
    """Where the region is never out, two zones are out together by chance only."""
    calm, rough = Climate(up=1e-9), Climate(up=0.5, down=1.0)

    def together(region):
        pairs = [zones(seed, 500, 2, region=region) for seed in range(40)]
        assert all(first.up != second.up for first, second in pairs)
        return sum(a == b == 0 for first, second in pairs for a, b in zip(first.up, second.up, strict=True))

    assert together(rough) > 1.5 * together(calm)


def test_sizes_are_bounded():
    with pytest.raises(ValueError, match="steps"):
        weather(1, 10**9)
    with pytest.raises(ValueError, match="number may be below 0"):
        comb(10, 1, -1)


def test_a_comb():
    assert comb(8, 2, 1, first=1).up == bytes([0, 1, 1, 0, 1, 1, 0, 1])


def pattern(market, watched):
    """How long it is up and out, asked with these."""
    return [(up, len(list(group))) for up, group in groupby(market(step, seen) for step, seen in enumerate(watched))]


def test_a_sniper_shoots_after_the_changeover():
    assert pattern(sniper(0, 2), [AWAY, AWAY, CHANGING, CHANGING, ON, AWAY, AWAY]) == [(True, 4), (False, 2), (True, 1)]


def test_a_sniper_lets_a_checkpoint_grow_old():
    assert pattern(sniper(1200, 1), [CHANGING, ON, ON, ON, AWAY]) == [(True, 3), (False, 1), (True, 1)]


def test_a_siren_looks_dependable():
    assert pattern(siren(2, 3), [AWAY] * 9 + [CHANGING] * 3 + [AWAY] * 3) == [(True, 11), (False, 3), (True, 1)]


def test_the_markets_of_a_study_without_traces():
    apart = made_up(1)
    assert len({trace.up for (trace,) in apart}) == len(apart) == 8
    (together,) = made_up(1, together=True)
    assert len(together) == 3
    assert made_up(1) == apart != made_up(2)
