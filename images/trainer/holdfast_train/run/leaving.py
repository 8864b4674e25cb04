"""The last acts of an attempt that leaves: the handover, or the end at once on a second SIGTERM.

After the handover, a successor that waits at the fence need not wait for the end of this pod.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.say import say
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL, Timings

EXIT_SECOND_SIGTERM: Final = 128 + signal.SIGTERM


def hand_over(checkpoints: Checkpoints, storage: RetryingStorage, seconds: float, timings: Timings = USUAL) -> None:
    """Write into the log that this attempt commits nothing more. Takes at most `seconds`. Raises nothing."""
    seconds = min(seconds, timings.handover)
    if seconds <= 0:
        say("no time is left to hand over; a successor waits until this pod has ended")
        return

    def append() -> None:
        try:
            with storage.within(seconds, at_most=seconds):
                checkpoints.hand_over()
        except HoldfastTrainError as error:
            say(f"could not hand over ({error}); a successor waits until this pod has ended")

    # In a thread, because one try may hang for longer than the time left.
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
    last_act: Callable[[], None] | None,
) -> NoReturn:
    """End this process from a signal handler. Nothing is saved, and nothing is cleaned up.

    `verdict` gets a message with `step` and with `newest`, the step of the newest checkpoint. `busy`: a checkpoint is
    on its way; its writer process goes on with it after this process has ended. `last_act` hands over.
    """
    try:
        known = "no checkpoint is saved" if newest is None else f"the newest checkpoint is of step {newest}"
        rest = ", and one is on its way" if busy else ""
        verdict(f"second notice to leave, at step {step}: left at once; {known}{rest}")
        if last_act is not None and not busy:  # after a handover the log refuses that checkpoint
            last_act()
    finally:
        os._exit(EXIT_SECOND_SIGTERM)
