"""HTTP for the probes of the kubelet: /healthz and /readyz."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from holdfast.serve.connections import Bounds, Connections
from holdfast.serve.listener import Listener

MAX_FRAME_AGE = 180.0  # seconds; bookmarks come every minute, and a silent watch reconnects after 70
MAX_WATCH_GAP = 10.0  # seconds without a watch; a watch that the API server ends is opened again at once
MAX_QUEUE_STALL = 120.0  # seconds; a queue may be long, but it must move
LATE_RESYNCS = 3.0  # periods
MAX_CONTACT_AGE = 60.0  # seconds since the lease was read or renewed
BOUNDS = Bounds(unproven=64, rate=50.0, burst=200.0)  # a probe shows no token

Age = Callable[[], float | None]


@dataclass(slots=True)
class Health:
    """The values that health depends on. Every age is in seconds, None before the first event.

    `contact_age` is of the last answer about the lease, `prepared` is true once the process has read what it needs to
    lead.
    """

    leading: Callable[[], bool]
    lease_age: Age
    contact_age: Age
    prepared: Callable[[], bool]
    frames: Callable[[], dict[str, float]] = field(default=lambda: {})
    watch_gaps: Callable[[], dict[str, float]] = field(default=lambda: {})
    queue_stalled: Callable[[], float] = field(default=lambda: 0.0)
    resync_age: Age = field(default=lambda: None)
    resync_every: float = 600.0
    serving: Callable[[], bool] = field(default=lambda: False)

    def report(self) -> tuple[bool, dict[str, Any]]:
        """True if the process is healthy, and every value. A follower is healthy as long as it answers."""
        frames, stalled, resync = self.frames(), self.queue_stalled(), self.resync_age()
        problems = [
            f"the watch of {name} received nothing for {age:.0f}s (at most {MAX_FRAME_AGE:.0f}s are allowed)"
            for name, age in frames.items()
            if age > MAX_FRAME_AGE
        ]
        if stalled > MAX_QUEUE_STALL:
            problems.append(
                f"jobs wait, and no worker has taken one for {stalled:.0f}s"
                f" (at most {MAX_QUEUE_STALL:.0f}s are allowed)"
            )
        latest = self.resync_every * LATE_RESYNCS + 60
        if resync is not None and resync > latest:
            problems.append(f"the last resync was {resync:.0f}s ago (at most {latest:.0f}s are allowed)")
        lease = self.lease_age()
        return not problems, {
            "leading": self.leading(),
            "ready": self.ready,
            "serving": self.serving(),
            "problems": problems,
            "watchFrameAgeSeconds": {name: round(age, 1) for name, age in frames.items()},
            "queueStalledSeconds": round(stalled, 3),
            "lastResyncSeconds": None if resync is None else round(resync, 1),
            "leaseAgeSeconds": None if lease is None else round(lease, 1),
        }

    @property
    def ready(self) -> bool:
        """True if this process leads or could lead now: it has what a leader needs, and sees the lease.

        A leader whose watches are closed sees no change: another process may be better off.
        """
        contact = self.contact_age()
        sees = all(gap <= MAX_WATCH_GAP for gap in self.watch_gaps().values())
        return self.prepared() and contact is not None and contact <= MAX_CONTACT_AGE and sees


class HealthServer:
    """HTTP without TLS for probes."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._listener: Listener | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listen and return the port. Raises OSError if the address is in use."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._listener = Listener(app, Connections(BOUNDS))
        return await self._listener.start(host, port)

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener:
            await self._listener.stop()
            self._listener = None

    async def _healthz(self, request: web.Request) -> web.Response:
        well, body = self._health.report()
        return web.Response(status=200 if well else 503, text=json.dumps(body), content_type="application/json")

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._health.ready
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "not ready\n")
