"""One connection to a port of a pod, through the API server: Kubernetes' port-forward over a WebSocket.

With the protocol v4.channel.k8s.io each message begins with the number of a channel: 0 is the data, 1 an error in
words. The first message of each channel has only the number of the port, in two bytes.
"""

import asyncio
from contextlib import suppress
from typing import Final

import aiohttp

from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
_PORT_BYTES: Final = 2
_CHUNK: Final = 64 * 1024


async def pump(
    client: Client, pod: PodView, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str:
    """Carry bytes between a connection and a port of the pod, until one side ends. The error in words, "" without one.

    Raises ApiError if the API server or the node refuses.
    """
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/portforward"
    async with client.websocket(path, {"ports": port}, (PROTOCOL,)) as socket:
        up = asyncio.create_task(_up(socket, reader))
        try:
            return await _down(socket, writer)
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)


async def _up(socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
    """Send what the connection sends. Its end ends the whole: the protocol cannot close one direction."""
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            await socket.send_bytes(_DATA + chunk)
    await socket.close()


async def _down(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> str:
    begun, said = set[bytes](), b""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY:
            continue
        channel, content = message.data[:1], message.data[1:]
        if channel not in begun:
            begun.add(channel)
            content = content[_PORT_BYTES:]
        if channel == _ERROR and content:
            said += content
            break
        if channel == _DATA and content:
            writer.write(content)
            with suppress(ConnectionError):
                await writer.drain()
    return said.decode(errors="replace").strip()
