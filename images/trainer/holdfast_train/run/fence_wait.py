"""`FenceWait`: a successor waits at the fence while the attempt before it still trains."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import StorageError
from holdfast_train.ranks import Ranks
from holdfast_train.run.notice import Notice
from holdfast_train.say import say
from holdfast_train.timings import USUAL, Timings


class FenceWait:
    """The wait at the fence. An order, a notice, or a record of the log ends it."""

    def __init__(self, timings: Timings = USUAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._timings = timings
        self._clock = clock
        # Not an Event or a Condition: a signal handler must be able to put while its own thread waits in `get`.
        self._reasons: queue.SimpleQueue[str] = queue.SimpleQueue()

    def end(self, reason: str) -> None:
        """End the wait, or one that has not begun yet. Any thread and any signal handler may call it."""
        self._reasons.put(reason)

    def wait_for(self, predecessor: int, log: CommitLog, ranks: Ranks, notice: Notice) -> bool:
        """As `wait`, until the `log` shows that attempt `predecessor` has handed over."""
        if ranks.first:
            say(f"ready; waits at the fence until attempt {predecessor} has handed over")
        return self.wait(ranks, notice, lambda: log.reason_to_pass_fence(predecessor))

    def wait(self, ranks: Ranks, notice: Notice, look: Callable[[], str | None]) -> bool:
        """Wait on all `ranks` together, until `end` is called, `look` returns a reason, or `notice` is given.

        True if the ranks may go on, False if one of them has to leave. A thread of rank 0 calls `look`, so an order or
        a notice ends the wait at once even if the storage is slow. A StorageError of `look` is printed once.
        """
        started = self._clock()
        over = threading.Event()
        if ranks.first:
            threading.Thread(target=self._watch, args=(look, over), name="holdfast-fence-wait", daemon=True).start()
        try:
            while True:
                reason = self._next() if ranks.first else ""
                must_leave, may_go_on = ranks.any(notice.is_given, reason != "")
                if must_leave or may_go_on:
                    break
        finally:
            over.set()
        if ranks.first:
            if must_leave:
                reason = f"notice to leave ({notice.reason or 'another rank has to leave'})"
            say(f"waited at the fence for {self._clock() - started:.1f} s, until: {reason}")
        return not must_leave

    def _next(self) -> str:
        end = time.monotonic() + self._timings.fence_look
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._reasons.get(timeout=min(left, self._timings.fence_signal))
        return ""  # the other ranks must not wait longer than this for rank 0

    def _watch(self, look: Callable[[], str | None], over: threading.Event) -> None:
        was_said = False
        while not over.is_set():
            try:
                reason = look()
            except StorageError as error:
                if not was_said:
                    was_said = True
                    say(f"the checkpoint log cannot be read ({error}); still waiting for it, or for an order to go on")
            else:
                if reason is not None:
                    self.end(reason)
                    return
            over.wait(self._timings.fence_look)
