"""Waiting for conditions, never for time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL = 0.05  # seconds


def wait_for(predicate: Callable[[], T], timeout: float, what: str, every: float = _POLL) -> T:
    """Call `predicate` until its value is true, and return that value.

    An AssertionError of the predicate counts as "not yet", and the last one is shown if the time is up.

    Args:
        predicate: looked at every 50 ms, or as often as `every` says.
        timeout: seconds.
        what: completes "timed out waiting for ...".
        every: seconds between two looks; longer for a check that takes much CPU and would slow down its own subject.

    Raises:
        TimeoutError: it was not true in time.
    """
    deadline, pause = time.monotonic() + timeout, threading.Event()
    last: object = None
    while True:
        try:
            last = value = predicate()
            if value:
                return value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out after {timeout:g} s waiting for {what}; last seen: {last!r}")
        pause.wait(every)
