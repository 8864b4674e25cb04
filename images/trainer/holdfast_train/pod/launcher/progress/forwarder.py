"""`Forwarder`: passes the newest progress of a program on to the operator, in a thread that nothing waits for."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from dataclasses import replace

from holdfast_protocol import settings, variables
from holdfast_protocol.document import encode
from holdfast_protocol.endpoint import PROGRESS
from holdfast_protocol.report import ProgressReport

from ..connection import BackOff, Connection, Target
from ..verdict_files import say
from .kubeflow import RelayedReport

CALL_SECONDS = 10.0
LAST_SECONDS = 0.5  # for the last report, after the end of the program: the grace may be nearly over
_DROPPED = (400, 401, 403, 404, 413)  # answers after which the same report would be refused again


class Forwarder:
    """Sends reports one after the other. One that comes while another is on its way replaces those that wait."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        target = Target.of(settings.read(environment), environment[variables.NAMESPACE], environment[variables.JOB])
        self._connection = Connection(target, CALL_SECONDS)
        attempt, pod_uid = int(environment[variables.ATTEMPT]), environment.get(variables.POD_UID, "")
        self._report = RelayedReport(attempt, pod_uid)
        self._last = self._report.body({})
        self._changed = threading.Condition()
        self._newest: ProgressReport | None = None
        self._is_over = False
        self._trouble = ""  # why the operator did not take the last report
        self._thread: threading.Thread | None = None  # a program that reports nothing needs none

    def offer(self, metrics: Mapping[str, str]) -> None:
        """Report these metrics of the program as soon as possible, in place of those that still wait."""
        with self._changed:
            self._put(replace(self._report.body(metrics), tracking=self._last.tracking))

    def track(self, tracker: str, url: str) -> None:
        """Report the address of the program's run in this tracker, unless that is known."""
        with self._changed:
            if self._last.tracking.get(tracker) != url:
                self._put(replace(self._last, tracking={**self._last.tracking, tracker: url}))

    def finish(self) -> None:
        """End. A report that waits gets LAST_SECONDS, if the operator took the one before."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            thread, is_lost = self._thread, bool(self._trouble)
        if thread is not None:
            thread.join(0 if is_lost else LAST_SECONDS)
            self._connection.abort()

    def _put(self, report: ProgressReport) -> None:
        self._last = self._newest = report
        self._changed.notify_all()
        if self._thread is None and not self._is_over:
            self._thread = threading.Thread(target=self._run, name="progress-forward", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        back_off, pause = BackOff(), 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, pause)
                self._changed.wait_for(lambda: self._is_over or self._newest is not None)
                if self._newest is None or (self._is_over and self._trouble):
                    break
                report, self._newest = self._newest, None
            answer, at_least = self._send(report)
            with self._changed:
                if self._trouble and answer not in _DROPPED and self._newest is None:
                    self._newest = report
            pause = back_off.after(was_good=not self._trouble, at_least=at_least)
        self._connection.close()

    def _send(self, report: ProgressReport) -> tuple[int, int]:
        """The HTTP status, 0 if there was no answer, and the seconds before the next try that the operator wants."""
        try:
            answer, _, at_least, trouble = self._connection.call("POST", PROGRESS, encode(report))
        except (OSError, http.client.HTTPException, ValueError) as error:
            answer, at_least, trouble = 0, 0, f"{type(error).__name__}: {error}"
        if trouble and not self._trouble and not self._is_over:
            say(f"the operator does not take the program's progress ({trouble}); the program runs on")
        self._trouble = trouble
        return answer, at_least
