"""A board in shared memory on which every process says what it is doing: it is still there when the process is not."""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

PHASES: Final = ("start", "restore", "training", "capture", "idle", "upload", "commit", "sweep")
SLOTS: Final = 1 << 14
_ROW: Final = np.dtype([("phase", "i4"), ("pad", "i4"), ("begun", "i8", len(PHASES)), ("seconds", "f8", len(PHASES))])


class Slot:
    """What one process does: `phase` now, and for each phase how often it was `begun` and the seconds that it took."""

    def __init__(self, row: Any) -> None:
        self._row = row

    @property
    def phase(self) -> str:
        """The phase that the process is in, or was in when it died."""
        return PHASES[int(self._row["phase"])]

    def begun(self, phase: str) -> int:
        """How often `phase` was begun."""
        return int(self._row["begun"][PHASES.index(phase)])

    def ended(self, phase: str) -> tuple[int, float]:
        """How often `phase` came to its end, and how many seconds that took together."""
        number = PHASES.index(phase)
        running = self.phase == phase
        return max(0, int(self._row["begun"][number]) - running), float(self._row["seconds"][number])

    def enter(self, phase: str) -> Callable[[], None]:
        """The process is in `phase` now. What is returned ends that: then it is where it was before."""
        before, begun, open_ = int(self._row["phase"]), time.monotonic(), [True]
        number = PHASES.index(phase)
        self._row["begun"][number] += 1
        self._row["phase"] = number

        def leave() -> None:
            if open_:
                open_.clear()
                self._row["seconds"][number] += time.monotonic() - begun
                self._row["phase"] = before

        return leave

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Inside, the process is in `phase`. What is killed inside stays in it."""
        leave = self.enter(phase)
        try:
            yield
        finally:
            leave()

    def watching(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, in `phase`."""

        def watched(*args: Any, **more: Any) -> Any:
            with self.during(phase):
                return function(*args, **more)

        return watched


class Board:
    """The slots of all processes of a campaign. Its memory is behind `descriptor`."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("torture", os.MFD_CLOEXEC) if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, SLOTS * _ROW.itemsize)
        self._rows = np.frombuffer(mmap.mmap(self.descriptor, SLOTS * _ROW.itemsize), dtype=_ROW)

    def slot(self, number: int) -> Slot:
        """Slot `number`."""
        return Slot(self._rows[number])
