"""A picture of a study: the cost of each policy, as a multiple of the lowest cost with the future known.

Left: for each policy, the spread over all its jobs. Right, if there are several loads: the mean by load. It needs
matplotlib, which is imported only when a picture is made.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from textwrap import fill
from typing import TYPE_CHECKING, Any

from holdfast_research.errors import PlotError
from holdfast_research.study import Row, Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
HINT = "pip install 'holdfast[plot]'"

# Based on the colours of Okabe and Ito, which colour-blind people can tell apart, but dark enough for small letters on
# white. The markers differ too. Policies of Holdfast are blue and green, other rules have the other colours.
_LOOKS = {
    "deadline": ("#0072B2", "o"),
    "cheapest": ("#00805D", "^"),
    "ordered-slack": ("#2A8FA8", "P"),
    "ordered-eager": ("#4A5FC1", "X"),
    "ordered-never": ("#3D6B4F", "h"),
    "uniform-progress": ("#C85200", "s"),
    "greedy": ("#AA3377", "D"),
    "eager": ("#8C5A00", "v"),
    "never-return": ("#595959", "<"),
    "deadline-rule": ("#6A4C93", "*"),
}
_INK, _FAINT = "#222222", "#888888"
_GAP = 0.065  # of the height of the axes: distance of two names at the ends of lines
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.hashsalt": "holdfast",  # the same study makes the same file
}


def check_plot(path: Path) -> None:
    """Raise PlotError if no picture can be made at this path: before a study, which may take minutes, runs for it."""
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path}: the name of a picture must end in {' or '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise PlotError(f"{path}: the folder {path.parent} does not exist")
    try:
        import matplotlib  # noqa: F401 - an extra, and slow to import
    except ImportError as error:
        raise PlotError(f"a picture needs matplotlib, the extra `plot`: {HINT}") from error


def plot(rows: Sequence[Row], path: Path, title: str) -> None:
    """Draw the rows of a study into `path`, as SVG or PNG by its ending. A long title is broken into lines.

    Raises PlotError.
    """
    check_plot(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    loads = sorted({row.load for row in rows})
    with mpl.rc_context():
        mpl.rcdefaults()  # ignores the user's own configuration
        mpl.rcParams.update(_STYLE)
        height = max(4.0, 1.5 + 0.5 * len({row.policy for row in rows}))
        figure = Figure(figsize=(10.0 if len(loads) > 1 else 6.4, height), layout="constrained", facecolor="white")
        figure.suptitle(fill(title, 115 if len(loads) > 1 else 70), x=0.01, ha="left", fontsize=11)
        if len(loads) > 1:
            spread, trend = figure.subplots(1, 2, width_ratios=(3, 2))
            _means(trend, rows, loads)
        else:
            spread = figure.subplots()
        _spread(spread, rows)
        try:
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise PlotError(f"{path}: {error.strerror or error}") from error


def _spread(axes: "Axes", rows: Sequence[Row]) -> None:
    """For each policy, a line from the 5th to the 95th percentile, thick in the middle half, with the mean marked."""
    found = summarize(rows)
    for place, one in enumerate(found):
        colour, marker = _LOOKS[one.policy]
        low, first, third, _ = _marks([row.ratio for row in rows if row.policy == one.policy])
        axes.plot([low, one.p95], [place, place], color=colour, linewidth=1.5, solid_capstyle="butt")
        axes.plot([first, third], [place, place], color=colour, linewidth=9, alpha=0.45, solid_capstyle="butt")
        axes.plot(one.mean, place, marker, color=colour, markeredgecolor="white", markersize=9)
        for words, at, beside in (("mean", one.mean, (-5, -16)), ("p95", one.p95, (4, -3))):
            text, offset = f"{words} {at:.2f}", "offset points"
            axes.annotate(text, (at, place), beside, textcoords=offset, color=colour, fontsize=9)
    axes.set_yticks(range(len(found)), [one.policy for one in found])
    for label, one in zip(axes.get_yticklabels(), found, strict=True):
        label.set_color(_LOOKS[one.policy][0])
    axes.tick_params("y", length=0)
    axes.set_ylim(len(found) - 0.4, -0.6)
    left, right = axes.get_xlim()
    axes.set_xlim(right=right + (right - left) * 0.1)  # room for the text at the end of the longest line
    axes.set_title("all jobs: bars hold the middle half, lines nine in ten", loc="left", fontsize=10)
    axes.set_xlabel("cost ÷ the cheapest with the future known")
    axes.axvline(1, color=_FAINT, linewidth=1)
    axes.grid(axis="x", alpha=0.25)
    axes.spines["left"].set_visible(False)


def _means(axes: "Axes", rows: Sequence[Row], loads: Sequence[float]) -> None:
    """For each policy, a line of its means over the loads, with its name at the end."""
    ends: list[tuple[float, str]] = []
    for policy, of_policy in _by_policy(summarize(rows, by_load=True)).items():
        colour, marker = _LOOKS[policy]
        means = [of_policy[load].mean for load in loads]
        axes.plot(loads, means, marker + "-", color=colour, markeredgecolor="white", markersize=7)
        ends.append((means[-1], policy))
    in_time = min(row.ratio for row in rows) >= 1  # a late job may have paid less than the best job in time
    axes.set_ylim(bottom=1 if in_time else min(1, axes.get_ylim()[0]))
    axes.set_xticks(loads, [f"{load:g}" for load in loads])
    axes.set_title("mean by load", loc="left", fontsize=10)
    axes.set_xlabel("load: work ÷ time to the deadline")
    axes.set_ylabel("mean of cost ÷ the cheapest")
    axes.grid(axis="y", alpha=0.25)
    bottom, top = axes.get_ylim()
    ends.sort()
    places = _apart([(mean - bottom) / (top - bottom) for mean, _ in ends])
    for place, (_, policy) in zip(places, ends, strict=True):
        axes.annotate(policy, (1.02, place), xycoords="axes fraction", va="center", color=_LOOKS[policy][0], fontsize=9)


def _apart(wanted: Sequence[float]) -> list[float]:
    """Places from 0 to 1 for names, in order, near the wanted places and _GAP apart."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + _GAP if places else 0.0))
    for index in reversed(range(len(places))):
        above = places[index + 1] - _GAP if index + 1 < len(places) else 1.0
        places[index] = min(places[index], above)
    return places


def _by_policy(found: Sequence[Summary]) -> dict[str, dict[float, Summary]]:
    """By policy and load."""
    lines: dict[str, dict[float, Summary]] = {}
    for one in found:
        if one.load is not None:
            lines.setdefault(one.policy, {})[one.load] = one
    return lines


def _marks(values: Sequence[float]) -> tuple[float, float, float, float]:
    """The 5th, 25th, 75th and 95th percentile."""
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else [values[0]] * 19
    return cuts[0], cuts[4], cuts[14], cuts[18]
