"""`ToldSteps`: what a program without Holdfast's library told last of its steps, in a file for `StallWatch`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..stall_watch import TOLD, TRAINING
from ..verdict_files import say

STEP = ("current_step", "global_step", "step")  # metrics, as the operator reads them: the first that is there counts
TOTAL = "total_steps"
_NUMBER = re.compile(r"0*[1-9][0-9]{0,15}")


class ToldSteps:
    """Writes the file again for each step. After the last step nothing counts as a hang: a model may be on its way.

    `goal`: the last step, as the job names it, empty if it does not; the program may name an earlier one.
    """

    def __init__(self, folder: str, goal: str = "") -> None:
        self._path = Path(folder, TOLD)
        self._goal = _count(goal)
        self._last = ""

    def note(self, status: Mapping[str, Any]) -> None:
        """`status` is what a program has sent, so it may be anything."""
        trainer = status.get("trainerStatus")
        metrics = trainer.get("metrics") if isinstance(trainer, dict) else None
        listed = [one for one in metrics if isinstance(one, dict)] if isinstance(metrics, list) else []
        told = {str(one.get("name")): one.get("value") for one in listed}
        step = next((found for name in STEP if (found := _count(told.get(name)))), 0)
        ends = [last for last in (_count(told.get(TOTAL)), self._goal) if last]
        text = f"{'ending' if ends and step >= min(ends) else TRAINING} {step}"
        if not step or text == self._last:
            return
        self._last, fresh = text, self._path.with_suffix(".new")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            say(f"a hang is not noticed: the steps that the program tells cannot be written ({error})")


def _count(value: object) -> int:
    """A whole number above 0; otherwise 0."""
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else 0
