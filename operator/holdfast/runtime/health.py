"""Whether this process is well: /healthz for the kubelet, /readyz for the Service, /metrics for Prometheus."""

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
    """Where to look. Every age is in seconds, None where there is nothing yet."""

    leading: Callable[[], bool]
    lease_age: Age
    frames: Callable[[], dict[str, float]] = field(default=lambda: {})
    oldest_key: Callable[[], float] = field(default=lambda: 0.0)
    resync_age: Age = field(default=lambda: None)
    resync_every: float = 600.0
    serving: Callable[[], bool] = field(default=lambda: False)

    def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether all is well, and everything that was looked at. A follower is well as long as it answers."""
        frames, oldest, resync = self.frames(), self.oldest_key(), self.resync_age()
        problems = [
            f"no frame of the {name} watch for {age:.0f}s" for name, age in frames.items() if age > MAX_FRAME_AGE
        ]
        if oldest > MAX_QUEUE_AGE:
            problems.append(f"a key has waited for {oldest:.0f}s")
        if resync is not None and resync > self.resync_every * LATE_RESYNCS + 60:
            problems.append(f"no resync for {resync:.0f}s")
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
        """True if pods may be sent here."""
        return self.leading() and self.serving() and self.resync_age() is not None


class HealthServer:
    """Plain HTTP for probes and scrapes."""

    def __init__(self, health: Health, scrape: Callable[[], bytes]) -> None:
        self._health = health
        self._scrape = scrape
        self._runner: web.AppRunner | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listen; returns the port. Raises OSError if the address is taken."""
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
