"""The lowest cost of a job that knows the future: the optimum over a whole window of Spot traces.

The economy is that of holdfast_research.economy, in steps. A start wastes its changeover, a wait wastes its time, and
together they may waste at most `deadline - work`. So this is a dynamic programme over time whose state is the waste so
far and the job's tier. For each amount of waste it keeps the lowest cost. A stay on a tier wastes nothing, so the
tier's row only grows by the price, which is kept apart. With T steps, S of them to spare, and m markets, it takes O(T *
S * m): about S comparisons per step and market.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from holdfast_cli.simulate.traces import Trace

Row = list[float]


@dataclass(frozen=True, slots=True)
class Window:
    """A job on traces with one gap, from step `start` on. `work`, `deadline`, `changeover` and `lost` are in steps.

    `lost` is the work that an interruption of Spot costs if the job has not left before. A job that leaves in time
    loses nothing.
    """

    traces: Sequence[Trace]
    start: int
    work: int
    deadline: int
    changeover: int
    lost: int = 0
    dedicated_price: float = 3.0
    spot_prices: Sequence[float] = (1.0,)


def optimum(window: Window) -> float | None:
    """The lowest cost of the window, in price times hours; None if the job cannot meet the deadline.

    Raises ValueError for a window without a trace, with different gaps, with other than one price per trace, with a
    price below 0, without work, or with a time below 0.
    """
    _check(window)
    spare = window.deadline - window.work
    if spare < 0:
        return None
    hours = window.traces[0].gap / 3600
    best = _cheapest(window, spare)
    return None if best == inf else best * hours


def _check(w: Window) -> None:
    if len({trace.gap for trace in w.traces}) != 1 or len(w.traces) != len(w.spot_prices):
        raise ValueError("give at least one trace, all with the same gap, and one price for each")
    if w.work < 1 or min(w.changeover, w.lost, w.deadline, w.start) < 0 or min((w.dedicated_price, *w.spot_prices)) < 0:
        raise ValueError("work must be 1 or more; times and prices must not be below 0")


def _cheapest(w: Window, spare: int) -> float:
    """The lowest cost in price times steps.

    A tier's row has the lowest cost at time t for each waste from 0 to `spare`, minus t times the tier's price. So the
    row does not change while the job stays.
    """
    size = spare + 1
    never: Row = [inf] * size
    supply = [bytes(trace.up[w.start : w.start + w.deadline]).ljust(w.deadline, b"\0") for trace in w.traces]
    supply.append(b"\1" * w.deadline)
    prices = [*w.spot_prices, w.dedicated_price]
    rows = [never] * len(prices)
    nowhere: Row = [0.0] + [inf] * spare
    coming: dict[int, list[tuple[int, Row]]] = {}  # by the time of arrival
    finished = inf
    starts = _starts(supply, w)
    for t in range(w.deadline + 1):
        for index, row in coming.pop(t, ()):
            rows[index] = list(map(min, rows[index], row))
        for index, up in enumerate(supply):
            if t < w.deadline and not up[t] and rows[index] is not never:
                done = rows[index][: max(t - w.work + 1, 0)]  # a job that is done loses nothing
                finished = min([finished, *(cost + t * prices[index] for cost in done)])
                nowhere = _leave(nowhere, rows[index], t * prices[index], w.lost)
                rows[index] = never
        for row, price in zip(rows, prices, strict=True):
            if row is not never:
                nowhere = _leave(nowhere, row, t * price)
        for index in starts.get(t, ()):
            # paid for the changeover; the row is reduced by (t + changeover) times the price
            row = ([inf] * w.changeover + [cost - t * prices[index] for cost in nowhere])[:size]
            if w.changeover:
                coming.setdefault(t + w.changeover, []).append((index, row))
            else:
                rows[index] = list(map(min, rows[index], row))
        if t < w.deadline:
            nowhere = [inf, *nowhere[:-1]]
    return min(finished, *nowhere)


def _leave(nowhere: Row, row: Row, paid: float, waste: int = 0) -> Row:
    """The row of a job on no tier if it may also come from a tier on which it has paid `paid` beyond its row."""
    if waste:
        row = ([inf] * waste + row)[: len(nowhere)]
    return [stay if stay < (come := cost + paid) else come for stay, cost in zip(nowhere, row, strict=True)]


def _starts(supply: list[bytes], w: Window) -> dict[int, list[int]]:
    """By time, the tiers on which a start may pay: where a market changes, and, if an interruption costs work, one step
    before.

    Any other start can be moved to one of these times at no cost: costs are linear in the time of a move, and a wait
    before work on a tier can be a wait after it.
    """
    times = {0}
    for up in supply:
        times |= {t for t in range(1, w.deadline) if up[t] != up[t - 1]}
    if w.lost:
        times |= {t - 1 for t in times if t}
    runs = b"\1" * max(w.changeover, 1)
    return {t: [i for i, up in enumerate(supply) if up.startswith(runs, t)] for t in times}
