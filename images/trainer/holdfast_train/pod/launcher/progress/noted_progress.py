"""`NotedProgress`: keeps what a program without Holdfast's library reports, for the history that the writer writes.

The metrics go through a file, and not through the writer's input: nothing here may wait for a writer that is slow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from ..verdict_files import say

FILE = "progress.jsonl"  # beside the verdicts; the writer takes it away, with the lines that are in it
MOST_BYTES = 4 << 20  # what is reported while nobody takes the file away is left out


class NotedProgress:
    """Appends metrics to the file, each time as a line with the time."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, FILE)
        self._last: dict[str, str] = {}
        self._has_complained = False

    def note(self, metrics: Mapping[str, str]) -> None:
        """Keep the newest metrics of the program, unless they are those before."""
        if not metrics or metrics == self._last:
            return
        self._last = dict(metrics)
        try:
            self._append(json.dumps({"at": time.time(), "metrics": self._last}) + "\n")
        except OSError as error:
            if not self._has_complained:
                self._has_complained = True
                say(f"the history of the training lacks what the program reports: {error}")

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            if file.tell() < MOST_BYTES:
                file.write(line)
