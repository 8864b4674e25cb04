"""Leader election by a Lease. Elapsed time is measured with a monotonic clock; clocks of machines are never compared.

A leader that cannot renew stops writing before anybody else may take over. When the API server answers again and the
Lease is still as this process wrote it, nobody has led in between, and it goes on; if somebody has, the process ends.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from holdfast.api.rbac import LEASE
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.runtime.apiserver.leadership_gate import Gate
from holdfast.runtime.errors import ApiError, LeadershipLostError

log = logging.getLogger(__name__)

MARGIN = 0.2  # of the duration: how much earlier than the others think it does our leadership end


class Elector:
    """One candidate. `gate` is open exactly while it leads; `duration` and `renew` are in seconds."""

    def __init__(
        self,
        client: Requester,
        gate: Gate,
        *,
        namespace: str,
        identity: str,
        duration: float = 15.0,
        renew: float = 5.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._gate = gate
        self._path = paths.lease(namespace, LEASE)
        self._collection = paths.lease(namespace)
        self._identity = identity
        self._duration = duration
        self._renew = renew
        self._clock = clock
        self._lease: dict[str, Any] | None = None  # as we last wrote it
        self._seen: tuple[str, str] | None = None  # holder and resourceVersion of another's lease, and since when
        self._seen_at = 0.0
        self.renewed_at: float | None = None
        self.holder = ""

    @property
    def age(self) -> float | None:
        """Seconds since the lease was last renewed by this process; None if it never was."""
        return None if self.renewed_at is None else self._clock() - self.renewed_at

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while True:
            try:
                if await self._try_acquire():
                    log.info("leading as %s", self._identity)
                    return
            except ApiError as error:
                log.warning("the lease cannot be read or taken: %s", error)
            await asyncio.sleep(min(self._renew, self._duration / 5))

    async def keep(self) -> None:
        """Renew until cancelled. Raises LeadershipLostError once another process leads."""
        while True:
            await asyncio.sleep(self._renew if self._gate.open else min(self._renew, 1.0))
            await self.renew_once()

    async def renew_once(self) -> None:
        """One renewal. A failed one is only logged: the gate shuts by itself. Raises LeadershipLostError."""
        for _ in range(2):
            assert self._lease is not None
            started = self._clock()
            try:
                self._won(await self._put(self._lease), started)
            except ApiError as error:
                if not (error.conflict or error.not_found):
                    log.warning("the lease was not renewed: %s", error)
                    return
            else:
                return
            if not await self._still_ours():
                return

    async def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        body = self._body(lease)
        return await self._client.request("PUT", self._path, body=body, timeout=max(1.0, self._duration / 2))

    async def _still_ours(self) -> bool:
        """Our version of the lease is outdated: an answer got lost, or another process took it (LeadershipLostError).

        Seeing our own name renews nothing: others may have seen that version long before us.
        """
        try:
            lease = await self._client.request("GET", self._path, timeout=self._duration / 2)
        except ApiError as error:
            if error.not_found:
                self._gate.shut()
                raise LeadershipLostError("the Lease was deleted; this operator ends and applies anew") from error
            log.warning("the lease cannot be read: %s", error)
            return False
        holder = (lease.get("spec") or {}).get("holderIdentity") or "nobody"
        if holder == self._identity:
            self._lease = lease
            return True
        self._gate.shut()
        raise LeadershipLostError(f"the lease is held by {holder} now; this operator ends")

    async def release(self) -> None:
        """Give the lease up, so that a successor need not wait. Best effort."""
        if self._lease is None:
            return
        self._gate.shut()
        body = self._body(self._lease)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        with suppress(ApiError):
            await self._client.request("PUT", self._path, body=body, timeout=3.0)
        self._lease = None

    async def _try_acquire(self) -> bool:
        started = self._clock()
        try:
            lease = await self._client.request("GET", self._path, timeout=self._duration / 2)
        except ApiError as error:
            if not error.not_found:
                raise
            lease = {}
        spec = lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder and self.holder != self._identity:
            seen = (self.holder, lease["metadata"]["resourceVersion"])
            if seen != self._seen:
                self._seen, self._seen_at = seen, started
                return False
            if started - self._seen_at < float(spec.get("leaseDurationSeconds") or self._duration):
                return False
        method, path = ("PUT", self._path) if lease else ("POST", self._collection)
        try:
            answer = await self._client.request(method, path, body=self._body(lease), timeout=self._duration / 2)
        except ApiError as error:
            if error.conflict or error.already_exists:
                return False
            raise
        self._won(answer, started)
        return True

    def _won(self, lease: dict[str, Any], started: float) -> None:
        self._lease = lease
        self.holder = self._identity
        self.renewed_at = started
        self._gate.keep_open(started + self._duration * (1 - MARGIN))

    def _body(self, lease: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        old = lease.get("spec") or {}
        changed = old.get("holderIdentity") != self._identity
        meta = {"name": LEASE}
        if lease:
            meta["resourceVersion"] = lease["metadata"]["resourceVersion"]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._duration)),
                "acquireTime": now if changed else old.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": int(old.get("leaseTransitions") or 0) + (1 if changed and lease else 0),
            },
        }
