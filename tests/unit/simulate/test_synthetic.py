"""Generated markets: repeatable, with the documented hazard, and hostile ones."""

from itertools import groupby, islice, pairwise

import pytest

from holdfast.simulate.economy import Watched
from holdfast.simulate.synthetic import (
    LONGEST_SPELL,
    Climate,
    comb,
    endless,
    made_up,
    mean_spell,
    siren,
    sniper,
    weather,
    weight_of,
    zones,
)

ON, CHANGING, AWAY = Watched(True, 0), Watched(True, 600), Watched(False, 0)


def test_the_same_seed_gives_the_same_weather():
    assert weather(1, 500) == weather(1, 500)
    assert weather(1, 500).up != weather(2, 500).up


def test_old_spells_last():
    """Of the spells that reach 40 minutes, 3/8 end in the next 80 for a weight of 1/2: 1 - (60 / 140) ** 0.5."""
    spells = [steps for seed in range(40) for _, steps in list(weather(seed, 4000, Climate(0.5, 0.5)).spells())[:-1]]
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


@pytest.mark.parametrize("wrong", [{"up": 0}, {"down": -1}, {"young": 0}, {"swing": 1}])
def test_a_climate_is_checked(wrong):
    with pytest.raises(ValueError, match="above 0"):
        Climate(**wrong)


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


# Breaks if the interruptions that a plan is told are not those that its markets have.
@pytest.mark.parametrize(("up", "out"), [(12 * 3600, 3600), (1800, 7200), (48 * 3600, 1200)])
def test_endless_markets_have_the_means_that_their_weights_were_found_for(up, out):
    climate = Climate(weight_of(up), weight_of(out))
    spells = [spell for seed in range(60) for spell in list(islice(endless(seed, climate), 2000))[1:]]
    ends = [(one[1], other[0]) for one, other in pairwise(spells) if other[0] > one[1]]
    assert sum(end - start for start, end in spells) / len(spells) == pytest.approx(up, rel=0.1)
    assert sum(back - gone for gone, back in ends) / len(ends) == pytest.approx(out, rel=0.1)


def test_an_endless_market_is_found_in_the_middle_of_a_spell():
    firsts = [next(endless(seed)) for seed in range(400)]
    assert firsts == [next(endless(seed)) for seed in range(400)]
    assert 0.35 < sum(start == 0 for start, _ in firsts) / 400 < 0.65
    assert all(0 <= start < end for start, end in firsts)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
def test_the_weight_follows_from_the_mean(weight):
    assert weight_of(mean_spell(weight)) == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize("mean", [59, LONGEST_SPELL])
def test_means_that_no_market_has_are_refused(mean):
    with pytest.raises(ValueError, match="the mean of spells must be"):
        weight_of(mean)
