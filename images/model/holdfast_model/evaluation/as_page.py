"""A comparison as a page."""

from typing import Final

from holdfast_model.evaluation.comparison import Comparison
from holdfast_model.evaluation.measure import Result
from holdfast_model.evaluation.pictures import as_png
from holdfast_model.evaluation.scores import ClassScores, interval
from holdfast_model.pages.document import document
from holdfast_model.pages.drawings import bar, matrix, reliability
from holdfast_model.pages.fragments import Figure, figures, folded, note, paragraph, picture, size_text, table, title

__all__ = ["as_page"]

MOST_CLASSES: Final = 100
MOST_IN_MATRIX: Final = 24
MOST_CONFUSED: Final = 15
MOST_PICTURES: Final = 2 << 20
"""Bytes of all pictures in a page."""
NOTHING: Final = "–"


def as_page(comparison: Comparison) -> str:
    """One HTML file. The result that ships has all its details; those of the others are folded."""
    ships = comparison.ships
    parts = [_heading(comparison, ships), _table(comparison, ships)]
    if ships is not None and ships.classes is not None:
        parts += [_classes(ships.classes, _name(ships)), _confusion(ships.classes), _calibration(ships.classes)]
        parts.append(_worst(ships.classes))
    parts += [_others(comparison, ships), _missing(comparison)]
    return document(f"Evaluation on {comparison.data}", parts)


def _name(one: Result) -> str:
    return f"{one.candidate.name} {one.candidate.variant}"


def _heading(comparison: Comparison, ships: Result | None) -> str:
    many = "" if comparison.samples is None else f", {comparison.samples:,} samples"
    head = title("Evaluation", f"{comparison.data}{many}")
    if ships is None:
        return head + note("No variant has a score, so none ships.")
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
        warning = paragraph(
            f"With {ships.classes.samples:,} samples the accuracy is known to about {_half(ships.classes):.1%}. "
            "The column +/- says how well a difference between two variants is known.", "quiet",
        )  # fmt: skip
    return head + paragraph(reason) + figures(found) + warning


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


def _table(comparison: Comparison, ships: Result | None) -> str:
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
    hint = "The time is the median of all calls on this machine, with the way to the model's process and back."
    failed = "".join(note(f"{_name(one)} has no score: {one.why}") for one in comparison.failed)
    return "<h2>Variants</h2>" + table(columns, rows, left=3, marked=marked) + paragraph(hint, "quiet") + failed


def _classes(scores: ClassScores, name: str) -> str:
    return f"<h2>Classes</h2>{paragraph(f'Of {name}.', 'quiet')}" + _class_table(scores)


def _class_table(scores: ClassScores) -> str:
    rows = sorted(scores.rows(), key=lambda row: (row.recall is None, row.recall or 0.0, row.name))
    shown = rows[:MOST_CLASSES]
    lines = [
        [row.name, bar(row.recall or 0.0, "" if (row.recall or 0) > scores.accuracy - 0.1 else "thin"),
         _share(row.recall), _share(row.precision), f"{row.count:,}", f"{row.predicted:,}"]
        for row in shown
    ]  # fmt: skip
    made = table(["class", "", "recall", "precision", "samples", "predicted"], lines, left=2)
    empty = [row.name for row in rows if not row.count]
    if empty:
        some = ", ".join(empty[:10]) + (f" and {len(empty) - 10:,} more" if len(empty) > 10 else "")
        made += note(f"No sample of the data is of: {some}. Nothing is known of these classes.")
    if len(rows) > len(shown):
        made += paragraph(f"The {len(shown)} worst of {len(rows):,} classes; evaluation.json has all.", "quiet")
    return made


def _confusion(scores: ClassScores) -> str:
    rows = scores.rows()
    pairs = [
        [rows[label].name, rows[named].name, f"{count:,}", _share(count / rows[label].count)]
        for (label, named), count in sorted(scores.confusion.items(), key=lambda item: (-item[1], item[0]))
        if label != named
    ][:MOST_CONFUSED]
    listed = table(["true class", "taken for", "samples", "of the class"], pairs, left=2)
    if not pairs:
        listed = paragraph("No sample was taken for another class.")
    drawn = ""
    if len(rows) <= MOST_IN_MATRIX:
        counts = [[scores.confusion[row, column] for column in range(len(rows))] for row in range(len(rows))]
        drawn = matrix([row.name for row in rows], counts)
    return f'<h2>What is taken for what</h2><div class="side">{_boxed(drawn)}{_boxed(listed)}</div>'


def _boxed(part: str) -> str:
    return f"<div>{part}</div>" if part else ""


def _calibration(scores: ClassScores) -> str:
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
    listed = table(["confidence", "samples", "mean", "right"], rows)
    drawn = reliability(scores.bins())
    return f'<h2>Calibration</h2>{paragraph(text)}<div class="side">{_boxed(drawn)}{_boxed(listed)}</div>'


def _worst(scores: ClassScores) -> str:
    rows, found, bytes_left = scores.rows(), scores.worst(), MOST_PICTURES
    drawn, listed = [], []
    for one in found:
        said = f"{rows[one.label].name}, taken for {rows[one.predicted].name}"
        if one.label == one.predicted:
            said = f"{rows[one.label].name}, and not sure of it"
        png = as_png(one.picture) if one.picture is not None else None
        if png is not None and len(png) <= bytes_left:
            bytes_left -= len(png)
            drawn.append(picture(png, one.name, said, [f"{one.confidence:.0%} sure", one.name]))
        else:
            listed.append([one.name, rows[one.label].name, rows[one.predicted].name, f"{one.confidence:.0%}"])
    if not found:
        return "<h2>Worst examples</h2>" + paragraph("The model gives every true class more than half.")
    text = "Samples whose true class the model finds least likely"
    text += ", as the model sees them. Look at their labels first." if drawn else ". Look at their labels first."
    pictures = f'<div class="pictures">{"".join(drawn)}</div>' if drawn else ""
    return f"<h2>Worst examples</h2>{paragraph(text, 'quiet')}{pictures}" + table(
        ["sample", "true class", "taken for", "confidence"], listed, left=3
    )


def _others(comparison: Comparison, ships: Result | None) -> str:
    parts = [
        folded(_name(one), _class_table(one.classes) + _in_short(one.classes))
        for one in comparison.scored
        if one is not ships and one.classes is not None
    ]
    return "<h2>Classes of the other variants</h2>" + "".join(parts) if parts else ""


def _in_short(scores: ClassScores) -> str:
    return paragraph(f"Calibration error {scores.calibration_error():.2%}, mean loss {scores.mean_loss:.4f}.", "quiet")


def _missing(comparison: Comparison) -> str:
    parts = []
    if comparison.left_out:
        rows = [[one.name, one.variant, one.left_out] for one in comparison.left_out]
        parts.append("<h2>Not run</h2>" + table(["package", "variant", "why"], rows, left=3))
    if comparison.damaged:
        rows = [[name, why] for name, why in list(comparison.damaged.items())[:MOST_CLASSES]]
        text = f"Not read, and not in any score: {len(comparison.damaged):,}."
        parts.append("<h2>Damaged samples</h2>" + paragraph(text) + table(["sample", "why"], rows, left=2))
    return "".join(parts)


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1%}"


def _seconds(value: float) -> str:
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"
