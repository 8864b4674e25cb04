"""The notice that this pod is to leave: by SIGTERM or by order."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from holdfast_train.pod.launcher import LEAVE_NOW, SETTLE_SECONDS
from holdfast_train.say import say

__all__ = ["Notice"]


class Notice:
    """Whether this process has to leave, until when and why. May be set from a signal handler and from any thread.

    `told` is called whenever it is set, there too: it must not block. `now` is called in the signal handler at the
    second SIGTERM. Under a launcher, which keeps its files in `folder`, only the launcher says which one is the second:
    torchrun, and whoever stops a whole group of processes, send some of their own.
    """

    def __init__(
        self,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        told: Callable[[str], None] = lambda _: None,
        now: Callable[[], None] = lambda: None,
        folder: str | None = None,
    ) -> None:
        self._grace = grace
        self._clock = clock
        self._told = told
        self._now = now
        self._folder = folder
        self._sigterm_at: float | None = None
        self._deadline: float | None = None
        self._old_handler: Any = None
        self.why = ""

    @property
    def given(self) -> bool:
        """Has somebody told us to leave?"""
        return self._deadline is not None

    def give(self, seconds: float, why: str) -> None:
        """Leave within `seconds`. The first reason stays, the earliest deadline counts."""
        deadline = self._clock() + seconds
        self.why = self.why or why
        self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
        self._told(self.why)

    def seconds_left(self, default: float) -> float:
        """Seconds until the deadline, `default` without one."""
        return default if self._deadline is None else max(0.0, self._deadline - self._clock())

    def listen(self) -> None:
        """Take SIGTERM for a notice of the whole grace. Main thread only; elsewhere orders are all that is heard."""
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGTERM, self._on_sigterm)
        else:
            say("Run was entered outside the main thread: it leaves by order only, not by SIGTERM")

    def stop_listening(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._old_handler is not None:
            signal.signal(signal.SIGTERM, self._old_handler)
            self._old_handler = None

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        at = self._clock()
        if self._is_second(at):
            self._now()
            return
        self._sigterm_at = at if self._sigterm_at is None else self._sigterm_at
        self.give(self._grace, "SIGTERM")

    def _is_second(self, at: float) -> bool:
        if self._folder is not None:
            return (Path(self._folder) / LEAVE_NOW).exists()
        return self._sigterm_at is not None and at - self._sigterm_at >= SETTLE_SECONDS
