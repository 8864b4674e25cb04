"""Sends progress reports to the operator and receives its orders, in two threads that training never waits for."""

import http.client
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from holdfast_protocol import tracking
from holdfast_protocol.document import DocumentError, decode, encode
from holdfast_protocol.endpoint import ORDERS, POD_UID, PROGRESS, WAIT_SECONDS
from holdfast_protocol.figures import number_text
from holdfast_protocol.orders import Order, Orders
from holdfast_protocol.report import EVERY_SECONDS, MAX_NOTE, FirstStep, ProgressReport, Silence
from holdfast_train.environment import Environment
from holdfast_train.graph_capture import allow_calls_beside_capture
from holdfast_train.pod.launcher.connection import FIRST_BACK_OFF, BackOff, Connection, Target
from holdfast_train.pod.wandb_run import run_url
from holdfast_train.progress import Progress
from holdfast_train.say import say

CALL_SECONDS: Final = 10


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


def _seconds_since(at: float) -> str:
    return f"{max(0.0, time.monotonic() - at):.3f}"


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
        self._is_unreadable = False
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

    def _body(self) -> ProgressReport:
        progress, identity = self._progress, self._environment.identity
        # In this order: a step of this process is not read without its first step.
        step, first, silence = progress.step, progress.first_step, progress.silence
        resumed = progress.resumed_from
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
        return ProgressReport(
            progress.sender,
            identity.attempt,
            identity.pod_uid,
            progress.state,
            step=step,
            steps=progress.steps,
            first_step=first and FirstStep(first[0], _seconds_since(first[1])),
            figures=figures,
            metrics={name: text for name, v in progress.metrics.items() if (text := _number(v)) is not None},
            fenced=progress.fenced,
            resumed_from=resumed and replace(resumed, note=resumed.note[:MAX_NOTE]),
            checkpoint=progress.checkpoint,
            save_error=progress.save_error,
            storage_silence=silence and Silence(_seconds_since(silence.since), silence.why),
            memory_warning=progress.memory_warning,
            slow_ranks=progress.slow_ranks,
            tracking={tracking.WANDB: url} if (url := run_url()) else {},
            acknowledged=self._acknowledged,
            pid=os.getpid(),
            sent_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def _report(self) -> None:
        connection = self._connection(CALL_SECONDS)
        back_off, pause = BackOff(), 0.0
        while not self._stopping.is_set():
            with self._wake:
                # After a failure even an urgent report waits for the back-off, to spare an endpoint that is down.
                if pause:
                    self._wake.wait_for(self._stopping.is_set, pause)
                else:
                    self._wake.wait_for(lambda: self._requested > self._sent or self._stopping.is_set(), self._every)
                requested = self._requested
            if self._stopping.is_set():
                break
            is_sent = self._send(connection)
            pause = back_off.after(was_good=is_sent)
            if is_sent:
                with self._wake:
                    self._sent = requested
                    self._wake.notify_all()
        connection.close()

    def _send(self, connection: Connection) -> bool:
        try:
            _, answer, _, refusal = connection.call("POST", PROGRESS, encode(self._body()))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._say_unreachable(f"{type(error).__name__}: {error}")
            return False
        if refusal:
            self._say_unreachable(refusal)
            return False
        if self._is_unreachable:
            self._is_unreachable = False
            say("the operator takes reports again")
        self._take(answer)
        return True

    def _say_unreachable(self, why: str) -> None:
        if not self._is_unreachable and not self._stopping.is_set():  # once for each outage, not once for each try
            self._is_unreachable = True
            say(f"the operator does not take reports ({why}); training goes on")

    def _poll(self) -> None:
        connection = self._connection(WAIT_SECONDS + CALL_SECONDS)
        identity = self._environment.identity
        back_off, pause = BackOff(), 0.0
        while not self._stopping.wait(pause):
            query: dict[str, Any] = {
                POD_UID: identity.pod_uid,
                "attempt": identity.attempt,
                "after": self._acknowledged,
            }
            started = time.monotonic()
            try:
                answer = connection.call("GET", ORDERS, **query, wait=WAIT_SECONDS)
                # An empty answer at once is not a long poll: the next one has to wait too.
                was_long = time.monotonic() - started >= FIRST_BACK_OFF
                is_good = not answer.refusal and (self._take(answer.body) or was_long)
            except (OSError, http.client.HTTPException, ValueError):
                is_good = False
            pause = back_off.after(was_good=is_good)
        connection.close()

    def _take(self, answer: Any) -> bool:
        """Pass on each new order once: both threads may receive it."""
        try:
            told = decode(Orders, answer)
        except DocumentError as error:
            if not self._is_unreadable:  # once for each such operator, not at each answer
                self._is_unreadable = True
                say(f"the orders of the operator cannot be read: {error}")
            return False
        self._is_unreadable = False
        self._every = told.interval(self._every)
        fresh: list[Order] = []
        with self._orders:
            for order in told.orders:
                if order.id > self._acknowledged:
                    self._acknowledged = order.id
                    fresh.append(order)
        for order in fresh:
            self._on_order(order)
        if fresh:
            self.poke()
        return bool(fresh)
