"""HTTP for probes: /healthz for the kubelet, /readyz for the Service, /metrics for Prometheus."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MAX_FRAME_AGE = 180.0  # seconds; bookmarks come every minute, and a silent watch reconnects after 70
MAX_QUEUE_AGE = 120.0
LATE_RESYNCS = 3.0  # periods

Age = Callable[[], float | None]


@dataclass(slots=True)
class Health:
    """The values that health depends on. Every age is in seconds, None before the first event."""

    leading: Callable[[], bool]
    lease_age: Age
    frames: Callable[[], dict[str, float]] = field(default=lambda: {})
    oldest_key: Callable[[], float] = field(default=lambda: 0.0)
    resync_age: Age = field(default=lambda: None)
    resync_every: float = 600.0
    serving: Callable[[], bool] = field(default=lambda: False)

    def report(self) -> tuple[bool, dict[str, Any]]:
        """True if the process is healthy, and every value. A follower is healthy as long as it answers."""
        frames, oldest, resync = self.frames(), self.oldest_key(), self.resync_age()
        problems = [
            f"the watch of {name} received nothing for {age:.0f}s (at most {MAX_FRAME_AGE:.0f}s are allowed)"
            for name, age in frames.items()
            if age > MAX_FRAME_AGE
        ]
        if oldest > MAX_QUEUE_AGE:
            problems.append(f"a job has waited for {oldest:.0f}s (at most {MAX_QUEUE_AGE:.0f}s are allowed)")
        latest = self.resync_every * LATE_RESYNCS + 60
        if resync is not None and resync > latest:
            problems.append(f"the last resync was {resync:.0f}s ago (at most {latest:.0f}s are allowed)")
        lease = self.lease_age()
        return not problems, {
            "leading": self.leading(),
            "ready": self.ready,
            "problems": problems,
            "watchFrameAgeSeconds": {name: round(age, 1) for name, age in frames.items()},
            "oldestQueueKeySeconds": round(oldest, 3),
            "lastResyncSeconds": None if resync is None else round(resync, 1),
            "leaseAgeSeconds": None if lease is None else round(lease, 1),
        }

    @property
    def ready(self) -> bool:
        """True if this process leads, has read the cluster and answers pods."""
        return self.leading() and self.serving() and self.resync_age() is not None


class HealthServer:
    """HTTP without TLS for probes and scrapes."""

    def __init__(self, health: Health, scrape: Callable[[], bytes]) -> None:
        self._health = health
        self._scrape = scrape
        self._runner: web.AppRunner | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listen and return the port. Raises OSError if the address is in use."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port, reuse_address=True).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        well, body = self._health.report()
        return web.Response(status=200 if well else 503, text=json.dumps(body), content_type="application/json")

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._health.ready
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "not ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._scrape(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
