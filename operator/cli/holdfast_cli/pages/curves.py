"""Charts from the history of trainings: a curve for each attempt, and what was lost in curves of their own."""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple

from holdfast_cli.pages.page import Chart, Curve
from holdfast_model.pages.template import Markup, Template
from holdfast_train.series.feed import SAMPLES
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row
from holdfast_train.series.thinning import thin

MOST_A_CURVE: Final = 4000  # points
MOST_A_PAGE: Final = 42_000  # points of all curves: about 700 KB
FEWEST: Final = 24  # points of a curve, however many there are
PACES: Final = 300  # points of a pace: each is a mean over many steps
LOST: Final = "lost steps"
_TITLES: Final = {
    "loss": ("Loss", ""),
    "grad_norm": ("Gradient norm", ""),
    "learning_rate": ("Learning rate", ""),
    "lr": ("Learning rate", ""),
    SAMPLES: ("Throughput", "samples a second"),
}


_HTML: Final = Template(__name__)


class Run(NamedTuple):
    """The history of a training and the label of its curves; without a label each attempt has its own."""

    history: History
    label: str = ""


def charts(runs: Sequence[Run]) -> list[Chart]:
    """Loss first, then pace, step over time, and the other metrics by name; empty if there are no rows.

    Curves with labels are compared: their time is in hours since the first row of their run.
    """
    parts = [part for run in runs for part in _parts(run)]
    if not parts:
        return []
    names = sorted({name for part in parts for name in part.names}, key=lambda name: (name != "loss", name))
    share = MOST_A_PAGE // (len(names) + 2)
    rows = sum(len(part.rows) for part in parts)
    for part in parts:
        part.thin(max(FEWEST, min(MOST_A_CURVE, share * len(part.rows) // rows)))
    compared = any(run.label for run in runs)
    clock = "hours" if compared else "time"
    losses = _metric("loss", parts)
    paces = _Chart("pace", "Pace", "step", "steps a second", from_zero=True)
    found = [
        losses,
        paces.of(curve for part in parts for curve in part.paces()),
        _Chart("time", "Step over time", clock, "step").of(curve for part in parts for curve in part.times()),
    ]
    if compared:
        curves = [curve for part in parts for curve in part.over_time("loss")]
        found.insert(1, _Chart("loss-time", "Loss over time", clock, "").of(curves))
    found += [_metric(name, parts) for name in names if name != "loss"]
    return [chart for chart in found if chart.curves]


def places(found: Iterable[Chart]) -> Markup:
    """The elements in which page.js draws the charts."""
    return _HTML.places([chart.id for chart in found])


class _Part:
    """The rows of one attempt: those that were kept, and those that were lost. `begin`: where its time axis begins."""

    def __init__(self, part: Part, label: str, begin: float | None) -> None:
        self.label = label
        self.rows: Sequence[Row] = part.rows
        self.names = {name for row in part.rows for name in row.values}
        self._begin = begin
        self._kept: Sequence[Row] = part.kept
        self._lost: Sequence[Row] = part.lost

    def thin(self, most: int) -> None:
        """Keep at most so many rows, divided between the two."""
        if len(self.rows) > most:
            kept = max(2, most * len(self._kept) // len(self.rows))
            self._kept, self._lost = thin(self._kept, kept), thin(self._lost, max(2, most - kept))

    def of(self, name: str) -> Iterator[Curve]:
        """One metric over the steps."""
        for rows, lost in self._both():
            found = [row for row in rows if name in row.values]
            yield from self._curve([row.step for row in found], [row.values[name] for row in found], lost=lost)

    def over_time(self, name: str) -> Iterator[Curve]:
        """One metric over the time."""
        for rows, lost in self._both():
            found = _ascending([row for row in rows if name in row.values])
            yield from self._curve(self._times(found), [row.values[name] for row in found], lost=lost)

    def times(self) -> Iterator[Curve]:
        """The step over the time."""
        for rows, lost in self._both():
            found = _ascending(rows)
            yield from self._curve(self._times(found), [row.step for row in found], lost=lost)

    def paces(self) -> Iterator[Curve]:
        """Steps a second: the mean between two of at most PACES places."""
        for rows, lost in self._both():
            found = _ascending(rows)
            if len(found) > PACES:
                found = [found[number * (len(found) - 1) // PACES] for number in range(PACES + 1)]
            pairs = [(a, b) for a, b in pairwise(found) if b.step > a.step]
            paces = [(b.step - a.step) / (b.at - a.at) for a, b in pairs]
            yield from self._curve([b.step for _, b in pairs], paces, lost=lost)

    def _both(self) -> Iterator[tuple[Sequence[Row], bool]]:
        """The kept rows; and the lost ones after the last that was kept, so that their curve goes on from there."""
        yield self._kept, False
        if self._lost:
            yield [*self._kept[-1:], *self._lost], True

    def _curve(self, x: Sequence[float], y: Sequence[float], *, lost: bool) -> Iterator[Curve]:
        """The curve; none if it has no points, or only the one at which the kept curve ends."""
        if len(x) > (1 if lost and self._kept else 0):
            values = [value if isfinite(value) else None for value in y]
            yield Curve(LOST if lost else self.label, x, values, lost)

    def _times(self, rows: Sequence[Row]) -> list[float]:
        return [row.at if self._begin is None else (row.at - self._begin) / 3600 for row in rows]


def _parts(run: Run) -> list[_Part]:
    found = [part for part in run.history.parts if part.rows]
    begin = min((part.rows[0].at for part in found), default=0.0) if run.label else None
    return [_Part(part, run.label or f"attempt {part.attempt}", begin) for part in found]


def _ascending(rows: Sequence[Row]) -> list[Row]:
    """The rows without those whose clock stood or went back: the axis of a chart ascends."""
    found: list[Row] = []
    for row in rows:
        if not found or row.at > found[-1].at:
            found.append(row)
    return found


def _metric(name: str, parts: Sequence[_Part]) -> Chart:
    title, unit = _TITLES.get(name, (name, ""))
    return _Chart(f"metric-{name}", title, "step", unit).of(curve for part in parts for curve in part.of(name))


class _Chart(NamedTuple):
    """A chart without curves."""

    name: str
    title: str
    x: str
    y: str
    from_zero: bool = False

    def of(self, curves: Iterable[Curve]) -> Chart:
        """The chart with an id that is valid in a page, for any name. No two names give the same id."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        exact = plain if plain == self.name else f"{plain}-{sha256(self.name.encode()).hexdigest()[:12]}"
        return Chart(f"chart-{exact}", self.title, self.x, self.y, list(curves), self.from_zero)
