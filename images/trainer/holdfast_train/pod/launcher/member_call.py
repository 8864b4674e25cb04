"""The member call: the launcher of one node tells the operator where it stands, and is told what to do."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable

from holdfast_protocol.document import encode
from holdfast_protocol.endpoint import MEMBER, WAIT_SECONDS
from holdfast_protocol.member import READY, WAIT, MemberOrder, MemberReport, read_order

from .connection import FIRST_BACK_OFF, BackOff, Connection
from .verdict_files import say

CALL_SECONDS = 10
TIMEOUT = WAIT_SECONDS + CALL_SECONDS
SAY_EVERY = 60.0  # seconds between two lines about an operator that does not answer a launcher that waits for it


class MemberCall:
    """Tells `report`, as it is now, again and again, in a thread, until there is an order.

    `on_order` gets the order, in that thread.
    """

    def __init__(
        self,
        connection: Connection,
        report: Callable[[], MemberReport],
        on_order: Callable[[MemberOrder], None],
    ) -> None:
        self._connection = connection
        self._report = report
        self._on_order = on_order
        self._over = threading.Event()
        self._silent_since: float | None = None  # since when the operator has not answered,
        self._said_at = 0.0  # and when that was said last
        self._thread = threading.Thread(target=self._run, name="member-call", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. An order that comes now is dropped."""
        self._over.set()
        self._connection.abort()

    def _run(self) -> None:
        back_off, pause = BackOff(), 0.0
        while not self._over.wait(pause):
            started, at_least = time.monotonic(), 0
            try:
                report = self._report()
                answer = self._connection.call("POST", MEMBER, encode(report), wait=WAIT_SECONDS)
                at_least, trouble = answer.retry_after, answer.refusal
                order = read_order(answer.body, report) if not trouble else None
            except (OSError, http.client.HTTPException, ValueError) as error:
                order, trouble = None, f"{type(error).__name__}: {error}"
            if self._over.is_set():
                break
            self._note(trouble)
            if order is not None and order.do != WAIT:
                self._connection.close()
                self._on_order(order)
                return
            # An answer at once is not a long poll: without a pause the endpoint would get thousands of calls a second.
            was_good = not trouble and time.monotonic() - started >= FIRST_BACK_OFF
            pause = back_off.after(was_good=was_good, at_least=at_least)
        self._connection.close()

    def _note(self, trouble: str) -> None:
        """Say that the operator does not answer: once if the program runs, and once a minute if it waits."""
        now = time.monotonic()
        if not trouble:
            if self._silent_since is not None:
                say(f"the operator answers again, after {now - self._silent_since:.0f} s")
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._said_at = now
            waits = self._report().state == READY
            say(f"the operator does not answer ({trouble}); {'still asking' if waits else 'the program runs on'}")
        elif self._report().state == READY and now - self._said_at >= SAY_EVERY:
            self._said_at = now
            seconds = now - self._silent_since
            say(f"ready, but the operator has not answered for {seconds:.0f} s ({trouble}); still asking")
