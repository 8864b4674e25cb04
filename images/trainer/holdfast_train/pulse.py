"""`Pulse`: the file in which each rank tells the launcher which step it has done."""

import os
from pathlib import Path
from typing import Final

from holdfast_train.say import say

WIDTH: Final = 64  # bytes; one write of a few bytes costs about a microsecond


class Pulse:
    """Writes `pulse-<rank>` into `folder`: what the rank does, and its last step. No folder (no launcher): nothing."""

    def __init__(self, folder: str | None, rank: int = 0) -> None:
        self._file: int | None = None
        self._process = os.getpid()
        if folder is None:
            return
        try:
            self._file = os.open(Path(folder) / f"pulse-{rank}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            say(f"the launcher cannot see the steps of rank {rank}: {error}")

    def beat(self, doing: str, step: int | None) -> None:
        """Tell what the rank does from here on, and its last step."""
        if self._file is None or os.getpid() != self._process:
            return
        try:
            os.pwrite(self._file, f"{doing} {'-' if step is None else step}".ljust(WIDTH - 1).encode() + b"\n", 0)
        except OSError as error:
            self._file = None
            say(f"the launcher cannot see further steps: {error}")
