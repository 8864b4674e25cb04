"""Markets without an end: repeatable, and with the means that their weights were found for."""

from itertools import islice, pairwise

import pytest

from holdfast_cli.simulate.climate import LONGEST_SPELL, Climate, endless, mean_spell, weight_of


@pytest.mark.parametrize("wrong", [{"up": 0}, {"down": -1}, {"young": 0}, {"swing": 1}])
def test_a_climate_is_checked(wrong):
    with pytest.raises(ValueError, match="above 0"):
        Climate(**wrong)


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
