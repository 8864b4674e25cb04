"""A verdict as an object of JSON. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast_cli.rehearse.compare.cause import Cause, after_words
from holdfast_cli.rehearse.compare.difference import Difference
from holdfast_cli.rehearse.compare.findings import Figure, File, Spot, Standing


def to_object(
    texts: Mapping[str, Any],
    causes: Sequence[Cause],
    figures: Sequence[Figure],
    files: Sequence[File],
    tolerance: float | None,
) -> dict[str, Any]:
    """The keys stay as they are from version to version.

    `kind`: exact, within-tolerance, differs, not-proved or failed. `headline`, `reasons` and `notes`: texts.
    `tolerance`: as the user gave it, or null. `causes`: `words`, `evidence`, `after` (a text, or null).

    `figures`: `name`, `standing`, `steps` (compared), `firstDifference` and `final` (`step`, `reference`, `rehearsed`;
    or null), `lastEqualStep`, `missingSteps`, `extraSteps` (lists of steps), `absolute`, `relative`, `noise` and
    `relativeNoise` (of the undisturbed runs), `isMeasured` (a time, a rate or an amount of memory).

    `files`: `path`, `standing`, `format`, `size`, `inNewestSave`, `equal` (how many values of each kind),
    `repeatedRows`, `note`, `morePlaces`, and `places`, those that are not equal: `place`, `standing`, `kind`,
    `reference`, `rehearsed`, and `difference` and `noise`, each null or `absolute`, `relative`, `scaled`, `count`,
    `looked`, `total`, `words`.

    Standings are: equal, own noise, differs, missing, extra, not compared, noted. A number that is not finite is a
    text: nan, inf, -inf.
    """
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in texts.items()},
        "tolerance": tolerance,
        "causes": [
            {"words": cause.words, "evidence": cause.evidence, "after": after_words(cause.after) or None}
            for cause in causes
        ],
        "figures": [_figure(figure) for figure in figures],
        "files": [_file(file) for file in files],
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else repr(float(value))


def _at(value: tuple[int, float, float] | None) -> dict[str, Any] | None:
    return None if value is None else {
        "step": value[0], "reference": _number(value[1]), "rehearsed": _number(value[2])
    }  # fmt: skip


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "standing": str(figure.standing),
        "steps": figure.steps,
        "firstDifference": _at(figure.first),
        "final": _at(figure.final),
        "lastEqualStep": figure.last_equal,
        "missingSteps": list(figure.missing),
        "extraSteps": list(figure.extra),
        "absolute": _number(figure.absolute),
        "relative": _number(figure.relative),
        "noise": _number(figure.noise),
        "relativeNoise": _number(figure.relative_noise),
        "isMeasured": figure.is_measured,
    }


def _file(file: File) -> dict[str, Any]:
    return {
        "path": file.path,
        "standing": str(file.standing),
        "format": file.form,
        "size": file.size,
        "inNewestSave": file.is_newest,
        "equal": {str(kind): count for kind, count in file.equal.items()},
        "repeatedRows": file.repeated,
        "note": file.note,
        "places": [_place(place) for place in file.places if place.standing is not Standing.EQUAL],
        "morePlaces": file.more,
    }


def _place(place: Spot) -> dict[str, Any]:
    return {
        "place": place.place,
        "standing": str(place.standing),
        "kind": str(place.kind),
        "reference": place.first,
        "rehearsed": place.second,
        "difference": _difference(place.amount),
        "noise": _difference(place.noise),
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "absolute": _number(found.absolute),
        "relative": _number(found.relative),
        "scaled": _number(found.scaled),
        "count": found.count,
        "looked": found.looked,
        "total": found.total,
        "words": found.words,
    }
