"""Tells the operator how far the data is, in a thread that the copy never waits for."""

import http.client
import random
import threading
from datetime import UTC, datetime
from typing import Final

from holdfast_protocol.document import decode, encode
from holdfast_protocol.endpoint import PROGRESS
from holdfast_protocol.orders import Orders
from holdfast_protocol.report import EVERY_SECONDS, STAGER, ProgressReport, Staging
from holdfast_train.environment import Environment
from holdfast_train.pod.launcher.connection import Connection, Target
from holdfast_train.say import say
from holdfast_train.staging.copy import Counts

CALL_SECONDS: Final = 5.0
LAST_SECONDS: Final = 5.0  # for the last report: the program waits for it
_JITTER: Final = random.SystemRandom()


class StagingReporter:
    """Reports `counts` from `start` until `finish`. An operator that does not answer changes nothing."""

    def __init__(self, environment: Environment, counts: Counts) -> None:
        self._identity = environment.identity
        self._counts = counts
        self._connection = Connection(Target.of(environment.settings, *environment.identity.name), CALL_SECONDS)
        self._over = threading.Event()
        self._is_unreachable = False
        self._every = EVERY_SECONDS
        self._thread = threading.Thread(target=self._run, name="holdfast-data-report", daemon=True)

    def start(self) -> None:
        """Send the first report at once, and the others from time to time."""
        self._thread.start()

    def finish(self) -> None:
        """Say that all data is there, and wait for the answer for a few seconds."""
        self._over.set()
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.is_set()
            self._send(is_over=is_over)
            if not is_over:
                self._over.wait(self._every * _JITTER.uniform(0.8, 1.0))
        self._connection.close()

    def _send(self, *, is_over: bool) -> None:
        body = self._body(is_over=is_over)
        try:
            answer = self._connection.call("POST", PROGRESS, encode(body))
            if not (why := answer.refusal):
                self._every = decode(Orders, answer.body).interval(self._every)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        if why and not self._is_unreachable:  # once for each outage
            say(f"the operator does not take reports ({why}); the data is copied all the same")
        self._is_unreachable = bool(why)

    def _body(self, *, is_over: bool) -> ProgressReport:
        return ProgressReport(
            STAGER,
            self._identity.attempt,
            self._identity.pod_uid,
            "starting",
            staging=Staging(self._counts.done, self._counts.total, is_over),
            sent_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
