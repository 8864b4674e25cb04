"""`Notice`: this process has to leave, because of SIGTERM or because of an order of the operator."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.util import register_after_fork
from pathlib import Path
from types import FrameType
from typing import Any

from holdfast_train.pod.launcher.program import SETTLE_SECONDS
from holdfast_train.pod.launcher.verdict_files import LEAVE_NOW
from holdfast_train.say import say


class Notice:
    """Whether this process has to leave, by when and why. The deadline only moves closer.

    Any thread and any signal handler may give it. `on_given` is called each time, in the same place: it must not block.
    `on_second_sigterm` is called in the signal handler. The second SIGTERM means: leave at once, without a save. An
    order and then a SIGTERM is how every drain ends, and is not a second time. Under a launcher, which keeps its files
    in `folder`, only the launcher decides which SIGTERM is the second: torchrun, and a signal to a whole process group,
    add SIGTERMs of their own. In a process that the program forks, SIGTERM does what it would do without the notice.
    """

    def __init__(
        self,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_given: Callable[[str], None] = lambda _: None,
        on_second_sigterm: Callable[[], None] = lambda: None,
        folder: str | None = None,
    ) -> None:
        self._grace = grace
        self._clock = clock
        self._on_given = on_given
        self._on_second_sigterm = on_second_sigterm
        self._folder = folder
        self._sigterm_at: float | None = None
        self._deadline: float | None = None
        self._old_handler: Any = None
        self.reason = ""

    @property
    def is_given(self) -> bool:
        """True if this process has to leave."""
        return self._deadline is not None

    def give(self, seconds: float, reason: str) -> None:
        """Leave within `seconds`. The first reason stays, and the earliest deadline counts."""
        deadline = self._clock() + seconds
        self.reason = self.reason or reason
        self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
        self._on_given(self.reason)

    def seconds_left(self, default: float = math.inf) -> float:
        """Seconds until the deadline, `default` without one."""
        return default if self._deadline is None else max(0.0, self._deadline - self._clock())

    def listen(self) -> None:
        """Treat SIGTERM as a notice with the whole grace. Main thread only; elsewhere only orders count."""
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGTERM, self._on_sigterm)
            register_after_fork(self, Notice._leave_group)
        else:
            say("Run was entered outside the main thread: it leaves only on an order, not on SIGTERM")

    def stop_listening(self) -> None:
        """Restore the handler of SIGTERM that was there before `listen`."""
        if self._old_handler is not None:
            signal.signal(signal.SIGTERM, self._old_handler)
            self._old_handler = None

    def leave_to_program(self) -> None:
        """In a process that the program has forked: SIGTERM does there what it does without this notice."""
        signal.signal(signal.SIGTERM, self._old_handler or signal.SIG_DFL)

    def _leave_group(self) -> None:
        """In a process of multiprocessing, such as one that simulates an environment: a SIGTERM to the process group of
        this training, as torchrun sends it, would end it in the middle of the step that has to be saved. Its parent
        ends it by its number. Processes that a program forks otherwise stay: one may make a session of its own.
        """
        if self._old_handler is not None:
            os.setpgid(0, 0)

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        at = self._clock()
        if self._is_second(at):
            self._on_second_sigterm()
            return
        self._sigterm_at = at if self._sigterm_at is None else self._sigterm_at
        self.give(self._grace, "SIGTERM")

    def _is_second(self, at: float) -> bool:
        if self._folder is not None:
            return (Path(self._folder) / LEAVE_NOW).exists()
        return self._sigterm_at is not None and at - self._sigterm_at >= SETTLE_SECONDS


# `with multiprocessing.Pool()` ends its workers by SIGTERM, and waits for them. So a forked process has the program's
# handler of SIGTERM. A signal that comes before it has it stays pending: Python drops one that it handles in a fork.
_mask = threading.local()


def _block() -> None:
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _begin_forked() -> None:
    notice = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(notice, Notice):
        notice.leave_to_program()
    _unblock()


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_begin_forked)
