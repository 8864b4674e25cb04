"""The streams of one command in a pod: Kubernetes' exec over a WebSocket.

Each message begins with the number of a channel: 0 to 2 are the streams by their file descriptors, 3 says how the
command ended, 4 is the size of the terminal. With v5.channel.k8s.io the message 255, 0 ends the input of the command.
API servers before Kubernetes 1.30 have only v4, which cannot say that.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from os import terminal_size
from typing import Any, Final, NamedTuple

import aiohttp

_V5: Final = "v5.channel.k8s.io"
PROTOCOLS: Final = (_V5, "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, _STATUS, _SIZE = range(5)
_INPUT_ENDS: Final = bytes([255, STDIN])
_ALIVE: Final = 30.0  # seconds between two pings: proxies close connections on which nothing comes

Socket = aiohttp.ClientWebSocketResponse


class Ends(NamedTuple):
    """This side of the streams. `sizes`: those of the terminal, if it is one. `say`: takes a note for people."""

    read: Callable[[], Awaitable[bytes]]  # b"" at the end
    write: Mapping[int, Callable[[bytes], Awaitable[None]]]  # by channel
    say: Callable[[str], None]
    sizes: AsyncIterator[terminal_size] | None = None


class Outcome(NamedTuple):
    """The exit code of a command; None if it did not start, and `message` says why."""

    code: int | None
    message: str = ""


async def converse(socket: Socket, ends: Ends) -> Outcome | None:
    """Carry the streams until the command has ended; None if the connection ended before."""
    works = [_input(socket, ends), _stay(socket), *([_resize(socket, ends.sizes)] if ends.sizes else [])]
    aside = [asyncio.create_task(work) for work in works]
    status = b""
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, content = message.data[0], message.data[1:]
            if channel == _STATUS:
                status += content
            elif content and channel in ends.write:
                await ends.write[channel](content)
    finally:
        for task in aside:
            task.cancel()
        await asyncio.gather(*aside, return_exceptions=True)
    return read_outcome(status) if status else None


def read_outcome(status: bytes) -> Outcome:
    """What a Status object says of the end of a command."""
    try:
        said: dict[str, Any] = json.loads(status)
        if said.get("status") == "Success":
            return Outcome(0)
        causes = (said.get("details") or {}).get("causes") or []
        codes = [int(one["message"]) for one in causes if one.get("reason") == "ExitCode"]
        return Outcome(codes[0]) if codes else Outcome(None, str(said["message"]).strip())
    except (ValueError, LookupError, TypeError, AttributeError):
        return Outcome(None, status.decode(errors="replace").strip())


async def _input(socket: Socket, ends: Ends) -> None:
    with suppress(ConnectionError):
        while chunk := await _read(ends):
            await socket.send_bytes(bytes([STDIN]) + chunk)
        if socket.protocol == _V5:
            await socket.send_bytes(_INPUT_ENDS)
        else:
            ends.say("the input has ended, and this API server cannot tell the command so: it needs Kubernetes 1.30")


async def _read(ends: Ends) -> bytes:
    try:
        return await ends.read()
    except OSError as error:
        ends.say(f"standard input cannot be read: {error.strerror}")
        return b""


async def _resize(socket: Socket, sizes: AsyncIterator[terminal_size]) -> None:
    with suppress(ConnectionError):
        async for size in sizes:
            text = json.dumps({"Width": size.columns, "Height": size.lines})
            await socket.send_bytes(bytes([_SIZE]) + text.encode())


async def _stay(socket: Socket) -> None:
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(_ALIVE)
            await socket.ping()
