"""Kubernetes Events: one object for each message about a job; a repeated message raises its count. Rates are bounded.

Namespaces take turns: the events of one do not delay those of another, and if too many wait, the namespace of which the
most wait loses its oldest one.

The name of an Event is made from its text, so that two leaders in a row, or a restarted one, write the same object.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from holdfast.api import names
from holdfast.api.objects import TrainingJob
from holdfast.core.decision import Event
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.serve.fair_line import FairLine
from holdfast.serve.token_bucket import TokenBuckets

log = logging.getLogger(__name__)

MESSAGE = 1024  # characters
REPEAT_AFTER = 60.0  # seconds until the same message is counted again
REMEMBERED = 10_000
WAITING = 1_000
PER_JOB_RATE, PER_JOB_BURST = 1 / 10, 25
YIELD = 2.0  # the longest time in seconds that events wait for urgent work
LOOK_AGAIN = 0.05  # seconds between two checks for urgent work


@dataclass(slots=True)
class _Said:
    count: int
    at: float
    first: str


def event_name(job: str, uid: str, event: Event) -> str:
    """The name of the Event object. The same message about the same job has the same name."""
    digest = hashlib.sha256("\0".join((uid, event.type, event.reason, event.message)).encode()).hexdigest()
    return f"{job[:200]}.{digest[:16]}"


class EventRecorder:
    """Accepts events without waiting and writes them in the background. It may drop events: they are not state."""

    def __init__(
        self,
        writer: GatedWriter,
        identity: str,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] | None = None,
        urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        """`urgent` returns True while there is work that events should wait for."""
        self._writer = writer
        self._urgent = urgent
        self._identity = identity[:128]
        self._clock = clock
        self._now = now or (lambda: datetime.now(UTC))
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._rates = TokenBuckets(PER_JOB_RATE, PER_JOB_BURST, REMEMBERED, clock)
        self._waiting: FairLine[Key] = FairLine(lambda one: one.namespace)
        self._manifests: dict[Key, dict[str, Any]] = {}  # of the events that wait
        self._wake = asyncio.Event()
        self.dropped = 0

    def record(self, job: TrainingJob, event: Event) -> None:
        """Queue an event of the job, unless the same event is recent or the job has too many events."""
        meta = job.metadata
        event = Event(event.type, event.reason, event.message[:MESSAGE])
        name, now = event_name(meta.name, meta.uid, event), self._clock()
        said = self._said.get(name)
        if said and now - said.at < REPEAT_AFTER:
            return
        if not self._rates.try_acquire(meta.uid):
            self.dropped += 1
            return
        stamp = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        said = _Said(said.count + 1, now, said.first) if said else _Said(1, now, stamp)
        self._said[name] = said
        self._said.move_to_end(name)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        key = Key(meta.namespace, name)
        self._manifests[key] = self._manifest(job, event, name, said, stamp)
        self._waiting.put(key)
        if len(self._waiting) > WAITING:
            del self._manifests[self._waiting.take_from_largest()]
            self.dropped += 1
        self._wake.set()

    def _manifest(self, job: TrainingJob, event: Event, name: str, said: _Said, stamp: str) -> dict[str, Any]:
        meta = job.metadata
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta.namespace},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.JOB_KIND,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": said.count,
            "firstTimestamp": said.first,
            "lastTimestamp": stamp,
            "source": {"component": "holdfast"},
            "reportingComponent": "holdfast",
            "reportingInstance": self._identity,
        }

    async def run(self) -> None:
        """Write the queued events until cancelled. Urgent work goes first, for at most `YIELD` seconds."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._let_pass()
            await self.flush()

    async def flush(self) -> None:
        """Write all queued events. An event that cannot be written is dropped."""
        while len(self._waiting):
            await self._write_next()

    async def _let_pass(self) -> None:
        until = self._clock() + YIELD
        while self._urgent() and self._clock() < until:  # noqa: ASYNC110 - only one task polls, and seldom
            await asyncio.sleep(LOOK_AGAIN)

    async def _write_next(self) -> None:
        key = self._waiting.take()
        try:
            await self._write(key, self._manifests.pop(key))
        except ApiError as error:
            self.dropped += 1
            log.debug("cannot write event %s: %s", key.name, error)

    async def _write(self, key: Key, manifest: dict[str, Any]) -> None:
        again = {k: manifest[k] for k in ("count", "lastTimestamp")}
        path = paths.core(key.namespace, "events", key.name)
        if manifest["count"] > 1:
            try:
                await self._writer.write("PATCH", path, again)
            except ApiError as error:
                if not error.not_found:
                    raise
            else:
                return
        try:
            await self._writer.write("POST", paths.core(key.namespace, "events"), manifest)
        except ApiError as error:
            if not error.already_exists:
                raise
            await self._writer.write("PATCH", path, again)
