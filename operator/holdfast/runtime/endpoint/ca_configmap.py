"""The CA certificate of the progress endpoint in every namespace with jobs: one ConfigMap that pods mount."""

import asyncio
from collections.abc import Callable
from time import monotonic

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError

CHECK_EVERY = 600.0  # seconds until the ConfigMap is read again


class CaConfigMap:
    """Writes ConfigMap `holdfast-ca`. `certificate` is the CA in PEM."""

    def __init__(self, writer: GatedWriter, certificate: str, clock: Callable[[], float] = monotonic) -> None:
        self._writer = writer
        self._certificate = certificate
        self._clock = clock
        self._known: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, namespace: str) -> None:
        """Create or correct the ConfigMap in this namespace if needed. Raises ApiError."""
        if self._fresh(namespace):
            return
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            if not self._fresh(namespace):
                await self._put(namespace)
                self._known[namespace] = self._clock()

    def _fresh(self, namespace: str) -> bool:
        return self._clock() - self._known.get(namespace, float("-inf")) < CHECK_EVERY

    async def _put(self, namespace: str) -> None:
        data = {names.CA_KEY: self._certificate}
        try:
            found = await self._writer.get(paths.core(namespace, "configmaps", names.CA_CONFIG_MAP))
        except ApiError as error:
            if not error.not_found:
                raise
        else:
            if (found.get("data") or {}).get(names.CA_KEY) != self._certificate:
                await self._writer.write(
                    "PATCH", paths.core(namespace, "configmaps", names.CA_CONFIG_MAP), {"data": data}
                )
            return
        labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.CA_CONFIG_MAP, "labels": labels},
            "data": data,
        }
        try:
            await self._writer.write("POST", paths.core(namespace, "configmaps"), manifest)
        except ApiError as error:
            if not error.already_exists:
                raise
            await self._writer.write("PATCH", paths.core(namespace, "configmaps", names.CA_CONFIG_MAP), {"data": data})
