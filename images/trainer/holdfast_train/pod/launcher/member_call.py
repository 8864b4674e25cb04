"""The member call: the launcher of one node tells the operator where it stands, and is told what to do."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast_protocol.report import WAIT_SECONDS

from .connection import Connection
from .verdict_files import say

CALL_SECONDS = 10
TIMEOUT = WAIT_SECONDS + CALL_SECONDS
FIRST_BACK_OFF = 0.5
LONGEST_BACK_OFF = 15.0
LONGEST_WISH = 60.0  # seconds that the operator may ask for in Retry-After
SAY_EVERY = 60.0  # seconds between two lines about an operator that does not answer a launcher that waits for it
_JITTER = random.SystemRandom()


class Order(NamedTuple):
    """What to do: `start` the program of an attempt, `regroup` for it (end the program that runs), or `leave`.

    `address` and `port`: where rank 0 listens. `predecessor`: the attempt that still trains while this one starts.
    `final`: the order after a `regroup` will be to leave, because no attempt follows.
    """

    do: str
    attempt: int = 0
    address: str = ""
    port: int = 0
    predecessor: int | None = None
    final: bool = False


def read_order(answer: Any, report: Mapping[str, Any]) -> Order | None:
    """The order in the `answer` to `report`, None if there is nothing to do. ValueError if it cannot be followed."""
    do = str(answer.get("do")) if isinstance(answer, dict) else ""
    if do == "wait":
        return None
    allowed = ("start", "leave") if report["state"] == "ready" else ("regroup",)
    if do not in allowed:
        raise ValueError(f"the answer is {do!r}; a launcher that is {report['state']} follows {' and '.join(allowed)}")
    if do == "leave":
        return Order(do)
    attempt = answer.get("attempt")
    if not isinstance(attempt, int) or attempt <= report["attempt"]:
        raise ValueError(f"the attempt is {attempt!r}; it must be above {report['attempt']}")
    if do == "regroup":
        return Order(do, attempt, final=answer.get("final") is True)
    address, port, predecessor = answer.get("address"), answer.get("port"), answer.get("predecessor")
    if not isinstance(address, str) or not address or not isinstance(port, int) or not 0 < port < 1 << 16:
        raise ValueError(f"the address of rank 0 is {address!r}, port {port!r}")
    if predecessor is not None and (not isinstance(predecessor, int) or not 0 < predecessor < attempt):
        raise ValueError(f"the predecessor is {predecessor!r}; it must be from 1 to {attempt - 1}")
    return Order(do, attempt, address, port, predecessor)


class BackOff:
    """The pauses between calls, in seconds."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def after(self, *, was_good: bool, at_least: float = 0.0) -> float:
        """The pause after a call: none after a good one; after others it grows. `at_least`: what the operator wants.

        The pauses of many launchers differ, so that they do not all call in the same moment.
        """
        self._seconds = 0.0 if was_good else min(LONGEST_BACK_OFF, max(FIRST_BACK_OFF, self._seconds * 2))
        return min(at_least, LONGEST_WISH) + min(LONGEST_BACK_OFF, self._seconds * _JITTER.uniform(0.5, 1.5))


class MemberCall:
    """Tells one `report` again and again, in a thread, until there is an order. `on_order` gets it, in that thread.

    `more`: what each call adds to the report.
    """

    def __init__(
        self,
        connection: Connection,
        report: Mapping[str, Any],
        on_order: Callable[[Order], None],
        more: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._more = more
        self._connection = connection
        self._report = dict(report)
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
                path = f"{self._connection.path}/member?wait={WAIT_SECONDS}"
                status, body, at_least, trouble = self._connection.call("POST", path, {**self._report, **self._more()})
                order = read_order(body, self._report) if status == 200 else None
            except (OSError, http.client.HTTPException, ValueError) as error:
                order, trouble = None, f"{type(error).__name__}: {error}"
            if self._over.is_set():
                break
            self._note(trouble)
            if order is not None:
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
            waits = self._report["state"] == "ready"
            say(f"the operator does not answer ({trouble}); {'still asking' if waits else 'the program runs on'}")
        elif self._report["state"] == "ready" and now - self._said_at >= SAY_EVERY:
            self._said_at = now
            seconds = now - self._silent_since
            say(f"ready, but the operator has not answered for {seconds:.0f} s ({trouble}); still asking")
