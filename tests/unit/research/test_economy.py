"""The economy's bills, and the promise of policy Deadline in it: no market makes a job late."""

from decimal import Decimal
from functools import partial
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.capacity.deadline import deadline
from holdfast.core.capacity.policy_input import Choice
from holdfast_cli.simulate.climate import Climate
from holdfast_cli.simulate.traces import Trace
from holdfast_research import baselines
from holdfast_research.economy import Setting, Steady, playback, run
from holdfast_research.omniscient import Window, optimum
from holdfast_research.synthetic import comb, siren, sniper, weather, zones

HOUR = 3600.0


def plan(*tiers):
    """A rule that goes through these tiers, one for each step, and stays on the last."""
    left = list(tiers)
    return lambda _view: Choice(left.pop(0) if len(left) > 1 else left[0], "as planned", 60)


def trace(text):
    return playback(Trace("zone", 600, bytes(map(int, text))))


def small(**given):
    return Setting(**{"work": 1800, "deadline": 3600, "changeover": 600, **given})


@pytest.mark.parametrize(
    ("tiers", "up", "cost", "finished", "moves"),
    [
        (["dedicated"], "0", 3 * 4, 2400, 1),
        (["spot-0"], "1111", 4, 2400, 1),
        (["spot-0", "spot-0", "dedicated"], "11", 2 + 3 * 3, 3000, 2),  # the first 10 min of work were on Spot
        ([None, "dedicated"], "1", 3 * 4, 3000, 1),
        (["spot-0", "dedicated"], "0", 3 * 4, 3000, 1),  # the market is out
        (["spot-0"], "101111", 1 + 4, 3600, 2),  # lost in its changeover
    ],
)
def test_bills(tiers, up, cost, finished, moves):
    outcome = run(plan(*tiers), [trace(up)], small())
    assert outcome.cost == pytest.approx(cost / 6)
    assert (outcome.finished, outcome.moves, outcome.missed) == (finished, moves, False)


def test_the_last_step_is_billed_to_the_second():
    outcome = run(plan("dedicated"), [], small(work=700, changeover=100, spot_prices=()))
    assert (outcome.finished, outcome.cost) == (800, pytest.approx(3 * 800 / 3600))


def test_late_is_late():
    assert run(plan("dedicated"), [], small(deadline=2399, spot_prices=())).late == 1


@pytest.mark.parametrize(("lost", "finished"), [(0, 4200), (300, 4500), (600, 4800), (9000, 4800)])
def test_an_interruption_costs_work_but_never_more_than_was_done_there(lost, finished):
    outcome = run(plan("spot-0", "spot-0", "spot-0", None, "dedicated"), [trace("11")], small(lost=lost, work=2400))
    assert (outcome.interruptions, outcome.finished) == (1, finished + 600)


def test_the_work_of_several_steps_can_be_lost():
    outcome = run(plan(*["spot-0"] * 4, "dedicated"), [trace("1111")], small(lost=1500, work=3000))
    assert outcome.finished == 5 * 600 + 2700  # of 1,800 s, 1,500 are lost


def test_speeds_and_prices():
    setting = small(spot_prices=(Decimal("0.5"),), spot_speeds=(0.5,), changeover=0)
    outcome = run(plan("spot-0"), [trace("111111")], setting)
    assert (outcome.finished, outcome.cost) == (3600, pytest.approx(0.5))


def test_more_tiers_may_be_always_up():
    more = (Steady("slow", Decimal(1), 0.5),)
    outcome = run(plan("slow", "slow", "dedicated"), [], small(changeover=0, spot_prices=(), steady=more))
    assert (outcome.hours, outcome.moves) == ({"slow": pytest.approx(2 / 6), "dedicated": pytest.approx(2 / 6)}, 2)


def test_watching_is_billed_only_where_the_rule_watches():
    seen = []

    def rule(view):
        seen.append((view.tiers[0].available, view.tiers[0].spell_age))
        return Choice("dedicated", "", 60, watch=len(seen) != 2)

    outcome = run(rule, [trace("111111")], small(billed_probe=True))
    assert seen == [(True, 0), (True, 600), (None, None), (True, 0)]
    assert outcome.hours == {"dedicated": pytest.approx(4 / 6), "spot-0": pytest.approx(3 / 6)}


def test_ages_go_on():
    seen = []

    def rule(view):
        seen.append(view.tiers[0].spell_age)
        return Choice("dedicated", "", 60)

    run(rule, [trace("1101")], small(), ages=[1200])
    assert seen == [1200, 1800, 0, 0]


def test_a_rule_that_never_ends():
    with pytest.raises(ValueError, match="has not finished"):
        run(plan(None), [trace("1")], small())


# The promise


SNIPERS = st.builds(
    lambda useful, out: partial(sniper, useful, out), st.sampled_from([0, 600, 1200]), st.integers(0, 40)
)
SIRENS = st.builds(lambda wait, gone: partial(siren, wait, gone), st.integers(0, 8), st.integers(0, 40))
COMBS = st.builds(
    lambda up, down, first: lambda: playback(comb(900, up, down, first=first)),
    st.integers(0, 12),
    st.integers(1, 12),
    st.integers(0, 20),
)
WEATHER = st.builds(
    lambda seed, up, down: lambda: playback(weather(seed, 900, Climate(up, down, swing=0.4))),
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.sampled_from([0.3, 1.0, 3.0]),
)
RANDOM = st.lists(st.integers(0, 1), max_size=300).map(
    lambda samples: lambda: playback(Trace("random", 600, bytes(samples)))
)
MARKETS = st.lists(st.one_of(SNIPERS, SIRENS, COMBS, WEATHER, RANDOM), min_size=1, max_size=3)


@st.composite
def promises(draw, interruptions):
    """A job that would finish in time on dedicated alone, at the worst changeover."""
    worst = draw(st.sampled_from([0, 60, 600, 1200, 1500, 2400]))
    real = draw(st.lists(st.floats(0, 1), min_size=1, max_size=7))  # every changeover is at most the worst
    real = draw(st.sampled_from([[1.0], real]))
    lost = draw(interruptions)
    work = draw(st.sampled_from([600.0, 5 * HOUR, 48 * HOUR]) | st.floats(60, 20 * HOUR))
    markets = draw(MARKETS)
    speeds = tuple(draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0])) for _ in markets)
    setting = Setting(
        work=work,
        deadline=work + worst + lost + draw(st.sampled_from([0, 1, 600, 3000, 6000]) | st.floats(0, work)),
        changeover=lambda move: worst * real[move % len(real)],
        typical=worst * draw(st.sampled_from([0.0, 0.5, 1.0])),
        worst=worst,
        lost=lost,
        dedicated_price=Decimal(draw(st.sampled_from(["3", "1.3", "20", "0.5"]))),
        spot_prices=tuple(Decimal(draw(st.sampled_from(["1", "1", "0", "2"]))) for _ in markets),
        spot_speeds=speeds,
        billed_probe=draw(st.booleans()),
        steady=draw(st.sampled_from([(), (), (Steady("slow", Decimal(1), 0.5),), (Steady("fast", Decimal(9), 2.0),)])),
    )
    return setting, markets


def seldom(rule):
    """Ask the rule only when it says so, or when a tier came, went or was lost."""
    asked = None

    def asleep(view):
        nonlocal asked
        state = (view.tier, tuple(tier.available for tier in view.tiers))
        if asked is None or asked[0] != state or asked[1] - view.left + view.step > asked[2].again_within:
            asked = (state, view.left, rule(view))
        choice = asked[2]
        if choice.tier != view.tier:  # the move happens now, so it is not an event
            asked = ((choice.tier, state[1]), *asked[1:])
        return choice

    return asleep


@given(promises(st.sampled_from([0.0, 600.0])))
@settings(max_examples=100)
def test_no_market_makes_a_job_late_if_the_rule_is_asked_only_when_necessary(promise):
    setting, markets = promise
    assert run(seldom(deadline), [market() for market in markets], setting).late <= 1e-6


@given(promises(st.just(0.0)))
@settings(max_examples=150)
def test_no_market_makes_a_job_late(promise):
    setting, markets = promise
    assert run(deadline, [market() for market in markets], setting).late <= 1e-6


@given(promises(st.sampled_from([60.0, 600.0, 1800.0])))
@settings(max_examples=150)
def test_no_market_makes_a_job_late_if_every_interruption_costs_work(promise):
    setting, markets = promise
    assert run(deadline, [market() for market in markets], setting).late <= 1e-6


def test_the_hostile_markets_are_hostile():
    """A rule that does not know of interruptions of work is late: so the property above can fail."""
    setting = Setting(48 * HOUR, 49 * HOUR, 600, lost=600, at_risk=0)
    assert run(deadline, [sniper(600, 3)], setting).missed
    setting = Setting(48 * HOUR, 49 * HOUR, 2400, typical=600)
    assert run(deadline, [sniper(0, 3)], setting).missed


@pytest.mark.parametrize("slack", [4, 12, 30])
def test_baselines_are_in_time_too(slack):
    work, total = 48 * HOUR, (48 + slack) * HOUR
    for rule in (
        baselines.never_return(total),
        baselines.eager,
        baselines.greedy,
        baselines.uniform_progress(work, total),
    ):
        for market in (sniper(0, 3), siren(3, 9), playback(weather(7, 600)), playback(comb(600, 3, 3))):
            assert not run(rule, [market], Setting(work, total, 1200, lost=600)).missed


# Against the optimum


@given(
    st.integers(0, 10**6),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.floats(1.1, 1.8),
)
@settings(max_examples=40)
def test_no_rule_is_cheaper_than_the_optimum(seed, changeover, lost, count, ample):
    traces = zones(seed, 300, count)
    work, total = 100, ceil(100 * ample)
    best = optimum(Window(traces, 0, work, total, changeover, lost, spot_prices=(1.0,) * count))
    setting = Setting(
        work * 600.0, total * 600.0, changeover * 600.0, lost=lost * 600.0, spot_prices=(Decimal(1),) * count
    )
    for rule in (deadline, baselines.eager, baselines.greedy, baselines.uniform_progress(work * 600.0, total * 600.0)):
        outcome = run(rule, [playback(trace) for trace in traces], setting)
        assert outcome.missed or outcome.cost >= best - 1e-9


def test_the_rule_is_better_than_the_baselines():
    """On markets of the kind that the rule is made for; a benchmark uses the recorded ones."""
    work, total = 48 * HOUR, 64 * HOUR
    rules = {
        "deadline": deadline,
        "never": baselines.never_return(total),
        "eager": baselines.eager,
        "greedy": baselines.greedy,
        "uniform": baselines.uniform_progress(work, total),
    }
    cost = dict.fromkeys(rules, 0.0)
    for seed in range(20):
        made = weather(seed, 400, Climate(1.2, 1.2))
        for name, rule in rules.items():
            cost[name] += run(rule, [playback(made)], Setting(work, total, 1200)).cost
    assert min(cost, key=cost.__getitem__) == "deadline", cost
