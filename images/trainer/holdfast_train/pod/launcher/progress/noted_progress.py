"""`NotedProgress`: keeps what a program without Holdfast's library reports, for the history that the writer writes.

The statuses go through a file, and not through the writer's input: nothing here may wait for a writer that is slow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..verdict_files import say

FILE = "progress.jsonl"  # beside the verdicts; the writer takes it away, with the lines that are in it
MOST_BYTES = 4 << 20  # what is reported while nobody takes the file away is left out


class NotedProgress:
    """Appends statuses to the file, each as a line: when it came, and its metrics."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, FILE)
        self._last: Any = None
        self._has_complained = False

    def note(self, status: Mapping[str, Any]) -> None:
        """`status` is what a program has sent, so it may be anything, also nested too deep to be written."""
        trainer = status.get("trainerStatus")
        metrics = trainer.get("metrics") if isinstance(trainer, dict) else None
        try:
            if metrics and metrics != self._last:
                self._last = metrics
                self._append(json.dumps({"at": time.time(), "metrics": metrics}) + "\n")
        except (OSError, ValueError, RecursionError) as error:
            if not self._has_complained:
                self._has_complained = True
                say(f"the history of the training lacks what the program reports: {error}")

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            if file.tell() < MOST_BYTES:
                file.write(line)
