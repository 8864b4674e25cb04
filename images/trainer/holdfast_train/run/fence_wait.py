"""The wait of a successor at the fence, while the attempt before it still trains."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from holdfast_train.errors import StorageError
from holdfast_train.ranks import Ranks
from holdfast_train.run.notice import Notice
from holdfast_train.say import say

__all__ = ["Hold"]

DEAF_SECONDS: Final = 0.2  # a signal that comes just before a wait begins is only heard when it ends
POLL_SECONDS: Final = 1.0  # between two looks at the log, and between two agreements of the ranks


class Hold:
    """Waits until somebody ends it: an order, a notice to leave, or what the log says."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Neither Event nor Condition: a signal handler must be able to put, also while its own thread waits in `get`.
        self._reasons: queue.SimpleQueue[str] = queue.SimpleQueue()

    def end(self, why: str) -> None:
        """End the wait, or one that has not begun yet. From any thread, and from a signal handler."""
        self._reasons.put(why)

    def wait(self, ranks: Ranks, notice: Notice, look: Callable[[], str | None]) -> bool:
        """Wait on all `ranks` together, until `end`, until `look` gives a reason, or until `notice` is given.

        True if the ranks may go on, False if one of them has to leave. `look` is called in a thread of rank 0: however
        long the storage takes, an order or a notice ends the wait at once. Its StorageErrors are said once.
        """
        started = self._clock()
        over = threading.Event()
        if ranks.first:
            threading.Thread(target=self._watch, args=(look, over), name="holdfast-hold", daemon=True).start()
        try:
            while True:
                why = self._next() if ranks.first else ""
                leave, go = ranks.any(notice.given, why != "")
                if leave or go:
                    break
        finally:
            over.set()
        if ranks.first:
            why = f"told to leave ({notice.why or 'another rank was told'})" if leave else why
            say(f"held at the fence for {self._clock() - started:.1f} s, until: {why}")
        return not leave

    def _next(self) -> str:
        end = time.monotonic() + POLL_SECONDS
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._reasons.get(timeout=min(left, DEAF_SECONDS))
        return ""  # nothing yet: the other ranks must not wait longer than this for us

    def _watch(self, look: Callable[[], str | None], over: threading.Event) -> None:
        silent = False
        while not over.is_set():
            try:
                why = look()
            except StorageError as error:
                if not silent:
                    silent = True
                    say(f"the checkpoint log cannot be read ({error}); still waiting for it, or for an order to go on")
            else:
                if why is not None:
                    self.end(why)
                    return
            over.wait(POLL_SECONDS)
