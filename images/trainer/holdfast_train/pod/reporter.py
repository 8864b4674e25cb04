"""Sends progress reports to the operator and receives its orders, in two threads that training never waits for."""

import http.client
import math
import os
import random
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from holdfast_protocol.figures import number_text
from holdfast_protocol.report import EVERY_SECONDS, WAIT_SECONDS
from holdfast_train.environment import Environment
from holdfast_train.graph_capture import allow_calls_beside_capture
from holdfast_train.pod.launcher.connection import Connection, Target
from holdfast_train.progress import Progress
from holdfast_train.say import say

__all__ = ["Order", "Reporter"]

CALL_SECONDS: Final = 10
FIRST_BACK_OFF: Final = 0.5
LONGEST_BACK_OFF: Final = 15.0
_JITTER: Final = random.SystemRandom()  # not the global generator: its numbers belong to the program


@dataclass(frozen=True)
class Order:
    """An order of the operator: `drain`, `checkpoint` or `go`. A drain has to end within `seconds_left` seconds."""

    id: int
    type: str
    seconds_left: float
    reason: str


class _Rates:
    """Steps and samples per second over the time since the report before."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._step: int | None = None
        self._samples = 0.0
        self.samples_per_second: str | None = None
        self.seconds_per_step: str | None = None

    def update(self, step: int | None, samples: float) -> None:
        now = time.monotonic()
        if step is None:
            return
        if self._step is not None and step > self._step and now > self._at:
            self.seconds_per_step = f"{(now - self._at) / (step - self._step):.6f}"
            if self._samples < samples < math.inf:
                self.samples_per_second = f"{(samples - self._samples) / (now - self._at):.1f}"
        if self._step is None or step != self._step:
            self._at, self._step, self._samples = now, step, samples


def _number(value: Any) -> str | None:
    """A loss or another metric as a report has it; None if it is not a number.

    A tensor on a GPU is read here, so training does not wait.
    """
    if value is None:
        return None
    if getattr(value, "is_cuda", False):
        allow_calls_beside_capture()
    try:
        return number_text(float(value))
    except (TypeError, ValueError, RuntimeError):
        return None


class Reporter:
    """Reports `progress` and passes orders to `on_order`, in threads of its own. `on_order` must not block."""

    def __init__(self, environment: Environment, progress: Progress, on_order: Callable[[Order], None]) -> None:
        self._environment = environment
        self._progress = progress
        self._on_order = on_order
        self._wake = threading.Condition()
        self._requested = 0  # the number of the newest request for a report
        self._sent = 0  # the newest request that a successful report has answered
        self._stopping = threading.Event()
        self._acknowledged = 0
        self._orders = threading.Lock()
        self._every = EVERY_SECONDS
        self._rates = _Rates()
        self._is_unreachable = False
        self._connections: list[Connection] = []
        self._threads = [
            threading.Thread(target=self._report, name="holdfast-report", daemon=True),
            threading.Thread(target=self._poll, name="holdfast-orders", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads. The first report is sent at once."""
        self.poke()
        for thread in self._threads:
            thread.start()

    def poke(self) -> None:
        """Report as soon as possible."""
        with self._wake:
            self._requested += 1
            self._wake.notify_all()

    def finish(self, seconds: float) -> bool:
        """Send a last report, wait for it at most `seconds`, then stop. True if it arrived."""
        with self._wake:
            self._requested += 1
            wanted = self._requested
            self._wake.notify_all()
            arrived = self._wake.wait_for(lambda: self._sent >= wanted, seconds)
            self._stopping.set()
            self._wake.notify_all()
        for connection in self._connections:  # otherwise the thread that waits for orders would end a minute later
            connection.abort()
        return arrived

    def _connection(self, timeout: float) -> Connection:
        found = Connection(Target.of(self._environment.settings, *self._environment.identity.name), timeout)
        self._connections.append(found)
        return found

    def _body(self) -> dict[str, Any]:
        progress, identity = self._progress, self._environment.identity
        # In this order: a step of this process is not read without its first step.
        step, first = progress.step, progress.first_step
        self._rates.update(step, float(progress.samples))
        data_wait = progress.data.take()
        figures = replace(
            progress.measured,
            loss=_number(progress.loss),
            samples_per_second=self._rates.samples_per_second,
            seconds_per_step=self._rates.seconds_per_step,
            data_wait=None if data_wait is None else f"{data_wait:.3f}",
            peak_memory=progress.peak_memory,
        )
        return {
            "sender": progress.sender,
            "attempt": identity.attempt,
            "podUID": identity.pod_uid,
            "state": progress.state,
            "step": step,
            "steps": progress.steps,
            "firstStep": first and {"step": first[0], "secondsAgo": f"{max(0.0, time.monotonic() - first[1]):.3f}"},
            "figures": figures.encode(),
            "metrics": {name: text for name, v in progress.metrics.items() if (text := _number(v)) is not None},
            "fenced": progress.fenced,
            "resumedFrom": progress.resumed_from,
            "checkpoint": progress.checkpoint,
            "saveError": progress.save_error,
            "memoryWarning": progress.memory_warning,
            "slowRanks": progress.slow_ranks,
            "acknowledged": self._acknowledged,
            "pid": os.getpid(),
            "sentAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }

    def _report(self) -> None:
        connection = self._connection(CALL_SECONDS)
        back_off = 0.0
        while not self._stopping.is_set():
            with self._wake:
                # After a failure even an urgent report waits for the back-off, to spare an endpoint that is down.
                if back_off:
                    self._wake.wait_for(self._stopping.is_set, back_off * _JITTER.uniform(0.5, 1.5))
                else:
                    self._wake.wait_for(lambda: self._requested > self._sent or self._stopping.is_set(), self._every)
                requested = self._requested
            if self._stopping.is_set():
                break
            if self._send(connection):
                back_off = 0.0
                with self._wake:
                    self._sent = requested
                    self._wake.notify_all()
            else:
                back_off = min(LONGEST_BACK_OFF, max(FIRST_BACK_OFF, back_off * 2))
        connection.close()

    def _send(self, connection: Connection) -> bool:
        try:
            _, answer, _, refusal = connection.call("POST", f"{connection.path}/progress", self._body())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._say_unreachable(f"{type(error).__name__}: {error}")
            return False
        if refusal:
            self._say_unreachable(refusal)
            return False
        if self._is_unreachable:
            self._is_unreachable = False
            say("the operator takes reports again")
        if isinstance(answer, dict):
            every = answer.get("reportEverySeconds")
            if isinstance(every, (int, float)) and 0 < every <= 3600:
                self._every = float(every)
            self._take(answer.get("orders"))
        return True

    def _say_unreachable(self, why: str) -> None:
        if not self._is_unreachable and not self._stopping.is_set():  # once for each outage, not once for each try
            self._is_unreachable = True
            say(f"the operator does not take reports ({why}); training goes on")

    def _poll(self) -> None:
        connection = self._connection(WAIT_SECONDS + CALL_SECONDS)
        identity = self._environment.identity
        back_off = 0.0
        while not self._stopping.wait(back_off * _JITTER.uniform(0.5, 1.5)):
            query = urllib.parse.urlencode(
                {
                    "podUID": identity.pod_uid,
                    "attempt": identity.attempt,
                    "after": self._acknowledged,
                    "wait": WAIT_SECONDS,
                }
            )
            started = time.monotonic()
            try:
                status, answer, *_ = connection.call("GET", f"{connection.path}/orders?{query}")
            except (OSError, http.client.HTTPException, ValueError):
                status, answer = 0, None
            taken = status == http.HTTPStatus.OK and isinstance(answer, dict) and self._take(answer.get("orders"))
            quick = not taken and time.monotonic() - started < FIRST_BACK_OFF
            # An empty answer at once is not a long poll: the next one has to wait too.
            if status != http.HTTPStatus.OK or quick:
                back_off = min(LONGEST_BACK_OFF, max(FIRST_BACK_OFF, back_off * 2))
            else:
                back_off = 0.0
        connection.close()

    def _take(self, orders: Any) -> bool:
        """Pass on each new order once: both threads may receive it."""
        fresh: list[Order] = []
        with self._orders:
            for item in orders if isinstance(orders, list) else []:
                try:
                    order = Order(int(item["id"]), str(item["type"]), float(item["secondsLeft"]), str(item["reason"]))
                except (KeyError, TypeError, ValueError) as error:
                    say(f"an order of the operator cannot be read ({error!r}); it is ignored")
                    continue
                if order.id > self._acknowledged:
                    self._acknowledged = order.id
                    fresh.append(order)
        for order in fresh:
            self._on_order(order)
        if fresh:
            self.poke()
        return bool(fresh)
