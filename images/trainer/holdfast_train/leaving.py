"""Being told to leave: by SIGTERM, or by an order of the operator. Both set a deadline that only moves closer.

Somebody who sends SIGTERM a second time wants it over: nothing is saved any more, and the process ends at once. An
order and then a SIGTERM is how every drain ends, and no second time.

The last act of an attempt that leaves is its handover: a successor that waits for it need not wait for the pod's end.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from holdfast_train.checkpoints import Checkpoints
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.launcher import LEAVE_NOW, SETTLE_SECONDS
from holdfast_train.say import say
from holdfast_train.storage import Patient

__all__ = ["Notice", "end_now", "hand_over"]

HANDOVER_SECONDS: Final = 5.0  # by then the end of the pod says it as well
NOW_SECONDS: Final = 1.0  # the same, where somebody waits for that end
TOLD_TWICE: Final = 128 + signal.SIGTERM  # exit code


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


def hand_over(checkpoints: Checkpoints, storage: Patient, seconds: float) -> None:
    """Write into the log that this attempt commits nothing more. Takes at most `seconds`, and raises nothing."""
    seconds = min(seconds, HANDOVER_SECONDS)
    if seconds <= 0:
        say("no time is left to hand over; a successor waits until this pod has ended")
        return

    def append() -> None:
        try:
            with storage.within(seconds, at_most=seconds):
                checkpoints.hand_over()
        except HoldfastTrainError as error:
            say(f"could not hand over ({error}); a successor waits until this pod has ended")

    # In a thread, for one try may hang for longer than there is time.
    thread = threading.Thread(target=append, name="holdfast-handover", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        say(f"could not hand over within {seconds:.1f} s; a successor waits until this pod has ended")


def end_now(
    step: int,
    newest: int | None,
    *,
    busy: bool,
    verdict: Callable[[str], None],
    last_act: Callable[[float], None] | None,
) -> NoReturn:
    """End this process from within a signal handler, whatever it is at: nothing is saved, nothing is cleaned up.

    `verdict` gets the reason, as of `step` and with `newest` as the newest checkpoint. A checkpoint that is on its way
    (`busy`), and was copied whole, is in its writer's hands and outlives us. `last_act`: to hand over, within seconds.
    """
    try:
        known = "no checkpoint is saved" if newest is None else f"the newest checkpoint is of step {newest}"
        rest = ", and one is on its way" if busy else ""
        verdict(f"told to leave a second time, at step {step}: left at once; {known}{rest}")
        if last_act is not None and not busy:  # what is committed after the handover would be refused
            last_act(NOW_SECONDS)
    finally:
        os._exit(TOLD_TWICE)
