"""A comparison as a page."""

import base64
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast_model.evaluation.comparison import Comparison
from holdfast_model.evaluation.measure import Result
from holdfast_model.evaluation.pictures import as_png
from holdfast_model.evaluation.scores import ClassScores, interval
from holdfast_model.pages.document import document
from holdfast_model.pages.drawings import bar, matrix, reliability
from holdfast_model.pages.fragments import Figure, Table, size_text, table
from holdfast_model.pages.template import Markup, Template

MOST_CLASSES: Final = 100
MOST_IN_MATRIX: Final = 24
MOST_CONFUSED: Final = 15
MOST_PICTURES: Final = 2 << 20
"""Bytes of all pictures in a page."""
NOTHING: Final = "–"
_HTML: Final = Template(__name__)


def as_page(comparison: Comparison) -> str:
    """One HTML file. The result that ships has all its details; those of the others are folded."""
    ships = comparison.ships
    parts = [_heading(comparison, ships), _variants(comparison, ships)]
    if ships is not None and ships.classes is not None:
        shown, notes = _classes(ships.classes)
        parts.append(_HTML.classes(name=_name(ships), found=shown, notes=notes))
        parts += [_confusion(ships.classes), _calibration(ships.classes), _worst(ships.classes)]
    if others := list(_others(comparison, ships)):
        parts.append(_HTML.others(others))
    return document(f"Evaluation on {comparison.data}", [*parts, _missing(comparison)])


def _name(one: Result) -> str:
    return f"{one.candidate.name} {one.candidate.variant}"


def _heading(comparison: Comparison, ships: Result | None) -> Markup:
    many = "" if comparison.samples is None else f", {comparison.samples:,} samples"
    lead = f"{comparison.data}{many}"
    if ships is None:
        return _HTML.nothing_ships(lead)
    reason = (
        f"{_name(ships)} ships: it is the smallest variant whose {comparison.metric} is at most "
        f"{comparison.max_drop:g} worse than the best one."
    )
    found = [Figure(comparison.metric, _score(comparison, ships), _interval(ships))]
    if ships.classes is not None:
        scores, rows = ships.classes, ships.classes.rows()
        if scores.top is not None:
            found.append(Figure("among the first 5", f"{scores.top:.1%}"))
        found.append(Figure("calibration error", f"{scores.calibration_error():.1%}", "confidence against accuracy"))
        if known := [row for row in rows if row.recall is not None]:
            worst = min(known, key=lambda row: row.recall or 0)
            found.append(Figure("worst class", f"{worst.recall:.1%}", f"{worst.name[:40]}, {worst.count:,} samples"))
    if ships.tokens is not None:
        found.append(Figure("perplexity", f"{ships.tokens.perplexity:,.3f}", f"{ships.tokens.tokens:,} tokens"))
        found.append(Figure("accuracy", f"{ships.tokens.accuracy:.1%}", "next token"))
    found.append(Figure("size", size_text(ships.candidate.bytes)))
    if ships.call_seconds is not None:
        found.append(Figure("time of a call", _seconds(ships.call_seconds), _many(ships)))
    warning = ""
    if ships.classes is not None and _half(ships.classes) > comparison.max_drop:
        warning = (
            f"With {ships.classes.samples:,} samples the accuracy is known to about {_half(ships.classes):.1%}. "
            "The column +/- says how well a difference between two variants is known."
        )
    return _HTML.heading(lead=lead, reason=reason, found=found, warning=warning)


def _half(scores: ClassScores) -> float:
    low, high = interval(scores.accuracy, scores.samples)
    return (high - low) / 2


def _score(comparison: Comparison, one: Result) -> str:
    return f"{comparison.shown(one):.1%}" if one.classes is not None else f"{comparison.shown(one):.4g}"


def _interval(one: Result) -> str:
    if one.classes is None:
        return ""
    low, high = interval(one.classes.accuracy, one.classes.samples)
    return f"95% sure: {low:.1%} to {high:.1%}"


def _many(one: Result) -> str:
    return (
        f"{one.call_samples:,} sample{'' if one.call_samples == 1 else 's'}, median" if one.call_samples else "median"
    )


def _variants(comparison: Comparison, ships: Result | None) -> Markup:
    points = comparison.metric == "accuracy"

    def share(value: float | None) -> str:
        return NOTHING if value is None else f"{value:.2%}" if points else f"{value:.4f}"

    rows = [
        [
            "ships" if one is ships else "", one.candidate.name, one.candidate.variant, size_text(one.candidate.bytes),
            NOTHING if one.call_seconds is None else _seconds(one.call_seconds),
            f"{one.call_samples:,}" if one.call_samples else NOTHING,
            share(comparison.shown(one)), share(comparison.drop(one)), share(comparison.drop_error(one)),
        ]
        for one in comparison.scored
    ]  # fmt: skip
    columns = ["", "package", "variant", "size", "time of a call", "samples", comparison.metric, "worse by", "+/-"]
    marked = [number for number, one in enumerate(comparison.scored) if one is ships]
    failed = [f"{_name(one)} has no score: {one.why}" for one in comparison.failed]
    return _HTML.variants(found=table(columns, rows, left=3, marked=marked), failed=failed)


def _classes(scores: ClassScores) -> tuple[Table, tuple[str, str]]:
    """The table, the worst classes first; the names of classes without a sample; and what is not shown."""
    rows = sorted(scores.rows(), key=lambda row: (row.recall is None, row.recall or 0.0, row.name))
    shown = rows[:MOST_CLASSES]
    lines = [
        [row.name, bar(row.recall or 0.0, "" if (row.recall or 0) > scores.accuracy - 0.1 else "thin"),
         _share(row.recall), _share(row.precision), f"{row.count:,}", f"{row.predicted:,}"]
        for row in shown
    ]  # fmt: skip
    made = table(["class", "", "recall", "precision", "samples", "predicted"], lines, left=2)
    empty = [row.name for row in rows if not row.count]
    some = ", ".join(empty[:10]) + (f" and {len(empty) - 10:,} more" if len(empty) > 10 else "")
    left_out = f"The {len(shown)} worst of {len(rows):,} classes; evaluation.json has all."
    return made, (some, left_out if len(rows) > len(shown) else "")


def _confusion(scores: ClassScores) -> Markup:
    rows = scores.rows()
    pairs = [
        [rows[label].name, rows[named].name, f"{count:,}", _share(count / rows[label].count)]
        for (label, named), count in sorted(scores.confusion.items(), key=lambda item: (-item[1], item[0]))
        if label != named
    ][:MOST_CONFUSED]
    listed = table(["true class", "taken for", "samples", "of the class"], pairs, left=2)
    drawn = Markup()
    if len(rows) <= MOST_IN_MATRIX:
        counts = [[scores.confusion[row, column] for column in range(len(rows))] for row in range(len(rows))]
        drawn = matrix([row.name for row in rows], counts)
    return _HTML.confusion(drawn=drawn, pairs=listed)


def _calibration(scores: ClassScores) -> Markup:
    rows = [
        [f"{number / len(scores.bins()):.0%} to {(number + 1) / len(scores.bins()):.0%}", f"{count:,}",
         _share(confidence), _share(accuracy)]
        for number, (count, confidence, accuracy) in enumerate(scores.bins())
        if count
    ]  # fmt: skip
    kind = (
        "The outputs are probabilities" if scores.are_probabilities else "Probabilities are the softmax of the outputs"
    )
    text = (
        f"{kind}. A dot on the line: the model is right as often as it says. Below the line, it is too sure. "
        f"The mean distance, by samples, is {scores.calibration_error():.2%} (expected calibration error)."
    )
    bins = table(["confidence", "samples", "mean", "right"], rows)
    return _HTML.calibration(text=text, drawn=reliability(scores.bins()), bins=bins)


class _Picture(NamedTuple):
    """A sample as the model sees it. `png`: base64."""

    png: str
    name: str
    said: str
    sure: str


def _worst(scores: ClassScores) -> Markup:
    rows, bytes_left = scores.rows(), MOST_PICTURES
    drawn, listed = [], []
    for one in scores.worst():
        said = f"{rows[one.label].name}, taken for {rows[one.predicted].name}"
        if one.label == one.predicted:
            said = f"{rows[one.label].name}, and not sure of it"
        png = as_png(one.picture) if one.picture is not None else None
        if png is not None and len(png) <= bytes_left:
            bytes_left -= len(png)
            drawn.append(_Picture(base64.b64encode(png).decode(), one.name, said, f"{one.confidence:.0%}"))
        else:
            listed.append([one.name, rows[one.label].name, rows[one.predicted].name, f"{one.confidence:.0%}"])
    columns = ["sample", "true class", "taken for", "confidence"]
    return _HTML.worst(pictures=drawn, listed=table(columns, listed, left=3))


class _Other(NamedTuple):
    """The classes of a variant that does not ship. `notes`: as of `_classes`."""

    name: str
    table: Table
    notes: tuple[str, str]
    in_short: str


def _others(comparison: Comparison, ships: Result | None) -> Iterator[_Other]:
    for one in comparison.scored:
        if one is not ships and (scores := one.classes) is not None:
            in_short = f"Calibration error {scores.calibration_error():.2%}, mean loss {scores.mean_loss:.4f}."
            yield _Other(_name(one), *_classes(scores), in_short)


def _missing(comparison: Comparison) -> Markup:
    left_out = [[one.name, one.variant, one.left_out] for one in comparison.left_out]
    damaged = [[name, why] for name, why in list(comparison.damaged.items())[:MOST_CLASSES]]
    return _HTML.missing(
        left_out=table(["package", "variant", "why"], left_out, left=3),
        damaged=table(["sample", "why"], damaged, left=2),
        count=f"{len(comparison.damaged):,}",
    )


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1%}"


def _seconds(value: float) -> str:
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"
