"""The optimum against an exhaustive search, and against what a rule really pays."""

from functools import cache
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast_cli.simulate.traces import Trace
from holdfast_research.omniscient import Window, optimum


def searched(window: Window) -> float | None:
    """The optimum by trying every move in every step."""
    prices = [*window.spot_prices, window.dedicated_price]
    ups = [trace.is_up for trace in window.traces] + [lambda _step: True]

    @cache
    def cost(step: int, tier: int | None, changing: int, work: int) -> float:
        if work <= 0:
            return 0.0
        if step == window.deadline:
            return inf
        best = cost(step + 1, None, 0, work)  # wait
        for to, up in enumerate(ups):
            if not up(window.start + step):
                continue
            left = changing if to == tier else window.changeover
            work_after = work if left else work - 1
            best = min(best, prices[to] + after(step + 1, to, max(left - 1, 0), work_after))
        return best

    def after(step: int, tier: int, changing: int, work: int) -> float:
        """The market moves before the job can leave."""
        if work > 0 and step < window.deadline and not ups[tier](window.start + step):
            return cost(step, None, 0, work + (0 if changing else window.lost))
        return cost(step, tier, changing, work)

    found = cost(0, None, 0, window.work)
    return None if found == inf else found * window.traces[0].gap / 3600


@st.composite
def windows(draw):
    zones = draw(st.integers(1, 2))
    traces = [
        Trace(f"zone-{zone}", 600, bytes(draw(st.lists(st.integers(0, 1), min_size=1, max_size=18))))
        for zone in range(zones)
    ]
    work = draw(st.integers(1, 9))
    prices = [draw(st.sampled_from([1.0, 1.0, 0.5, 0.0, 2.5])) for _ in traces]
    return Window(
        traces,
        start=draw(st.integers(0, 3)),
        work=work,
        deadline=work + draw(st.integers(-1, 8)),
        changeover=draw(st.integers(0, 3)),
        lost=draw(st.integers(0, 2)),
        dedicated_price=draw(st.sampled_from([3.0, 1.3, 2.0])),
        spot_prices=prices,
    )


def text(samples: str) -> Trace:
    return Trace("zone", 600, bytes(map(int, samples)))


@given(windows())
@example(
    Window([text("1111")], 0, work=6, deadline=8, changeover=1, lost=1)
)  # the job must leave just before the interruption
@example(Window([text("10111111")], 0, work=3, deadline=8, changeover=2))  # a changeover does not outlive an outage
@example(Window([text("1111")], 0, work=3, deadline=4, changeover=1, lost=1))  # done as Spot goes
@settings(max_examples=300)
def test_nothing_cheaper_can_be_found(window):
    wanted = searched(window)
    assert optimum(window) == (None if wanted is None else pytest.approx(wanted))


def test_by_hand():
    """Spot for 3 steps of which 2 are useful, then 4 useful ones and a changeover on dedicated."""
    assert optimum(Window([text("111")], 0, work=6, deadline=8, changeover=1)) == pytest.approx((3 + 3 * 5) / 6)
    assert optimum(Window([text("")], 0, work=6, deadline=7, changeover=1)) == pytest.approx(3 * 7 / 6)
    assert optimum(Window([text("")], 0, work=6, deadline=6, changeover=1)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"work": 0},
        {"start": -1},
        {"spot_prices": ()},
        {"traces": [], "spot_prices": ()},
        {"dedicated_price": -1.0},
        {"traces": [text("1"), Trace("other", 60, b"")], "spot_prices": (1.0, 1.0)},
    ],
)
def test_an_invalid_window(wrong):
    with pytest.raises(ValueError, match=r"must be|give at least one trace"):
        optimum(Window(**{"traces": [text("1")], "start": 0, "work": 1, "deadline": 2, "changeover": 0, **wrong}))
