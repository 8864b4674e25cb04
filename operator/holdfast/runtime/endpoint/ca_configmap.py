"""The CA certificate in every namespace where pods run: one ConfigMap that pods mount."""

import asyncio
from collections.abc import Callable
from time import monotonic

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Writer
from holdfast.runtime.errors import ApiError

TRUSTED_FOR = 600.0  # seconds until the ConfigMap is looked at again


class TrustAnchor:
    """Keeps ConfigMap `holdfast-ca` in place. `certificate` is the CA in PEM."""

    def __init__(self, writer: Writer, certificate: str, clock: Callable[[], float] = monotonic) -> None:
        self._writer = writer
        self._certificate = certificate
        self._clock = clock
        self._known: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, namespace: str) -> None:
        """Make sure the ConfigMap is there and right. Raises ApiError."""
        if self._fresh(namespace):
            return
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            if not self._fresh(namespace):
                await self._put(namespace)
                self._known[namespace] = self._clock()

    def _fresh(self, namespace: str) -> bool:
        return self._clock() - self._known.get(namespace, float("-inf")) < TRUSTED_FOR

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
