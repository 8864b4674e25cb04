"""When to save: Daly's interval, its bounds, and the most that an interruption may cost."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_protocol.saving import LONGEST, MOST_SHARE
from holdfast_protocol.settings import Every
from holdfast_train.save.interval import (
    RECENT,
    SHORTEST,
    Cost,
    auto_interval,
    daly_interval,
    is_due,
    longest_interval,
    remember,
    warning,
)

HOUR = 3600.0


def cost(lost: float, commit: float | None = None) -> Cost:
    return Cost(lost, lost if commit is None else commit, 1 << 30)


@pytest.mark.parametrize(
    ("between", "minutes"),
    # The paper's own examples (its figures 3 to 5): a save of five minutes, and the predictions of the model.
    [(24 * HOUR, 117), (6 * HOUR, 57), (900, 9.1)],
)
def test_daly_as_in_the_paper(between: float, minutes: float) -> None:
    assert daly_interval(300.0, between) / 60 == pytest.approx(minutes, abs=0.5 if minutes > 10 else 0.05)


def expected_time(interval: float, cost: float, between: float) -> float:
    """Expected time for a second of work, interruptions at random: M (exp((t + d) / M) - 1) / t."""
    return between * math.expm1((interval + cost) / between) / interval


@given(st.floats(0.01, 100), st.floats(500, 1e6))
def test_daly_is_close_to_the_optimum(cost: float, between: float) -> None:
    """Against the exact cost function: no interval between half and twice of it is 0.1 % better."""
    ours = expected_time(daly_interval(cost, between), cost, between)
    others = [expected_time(daly_interval(cost, between) * 2 ** (n / 10), cost, between) for n in range(-10, 11)]
    assert ours <= min(others) * 1.001


def test_save_that_takes_longer_than_nodes_live() -> None:
    assert daly_interval(500.0, 100.0) == 100.0


@pytest.mark.parametrize(
    ("costs", "between", "seconds"),
    [
        ((), None, 600.0),  # nothing is known
        ((), 7200.0, 382.8),  # ten seconds are assumed
        ((), 30 * 86400.0, 600.0),  # but the first save comes after ten minutes at most
        ((), 10.0, SHORTEST),
        ((cost(1.0),), None, 600.0),
        ((cost(1.0),), 7200.0, 120.3),
        ((cost(10.0),), 7200.0, 382.8),
        ((cost(0.0),), 7200.0, SHORTEST),
        ((cost(0.001),), 7200.0, SHORTEST),
        ((cost(5.0),), 30 * 86400.0, LONGEST),
        ((cost(60.0),), 7200.0, 1200.0),  # Daly's interval is 950 s: saving would cost more than 5 %
        ((cost(300.0),), None, 6000.0),
        ((cost(0.01, commit=90.0),), 7200.0, 90.0),  # in the background, to a slow storage: one save follows the other
        ((cost(1.0), cost(90.0), cost(1.0)), 7200.0, 120.3),  # one slow save is ignored
        ((cost(9.0), cost(1.0), cost(1.0), cost(1.0), cost(1.0)), 7200.0, 120.3),  # the first save allocates memory
    ],
)
def test_auto(costs: tuple[Cost, ...], between: float | None, seconds: float) -> None:
    assert auto_interval(costs, between) == pytest.approx(seconds, abs=0.1)


def test_only_the_last_few_saves_count() -> None:
    costs: tuple[Cost, ...] = ()
    for number in range(20):
        costs = remember(costs, cost(float(number)))
    assert [one.lost for one in costs] == [15.0, 16.0, 17.0, 18.0, 19.0]
    assert len(costs) == RECENT


@pytest.mark.parametrize(
    ("costs", "max_lost_work", "seconds"),
    [
        ((), 600.0, 300.0),
        ((cost(1.0),), 600.0, 599.0),
        ((cost(0.1, 60.0),), 600.0, 540.0),
        ((cost(1.0), cost(0.1, 60.0), cost(1.0)), 600.0, 540.0),  # the slowest commit: maxLostWork is a promise
        ((cost(0.1, 300.0),), 600.0, 300.0),
        ((cost(0.1, 400.0),), 600.0, 400.0),  # cannot be met: one save follows the other
    ],
)
def test_interval_for_an_interruption(costs: tuple[Cost, ...], max_lost_work: float, seconds: float) -> None:
    assert longest_interval(costs, max_lost_work) == pytest.approx(seconds)


STEPS, TEN_MINUTES, AUTO = Every(steps=5), Every(seconds=600.0), Every(mean_time_between_interruptions=7200.0)


@pytest.mark.parametrize(
    ("every", "costs", "now", "answer"),
    [
        (STEPS, (), {"step": 5}, True),
        (STEPS, (), {"step": 6, "age": 1e6}, False),
        (TEN_MINUTES, (), {"age": 599.0}, False),
        (TEN_MINUTES, (), {"age": 600.0}, True),
        (AUTO, (cost(1.0),), {"age": 120.0}, False),
        (AUTO, (cost(1.0),), {"age": 121.0}, True),
        (AUTO, (cost(1.0),), {"age": 121.0}, True),
        # For any `every`, no state becomes older than maxLostWork: a save begins at the last step before that.
        (Every(steps=5, max_lost_work=60.0), (cost(10.0),), {"step": 6, "age": 49.0}, False),
        (Every(steps=5, max_lost_work=60.0), (cost(10.0),), {"step": 6, "age": 51.0}, True),
        (Every(steps=5, max_lost_work=60.0), (cost(10.0),), {"step": 6, "age": 41.0, "last_step": 10.0}, True),
        (Every(steps=5, max_lost_work=60.0), (cost(10.0),), {"step": 6, "age": 39.0, "last_step": 10.0}, False),
        (Every(seconds=60.0, max_lost_work=60.0), (cost(10.0),), {"age": 51.0}, True),
        (
            Every(mean_time_between_interruptions=7200.0, max_lost_work=60.0),
            (cost(1.0),),
            {"age": 58.0, "last_step": 2.0},
            True,
        ),
    ],
)
def test_due(every: Every, costs: tuple[Cost, ...], now: dict[str, float], answer: bool) -> None:
    given = {"age": 0.0, "last_step": 0.0} | now
    assert is_due(every, costs, step=int(given.pop("step", 1)), **given) is answer


costs_strategy = st.lists(
    st.tuples(st.floats(0, 300), st.floats(0, 300)).map(lambda two: Cost(two[0], two[0] + two[1], 1)), max_size=RECENT
).map(tuple)
betweens = st.floats(1, 1e8)


@given(costs_strategy, betweens | st.none())
def test_auto_stays_in_its_bounds(costs: tuple[Cost, ...], between: float | None) -> None:
    seconds = auto_interval(costs, between)
    lost = sorted(one.lost for one in costs)[len(costs) // 2] if costs else 0.0
    commit = sorted(one.commit for one in costs)[len(costs) // 2] if costs else 0.0
    assert seconds >= SHORTEST
    assert lost <= seconds * MOST_SHARE * (1 + 1e-9)
    assert seconds >= commit
    assert seconds <= max(LONGEST, lost / MOST_SHARE, commit)


@given(costs_strategy.filter(bool), betweens, betweens)
def test_fewer_interruptions_mean_fewer_saves(costs: tuple[Cost, ...], one: float, other: float) -> None:
    assert auto_interval(costs, min(one, other)) <= auto_interval(costs, max(one, other)) * (1 + 1e-9)


@given(costs_strategy.filter(bool), betweens | st.none(), st.floats(1, 3), st.floats(0, 100))
def test_more_expensive_saves_are_fewer(
    costs: tuple[Cost, ...], between: float | None, times: float, more: float
) -> None:
    costlier = tuple(Cost(one.lost * times + more, one.commit * times + more, one.size) for one in costs)
    assert auto_interval(costs, between) <= auto_interval(costlier, between) * (1 + 1e-9)


everys = st.sampled_from([Every(steps=10**6), Every(seconds=1e6), Every(), AUTO])


@given(everys, costs_strategy, st.floats(10, 7200), st.floats(0.1, 5.0))
def test_no_interruption_costs_more_than_it_may(
    every: Every, costs: tuple[Cost, ...], max_lost_work: float, step_seconds: float
) -> None:
    """Train until a save is due, which then takes as long as the longest one so far. An interruption just before its
    commit costs at most maxLostWork; otherwise a warning says that this cannot be met, and the interruption costs at
    most one step more.
    """
    every = replace(every, max_lost_work=max_lost_work)
    commit = max((one.commit for one in costs), default=max_lost_work / 2)
    age = 0.0
    for step in range(1, 10**6):
        age += step_seconds
        if is_due(every, costs, step=step, age=age, last_step=step_seconds):
            break
    if 2 * commit <= max_lost_work and step_seconds <= max_lost_work - commit:
        assert age + commit <= max_lost_work * (1 + 1e-9)
    elif 2 * commit > max_lost_work:
        assert age + commit <= 2 * commit + step_seconds
        assert "cannot be met" in (warning(every, costs) or "")


@pytest.mark.parametrize(
    ("every", "costs", "words"),
    [
        (AUTO, (cost(90.0),), None),
        (Every(max_lost_work=60.0), (), None),
        (Every(max_lost_work=60.0), (cost(1.0),), None),
        (
            Every(max_lost_work=60.0),
            (cost(1.0, 40.0),),
            "checkpoint.maxLostWork (60 s) cannot be met: a save takes 40.0 s until it is committed, so an "
            "interruption may cost 80.0 s; allow at least that, or use a faster storage",
        ),
        (
            Every(seconds=60.0, max_lost_work=60.0),
            (cost(10.0),),
            "checkpoint.maxLostWork (60 s) needs a save every 50.0 s, and each costs 10.0 s of training: 20% of the "
            "time; a longer maxLostWork makes training faster",
        ),
    ],
)
def test_warnings_about_max_lost_work(every: Every, costs: tuple[Cost, ...], words: str | None) -> None:
    assert warning(every, costs) == words
