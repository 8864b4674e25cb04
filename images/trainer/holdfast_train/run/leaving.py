"""Being told to leave: by SIGTERM, or by an order of the operator. Both set a deadline that only moves closer.

Somebody who sends SIGTERM a second time wants it over: nothing is saved any more, and the process ends at once. An
order and then a SIGTERM is how every drain ends, and no second time.

The last act of an attempt that leaves is its handover: a successor that waits for it need not wait for the pod's end.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.say import say
from holdfast_train.storage.retrying import Patient

__all__ = ["end_now", "hand_over"]

HANDOVER_SECONDS: Final = 5.0  # by then the end of the pod says it as well

NOW_SECONDS: Final = 1.0  # the same, where somebody waits for that end

TOLD_TWICE: Final = 128 + signal.SIGTERM  # exit code


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
