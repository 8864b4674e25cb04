"""The figures of three runs, compared step by step. Pure."""

import re
import struct
from collections.abc import Mapping
from typing import Final

from holdfast_cli.rehearse.compare.difference import distance
from holdfast_cli.rehearse.compare.findings import Figure, Standing
from holdfast_protocol.figures import LOSS, ROWS

Series = Mapping[int, Mapping[str, float]]

# What every program reports of its own pace and memory, by the table of the protocol.
_MEASURED: Final = frozenset(name for row in ROWS if row.kind != LOSS for name in (row.wire_name, row.name))
# Words in the name of a figure that the undisturbed runs do not agree on. They hide no figure that these agree on.
_TIMES: Final = frozenset((
    "bytes", "duration", "elapsed", "eta", "fps", "gb", "hours", "latency", "mb", "memory", "mfu", "minutes", "ms",
    "remaining", "runtime", "sec", "second", "seconds", "secs", "speed", "tflops", "throughput", "time", "times",
    "timestamp", "walltime",
))  # fmt: skip
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def compare_figures(
    reference: Series, again: Series, rehearsed: Series, *, is_sampled: bool = False
) -> tuple[Figure, ...]:
    """What became of each figure: those that differ first, by the step; the loss before others of the same step.

    `is_sampled`: the runs have some of their steps each, so a step that one of them lacks says nothing. A figure that
    the rehearsed run has at no step is missing all the same.
    """
    runs = (reference, again, rehearsed)
    names = {name: None for run in runs for figures in run.values() for name in figures}
    found = [_figure(name, *(_of(run, name) for run in runs), is_sampled=is_sampled) for name in names]
    return tuple(sorted(found, key=_order))


def _order(figure: Figure) -> tuple[bool, int, bool, str]:
    is_wrong = figure.standing in (Standing.DIFFERS, Standing.MISSING)
    steps = (figure.first[0],) if figure.first else figure.missing[:1]
    return not is_wrong, min(steps, default=0), figure.name != "loss", figure.name


def is_time(name: str) -> bool:
    """True if the name of a figure says that it is a time, a rate or an amount of memory."""
    return name in _MEASURED or not _TIMES.isdisjoint(_words(name))


def is_history_of_times(place: str) -> bool:
    """True if the place in a file says that what is there is a log of times, not a weight."""
    return is_time(place) and not {"log", "logs", "history"}.isdisjoint(_words(place))


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _of(run: Series, name: str) -> dict[int, float]:
    return {step: run[step][name] for step in sorted(run) if name in run[step]}


def _figure(
    name: str, reference: dict[int, float], again: dict[int, float], rehearsed: dict[int, float], *, is_sampled: bool
) -> Figure:
    both = [step for step in reference if step in again]
    missing = () if is_sampled and rehearsed else tuple(step for step in both if step not in rehearsed)
    extra = tuple(step for step in rehearsed if step not in reference and step not in again)
    common = [step for step in both if step in rehearsed]
    noisy = [step for step in both if not _same(reference[step], again[step])]
    wrong = [step for step in common if not _same(reference[step], rehearsed[step])]
    apart = [distance(reference[step], rehearsed[step]) for step in wrong]
    noise = [distance(reference[step], again[step]) for step in noisy]
    before = dict(zip(reference, (0, *reference), strict=False))
    steps = list(reference)
    nearest = {
        step: min((abs(step - one) for one in steps[max(0, at - 1) : at + 2] if one != step), default=0)
        for at, step in enumerate(steps)
    }
    is_measured = name in _MEASURED or (bool(noisy) and is_time(name))
    first = wrong[0] if wrong else None
    return Figure(
        name=name,
        standing=_standing(bool(both), bool(noisy), bool(wrong), bool(missing), is_measured=is_measured),
        steps=len(common),
        last_equal=max((step for step in common if first is None or step < first), default=None),
        final=(common[-1], reference[common[-1]], rehearsed[common[-1]]) if common else None,
        missing=missing,
        extra=extra,
        absolute=max((one for one, _ in apart), default=0.0),
        relative=max((one for _, one in apart), default=0.0),
        noise=max((one for one, _ in noise), default=0.0),
        relative_noise=max((one for _, one in noise), default=0.0),
        first_noise=noisy[0] if noisy else None,
        is_measured=is_measured,
        before=tuple(before[step] for step in wrong),
        nearest=tuple(nearest[step] for step in wrong),
        wrong=tuple((step, reference[step], rehearsed[step]) for step in wrong),
    )


def _standing(known: bool, noisy: bool, wrong: bool, missing: bool, *, is_measured: bool) -> Standing:
    if not known:
        return Standing.EXTRA
    if is_measured:
        return Standing.NOISE
    if missing and not wrong:
        return Standing.MISSING
    if noisy:
        return Standing.NOISE
    return Standing.DIFFERS if wrong else Standing.EQUAL


def _same(first: float, second: float) -> bool:
    return struct.pack("<d", first) == struct.pack("<d", second)
