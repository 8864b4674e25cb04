"""Events for people: one object for each thing said about a job, counted up when it is said again, and never a flood.

An Event's name is made from what it says, so two leaders in a row, or one that starts again, write the same object.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from holdfast.api import names
from holdfast.api.objects import TrainingJob
from holdfast.core.decision import Event
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Writer
from holdfast.runtime.errors import ApiError
from holdfast.serve.token_bucket import TokenBucket

log = logging.getLogger(__name__)

MESSAGE = 1024  # characters
REPEAT_AFTER = 60.0  # seconds until the same words are counted once more
REMEMBERED = 10_000
WAITING = 1_000
PER_JOB_RATE, PER_JOB_BURST = 1 / 10, 25
YIELD = 2.0  # seconds that events let urgent work pass
LOOK_AGAIN = 0.05  # seconds until it looks whether there still is any


@dataclass(slots=True)
class _Said:
    count: int
    at: float
    first: str


def event_name(job: str, uid: str, event: Event) -> str:
    """The name of the Event object: the same words about the same object give the same name."""
    digest = hashlib.sha256("\0".join((uid, event.type, event.reason, event.message)).encode()).hexdigest()
    return f"{job[:200]}.{digest[:16]}"


class EventRecorder:
    """Takes events at once and writes them in the background. Best effort: an Event is a note, not state."""

    def __init__(
        self,
        writer: Writer,
        identity: str,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] | None = None,
        urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        """`urgent` tells whether there is work that events should let pass."""
        self._writer = writer
        self._urgent = urgent
        self._identity = identity[:128]
        self._clock = clock
        self._now = now or (lambda: datetime.now(UTC))
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._budget: OrderedDict[str, TokenBucket] = OrderedDict()
        self._waiting: deque[tuple[str, str, dict[str, Any]]] = deque()
        self._wake = asyncio.Event()
        self.dropped = 0

    def record(self, job: TrainingJob, event: Event) -> None:
        """Say this about the job, unless it was said a moment ago or the job talks too much."""
        meta = job.metadata
        event = Event(event.type, event.reason, event.message[:MESSAGE])
        name, now = event_name(meta.name, meta.uid, event), self._clock()
        said = self._said.get(name)
        if said and now - said.at < REPEAT_AFTER:
            return
        if not self._allowed(meta.uid):
            self.dropped += 1
            return
        stamp = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        said = _Said(said.count + 1, now, said.first) if said else _Said(1, now, stamp)
        self._said[name] = said
        self._said.move_to_end(name)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        self._waiting.append((meta.namespace, name, self._manifest(job, event, name, said, stamp)))
        if len(self._waiting) > WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._wake.set()

    def _allowed(self, uid: str) -> bool:
        bucket = self._budget.pop(uid, None) or TokenBucket(PER_JOB_RATE, PER_JOB_BURST, self._clock)
        self._budget[uid] = bucket
        if len(self._budget) > REMEMBERED:
            self._budget.popitem(last=False)
        return bucket.try_acquire()

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
        """Write what was recorded, until cancelled. What is urgent goes first, for a while."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._let_pass()
            await self.flush()

    async def flush(self) -> None:
        """Write everything that waits. An event that cannot be written is dropped."""
        while self._waiting:
            await self._write_next()

    async def _let_pass(self) -> None:
        until = self._clock() + YIELD
        while self._urgent() and self._clock() < until:  # noqa: ASYNC110 - asked for seldom, by one task
            await asyncio.sleep(LOOK_AGAIN)

    async def _write_next(self) -> None:
        namespace, name, manifest = self._waiting.popleft()
        try:
            await self._write(namespace, name, manifest)
        except ApiError as error:
            self.dropped += 1
            log.debug("event %s was not written: %s", name, error)

    async def _write(self, namespace: str, name: str, manifest: dict[str, Any]) -> None:
        again = {k: manifest[k] for k in ("count", "lastTimestamp")}
        if manifest["count"] > 1:
            try:
                await self._writer.write("PATCH", paths.core(namespace, "events", name), again)
            except ApiError as error:
                if not error.not_found:
                    raise
            else:
                return
        try:
            await self._writer.write("POST", paths.core(namespace, "events"), manifest)
        except ApiError as error:
            if not error.already_exists:
                raise
            await self._writer.write("PATCH", paths.core(namespace, "events", name), again)
