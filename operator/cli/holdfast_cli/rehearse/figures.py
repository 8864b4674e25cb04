"""What the program has said of its steps in each start of a run: by `progress.patterns`, or by its reports.

The launcher reads the output once a second. Here each line counts, so that runs can be compared step by step.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast_cli.rehearse.left import Start
from holdfast_train.errors import StorageError
from holdfast_train.pod.launcher.progress.figures import Figures
from holdfast_train.pod.launcher.progress.kubeflow import STEP, count_of, loss_of, number
from holdfast_train.pod.launcher.progress.patterns import patterns_of
from holdfast_train.pod.launcher.tee import plain
from holdfast_train.series.history import read_history
from holdfast_train.storage.base import Storage

LINE_BYTES: Final = 2_048  # the rest of a longer line is not looked at
MOST_BYTES: Final = 64 << 20  # of the output of a start
AGAIN: Final = (
    "the count of steps in the output begins again, as in each epoch: losses are not compared; name the epoch in "
    "--progress too, as {epoch} or {epoch_from_1}"
)
BLOCK: Final = 1 << 20  # bytes of one read
_ENDS: Final = re.compile(rb"[\r\n]+")  # a bar is rewritten with "\r"
LOSS: Final = "loss"
_FIGURES: Final = (LOSS, "grad_norm")  # that patterns have

ByStep = dict[int, dict[str, float]]


def reported(store: Storage) -> ByStep:
    """What the program has reported; of a step that was trained twice, the last time. Six digits of each number."""
    try:
        history = read_history(store)
    except StorageError:
        return {}
    return {row.step: dict(row.values) for part in history.parts for row in part.kept}


def printed(
    outputs: Sequence[Path], patterns: Sequence[str], starts: Sequence[Start]
) -> tuple[ByStep, list[Start], tuple[str, ...]]:
    """What the lines of each start say, the last start of a step counts; and the starts with first and last step.

    The last of the three: notes for people. Nothing is compared if the count begins again in one of the starts, as in
    each epoch, or if one prints more than MOST_BYTES.
    """
    if not patterns:
        return {}, list(starts), ("without --progress no steps and no losses of the output are known",)
    if any(output.stat().st_size > MOST_BYTES for output in outputs):
        return {}, list(starts), (f"the program prints more than {MOST_BYTES >> 20} MiB: its losses are not compared",)
    found: ByStep = {}
    known = list[Start]()
    for output, start in zip(outputs, starts, strict=True):
        if (rows := _rows(output, patterns)) is None:
            return {}, list(starts), (AGAIN,)
        known.append(replace(start, first=min(rows), last=max(rows)) if rows else start)
        if rows:
            found = {step: values for step, values in found.items() if step < min(rows)}
        found |= rows
    notes = () if found else ("no line of the output fits --progress: no losses are compared",)
    return {step: values for step, values in found.items() if values}, known, notes


def _rows(output: Path, patterns: Sequence[str]) -> ByStep | None:
    """By step, what was said since that step was told; None if the count begins again."""
    figures, rows = Figures(patterns_of(patterns)), ByStep()
    for line in _lines(output):
        for name in _FIGURES:
            figures.metrics.pop(name, None)
        figures.read(plain(line.decode("utf-8", "replace")))
        if step := count_of(figures.metrics, *STEP):
            rows.setdefault(step, {}).update(_values(figures.metrics))
    return None if figures.begins_again else rows


def _values(metrics: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for name in _FIGURES:
        value = loss_of(metrics) if name == LOSS else number(metrics, name)
        if value is not None:
            yield name, value


def _lines(output: Path) -> Iterator[bytes]:
    rest = b""
    with output.open("rb") as file:
        while data := file.read(BLOCK):
            *whole, rest = _ENDS.split(rest + data)
            yield from (part[:LINE_BYTES] for part in whole)
            rest = rest[:LINE_BYTES]
    yield rest
