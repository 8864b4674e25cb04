"""Readiness probes: exec, httpGet, tcpSocket. Liveness and startup probes are not run."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp

from holdfast_local.agent.container.network import Network
from holdfast_local.agent.container.process import Reaper

Object = dict[str, Any]


class Prober:
    """Asks one container again and again whether it is ready, from the network of its node."""

    def __init__(
        self,
        probe: Object,
        node: tuple[Reaper, Network],
        pod_ip: str,
        ports: list[Object],
        process: tuple[dict[str, str], str],
    ) -> None:
        self._probe = probe
        self._reaper, self._network = node
        self._ip = pod_ip
        self._ports = ports
        self._env, self._cwd = process

    async def run(self, tell: Callable[[bool], None]) -> None:
        """Probe until cancelled; `tell` hears what is true after the thresholds."""
        probe = self._probe
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        good = bad = 0
        while True:
            if await self._once():
                good, bad = good + 1, 0
            else:
                good, bad = 0, bad + 1
            if good >= probe.get("successThreshold", 1):
                tell(True)
            elif bad >= probe.get("failureThreshold", 3):
                tell(False)
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _once(self) -> bool:
        try:
            async with asyncio.timeout(self._probe.get("timeoutSeconds", 1)):
                if "exec" in self._probe:
                    return await self._exec(self._probe["exec"].get("command") or [])
                if "httpGet" in self._probe:
                    return await self._http(self._probe["httpGet"])
                if "tcpSocket" in self._probe:
                    return await self._tcp(self._probe["tcpSocket"])
        except (TimeoutError, OSError, aiohttp.ClientError):
            return False
        return False

    async def _exec(self, command: list[str]) -> bool:
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            with self._network.entered():
                pid, ended = self._reaper.start(command, self._env, self._cwd, null)
        finally:
            os.close(null)
        try:
            return await ended == 0
        finally:
            if not ended.done() or ended.cancelled():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    async def _http(self, request: Object) -> bool:
        scheme, port = request.get("scheme", "HTTP").lower(), self._port(request["port"])
        url = f"{scheme}://{request.get('host') or self._ip}:{port}/{request.get('path', '/').lstrip('/')}"
        headers = {one["name"]: one["value"] for one in request.get("httpHeaders") or []}
        # A kubelet does not verify the certificate of a probed container either.
        insecure = ssl._create_unverified_context()  # noqa: S323
        connector = aiohttp.TCPConnector(ssl=insecure, socket_factory=self._network.open_socket)
        async with aiohttp.ClientSession(connector=connector) as session:  # noqa: SIM117
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                return 200 <= answer.status < 400

    async def _tcp(self, request: Object) -> bool:
        loop = asyncio.get_running_loop()
        host, port = request.get("host") or self._ip, self._port(request["port"])
        info = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        with self._network.open_socket(info) as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, info[4])
        return True

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        return int(next((one["containerPort"] for one in self._ports if one.get("name") == port), port))
