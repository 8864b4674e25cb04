"""Waiting for conditions, never for time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL = 0.05  # seconds between two looks at first; then a share of the wait so far, up to the longest pause. Looks of
_SHARE = 0.05  # all tests take a part of the cores that their subjects need.
_LONGEST = 0.2
# A timeout says what a quiet machine needs; one that also does other things has this many times as long. It costs a
# test that passes nothing: only the failure comes later.
_BUSY = 3


def on_a_busy_machine(timeout: float) -> float:
    """How many seconds a busy machine has for what a quiet one does within `timeout`."""
    return timeout * _BUSY


def wait_for(predicate: Callable[[], T], timeout: float, what: str | Callable[[], str], every: float = 0) -> T:
    """Call `predicate` until its value is true, and return that value.

    An AssertionError of the predicate counts as "not yet", and the last one is shown if the time is up.

    Args:
        predicate: looked at every 50 ms, after a second ever less often, down to every 0.2 s; or as `every` says.
        timeout: seconds on a machine that does nothing else; a busy one has three times as long.
        what: completes "timed out waiting for ..."; a function is called only when the time is up.
        every: seconds between two looks; longer for a check that takes much CPU and would slow down its own subject.

    Raises:
        TimeoutError: it was not true in time.
    """
    limit, pause = on_a_busy_machine(timeout), threading.Event()
    begun = time.monotonic()
    last: object = None
    while True:
        try:
            last = value = predicate()
            if value:
                return value
        except AssertionError as error:
            last = error
        waited = time.monotonic() - begun
        if waited > limit:
            awaited = what if isinstance(what, str) else what()
            raise TimeoutError(f"timed out after {limit:g} s waiting for {awaited}; last seen: {last!r}")
        pause.wait(every or min(max(_POLL, _SHARE * waited), _LONGEST))
