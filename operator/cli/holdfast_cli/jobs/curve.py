"""The loss over the whole life of a training, as lines of text. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from holdfast_cli.terminal import formats
from holdfast_train.series.history import History, Part
from holdfast_train.series.thinning import thin

MOST_POINTS: Final = 2_000
WIDEST: Final = 120  # columns
MOST_LINES: Final = 5  # of lost steps, and of what cannot be read
LOSS: Final = "loss"  # the name under which `Run.report(loss=...)` is stored


class Lost(NamedTuple):
    """Steps of an attempt that other attempts trained again."""

    attempt: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The losses that count, by ascending step.

    `begins`: the first step of each attempt that trained some of them. `odd`: the number of losses that are not
    finite, which are not points. `gaps`: what could not be read.
    """

    points: tuple[tuple[int, float], ...] = ()
    begins: tuple[tuple[int, int], ...] = ()
    lost: tuple[Lost, ...] = ()
    odd: int = 0
    gaps: tuple[str, ...] = ()

    def to_object(self) -> dict[str, Any]:
        """What -o json prints."""
        return {
            "loss": [{"step": step, "value": value} for step, value in self.points],
            "attempts": [{"attempt": attempt, "firstStep": step} for attempt, step in self.begins],
            "lost": [{"attempt": one.attempt, "firstStep": one.first, "lastStep": one.last} for one in self.lost],
            "notFinite": self.odd,
            "gaps": list(self.gaps),
        }

    def and_then(self, later: Mapping[int, float]) -> "Curve":
        """The curve with the losses that were seen after its end."""
        end = self.points[-1][0] if self.points else -1
        return replace(self, points=(*self.points, *sorted(one for one in later.items() if one[0] > end)))


def to_curve(history: History) -> Curve:
    """The curve of a history: what was lost is left out, and named."""
    points: list[tuple[int, float]] = []
    begins, lost, odd = [], [], 0
    for part in history.parts:
        kept = _losses(part)
        odd += sum(not isfinite(loss) for _, loss in kept)
        finite = [(step, loss) for step, loss in kept if isfinite(loss)]
        if finite:
            begins.append((part.attempt, finite[0][0]))
        points += finite
        if gone := part.lost:
            lost.append(Lost(part.attempt, gone[0].step, gone[-1].step))
    return Curve(tuple(sorted(dict(points).items())), tuple(begins), tuple(lost), odd, tuple(history.gaps))


def _losses(part: Part) -> list[tuple[int, float]]:
    """Steps and losses of an attempt that count, at most MOST_POINTS of them."""
    rows = [row for row in part.kept if LOSS in row.values]
    return [(row.step, row.values[LOSS]) for row in thin(rows, MOST_POINTS) if LOSS in row.values]


class Sparkline:
    """The curve in one line as wide as there is room for, and below it the numbers of the attempts where they begin."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich."""
        width = min(options.max_width, WIDEST)
        yield Text(formats.sparkline(columns(self._curve.points, width), width), style="cyan", no_wrap=True)
        yield Text(attempt_marks(self._curve, width), style="dim", no_wrap=True)


def columns(points: Sequence[tuple[int, float]], width: int) -> list[float]:
    """The mean loss of each of `width` equal spans of steps; a span without a point has that of the span before."""
    spans: list[list[float]] = [[] for _ in range(width)]
    for step, loss in points:
        spans[_column(step, points, width)].append(loss)
    found: list[float] = []
    for span in spans:
        if span:
            found.append(sum(span) / len(span))
        elif found:
            found.append(found[-1])
    return found


def attempt_marks(curve: Curve, width: int) -> str:
    """`1      2   3`: each number where its attempt begins. A number for which there is no room is left out."""
    line = ""
    for attempt, step in curve.begins:
        at = _column(step, curve.points, width)
        if line and at <= len(line):
            continue
        line = (line.ljust(at) + str(attempt))[:width]
    return line


def _column(step: int, points: Sequence[tuple[int, float]], width: int) -> int:
    first, last = points[0][0], points[-1][0]
    return (step - first) * (width - 1) // max(last - first, 1)


def sentences(curve: Curve) -> list[Text]:
    """The curve in figures, what was lost, and what could not be read."""
    lines = [Text(_figures(curve))] if curve.points else [Text("no loss is recorded", style="dim")]
    if curve.odd:
        lines.append(Text(f"{formats.count(curve.odd)} losses are not finite (nan or inf)", style="bold red"))
    lines += _some((f"attempt {one.attempt}: steps {_steps(one)} were lost" for one in curve.lost), "dim")
    lines += _some((f"not shown: {gap}" for gap in curve.gaps), "yellow")
    return lines


def _figures(curve: Curve) -> str:
    (first, at_first), (last, at_last) = curve.points[0], curve.points[-1]
    step, lowest = min(curve.points, key=lambda point: (point[1], point[0]))
    low = f"; lowest {lowest:.5g} at step {formats.count(step)}" if lowest < at_last else ""
    return f"{at_first:.5g} at step {formats.count(first)}, {at_last:.5g} at step {formats.count(last)}{low}"


def _steps(lost: Lost) -> str:
    if lost.first == lost.last:
        return formats.count(lost.first)
    return f"{formats.count(lost.first)}–{formats.count(lost.last)}"


def _some(lines: Iterable[str], style: str) -> list[Text]:
    found = list(lines)
    more = [f"and {formats.count(len(found) - MOST_LINES)} more"] if len(found) > MOST_LINES else []
    return [Text(line, style=style) for line in (*found[:MOST_LINES], *more)]
