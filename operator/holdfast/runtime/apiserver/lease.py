"""Leader election by a Lease. A monotonic clock measures elapsed time; clocks of two machines are never compared.

A leader that cannot renew stops writing before another process may take over. When the API server answers again and
the Lease is unchanged, no other process has led in between, and this one continues. Otherwise the process ends.
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
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.errors import ApiError, LeadershipLostError

log = logging.getLogger(__name__)

MARGIN = 0.2  # of the duration: the leader stops this much earlier than other processes expect


class Elector:
    """One candidate. `gate` is open exactly while this process leads; `duration` and `renew` are in seconds."""

    def __init__(
        self,
        client: Requester,
        gate: LeadershipGate,
        *,
        namespace: str,
        identity: str,
        duration: float = 15.0,
        renew: float = 5.0,
        clock: Callable[[], float] = monotonic,
        may_compete: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._gate = gate
        self._may_compete = may_compete
        self._path = paths.lease(namespace, LEASE)
        self._collection = paths.lease(namespace)
        self._identity = identity
        self._duration = duration
        self._renew = renew
        self._clock = clock
        self._lease: dict[str, Any] | None = None  # as this process last wrote it
        self._seen: tuple[str, str] | None = None  # holder and resourceVersion of another process's lease
        self._seen_at = 0.0
        self._asked = False  # a request to take the lease was sent; its answer may be unknown
        self.renewed_at: float | None = None
        self._contact_at: float | None = None
        self.holder = ""

    @property
    def age(self) -> float | None:
        """Seconds since this process last renewed the lease; None if it never did."""
        return None if self.renewed_at is None else self._clock() - self.renewed_at

    @property
    def contact_age(self) -> float | None:
        """Seconds since the API server last answered about the lease; None if it never did."""
        return None if self._contact_at is None else self._clock() - self._contact_at

    async def acquire(self) -> None:
        """Wait until this process leads. It only reads the lease while `may_compete` says no."""
        while True:
            try:
                if await self.acquire_once():
                    log.info("leading as %s", self._identity)
                    return
            except ApiError as error:
                log.warning("cannot read or acquire the lease: %s", error)
            await asyncio.sleep(min(self._renew, self._duration / 5))

    async def acquire_once(self) -> bool:
        """Try once to take the lease; True if this process leads now. Raises ApiError."""
        started = self._clock()
        try:
            lease = await self._client.request("GET", self._path, timeout=self._duration / 2)
        except ApiError as error:
            if not error.not_found:
                raise
            lease = {}
        self._contact_at = started
        spec = lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder and self.holder != self._identity:
            seen = (self.holder, lease["metadata"]["resourceVersion"])
            if seen != self._seen:
                self._seen, self._seen_at = seen, started
                return False
            if started - self._seen_at < float(spec.get("leaseDurationSeconds") or self._duration):
                return False
        if not self._may_compete():
            return False
        method, path = ("PUT", self._path) if lease else ("POST", self._collection)
        self._asked = True
        try:
            answer = await self._client.request(method, path, body=self._body(lease), timeout=self._duration / 2)
        except ApiError as error:
            if error.conflict or error.already_exists:
                return False
            raise
        self._record_renewal(answer, started)
        return True

    async def keep(self) -> None:
        """Renew until cancelled. Raises LeadershipLostError once another process leads."""
        while True:
            await asyncio.sleep(self._renew if self._gate.is_open else min(self._renew, 1.0))
            await self.renew_once()

    async def renew_once(self) -> None:
        """Renew once. A failure is only logged, because the gate closes in time. Raises LeadershipLostError."""
        for _ in range(2):
            assert self._lease is not None
            started = self._clock()
            try:
                self._record_renewal(await self._put(self._lease), started)
            except ApiError as error:
                if not (error.conflict or error.not_found):
                    log.warning("cannot renew the lease: %s", error)
                    return
            else:
                return
            if not await self._is_still_ours():
                return

    async def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        body = self._body(lease)
        return await self._client.request("PUT", self._path, body=body, timeout=max(1.0, self._duration / 2))

    async def _is_still_ours(self) -> bool:
        """True if the outdated lease still names this process: an answer got lost. The lease is not renewed by that,
        because another process may have seen this version long before.

        Raises LeadershipLostError if another process has the lease, or if it was deleted.
        """
        try:
            lease = await self._client.request("GET", self._path, timeout=self._duration / 2)
        except ApiError as error:
            if error.not_found:
                self._gate.close()
                raise LeadershipLostError("the Lease was deleted; this operator ends and competes again") from error
            log.warning("cannot read the lease: %s", error)
            return False
        holder = (lease.get("spec") or {}).get("holderIdentity") or "nobody"
        if holder == self._identity:
            self._lease = lease
            return True
        self._gate.close()
        raise LeadershipLostError(f"{holder} has the lease now; this operator ends")

    async def release(self) -> None:
        """Release the lease, so that the next leader need not wait. An error is ignored."""
        self._gate.close()
        with suppress(ApiError):
            if self._lease is None and self._asked:  # the answer to the acquisition was not awaited
                await self._find_own()
            if self._lease is None:
                return
            try:
                await self._put_released(self._lease)
            except ApiError as error:
                if not error.conflict:
                    raise
                await self._find_own()  # an answer to a renewal got lost
                if self._lease:
                    await self._put_released(self._lease)
        self._lease = None

    async def _put_released(self, lease: dict[str, Any]) -> None:
        body = self._body(lease)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self._client.request("PUT", self._path, body=body, timeout=3.0)

    async def _find_own(self) -> None:
        lease = await self._client.request("GET", self._path, timeout=3.0)
        is_own = (lease.get("spec") or {}).get("holderIdentity") == self._identity
        self._lease = lease if is_own else None

    def _record_renewal(self, lease: dict[str, Any], started: float) -> None:
        self._lease = lease
        self.holder = self._identity
        self.renewed_at = self._contact_at = started
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
