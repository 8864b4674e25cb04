"""`ToldSteps`: what a program without Holdfast's library told last of its steps, in a file for `StallWatch`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..stall_watch import TOLD, TRAINING
from ..verdict_files import say
from .kubeflow import STEP, TOTAL, count, count_of


class ToldSteps:
    """Writes the file again for each step. After the last step nothing counts as a hang: a model may be on its way.

    `goal`: the last step, as the job names it, empty if it does not; the program may name an earlier one.
    """

    def __init__(self, folder: str, goal: str = "") -> None:
        self._path = Path(folder, TOLD)
        self._goal = count(goal)
        self._last = ""

    def note(self, metrics: Mapping[str, str]) -> None:
        """Take the newest metrics of the program."""
        step = count_of(metrics, *STEP) or 0
        ends = [last for last in (count_of(metrics, TOTAL), self._goal) if last]
        text = f"{'ending' if ends and step >= min(ends) else TRAINING} {step}"
        if not step or text == self._last:
            return
        self._last, fresh = text, self._path.with_suffix(".new")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            say(f"a hang is not noticed: the steps that the program tells cannot be written ({error})")
