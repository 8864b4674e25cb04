"""The CA certificate of the progress endpoint in every namespace with jobs: one ConfigMap that pods mount."""

import asyncio
from collections.abc import Callable
from time import monotonic

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError

# Seconds in which one check of a namespace is enough for all pods that are created there. A namespace that was deleted
# and created again under its name has no ConfigMap, and a user may have changed it: so it is read for later pods again.
CHECK_EVERY = 5.0
INVALID = 422  # HTTP status


class CaConfigMap:
    """Writes ConfigMap `holdfast-ca`. `certificate` is the CA in PEM."""

    def __init__(self, writer: GatedWriter, certificate: str, clock: Callable[[], float] = monotonic) -> None:
        self._writer = writer
        self._certificate = certificate
        self._clock = clock
        self._known: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def knows(self, namespace: str) -> bool:
        """True if the ConfigMap was there when this process last looked: it probably still is."""
        return namespace in self._known

    async def ensure(self, namespace: str) -> None:
        """Create or correct the ConfigMap in this namespace, unless it was checked a moment ago. Raises ApiError."""
        if not self._fresh(namespace):
            await self.check(namespace)

    async def check(self, namespace: str) -> None:
        """Create or correct the ConfigMap in this namespace if needed. Raises ApiError."""
        asked = self._clock()
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            if self._known.get(namespace, float("-inf")) <= asked:  # otherwise somebody has just checked it
                self._known[namespace] = await self._put(namespace)

    def _fresh(self, namespace: str) -> bool:
        return self._clock() - self._known.get(namespace, float("-inf")) < CHECK_EVERY

    async def _put(self, namespace: str) -> float:
        """Create or correct the ConfigMap; the time at which it was right."""
        path = paths.core(namespace, "configmaps", names.CA_CONFIG_MAP)
        try:
            found = await self._writer.get(path)
            if (found.get("data") or {}).get(names.CA_KEY) != self._certificate:
                await self._correct(namespace, found["metadata"].get("uid"))
        except ApiError as error:
            if not error.not_found:
                self._known.pop(namespace, None)
                raise
            await self._create(namespace)
        return self._clock()

    async def _create(self, namespace: str) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.CA_CONFIG_MAP, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}},
            "data": {names.CA_KEY: self._certificate},
        }
        try:
            await self._writer.write("POST", paths.core(namespace, "configmaps"), manifest)
        except ApiError as error:
            self._known.pop(namespace, None)
            if not error.already_exists:
                raise
            await self._correct(namespace, None)

    async def _correct(self, namespace: str, uid: str | None) -> None:
        """Put the certificate in. A ConfigMap that a user made immutable is deleted and created again."""
        path = paths.core(namespace, "configmaps", names.CA_CONFIG_MAP)
        try:
            await self._writer.write("PATCH", path, {"data": {names.CA_KEY: self._certificate}})
        except ApiError as error:
            if error.status != INVALID:
                raise
            body = {"apiVersion": "v1", "kind": "DeleteOptions"} | ({"preconditions": {"uid": uid}} if uid else {})
            await self._writer.write("DELETE", path, body)
            await self._create(namespace)
