"""Port-forward of the kubelet: a WebSocket that carries one connection to a port of a pod.

The API server passes on the protocol v4.channel.k8s.io as it comes; it translates others, which this cannot answer.
"""

import asyncio
from contextlib import suppress

from aiohttp import WSMsgType, web

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
_CHUNK = 64 * 1024


async def forward(request: web.Request, addresses: tuple[str, ...]) -> web.WebSocketResponse:
    """Answer GET /portForward/...?port=N for a pod whose programs listen on one of the addresses."""
    try:
        port = int(request.query.get("port", ""))
    except ValueError as error:
        raise web.HTTPBadRequest(text="port: give one port") from error
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
    await socket.prepare(request)
    for channel in (_DATA, _ERROR):
        await socket.send_bytes(channel + port.to_bytes(2, "little"))
    for address in addresses:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(address, port)
            break
    else:
        await socket.send_bytes(_ERROR + f"failed to connect to localhost:{port} inside of the pod".encode())
        await socket.close()
        return socket
    down = asyncio.create_task(_down(socket, reader))
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == _DATA:
                writer.write(message.data[1:])
                await writer.drain()
    finally:
        down.cancel()
        writer.close()
        await asyncio.gather(down, return_exceptions=True)
    return socket


async def _down(socket: web.WebSocketResponse, reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            await socket.send_bytes(_DATA + chunk)
    await socket.close()
