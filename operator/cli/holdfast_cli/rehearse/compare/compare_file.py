"""The values of one file in three runs, place by place."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from holdfast_cli.rehearse.compare.difference import Difference, Effort, difference
from holdfast_cli.rehearse.compare.figures import is_history_of_times
from holdfast_cli.rehearse.compare.findings import WRONG, File, Kind, Spot, Standing
from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.values import Contents, Raw, Tensor, Value

MOST_PLACES: Final = 200  # of one file that are kept; the others are counted
NOWHERE_ELSE: Final = "no counterpart in the undisturbed runs"  # a list that is longer, or a tensor more

_SHORT: Final = 80  # characters of a text that is shown


@dataclass(frozen=True, slots=True)
class _Row:
    """The value at a place in a list: the list, the number of its row, and the column."""

    group: str
    number: int
    column: str


def compare_contents(path: str, reference: Contents, again: Contents, rehearsed: Contents, effort: Effort) -> File:
    """What is found in one file. OSError if the bytes of a value cannot be read."""
    equal: Counter[Kind] = Counter()
    spots: list[Spot] = []
    weights, noisy_weights, weight_noise, noisy = 0, 0, 0.0, set[str]()
    names = dict.fromkeys((*reference.values, *again.values, *rehearsed.values))
    for name in names:
        found = _spot(name, reference, again, rehearsed, effort)
        if found.noise is not None and found.kind is Kind.WEIGHT and is_history_of_times(name):
            found = replace(found, kind=Kind.NUMBER)
        weights += found.kind is Kind.WEIGHT and all(name in run.values for run in (reference, again, rehearsed))
        if found.noise is not None:
            noisy.add(name)
            if found.kind is Kind.WEIGHT:
                noisy_weights += 1
                weight_noise = max(weight_noise, found.noise.level)
        if found.standing is Standing.EQUAL:
            equal[found.kind] += 1
        else:
            spots.append(found)
            if found.standing is Standing.NOISE:
                noisy.add(name)
    spots, repeated = _without_repeats(spots, reference, rehearsed, noisy)
    spots.sort(key=lambda spot: _ORDER.index((spot.standing, spot.kind)))
    notes = dict.fromkeys(one.note for one in (reference, again, rehearsed) if one.note)
    return File(
        path,
        worst(spots),
        reference.form,
        equal=dict(equal),
        places=tuple(spots[:MOST_PLACES]),
        more=max(0, len(spots) - MOST_PLACES),
        weights=weights,
        noisy_weights=noisy_weights,
        weight_noise=weight_noise,
        repeated=repeated,
        note="; ".join(notes),
    )


_ORDER: Final = [
    (standing, kind)
    for standing in (Standing.DIFFERS, Standing.MISSING, Standing.NOISE, Standing.EXTRA, Standing.NOTED)
    for kind in Kind
]


def worst(spots: list[Spot]) -> Standing:
    """How a file with these places stands."""
    found = {spot.standing for spot in spots}
    if found & {*WRONG}:
        return Standing.DIFFERS
    return Standing.NOISE if Standing.NOISE in found else Standing.NOTED if found else Standing.EQUAL


def _spot(name: str, reference: Contents, again: Contents, rehearsed: Contents, effort: Effort) -> Spot:
    runs = [one for one in (reference, again, rehearsed) if name in one.values]
    kind = kind_of(runs[0].values[name])
    first = short(reference.values[name]) if name in reference.values else ""
    second = short(rehearsed.values[name]) if name in rehearsed.values else ""
    if name not in reference.values and name not in again.values:
        if "]" not in name and kind not in (Kind.WEIGHT, Kind.TENSOR):
            return Spot(name, Standing.EXTRA, kind, first, second)
        return Spot(name, Standing.DIFFERS, kind, first, second, Difference(words=NOWHERE_ELSE))
    if name not in reference.values or name not in again.values:
        return Spot(name, Standing.NOISE, kind, first, second)
    noise = difference(reference.values[name], again.values[name], effort)
    if name not in rehearsed.values:
        return Spot(name, Standing.MISSING, kind, first, second, noise=noise)
    amount = difference(reference.values[name], rehearsed.values[name], effort)
    standing = Standing.EQUAL if amount is None else Standing.DIFFERS if noise is None else Standing.NOISE
    return Spot(name, standing, kind, first, second, amount, noise)


def kind_of(value: Value) -> Kind:
    """What kind of value it is."""
    if isinstance(value, Tensor):
        is_weight = elements.is_float(value.dtype) and not value.is_list
        return Kind.WEIGHT if is_weight else Kind.NUMBER if value.is_list else Kind.TENSOR
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Kind.NUMBER if is_number else Kind.OTHER


def short(value: Value) -> str:
    """A value as a person reads it."""
    if isinstance(value, Tensor):
        return value.kind
    if isinstance(value, Raw):
        return f"{value.source.size:,} bytes"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def _row(name: str, form: str) -> _Row | None:
    """The row of a log that a place is in; None if it is in none. A row in a document is a mapping, never a number."""
    if form == "text":
        number = name.removeprefix("line ")
        return _Row("", int(number), "") if number.isdecimal() else None
    group, mark, rest = name.partition("[")
    number, end, column = rest.partition("]")
    is_row = form != "JSON" or column.startswith(".")
    return _Row(group, int(number), column) if mark and end and number.isdecimal() and is_row else None


def _without_repeats(
    spots: list[Spot], reference: Contents, rehearsed: Contents, noisy: set[str]
) -> tuple[list[Spot], int]:
    """`spots` without those of lists that only have more rows than in the reference, and how many rows more.

    A log has the steps twice that were trained twice. Its rows are the rows of the reference, in their order, with
    others between them.
    """
    form, wrong = reference.form, (*WRONG, Standing.EXTRA)
    if form not in ("text", "CSV", "JSON", "JSON lines") or rehearsed.form != form:
        return spots, 0
    groups = {spot.place: row.group for spot in spots if spot.standing in wrong and (row := _row(spot.place, form))}
    if not groups:
        return spots, 0
    columns = {(row.group, row.column) for name in noisy if (row := _row(name, form)) is not None}
    before, after = (_rows(one, columns) for one in (reference, rehearsed))
    more: dict[str, int] = {}
    for group in set(groups.values()):
        first, second = (list(rows.get(group, {}).values()) for rows in (before, after))
        remaining: Iterator[object] = iter(second)
        if len(second) > len(first) and all(row in remaining for row in first):
            more[group] = len(second) - len(first)
    return [spot for spot in spots if groups.get(spot.place) not in more], sum(more.values())


def _rows(contents: Contents, noisy: set[tuple[str, str]]) -> dict[str, dict[int, list[tuple[str, object]]]]:
    """The rows by their list and number: column and value of each cell, without the columns that are `noisy`."""
    found: dict[str, dict[int, list[tuple[str, object]]]] = {}
    for name, value in contents.values.items():
        if (row := _row(name, contents.form)) is not None:
            cells = found.setdefault(row.group, {}).setdefault(row.number, [])
            if (row.group, row.column) not in noisy:
                cells.append((row.column, _bits(value) if isinstance(value, Tensor | Raw) else repr(value)))
    return found


def _bits(value: Tensor | Raw) -> bytes:
    return value.source.read(0, value.source.size)
