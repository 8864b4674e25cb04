"""Being told to leave: by SIGTERM, or by an order of the operator. Both set a deadline that only moves closer.

The last act of an attempt that leaves is its handover: a successor that waits for it need not wait for the pod's end.
"""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from holdfast_train.checkpoints import Checkpoints
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.say import say
from holdfast_train.storage import Patient

__all__ = ["Notice", "hand_over"]

HANDOVER_SECONDS: Final = 5.0  # by then the end of the pod says it as well


class Notice:
    """Whether this process has to leave, until when and why. May be set from a signal handler and from any thread.

    `told` is called whenever it is set, there too: it must not block.
    """

    def __init__(
        self,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._grace = grace
        self._clock = clock
        self._told = told
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
        self.give(self._grace, "SIGTERM")


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
